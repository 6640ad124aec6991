"""An upload to GCS in parts, against the protocol as Google documents it: whatever is lost, the object is whole.

fake-gcs-server ends an upload when it is asked how much of it has come, so this is a model of the real one.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from blizzard.store.access import make_access
from blizzard.store.gcs import GcsAnswer, GcsStore
from tests.s3.flows import FAST

PART = 8 * 1024 * 1024
GRAIN = 256 * 1024


class Upload:
    """One upload. The request with the number `lose` is lost, before or after it is carried out."""

    def __init__(self, *, lose: int, performed: bool, takes_all: bool) -> None:
        self.received = bytearray()
        self.seen: bytes | None = None
        self._lose, self._performed, self._takes_all, self._requests = lose, performed, takes_all, 0

    def call(self, method: str, path: str, *, headers: dict[str, str], data: bytes, **_: Any) -> tuple[int, Any, bytes]:
        self._requests += 1
        if self._requests == self._lose and not self._performed:
            raise ConnectionResetError("lost on the way there")
        answer = self._answer(method, headers, data)
        if self._requests == self._lose:
            raise ConnectionResetError("lost on the way back")
        return answer

    def _answer(self, method: str, headers: dict[str, str], data: bytes) -> tuple[int, Any, bytes]:
        if method == "POST":
            return 200, {"Location": "http://upload"}, b""
        if self.seen is not None:
            return 200, {}, b"{}"
        said, _, total = headers["Content-Range"].removeprefix("bytes ").partition("/")
        if said != "*":
            first, last = map(int, said.split("-"))
            assert (first, last - first + 1) == (len(self.received), len(data))
            is_whole = total != "*" and last + 1 == int(total)
            assert is_whole or len(data) % GRAIN == 0
            taken = len(data) if self._takes_all or is_whole else max(GRAIN, len(data) // 2 // GRAIN * GRAIN)
            self.received += data[:taken]
            if is_whole:
                self.seen = bytes(self.received)
                return 200, {}, b"{}"
        return 308, {"Range": f"bytes=0-{len(self.received) - 1}"} if self.received else {}, b""


@pytest.mark.parametrize("size", [PART + 1, 2 * PART, 2 * PART + 12345])
@pytest.mark.parametrize("performed", [False, True])
@pytest.mark.parametrize("takes_all", [False, True])
@pytest.mark.parametrize("lose", range(1, 6))
def test_an_upload_is_whole_whatever_request_is_lost(
    size: int, performed: bool, takes_all: bool, lose: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = Upload(lose=lose, performed=performed, takes_all=takes_all)
    store = GcsStore("gs://b/base", make_access({}, retry=FAST))
    monkeypatch.setattr(store, "_call", upload.call)
    content = os.urandom(size)
    sink = store.create("a")
    for start in range(0, size, 3_000_001):
        sink.write(content[start : start + 3_000_001])
    assert upload.seen is None
    sink.close()
    assert upload.seen == content


def test_an_upload_that_is_gone_is_an_error_unless_the_object_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    store = GcsStore("gs://b/base", make_access({}, retry=FAST))

    def call(method: str, path: str, **_: Any) -> tuple[int, Any, bytes]:
        if method == "POST":
            return 200, {"Location": "http://upload"}, b""
        raise GcsAnswer(404, b"")

    monkeypatch.setattr(store, "_call", call)
    sink = store.create("a")
    with pytest.raises(FileNotFoundError):
        sink.write(bytes(PART + 1))
