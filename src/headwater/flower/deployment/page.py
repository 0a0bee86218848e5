"""The live page: one HTML file without anything from elsewhere, and one JSON address behind it.

It listens on 127.0.0.1 only and answers only to who has the token: other users of the machine, and
web sites that a browser on it visits, get nothing.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from urllib.parse import parse_qs, urlsplit

from headwater.flower.deployment.layout import Fleet
from headwater.flower.deployment.view import snapshot


class _Handler(BaseHTTPRequestHandler):
    """Two addresses; everything else is refused."""

    fleet: Fleet
    server_version = "headwater"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer the page or its data."""
        url = urlsplit(self.path)
        given = parse_qs(url.query).get("token", [""])[0]
        if not self._local() or not hmac.compare_digest(given, self.fleet.token):
            self._answer(403, "text/plain", b"forbidden: the address needs the fleet's token\n")
        elif url.path == "/":
            nonce = secrets.token_urlsafe(12)
            html = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
            self._answer(200, "text/html", html.replace("NONCE", nonce).encode(), nonce)
        elif url.path == "/state.json":
            self._answer(200, "application/json", json.dumps(snapshot(self.fleet)).encode())
        else:
            self._answer(404, "text/plain", b"there is nothing here\n")

    def _local(self) -> bool:
        """A page of another site that was made to point here has that site's name as host."""
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        return host in ("127.0.0.1", "localhost")

    def _answer(self, status: int, kind: str, body: bytes, nonce: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the token is in the address
        self.send_header("X-Content-Type-Options", "nosniff")
        scripts = f"'nonce-{nonce}'" if nonce else "'none'"
        policy = f"default-src 'none'; script-src {scripts}; style-src {scripts}; "
        policy += "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
        self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The page asks every second: not worth a line."""


def serve_page(fleet: Fleet) -> ThreadingHTTPServer:
    """Serve in the background until the process ends."""
    handler = type("Handler", (_Handler,), {"fleet": fleet})
    server = ThreadingHTTPServer(("127.0.0.1", fleet.page_port), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
