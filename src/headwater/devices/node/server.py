"""The node's door: a Unix domain socket that only the same user can open."""

from __future__ import annotations

import logging
import os
import socket
import socketserver
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from headwater.devices.wire import BODY_LIMIT, Frame, TooLongError, WireError, receive, send
from headwater.errors import InputError

log = logging.getLogger(__name__)

_PATIENCE = 60.0  # seconds for the next byte of a request
LONGEST_PATH = 107  # bytes of a socket's path, by the operating system


class Server:
    """Answers one request per connection, each in a thread of its own.

    Args:
        path: of the socket; its folder is made for the owner only.
        answer: from request to reply.
        limit: bytes of a request's arrays.
    """

    def __init__(
        self, path: Path, answer: Callable[[Frame], Frame], limit: int = BODY_LIMIT
    ) -> None:
        _prepare(path)
        self._path = path
        before = os.umask(0o177)  # the socket is there with its mode from the first moment
        try:
            self._server = _Listener(path, answer, limit)
        finally:
            os.umask(before)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """No new requests; those under way are answered."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


class _Listener(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = False  # closing waits for the answers
    block_on_close = True
    request_queue_size = 16

    def __init__(self, path: Path, answer: Callable[[Frame], Frame], limit: int) -> None:
        self.answer, self.limit = answer, limit
        super().__init__(str(path), _Connection)

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002
        """Only the user that the node runs as."""
        assert isinstance(request, socket.socket)
        size = struct.calcsize("3i")
        credentials = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        _, user, _ = struct.unpack("3i", credentials)
        if user != os.getuid():
            log.warning("connection refused", extra={"user": user})
        return bool(user == os.getuid())


class _Connection(socketserver.BaseRequestHandler):
    server: _Listener

    def handle(self) -> None:
        """Read a request, answer it; whatever comes, the node goes on."""
        self.request.settimeout(_PATIENCE)
        try:
            send(self.request, self._reply())
        except OSError as error:  # the asker has gone; it will ask again
            log.warning("reply not delivered", extra={"why": str(error)})

    def _reply(self) -> Frame:
        try:
            return self.server.answer(receive(self.request, self.server.limit))
        except TooLongError as error:
            message = (
                f"arrays of {error.length} bytes; limits.request_bytes = {self.server.limit} in "
                "the node's settings; raise it there, or send a smaller model"
            )
            log.warning("request refused", extra={"why": message})
            return Frame.refusal("bad request", message)
        except (WireError, TimeoutError) as error:
            log.warning("request not understood", extra={"why": str(error)})
            return Frame.refusal("bad request", str(error))
        except Exception as error:
            # the words of an unexpected error may have a sample in them: they stay in the log
            log.exception("request failed")
            return Frame.refusal("internal", f"{type(error).__name__}; see the node's log")


def _prepare(path: Path) -> None:
    """A folder for the owner only; a socket left by a node that was killed is removed."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise InputError(
            f"socket: at most {LONGEST_PATH} bytes of path, got {path}; name a shorter one"
        )
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    if mode & 0o077:
        raise InputError(
            f"socket: others may enter {path.parent} (mode {mode:o}); chmod 700 it, or name a "
            "socket in a folder of its own"
        )
    # whoever holds the memory's lock may do this: no other node of these settings is alive
    path.unlink(missing_ok=True)
