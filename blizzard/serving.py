"""A small HTTP API beside a run: how it does, and what may be asked of it. On loopback, or with a token.

GET /health /ready /metrics /status /checkpoints and / (a page); POST /pause /resume /checkpoint /stop.
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from blizzard.errors import ConfigError

_JSON = "application/json"
_MAX_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int = 200
    body: bytes = b""
    kind: str = _JSON

    @staticmethod
    def json(value: Any, status: int = 200) -> Answer:
        return Answer(status=status, body=orjson.dumps(value) + b"\n")


View = Callable[[], Answer]


class ApiServer:
    """Serves from threads of its own until it is closed."""

    def __init__(
        self, address: str, *, gets: Mapping[str, View], posts: Mapping[str, View], token: str | None = None
    ) -> None:
        host, port = parse_address(address)
        if not _is_loopback(host) and not token:
            raise ConfigError(
                f"the API at {address} could be reached from elsewhere: set api.token, or bind it to 127.0.0.1",
                kind="api_token",
            )
        handler = _handler(dict(gets), dict(posts), token)
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as e:
            why = "is in use; choose another" if e.errno == errno.EADDRINUSE else f"cannot be bound: {e.strerror}"
            raise ConfigError(f"the API's address {address} {why}", kind="port_in_use") from e
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="blizzard-api", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, or `:PORT` and `PORT` for loopback. Port 0 is any that is free."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ConfigError(f"an address is HOST:PORT, such as 127.0.0.1:8080, not {text!r}", kind="usage")
    return host or "127.0.0.1", int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _handler(gets: dict[str, View], posts: dict[str, View], token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "blizzard"
        sys_version = ""
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            self._serve(gets, posts)

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if length.isdecimal() and int(length) <= _MAX_BODY_BYTES:
                self.rfile.read(int(length))  # nothing is said there, but the next request begins after it
            else:
                self.close_connection = True
            self._serve(posts, gets)

        def _serve(self, views: dict[str, View], others: dict[str, View]) -> None:
            path = self.path.split("?", 1)[0].rstrip("/") or "/"
            if not self._is_allowed():
                self._send(Answer.json({"error": "a valid token is needed: Authorization: Bearer …"}, 401))
            elif path in views:
                self._send(self._answer(views[path]))
            elif path in others:
                self._send(Answer.json({"error": f"{self.command} is not for {path}"}, 405))
            else:
                known = sorted({*views, *others})
                self._send(Answer.json({"error": f"there is no {path}", "paths": known}, 404))

        def _answer(self, view: View) -> Answer:
            try:
                return view()
            except Exception as e:  # a page that fails must not take the run with it
                return Answer.json({"error": f"{type(e).__name__}: {e}"}, 500)

        def _is_allowed(self) -> bool:
            if token is None:
                return True
            given = self.headers.get("Authorization", "").removeprefix("Bearer ")
            return hmac.compare_digest(given.encode(), token.encode())

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Requests are not the run's news."""

    return Handler
