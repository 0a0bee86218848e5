"""A node as a process: brought up in order, and stopped cleanly."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from headwater.devices.node.metrics import MetricsServer
from headwater.devices.node.node import Node
from headwater.devices.node.server import Server
from headwater.devices.node.stream import Stream
from headwater.devices.settings import NodeSettings
from headwater.devices.sources import source_of

log = logging.getLogger(__name__)

_GRACE = 30.0  # seconds for the stream's last transaction


def serve(settings: NodeSettings, stop: threading.Event) -> bool:
    """Run a node until ``stop``; False: its stream failed, and whoever started it should again."""
    os.umask(0o077)  # a client's samples are nobody else's
    source = source_of(settings)
    node = Node(settings)
    stream = None
    try:
        log.info("warm", extra={"seconds": round(node.warm_up(), 3)})
        server = Server(settings.socket_path, node.answer, settings.limits.request_bytes)
        if source is not None:
            stream = Stream(source, node.intake, settings, stop, ended=stop.set)
        metrics = MetricsServer(settings.metrics, node, stream)
        with _running(server, stream, metrics):
            _tell_ready(settings, metrics.port)
            stop.wait()
            log.info("stopping")
    finally:
        node.close()
    return stream is None or stream.failure is None


@contextmanager
def _running(server: Server, stream: Stream | None, metrics: MetricsServer) -> Iterator[None]:
    """All parts are up inside, and down afterwards: first the stream, then the door."""
    server.start()
    metrics.start()
    if stream is not None:
        stream.start()
    try:
        yield
    finally:
        if stream is not None:
            stream.join(_GRACE)
        server.close()
        metrics.close()


def stop_at_signals() -> threading.Event:
    """An event that is set by TERM and by Ctrl-C."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _tell_ready(settings: NodeSettings, metrics_port: int | None) -> None:
    extra = {"client": settings.client, "socket": str(settings.socket_path), "pid": os.getpid()}
    log.info("ready", extra={**extra, "metrics_port": metrics_port})
    address = os.environ.get("NOTIFY_SOCKET")  # systemd, if Type=notify
    if address:
        place = "\0" + address[1:] if address.startswith("@") else address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", place)
