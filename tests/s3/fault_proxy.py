"""An HTTP proxy between a client and the S3 server that loses, delays and refuses what its rules say.

It passes requests and answers on byte for byte, so signatures stay valid, and keeps a log of every request.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from tests.s3.endpoint import S3Endpoint
from tests.s3.faults import Action, CutAnswer, CutBody, Delay, HalfOpen, Hold, Request, Reset, Rule, Status
from tests.s3.http_wire import Closed, Connection, Head


class FaultProxy(S3Endpoint):
    """One thread for each client connection, one connection to the server for each request: none can be stale."""

    def __init__(self, upstream: str) -> None:
        url = urlsplit(upstream)
        self._upstream = (url.hostname or "127.0.0.1", url.port or 80)
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._log: list[Request] = []
        self._connections: set[Connection] = set()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        super().__init__(f"http://127.0.0.1:{self._listener.getsockname()[1]}")
        threading.Thread(target=self._accept, daemon=True).start()

    def add(
        self,
        action: Action,
        *,
        method: str | None = None,
        path: str = "",
        when: Callable[[Request], bool] | None = None,
        nth: int | Container[int] | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> Rule:
        """From now on, `action` for requests whose decoded path and query `path` finds (a regular expression).

        `nth` counts the rule's own matches from 1 (`1`, `range(1, 4)`); without it every match is acted on, or each
        with `probability`. The first rule that acts on a request is the only one; every rule counts its matches.
        """
        rule = Rule(
            action=action,
            method=method,
            path=path,
            when=when,
            nth=nth,
            probability=probability,
            rng=random.Random(seed),
        )
        with self._lock:
            self._rules.append(rule)
        return rule

    def remove_rules(self) -> None:
        with self._lock:
            self._rules = []

    def requests(self, method: str | None = None, path: str = "") -> list[Request]:
        """The requests so far, in the order they arrived."""
        with self._lock:
            return [request for request in self._log if request.matches(method, path)]

    def count(self, method: str | None = None, path: str = "") -> int:
        return len(self.requests(method, path))

    def clear_log(self) -> None:
        with self._lock:
            self._log = []

    def close(self) -> None:
        """Ends every connection. Requests that are still held are dropped."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return  # close() was called
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(Connection(accepted),), daemon=True).start()

    def _serve(self, client: Connection) -> None:
        with self._lock:
            self._connections.add(client)
        try:
            while not self._closed and self._serve_request(client):
                pass
        except (Closed, OSError):
            pass  # one of the two sides is gone; so is the connection
        finally:
            client.close()
            with self._lock:
                self._connections.discard(client)

    def _serve_request(self, client: Connection) -> bool:
        """One request, from its first byte to the end of the answer. Says whether the connection stays open."""
        head = client.head()
        if head.headers.get("expect", "").lower() == "100-continue":
            client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        message = head.raw + b"".join(client.body(head))
        request = _parsed(head)
        rule = self._rule_for(request)
        if rule is not None:
            if isinstance(rule.action, Hold):
                rule.hold(lambda: self._deliver_late(rule, request, message))
            rule.announce()  # not before the hold has begun: a test that waits may release it at once
            match rule.action:
                case Reset() | Hold():
                    client.reset()
                    return False
                case HalfOpen():
                    client.wait_for_close()
                    return False
                case Status(performed=False) as error:
                    client.send(_error(request, error))
                    return head.keeps_alive
                case Delay(seconds, "request"):
                    rule.pause(seconds)
                    if self._closed:
                        return False
                case _:
                    pass  # the others are about the answer
        with self._asked(request, message) as (answer, body):
            return self._pass_back(client, request, answer, body, rule) and head.keeps_alive

    def _rule_for(self, request: Request) -> Rule | None:
        with self._lock:
            self._log.append(request)
            acting = [rule for rule in self._rules if rule.applies(request)]
            if not acting:
                return None
            request.action = acting[0].action
            acting[0].acted += 1
            return acting[0]

    @contextmanager
    def _asked(self, request: Request, message: bytes) -> Iterator[tuple[Head, Iterator[bytes]]]:
        """The server's answer: its head, and its body as it arrives."""
        server = Connection(socket.create_connection(self._upstream))
        try:
            try:
                server.send(message)
            except OSError:
                pass  # the server may answer and close before it has read everything
            answer = server.head()
            while answer.start[1].startswith("1"):  # 100 Continue: the client has had its own
                answer = server.head()
            request.status = int(answer.start[1])
            bodiless = request.method == "HEAD" or request.status in (204, 304)
            yield answer, iter(()) if bodiless else server.body(answer, until_close=True)
        finally:
            server.close()

    def _pass_back(
        self, client: Connection, request: Request, answer: Head, body: Iterator[bytes], rule: Rule | None
    ) -> bool:
        """The answer to the client, as far as the rule lets it. Says whether the connection stays open."""
        match rule.action if rule is not None else None:
            case CutAnswer():
                _drain(body)
                client.reset()
                return False
            case Status() as error:
                _drain(body)
                client.send(_error(request, error))
                return True
            case CutBody(after_bytes):
                client.send(answer.raw + b"".join(body)[:after_bytes])
                return False
            case Delay(seconds, "answer") if rule is not None:
                rule.pause(seconds)
            case _:
                pass
        client.send(answer.raw)
        for piece in body:
            client.send(piece)
        return answer.keeps_alive and answer.is_framed

    def _deliver_late(self, rule: Rule, request: Request, message: bytes) -> None:
        assert isinstance(rule.action, Hold)
        rule.pause(rule.action.seconds)
        if self._closed:
            return
        try:
            with self._asked(request, message) as (_, body):
                _drain(body)
        except (Closed, OSError):
            pass  # the server is gone; the request keeps its status None


def _parsed(head: Head) -> Request:
    method, target, _ = head.start
    path, _, query = target.partition("?")
    return Request(method, unquote(path), unquote(query), head.headers)


def _error(request: Request, error: Status) -> bytes:
    request.status = error.status
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{error.code}</Code><Message>Injected</Message></Error>'
    )
    head = f"HTTP/1.1 {error.status} Injected\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head if request.method == "HEAD" else head + body).encode()


def _drain(body: Iterator[bytes]) -> None:
    """Reads to the end: only then has the server done all it does for the request."""
    for _ in body:
        pass
