"""after_ingest on a bucket: names from the log reach nothing but the source, and the only copy of a line stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blizzard.core.late import LatePolicy
from blizzard.core.log import pipelines_of
from blizzard.run.after_ingest import Cleaning
from blizzard.source.cleaning import SourceCleaner
from blizzard.store import open_store
from blizzard.store.s3 import S3Store
from blizzard.testing.positions import changed
from tests.flows.in_process import NOW_MS, SetClock
from tests.ingesting import line
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket

pytestmark = pytest.mark.s3
DAY_MS = 86_400_000
LARGE = LatePolicy(relist_max_names=0)  # as if there were too many names to list them all each time


@pytest.fixture
def flow(bucket: Bucket, s3_server: Any) -> BucketFlow:
    made = BucketFlow(bucket, s3_server, clock=SetClock(NOW_MS))
    made.put("a.ndjson", 0, 3)
    made.run(late=LARGE)
    made.clock.ms += 2 * DAY_MS
    return made


def forge(flow: BucketFlow, name: str, key: str) -> None:
    """The ledger says that the object `key` was ingested as `name`, and it is as it was then."""
    root = open_store(flow.bucket.uri(""), flow.access)
    file = root.stat(key)
    assert file is not None
    log = f"table/_delta_log/{flow.versions()[-1]:020d}.json"
    actions = [json.loads(text) for text in (root.read(log) or b"").splitlines()]
    for action in actions:
        if "commitInfo" in action:
            ledger = json.loads(action["commitInfo"]["userMetadata"])
            ledger["files"] = [ledger["files"][0] | {"path": name, "size": file.size_bytes, "etag": file.etag}]
            action["commitInfo"]["userMetadata"] = json.dumps(ledger)
    root.put(log, b"".join(json.dumps(action).encode() + b"\n" for action in actions))


@pytest.mark.parametrize(
    "name", ["../precious.ndjson", "d/../../precious.ndjson", "_old/x.ndjson", ".x.ndjson", "x.csv"]
)
def test_a_name_that_no_listing_shows_is_not_even_asked_for(
    flow: BucketFlow, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = open_store(flow.bucket.uri(""), flow.access)
    inside = {"_old/x.ndjson", ".x.ndjson", "x.csv"} & {name}
    key = f"src/{name}" if inside else "precious.ndjson"
    root.put(key, line(9))
    forge(flow, name, key)
    asked: list[str] = []
    for method in ("stat", "delete_version", "copy"):
        real = getattr(S3Store, method)

        def call(self: Any, what: Any, *more: Any, real: Any = real) -> Any:
            if self.root.endswith("/src"):
                asked.append(getattr(what, "path", what))
            return real(self, what, *more)

        monkeypatch.setattr(S3Store, method, call)
    archive = open_store(flow.bucket.uri("kept"), flow.access)
    _, position = pipelines_of(flow.open().scan_back())["p"]
    cleaning = Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=archive), keep_ms=DAY_MS)
    cleaning.run(changed(position, due_through=1), list(flow.open().scan_back()), flow.told.see, flow.quarantine)
    assert asked == []
    keys = flow.bucket.keys()
    assert {key, "src/a.ndjson"} <= set(keys)
    assert not any(found.startswith("kept/") for found in keys)


def test_what_lies_before_the_mark_is_cleaned_without_a_listing_of_everything(flow: BucketFlow) -> None:
    flow.src.put("b.ndjson", line(3) + b'{"id":4,"name":"' + b"x" * (1 << 21) + b'"}\n')
    flow.put("c.ndjson", 5, 8)
    flow.run(late=LARGE)
    cleaning = Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS)
    for _ in range(3):
        flow.clock.ms += 2 * DAY_MS
        flow.run(late=LARGE, cleaning=cleaning)
    left = flow.bucket.keys()
    assert [key for key in left if key.startswith("src/")] == ["src/b.ndjson"]
    assert any("b.ndjson was ingested and is not deleted" in text for text in flow.told.warnings)
    assert flow.ids() == [0, 1, 2, 3, 5, 6, 7]
