"""What comes of trouble with a store: what passes is tried again, the rest is said at once, and never a secret."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from blizzard.core.types import Slice
from blizzard.errors import BlizzardError, ConfigError, Temporary
from blizzard.store import gcs, open_store
from blizzard.store.access import make_access
from blizzard.store.files import FileUnavailable, Store
from tests.s3.fault_proxy import FaultProxy
from tests.s3.faults import CutAnswer, CutBody, HalfOpen, Request, Reset, Rule
from tests.s3.flows import FAST
from tests.store.conftest import kinds, place_of
from tests.store.servers import AZURE_ACCOUNT, AZURE_HOST, AZURE_KEY, AzureServer, GcsServer

ABFSS = f"abfss://there@{AZURE_HOST}/base"


class OneAnswer:
    """A server that has the same answer to everything, and counts."""

    def __init__(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.asked = 0
        counter = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                counter.asked += 1
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body if self.command != "HEAD" else b"")

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def answering() -> Iterator[Callable[..., OneAnswer]]:
    servers: list[OneAnswer] = []

    def start(*given: Any, **named: Any) -> OneAnswer:
        servers.append(OneAnswer(*given, **named))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def gcs_at(endpoint: str, root: str = "gs://there/base", **options: str) -> Store:
    given = {"GOOGLE_BASE_URL": endpoint, "GOOGLE_SKIP_SIGNATURE": "true", **options}
    return open_store(root, make_access(given, retry=FAST, read_timeout_s=1))


def azure_at(endpoint: str, root: str = ABFSS, **options: str) -> Store:
    given = {"AZURE_STORAGE_ENDPOINT": f"{endpoint}/{AZURE_ACCOUNT}", "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY, **options}
    return open_store(root, make_access(given, retry=FAST, read_timeout_s=1))


def kind_of(call: Callable[[], Any]) -> tuple[str, str, type[BlizzardError]]:
    with pytest.raises(BlizzardError) as error:
        call()
    return error.value.kind, str(error.value), type(error.value)


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (404, "The specified bucket does not exist.", "no_bucket"),
        (403, "the caller does not have storage.objects.list access", "access_denied"),
        (401, "Invalid Credentials", "no_credentials"),
        (400, "Invalid bucket name: 'x'", "no_bucket"),
    ],
)
def test_gcs_says_at_once_what_a_retry_would_not_mend(
    answering: Callable[..., OneAnswer], status: int, said: str, kind: str
) -> None:
    server = answering(status, json.dumps({"error": {"code": status, "message": said}}).encode())
    found, _, branch = kind_of(lambda: list(gcs_at(server.endpoint).walk()))
    assert (found, branch, server.asked) == (kind, ConfigError, 1)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "ContainerNotFound", "no_bucket"),
        (403, "AuthorizationPermissionMismatch", "access_denied"),
        (403, "AuthorizationFailure", "access_denied"),
        (403, "AuthenticationFailed", "bad_credentials"),
        (401, "NoAuthenticationInformation", "no_credentials"),
        (400, "InvalidResourceName", "no_bucket"),
        (403, "SomethingNew", "access_denied"),
    ],
)
def test_azure_says_at_once_what_a_retry_would_not_mend(
    answering: Callable[..., OneAnswer], status: int, code: str, kind: str
) -> None:
    server = answering(status, b"", x_ms_error_code=code)
    found, _, branch = kind_of(lambda: list(azure_at(server.endpoint).walk()))
    assert (found, branch, server.asked) == (kind, ConfigError, 1)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("opened", [gcs_at, azure_at])
def test_passing_trouble_is_tried_as_often_as_the_policy_says(
    answering: Callable[..., OneAnswer], opened: Callable[[str], Store], status: int
) -> None:
    server = answering(status, b"busy")
    store = opened(server.endpoint)
    for call in (
        lambda: list(store.walk()),
        lambda: store.stat("a"),
        lambda: store.read("a"),
        lambda: store.put("a", b""),
    ):
        before = server.asked
        kind, text, branch = kind_of(call)
        assert (kind, branch, server.asked - before) == ("store_unavailable", Temporary, FAST.attempts)
        assert "Tried 3 times" in text


@pytest.mark.parametrize("opened", [gcs_at, azure_at])
def test_a_store_that_cannot_be_reached_is_passing_trouble(opened: Callable[[str], Store]) -> None:
    kind, _, _ = kind_of(lambda: list(opened("http://127.0.0.1:1").walk()))
    assert kind == "store_unavailable"


def test_a_name_is_not_created_when_nobody_knows(answering: Callable[..., OneAnswer]) -> None:
    """What is neither yes nor no is an exception, and asked for once: a second attempt would find the first."""
    for opened in (gcs_at, azure_at):
        server = answering(503)
        with pytest.raises((gcs.GcsAnswer, HttpResponseError), match=r"503|Service Unavailable"):
            opened(server.endpoint).put_if_absent("a", b"x")
        assert server.asked == 1


def test_an_archived_blob_is_held_back_under_its_own_kind(answering: Callable[..., OneAnswer]) -> None:
    server = answering(409, b"", x_ms_error_code="BlobArchived")
    piece = Slice(path="a", size_bytes=3, etag="0x1", from_record=0)
    with pytest.raises(FileUnavailable) as error, azure_at(server.endpoint).open_pinned(piece) as file:
        file.read()
    assert error.value.kind == "archived"


@pytest.mark.parametrize(("status", "kind"), [(403, "unreadable"), (503, "unavailable")])
@pytest.mark.parametrize("is_prefetched", [False, True])
@pytest.mark.parametrize("opened", [gcs_at, azure_at])
def test_a_source_file_that_is_refused_while_it_is_read_is_held_back(
    answering: Callable[..., OneAnswer], opened: Callable[[str], Store], is_prefetched: bool, status: int, kind: str
) -> None:
    store, piece = opened(answering(status).endpoint), Slice(path="a", size_bytes=3, etag="1", from_record=0)
    if is_prefetched:
        store.prefetch([piece])
    with pytest.raises(FileUnavailable) as error, store.open_pinned(piece) as file:
        file.read()
    assert error.value.kind == kind


@pytest.mark.stores
def test_a_bucket_that_is_not_there_is_said_by_the_emulators_too(
    gcs_server: GcsServer, azure_server: AzureServer
) -> None:
    for store in (gcs_at(gcs_server.endpoint), azure_at(azure_server.url)):
        assert kind_of(partial(next, store.walk()))[0] == "no_bucket"
        assert kind_of(partial(store.put, "a", b"x"))[0] == "no_bucket"


@pytest.mark.stores
def test_a_wrong_key_is_refused_and_not_repeated(azure_server: AzureServer) -> None:
    wrong = "d3Jvbmcta2V5LXdyb25nLWtleQ=="
    kind, text, _ = kind_of(lambda: list(azure_at(azure_server.url, AZURE_STORAGE_ACCOUNT_KEY=wrong).walk()))
    assert kind in ("access_denied", "bad_credentials")
    assert wrong not in text


def test_secrets_are_taken_out_of_what_a_store_says(answering: Callable[..., OneAnswer]) -> None:
    said = f"cannot use {AZURE_KEY} or https://x/y?sv=1&sig=abc%2Fdef&se=2".encode()
    server = answering(400, said, x_ms_error_code="InvalidInput", Content_Type="text/plain")
    _, text, _ = kind_of(lambda: list(azure_at(server.endpoint).walk()))
    assert AZURE_KEY not in text
    assert "abc%2Fdef" not in text


def test_a_key_file_that_is_not_there_is_no_missing_object(tmp_path: Any) -> None:
    """Else a table would seem not to exist, and be made anew."""
    store = open_store(
        "gs://there/base", make_access({"GOOGLE_SERVICE_ACCOUNT": str(tmp_path / "none.json")}, retry=FAST)
    )
    assert kind_of(lambda: store.stat("a"))[0] == "bad_credentials"
    broken = open_store("gs://there/base", make_access({"GOOGLE_SERVICE_ACCOUNT_KEY": "not json"}, retry=FAST))
    assert kind_of(lambda: broken.read("a"))[0] == "bad_credentials"


def test_an_account_that_is_not_named_and_one_that_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    no_account = open_store("az://there/base", make_access({"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=secret"}, retry=FAST))
    kind, text, _ = kind_of(lambda: no_account.stat("a"))
    assert kind == "bad_credentials"
    assert "secret" not in text
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING",
        f"BlobEndpoint=http://127.0.0.1:1/other;AccountName=other;AccountKey={AZURE_KEY}",
    )
    other = open_store(ABFSS, make_access({"AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY}, retry=FAST))
    kind, text, _ = kind_of(lambda: other.stat("a"))
    assert kind == "bad_credentials"
    assert "other" in text


@pytest.mark.parametrize(("scheme", "package", "extra"), [("gs", "gcsfs", "gcs"), ("az", "adlfs", "azure")])
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, scheme: str, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    store = open_store(f"{scheme}://not-installed/base")
    kind, text, _ = kind_of(lambda: store.stat("a"))
    assert kind == "usage"
    assert f"{package}: pip install 'blizzard-delta[{extra}]'" in text


@pytest.fixture(params=kinds("gcs", "azure"))
def behind_proxy(request: pytest.FixtureRequest) -> Iterator[tuple[Store, FaultProxy]]:
    """A store of each kind, seen through a proxy that misbehaves."""
    place = place_of(request.param, request)
    server = request.getfixturevalue(f"{request.param}_server")
    proxy = FaultProxy(server.endpoint if request.param == "gcs" else server.url)
    opened = gcs_at if request.param == "gcs" else azure_at
    yield opened(proxy.endpoint, place.root), proxy
    proxy.close()


def has_range(request: Request) -> bool:
    return any(name in request.headers for name in ("range", "x-ms-range"))


def content_of(store: Store, name: str) -> bytes:
    file = store.stat(name)
    assert file is not None
    piece = Slice(path=name, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
    with store.open_pinned(piece) as opened:
        return opened.read()


@pytest.mark.parametrize("fault", [Reset(), CutBody(1_000_000)], ids=str)
def test_a_connection_that_breaks_while_reading_is_made_again(
    behind_proxy: tuple[Store, FaultProxy], fault: Any
) -> None:
    store, proxy = behind_proxy
    content = bytes(range(256)) * 50_000
    store.put("a.ndjson", content)
    rule: Rule = proxy.add(fault, method="GET", path=r"a.ndjson", when=has_range, nth=1)
    assert content_of(store, "a.ndjson") == content
    assert rule.acted == 1


@pytest.mark.parametrize("fault", [Reset(), CutAnswer()], ids=str)
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_connection_that_breaks_while_writing_is_made_again(
    behind_proxy: tuple[Store, FaultProxy], fault: Any, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever request of an upload it is: the one that begins it, a part, the one that makes it visible."""
    store, proxy = behind_proxy
    if store.root.startswith("gs:"):
        _send_parts_through(proxy, monkeypatch)
        if nth in (2, 3) and isinstance(fault, CutAnswer):
            pytest.skip("asked how much it has, the emulator ends the upload: see test_resumable_upload.py")
    content = os.urandom(20_000_000)  # three parts
    rule = proxy.add(fault, when=lambda r: r.method in ("PUT", "POST"), nth=nth)
    sink = store.create("a.parquet")
    for start in range(0, len(content), 3_000_000):
        sink.target.write(content[start : start + 3_000_000])
    sink.close()
    assert rule.acted == 1
    assert content_of(store, "a.parquet") == content
    assert [file.path for file in store.walk()] == ["a.parquet"]


def _send_parts_through(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator of GCS names itself as the place to send the parts to."""
    begin = gcs._ResumableSink._begin

    def renamed(sink: gcs._ResumableSink) -> str:
        return re.sub(r"^.*?(?=/upload/)", proxy.endpoint, begin(sink))

    monkeypatch.setattr(gcs._ResumableSink, "_begin", renamed)


def test_a_server_that_never_answers_is_given_up(behind_proxy: tuple[Store, FaultProxy]) -> None:
    store, proxy = behind_proxy
    store.put("a", b"x")
    proxy.add(HalfOpen(), method="GET")
    assert kind_of(lambda: list(store.walk()))[0] == "store_unavailable"


@pytest.mark.stores
def test_bytes_come_as_they_are_stored_whatever_their_encoding(
    gcs_server: GcsServer, azure_server: AzureServer
) -> None:
    """A client that unpacks on the way gets more bytes than were listed, and none of the ranges fit."""
    from azure.storage.blob import ContentSettings

    packed = gzip.compress(b'{"id":1}\n' * 1000)
    gcs_server.make_bucket("encoded")
    gcs_server.post(
        "/upload/storage/v1/b/encoded/o?uploadType=media&name=a.gz&contentEncoding=gzip",
        packed,
        **{"Content-Type": "application/x-ndjson"},
    )
    azure_server.make_bucket("encoded")
    blob = azure_server.client().get_blob_client("encoded", "a.gz")
    blob.upload_blob(packed, content_settings=ContentSettings(content_encoding="gzip"))
    for store in (
        gcs_at(gcs_server.endpoint, "gs://encoded"),
        azure_at(azure_server.url, f"abfss://encoded@{AZURE_HOST}"),
    ):
        assert store.read("a.gz") == packed
        assert content_of(store, "a.gz") == packed


@pytest.mark.stores
def test_a_folder_of_a_hierarchical_namespace_is_no_file(azure_server: AzureServer) -> None:
    azure_server.make_bucket("hierarchy")
    client = azure_server.client()
    client.get_blob_client("hierarchy", "out.ndjson").upload_blob(b"", metadata={"hdi_isfolder": "true"})
    client.get_blob_client("hierarchy", "out.ndjson/part-0.ndjson").upload_blob(b"{}\n")
    store = azure_at(azure_server.url, f"abfss://hierarchy@{AZURE_HOST}")
    assert [file.path for file in store.walk()] == ["out.ndjson/part-0.ndjson"]
    assert store.stat("out.ndjson") is None


@pytest.mark.parametrize("put", ["put", "put_if_absent"])
def test_a_full_disk_keeps_nothing_of_what_did_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    """A service tries again each time: it would fill the disk with parts."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        getattr(open_store(str(tmp_path)), put)("latest.json", b"{}")
    assert list(tmp_path.iterdir()) == []
