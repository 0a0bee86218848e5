"""A wire tap: whatever goes through a port is passed on, and what was sent is kept."""

from __future__ import annotations

import socket
import threading


class Tap:
    """Listens on a free port of this machine and passes everything on to another port.

    Attributes:
        sent: every byte that came from the side that connects, one stream after the other.
    """

    def __init__(self, target):
        self._target = target
        self._streams = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def sent(self):
        return b"|".join(bytes(stream) for stream in self._streams)

    def close(self):
        self._server.close()

    def _serve(self):
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # nobody listens: as if nobody listened here
                near.close()
                continue
            stream = bytearray()
            self._streams.append(stream)
            for pair in ((near, far, stream), (far, near, None)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source, target, kept):
    try:
        while data := source.recv(1 << 16):
            if kept is not None:
                kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one side has broken off: the other is told so
        for side in (source, target):
            side.close()
