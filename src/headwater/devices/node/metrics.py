"""A node's numbers for Prometheus: text over HTTP, off unless a port is set."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headwater.devices.node.node import Node
from headwater.devices.node.stream import Stream
from headwater.devices.settings import MetricsSettings
from headwater.errors import InputError

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(node: Node, stream: Stream | None) -> str:
    """All numbers in Prometheus' text format."""
    lines = []
    for name, kind, meaning, value in _numbers(node, stream):
        if value is not None:
            full = f"headwater_node_{name}"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
            lines.append(f'{full}{{client="{_escaped(node.settings.client)}"}} {value}')
    return "\n".join(lines) + "\n"


def _numbers(node: Node, stream: Stream | None) -> list[tuple[str, str, str, float | None]]:
    memory, state = node.memory, node.memory.state
    scores = node.intake.prequential.report()
    waits = stream is not None and stream.waiting_for_disk
    last_round = None if node.intake.round is None else node.intake.round - 1
    return [
        ("arrived_total", "counter", "Samples that entered the memory.", memory.arrived),
        ("held", "gauge", "Samples in memory.", memory.held),
        ("capacity", "gauge", "Samples that the memory can hold.", memory.rule.capacity),
        ("messages_total", "counter", "Messages received.", state.number("messages")),
        ("malformed_total", "counter", "Messages that are no samples.", state.number("malformed")),
        ("repeated_total", "counter", "Samples that came again.", state.number("repeated")),
        ("waiting", "gauge", "Samples that wait for a label.", len(node.intake.waiting)),
        ("unlabelled_total", "counter", "Labels that never came.", state.number("unlabelled")),
        ("disk_full", "gauge", "1 while there is no room on disk.", int(waits)),
        (
            "dropped_total",
            "counter",
            "Messages let go because the disk was full.",
            0 if stream is None else stream.dropped,
        ),
        ("last_round", "gauge", "The latest round trained.", last_round),
        ("scored_total", "counter", "Samples predicted before training.", scores["count"]),
        (
            "not_finite_total",
            "counter",
            "Samples whose loss or metric was not finite.",
            state.number("not_finite"),
        ),
        (
            "prequential_recent_loss",
            "gauge",
            "Loss of the latest, test then train.",
            scores["recent_loss"],
        ),
        (
            "prequential_recent_metric",
            "gauge",
            "Metric of the latest, test then train.",
            scores["recent_metric"],
        ),
    ]


class MetricsServer:
    """Serves /metrics in a thread of its own, if the settings name a port.

    Attributes:
        port: where; None: off.
    """

    def __init__(self, settings: MetricsSettings, node: Node, stream: Stream | None) -> None:
        self.port: int | None = None
        self._server: ThreadingHTTPServer | None = None
        if settings.port is None:
            return
        try:
            self._server = _Http((settings.address, settings.port), node, stream)
        except OSError as error:
            raise InputError(
                f"metrics.port: cannot listen on {settings.address}:{settings.port} "
                f"({error.strerror})"
            ) from error
        self.port = self._server.server_address[1]

    def start(self) -> None:
        """Serve from now on."""
        if self._server is not None:
            threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        """Serve no longer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], node: Node, stream: Stream | None) -> None:
        self.node, self.stream = node, stream
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    timeout = 10

    def do_GET(self) -> None:
        """The numbers, at /metrics only."""
        if self.path != "/metrics":
            self.send_error(404, "the numbers are at /metrics")
            return
        content = exposition(self.server.node, self.server.stream).encode()
        self.send_response(200)
        self.send_header("Content-Type", _TYPE)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a scrape every few seconds is no news."""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
