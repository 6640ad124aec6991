"""A small HTTP API beside a run, to look at it and to control it. On loopback, or with a token.

What it serves is in `operation.py`. A page of another site must not reach the run through the browser of a user who
may use the API.
"""

from __future__ import annotations

import base64
import errno
import hmac
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from email.message import Message
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.text.json import json_text

_JSON = "application/json"
_MAX_BODY_BYTES = 64 * 1024
_LAST_ANSWERS_S = 2.0
# A browser must not cache our pages, guess their type, or show them in a frame, where another page could put its own
# buttons over ours.
_HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "same-origin"),  # with no-referrer a browser would hide the origin of our own forms
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int = 200
    body: bytes = b""
    kind: str = _JSON
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def is_good(self) -> bool:
        return self.status < 400

    @staticmethod
    def json(value: Any, status: int = 200) -> Answer:
        return Answer(status=status, body=json_text(value).encode() + b"\n")


View = Callable[[], Answer]


class _Server(ThreadingHTTPServer):
    """Finishes the answers it has begun, then closes every connection: a browser keeps them open."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._connections: set[socket.socket] = set()
        self._change, self._answering = threading.Condition(), 0
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._change:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._change:
            self._connections.discard(request)
        super().shutdown_request(request)

    @contextmanager
    def answering(self) -> Iterator[None]:
        with self._change:
            self._answering += 1
        try:
            yield
        finally:
            with self._change:
                self._answering -= 1
                self._change.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is not worth a line: stderr is the run's log."""

    def end(self) -> None:
        self.shutdown()
        with self._change:
            self._change.wait_for(lambda: self._answering == 0, timeout=_LAST_ANSWERS_S)
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class ApiServer:
    """Serves from its own threads until it is closed."""

    def __init__(
        self, address: str, *, gets: Mapping[str, View], posts: Mapping[str, View], token: str | None = None
    ) -> None:
        host, port = parse_address(address)
        if not _is_loopback(host) and not token:
            raise ConfigError(
                f"the API at {address} could be reached from elsewhere: set api.token, or bind it to 127.0.0.1",
                kind=Kind.API_TOKEN,
            )
        handler = _handler(dict(gets), dict(posts), token)
        try:
            self._server = _Server((host, port), handler)
        except OSError as e:
            why = "is in use; choose another" if e.errno == errno.EADDRINUSE else f"cannot be bound: {e.strerror}"
            raise ConfigError(f"the API's address {address} {why}", kind=Kind.PORT_IN_USE) from e
        # Closing the server takes up to this interval.
        serve = partial(self._server.serve_forever, poll_interval=0.1)
        self._thread = threading.Thread(target=serve, name="blizzard-api", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def close(self) -> None:
        self._server.end()


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[::1]:PORT`, or `:PORT` and `PORT` for loopback. Port 0: any free port."""
    host, _, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ConfigError(f"an address is HOST:PORT, such as 127.0.0.1:8080, not {text[:100]!r}", kind=Kind.USAGE)
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name_of(authority: str) -> str:
    """The host in a Host header, without port and without the brackets of an IPv6 address."""
    try:
        return urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return ""


def _refusal(method: str, headers: Message, token: str | None) -> Answer | None:
    """Why a request is not served, whatever it asks for.

    Two attacks by a page of another site are refused: a host name of its own that points at this machine (on loopback
    no token is asked for), and a form that it sends here.
    """
    host = headers.get("Host", "")
    if token is None and not _is_loopback(_name_of(host)):
        return Answer.json({"error": f"this API is only for this machine, and {host!r} is not its name"}, 403)
    origin = headers.get("Origin")
    if method == "POST" and origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return Answer.json({"error": "a page of another site may not ask for this"}, 403)
    if token is not None and not _knows(headers.get("Authorization", ""), token, method):
        # After Basic, a browser would repeat the POST with the password it knows, and not show our error.
        way = 'Basic realm="blizzard: any name, the token as password"' if method == "GET" else "Bearer"
        refused = Answer.json({"error": "a valid token is needed: Authorization: Bearer …"}, 401)
        return replace(refused, headers=(("WWW-Authenticate", way),))
    return None


def _knows(authorization: str, token: str, method: str) -> bool:
    """A browser asks its user for the token as a password, and then sends it with every request. That is enough to look
    (GET), but not to act (POST): for that our page sends the token as Bearer."""
    scheme, _, sent = authorization.partition(" ")
    given = sent.strip().encode("latin-1", "replace")  # headers were decoded as latin-1: these are the bytes sent
    if scheme.lower() == "basic" and method == "GET":
        try:
            given = base64.b64decode(given, validate=True).partition(b":")[2]
        except ValueError:
            return False
    elif scheme.lower() != "bearer":
        return False
    return any(hmac.compare_digest(given, form) for form in _as_sent(token))


def _as_sent(token: str) -> list[bytes]:
    """Most clients send UTF-8; some, such as Python's own, send latin-1."""
    forms = [token.encode("utf-8", "surrogateescape")]
    with suppress(UnicodeEncodeError):
        forms.append(token.encode("latin-1"))
    return forms


def _handler(gets: dict[str, View], posts: dict[str, View], token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "blizzard"
        sys_version = ""
        protocol_version = "HTTP/1.1"
        timeout = 30

        server: _Server

        def do_GET(self) -> None:
            with self.server.answering():
                self._serve(gets, posts)

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if (
                re.fullmatch("[0-9]{1,9}", length)
                and int(length) <= _MAX_BODY_BYTES
                and "Transfer-Encoding" not in self.headers
            ):
                self.rfile.read(int(length))  # not used, but the next request begins after it
            else:
                self.close_connection = True
            with self.server.answering():
                self._serve(posts, gets)

        def _serve(self, views: dict[str, View], others: dict[str, View]) -> None:
            path = self.path.split("?", 1)[0].rstrip("/") or "/"
            refusal = _refusal(self.command, self.headers, token)
            if refusal is not None:
                self._send(refusal)
            elif path in views:
                self._send(self._for_a_form(self._answer(views[path])))
            elif path in others:
                self._send(Answer.json({"error": f"{self.command} is not for {path}"}, 405))
            else:
                known = sorted({*views, *others})
                self._send(Answer.json({"error": f"there is no {path}", "paths": known}, 404))

        def _answer(self, view: View) -> Answer:
            try:
                return view()
            except Exception as e:  # a failing page must not end the run
                return Answer.json({"error": f"{type(e).__name__}: {e}"}, 500)

        def _for_a_form(self, answer: Answer) -> Answer:
            """Without JavaScript, a browser that has sent a form goes back to the page."""
            is_form = self.command == "POST" and "text/html" in self.headers.get("Accept", "")
            return replace(answer, status=303, headers=(("Location", "/"),)) if is_form and answer.is_good else answer

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in (*_HEADERS, *answer.headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Requests do not belong in the run's log."""

    return Handler
