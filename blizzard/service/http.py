"""A small HTTP API beside a run or a fleet, to look at it and to control it. On loopback, or with a token.

What it serves is in a `Router`. A page of another site must not reach the run through the browser of a user who may
use the API.
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
from dataclasses import replace
from email.message import Message
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from blizzard.core.events import Emit, Noted
from blizzard.core.kinds import Kind
from blizzard.errors import BlizzardError, ConfigError
from blizzard.service.router import Answer, NotThere, Router, View

_MAX_BODY_BYTES = 64 * 1024
# Each takes a thread and a file handle, whoever it comes from. A process often has 1,024 handles, and reads with them.
_MAX_CONNECTIONS = 200
_LAST_ANSWERS_S = 2.0
_LOOKING = ("GET", "HEAD")
_SHOWN_CHARS = 200  # of a path in an error
# A browser must not cache our pages, guess their type, or show them in a frame, where another page could put its own
# buttons over ours.
_HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "same-origin"),  # with no-referrer a browser would hide the origin of our own forms
)


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

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """One too many is closed at once."""
        del request, client_address
        with self._change:
            return len(self._connections) <= _MAX_CONNECTIONS

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

    def __init__(self, address: str, router: Router, *, token: str | None = None) -> None:
        host, port = parse_address(address)
        if not _is_loopback(host) and not token:
            raise ConfigError(
                f"the API at {address} could be reached from elsewhere: set api.token, or bind it to 127.0.0.1",
                kind=Kind.API_TOKEN,
            )
        handler = type("Handler", (_Handler,), {"router": router, "token": token})
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


@contextmanager
def serving(address: str, router: Router, token: str | None, emit: Emit) -> Iterator[None]:
    server = ApiServer(address, router, token=token)
    emit(Noted(message=f"the API is at {server.url}"))
    try:
        yield
    finally:
        server.close()


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
        return Answer.error(f"this API is only for this machine, and {host!r} is not its name", 403)
    origin = headers.get("Origin")
    if method not in _LOOKING and origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return Answer.error("a page of another site may not ask for this", 403)
    if token is not None and not _knows(headers.get("Authorization", ""), token, method):
        # After Basic, a browser would repeat the POST with the password it knows, and not show our error.
        way = 'Basic realm="blizzard: any name, the token as password"' if method in _LOOKING else "Bearer"
        refused = Answer.error("a valid token is needed: Authorization: Bearer …", 401)
        return replace(refused, headers=(("WWW-Authenticate", way),))
    return None


def _knows(authorization: str, token: str, method: str) -> bool:
    """A browser asks its user for the token as a password, and then sends it with every request. That is enough to look
    (GET), but not to act (POST): for that our page sends the token as Bearer."""
    scheme, _, sent = authorization.partition(" ")
    given = sent.strip().encode("latin-1", "replace")  # headers were decoded as latin-1: these are the bytes sent
    if scheme.lower() == "basic" and method in _LOOKING:
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


def _back(headers: Message) -> str:
    """The path of our own page that a form was sent from."""
    try:
        came_from = urlsplit(headers.get("Referer", ""))
    except ValueError:
        return "/"
    is_ours = came_from.scheme in ("http", "https") and came_from.netloc == headers.get("Host")
    # Two slashes at its beginning would name another host.
    return came_from.path if is_ours and re.fullmatch(r"/(?:[\w.~%-][\w./~%-]*)?", came_from.path) else "/"


class _Handler(BaseHTTPRequestHandler):
    server_version = "blizzard"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    server: _Server
    router: Router
    token: str | None

    def __getattr__(self, name: str) -> Callable[[], None]:
        """`do_GET` and the like: every method is answered here, also those that no path has."""
        if name.startswith("do_"):
            return self._do
        raise AttributeError(name)

    def _do(self) -> None:
        self._pass_body()
        with self.server.answering():
            self._serve()

    def _pass_body(self) -> None:
        """It is not used, but the next request begins after it."""
        length = ",".join(self.headers.get_all("Content-Length", ["0"]))
        if (
            re.fullmatch("[0-9]{1,9}", length)
            and int(length) <= _MAX_BODY_BYTES
            and "Transfer-Encoding" not in self.headers
        ):
            self.rfile.read(int(length))
        else:
            self.close_connection = True

    def _serve(self) -> None:
        refusal = _refusal(self.command, self.headers, self.token)
        if refusal is not None:
            self._send(refusal)
            return
        found = self.router.find(self.path)
        route = found.routes.get("GET" if self.command == "HEAD" else self.command)
        if route is not None:
            self._send(self._for_a_form(_answer(route.view, found.parameters)))
        elif found.routes:
            refused = Answer.error(f"{self.command} is not for {self.path[:_SHOWN_CHARS]}", 405)
            self._send(replace(refused, headers=(("Allow", found.allowed),)))
        else:
            self._send(Answer.error(f"there is no {self.path[:_SHOWN_CHARS]}", 404, paths=self.router.paths))

    def _for_a_form(self, answer: Answer) -> Answer:
        """Without JavaScript, a browser that has sent a form goes back to its page."""
        is_form = self.command == "POST" and "text/html" in self.headers.get("Accept", "")
        if not is_form or not answer.is_good:
            return answer
        return replace(answer, status=303, headers=(("Location", _back(self.headers)),))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in (*_HEADERS, *answer.headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests do not belong in the run's log."""


def _answer(view: View, parameters: Mapping[str, str]) -> Answer:
    """A failing view must not end the run."""
    try:
        return view(**parameters)
    except NotThere as e:
        return Answer.error(str(e), 404)
    except BlizzardError as e:  # what would be told is in a table or a source that cannot be read now
        return Answer.error(str(e), 503, kind=e.kind)
    except Exception as e:
        return Answer.error(f"{type(e).__name__}: {e}", 500)
