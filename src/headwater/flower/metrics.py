"""The server's numbers for Prometheus: text over HTTP on this machine, off unless a port is set."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from headwater.errors import InputError
from headwater.flower.journal import Entry
from headwater.flower.roster import Roster

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(entry: Entry | None, roster: Roster) -> str:
    """All numbers after a round, in Prometheus' text format.

    Example:
        >>> print(exposition(None, Roster()), end="")
        # HELP headwater_server_clients Clients that are known.
        # TYPE headwater_server_clients gauge
        headwater_server_clients 0
    """
    rows: list[tuple[str, str, str, dict[str, float]]] = [
        ("clients", "gauge", "Clients that are known.", {"": len(roster)})
    ]
    if entry is not None:
        names = [f'{{client="{_escaped(roster[m].name)}"}}' for m in entry.client]

        def by_client(values: Sequence[float]) -> dict[str, float]:
            return dict(zip(names, values, strict=True))

        came = sum(share > 0 for share in entry.counted)
        rows += [
            ("round", "counter", "Rounds done.", {"": entry.round}),
            ("round_seconds", "gauge", "Seconds of the last round.", {"": entry.seconds}),
            ("round_clients", "gauge", "Clients whose update counted.", {"": came}),
            ("move", "gauge", "Length of the last step.", {"": entry.move}),
            (
                "share",
                "gauge",
                "Planned share p_m(t).",
                by_client(entry.planned),
            ),
            (
                "counted",
                "gauge",
                "Share that counted.",
                by_client(entry.counted),
            ),
            ("held", "gauge", "Samples in memory.", by_client(entry.held)),
            ("arrived", "counter", "Samples so far.", by_client(entry.arrived)),
        ]
        for name, value in entry.metrics.items():
            label = name.replace("-", "_")
            rows.append((label, "gauge", "Mean over clients' latest samples.", {"": value}))
    return "".join(_lines(*row) for row in rows)


def _lines(name: str, kind: str, meaning: str, values: dict[str, float]) -> str:
    full = f"headwater_server_{name}"
    head = f"# HELP {full} {meaning}\n# TYPE {full} {kind}\n"
    return head + "".join(f"{full}{label} {value}\n" for label, value in values.items())


def _escaped(name: str) -> str:
    return name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsServer:
    """Serves /metrics on 127.0.0.1 while a run goes on.

    Args:
        port: where; None: nowhere; 0: a free one.
    """

    def __init__(self, port: int | None) -> None:
        self._text = exposition(None, Roster()).encode()
        self._server = None if port is None else _listen(port, self)

    @property
    def port(self) -> int | None:
        """Where it listens."""
        return None if self._server is None else int(self._server.server_address[1])

    @property
    def text(self) -> bytes:
        """What is served now."""
        return self._text

    def show(self, entry: Entry, roster: Roster) -> None:
        """Serve the numbers of a new round."""
        self._text = exposition(entry, roster).encode()

    def __enter__(self) -> MetricsServer:
        if self._server is not None:
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _listen(port: int, source: MetricsServer) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        """One address."""

        def do_GET(self) -> None:
            """Answer the numbers, or that there is nothing else."""
            found = self.path == "/metrics"
            body = source.text if found else b"the numbers are at /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Prometheus asks every few seconds: not worth a line."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"metrics_port: {port} cannot be used ({error.strerror})") from error
