"""Who may ask what of a run: this machine, or whoever has the token; never a page from elsewhere."""

from __future__ import annotations

import base64
import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError, Refused
from blizzard.service.http import ApiServer, parse_address
from blizzard.service.router import Answer, NotThere, Route, Router, View
from tests.failing import ends_with
from tests.flows.operating import LONGEST_S, ask, wait_until


def routed(gets: dict[str, View], posts: dict[str, View] | None = None) -> Router:
    by_method = {"GET": gets, "POST": posts or {}}
    return Router(
        [
            Route(method=method, path=path, view=view, summary="", answers={})
            for method, views in by_method.items()
            for path, view in views.items()
        ]
    )


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def serve(asked: list[str]) -> Iterator[Callable[..., str]]:
    servers: list[ApiServer] = []

    def act() -> Answer:
        asked.append("pause")
        return Answer.json({"state": "paused"}, 202)

    def fail() -> Answer:
        raise ValueError("no luck")

    def start(token: str | None = None, address: str = "127.0.0.1:0") -> str:
        gets = {"/": lambda: Answer(body=b"page", kind="text/html"), "/fails": fail}
        servers.append(ApiServer(address, routed(gets, {"/pause": act}), token=token))
        return servers[-1].url

    yield start
    for server in servers:
        server.close()


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[", ""])
def test_a_name_that_somebody_points_at_this_machine_gets_nothing(
    serve: Callable[..., str], asked: list[str], host: str
) -> None:
    url = serve()
    assert ask(url, Host=host).status == 403
    assert ask(f"{url}/pause", "POST", Host=host).status == 403
    assert asked == []


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1:1", "127.1.2.3", "[::1]:8080"])
def test_this_machine_may_ask_by_any_of_its_own_names(serve: Callable[..., str], host: str) -> None:
    assert ask(serve(), Host=host).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"])
@pytest.mark.parametrize("token", [None, "t"])
def test_a_page_from_elsewhere_may_not_act(
    serve: Callable[..., str], asked: list[str], origin: str, token: str | None
) -> None:
    assert ask(f"{serve(token)}/pause", "POST", Origin=origin, Authorization="Bearer t").status == 403
    assert asked == []


def test_our_own_page_may_act(serve: Callable[..., str], asked: list[str]) -> None:
    url = serve()
    assert ask(f"{url}/pause", "POST", Origin=url).status == 202
    assert ask(f"{url}/pause", "POST").status == 202  # curl sends no origin
    assert asked == ["pause", "pause"]


def test_a_form_without_a_script_leads_back_to_the_page(serve: Callable[..., str], asked: list[str]) -> None:
    answer = ask(f"{serve()}/pause", "POST", Accept="text/html,*/*")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert asked == ["pause"]


@pytest.mark.parametrize(
    ("referer", "back"),
    [
        ("{url}/pipelines/orders/report", "/pipelines/orders/report"),
        ("{url}/", "/"),
        ("{url}", "/"),
        ("{url}//evil.example/x", "/"),
        ("{url}/a\\b", "/"),
        ("https://evil.example/x", "/"),
        ("javascript:alert(1)", "/"),
        ("[", "/"),
    ],
)
def test_it_leads_back_to_the_page_that_it_was_on_and_to_no_other_site(
    serve: Callable[..., str], referer: str, back: str
) -> None:
    url = serve()
    answer = ask(f"{url}/pause", "POST", Accept="text/html", Referer=referer.replace("{url}", url))
    assert (answer.status, answer.headers["Location"]) == (303, back)


def test_with_a_token_nothing_goes_without_it(serve: Callable[..., str], asked: list[str]) -> None:
    url = serve("secret")
    for given in ("", "secret", "Bearer", "Bearer wrong", "Bearer secret2", "Basic !", basic("wrong")):
        answer = ask(url, Authorization=given)
        assert answer.status == 401, given
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
        assert ask(f"{url}/pause", "POST", Authorization=given).headers["WWW-Authenticate"] == "Bearer"
    assert asked == []
    assert ask(url, Authorization="Bearer secret").status == 200
    assert ask(f"{url}/pause", "POST", Authorization="Bearer secret").status == 202
    assert ask(url, Authorization="Bearer secret", Host="some.service").status == 200  # a scraper's name for us


def test_what_a_browser_sends_by_itself_is_enough_to_look_and_not_to_act(
    serve: Callable[..., str], asked: list[str]
) -> None:
    url = serve("secret")
    assert ask(url, Authorization=basic("secret")).status == 200
    assert ask(f"{url}/pause", "POST", Authorization=basic("secret")).status == 401
    assert asked == []


@pytest.mark.parametrize(
    "token", ["plain", "schlüssel", "ключ", "鍵 mit Leerzeichen", "naïve\u20ac", "\udcff", "Ångström", "x\u2028y"]
)
def test_a_token_of_any_characters_is_known_in_every_way_it_can_be_sent(
    serve: Callable[..., str], asked: list[str], token: str
) -> None:
    """By a client that sends UTF-8, as curl and our page do, and by one that sends latin-1 where it can."""
    url = serve(token=token)
    sent = [token.encode("utf-8", "surrogateescape")]
    if token.isprintable() and max(token) < "\u0100":
        sent.append(token.encode("latin-1"))
    for value in sent:
        assert get(url, b"Bearer " + value) == 200
        assert get(url, b"Basic " + base64.b64encode(b"me:" + value)) == 200
        assert get(f"{url}/pause", b"Bearer " + value, "POST") == 202
        assert get(url, b"Bearer " + value + b"x") == 401
        assert get(url, b"Bearer " + value[:-1]) == 401
    assert get(url, b"Bearer " + token.encode("ascii", "ignore") + b"?") == 401
    assert get(url, b"Bearer ") == get(url, b"Bearer \xff\xfe") == 401
    assert asked == ["pause"] * len(sent)


def get(url: str, authorization: bytes, method: str = "GET") -> int:
    """The bytes exactly as given."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=LONGEST_S)
    try:
        connection.putrequest(method, where.path or "/")
        connection.putheader("Authorization", authorization)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_no_other_page_may_frame_or_keep_it(serve: Callable[..., str]) -> None:
    headers = ask(serve()).headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_what_there_is_not_and_what_fails(serve: Callable[..., str]) -> None:
    url = serve()
    assert ask(f"{url}/nothing").status == 404
    assert ask(f"{url}/pause").status == 405
    assert ask(f"{url}/", "POST").status == 405
    assert ask(f"{url}/pause").headers["Allow"] == "POST"
    assert ask(f"{url}/", "PUT").headers["Allow"] == "GET, HEAD"
    assert ask(f"{url}/fails").json == {"error": "ValueError: no luck"}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "X"])
def test_other_methods_are_answered_like_any_request(serve: Callable[..., str], asked: list[str], method: str) -> None:
    url = serve()
    assert ask(f"{url}/pause", method).json == {"error": f"{method} is not for /pause"}
    assert ask(f"{url}/nothing", method).status == 404
    assert ask(f"{url}/pause", method, Host="evil.example").status == 403
    assert ask(f"{serve('secret')}/pause", method).status == 401
    assert asked == []


def test_a_head_is_a_get_without_its_body(serve: Callable[..., str]) -> None:
    where = urlsplit(serve())
    connection = http.client.HTTPConnection(where.netloc, timeout=LONGEST_S)
    for _ in range(2):  # nothing is left on the connection
        connection.request("HEAD", "/")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Length"], answer.read()) == (200, "4", b"")
    connection.close()


def test_what_cannot_be_told_now_is_no_defect() -> None:
    def cannot() -> Answer:
        raise Refused("version 3 is damaged", kind=Kind.LOG_DAMAGED)

    def nothing() -> Answer:
        raise NotThere("there is no pipeline 'x'")

    server = ApiServer("127.0.0.1:0", routed({"/": cannot, "/x": nothing}))
    try:
        answer = ask(server.url)
        assert (answer.status, answer.json) == (503, {"error": "version 3 is damaged", "kind": "log_damaged"})
        assert ask(f"{server.url}/x").json == {"error": "there is no pipeline 'x'"}
    finally:
        server.close()


_SMUGGLED = b"POST /pause HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(_SMUGGLED), _SMUGGLED)),
        (b"Content-Length: 0\r\nContent-Length: %d" % len(_SMUGGLED), _SMUGGLED),  # others believe the second one
    ],
)
def test_a_body_is_never_taken_for_the_next_request(
    serve: Callable[..., str], asked: list[str], headers: bytes, body: bytes
) -> None:
    where = urlsplit(serve())
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=LONGEST_S) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n" % headers + body)
        while connection.recv(65536):
            pass
    assert asked == []


def test_a_connection_serves_several_requests(serve: Callable[..., str]) -> None:
    where = urlsplit(serve())
    connection = http.client.HTTPConnection(where.netloc, timeout=LONGEST_S)
    for body in (b"x=1", b""):
        connection.request("POST", "/pause", body=body)
        assert connection.getresponse().read() == b'{"state":"paused"}\n'
    connection.close()


def test_an_ipv6_address(serve: Callable[..., str]) -> None:
    try:
        url = serve(address="[::1]:0")
    except ConfigError as e:
        pytest.skip(f"no IPv6 here: {e}")
    assert url.startswith("http://[::1]:")
    assert ask(url).status == 200


@pytest.mark.parametrize("address", ["0.0.0.0:0", "example.org:0", "[::]:0"])
def test_an_address_that_others_can_reach_needs_a_token(serve: Callable[..., str], address: str) -> None:
    with pytest.raises(ConfigError) as error:
        serve(address=address)
    assert error.value.kind == "api_token"


@pytest.mark.parametrize("address", ["x", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1"])
def test_an_address_that_is_none(address: str) -> None:
    with ends_with("usage"):
        parse_address(address)


def test_a_port_in_use_is_told(serve: Callable[..., str]) -> None:
    port = urlsplit(serve()).port
    with pytest.raises(ConfigError, match="is in use"):
        serve(address=f"127.0.0.1:{port}")


def test_closing_ends_the_connections_that_browsers_keep(asked: list[str]) -> None:
    server = ApiServer("127.0.0.1:0", routed({"/": lambda: Answer(body=b"page")}))
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=LONGEST_S)
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"page"
    server.close()
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if not connection.sock.recv(10):
            raise OSError("closed")


def test_however_many_connections_somebody_opens_the_run_keeps_its_file_handles(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.service.http._MAX_CONNECTIONS", 3)
    where = urlsplit(serve(token="secret"))

    def connect() -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(where.netloc, timeout=LONGEST_S)
        connection.request("GET", "/")
        assert connection.getresponse().read()  # also who has no token keeps his connection
        return connection

    kept = [connect() for _ in range(3)]
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        connect()
    kept.pop().close()
    wait_until(lambda: not refuses(connect))
    for connection in kept:
        connection.close()


def refuses(connect: Callable[[], http.client.HTTPConnection]) -> bool:
    try:
        connect().close()
    except (http.client.RemoteDisconnected, ConnectionError):
        return True
    return False


def test_closing_waits_for_the_answer_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.service.http._LAST_ANSWERS_S", LONGEST_S)

    def slow() -> Answer:
        threading.Thread(target=server.close).start()  # as a stop that is answered while the run ends
        time.sleep(0.4)
        return Answer(body=b"whole")

    server = ApiServer("127.0.0.1:0", routed({"/": slow}))
    assert ask(server.url).body == "whole"


def test_a_client_that_goes_away_leaves_nothing_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    begun = threading.Event()

    def slow() -> Answer:
        begun.set()
        time.sleep(0.2)
        return Answer(body=b"x" * 20_000_000)

    server = ApiServer("127.0.0.1:0", routed({"/": slow}))
    where = urlsplit(server.url)
    connection = socket.create_connection((where.hostname or "", where.port or 0), timeout=LONGEST_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, at once
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert begun.wait(LONGEST_S)
    connection.close()
    server.close()
    assert capfd.readouterr().err == ""
