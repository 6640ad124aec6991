"""Buckets as other people leave them: odd names, limited rights, deep folders, connections that break at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.core.types import SourceFile
from blizzard.run.after_ingest import Cleaning
from blizzard.source.buckets import _list_pages
from blizzard.source.cleaning import SourceCleaner
from blizzard.source.listed import ListedSource
from blizzard.source.uri import locate_source
from blizzard.store import open_store
from blizzard.store.s3 import S3Store
from tests.flows.in_process import NOW_MS, LaterSource, SetClock
from tests.s3.flows import BucketFlow
from tests.s3.server import Bucket

pytestmark = pytest.mark.s3
LARGE = LatePolicy(relist_max_names=0)  # as if there were too many names to list them all each time
DAY_MS = 86_400_000
DEEP = "y/m/d/h/region=eu/"


class PartFlow(BucketFlow):
    @property
    def source(self) -> ListedSource:
        location = locate_source(self.bucket.uri("src"), None, self.access, marks_per="region")
        return LaterSource(location=location, later_ms=self.later_ms)


@pytest.fixture
def flow(bucket: Bucket, s3_server: Any) -> BucketFlow:
    return BucketFlow(bucket, s3_server)


@pytest.fixture
def deep(bucket: Bucket, s3_server: Any) -> BucketFlow:
    """A source with marks per region, and one file that is in none and sorts behind all of them."""
    made = PartFlow(bucket, s3_server)
    made.later_ms = 2 * 3600 * 1000
    made.put("zzz.ndjson", 100, 101)
    made.run(late=LARGE)
    made.later_ms = 0
    return made


@pytest.mark.parametrize("name", ["s[1].ndjson", "st*r.ndjson", "q?r.ndjson", "a b+%20.ndjson", "d/e.ndjson"])
def test_odd_names_are_archived(flow: BucketFlow, name: str) -> None:
    flow.clock = SetClock(NOW_MS)
    flow.put(name, 0, 3)
    flow.put("s1.ndjson", 3, 6)
    flow.run()
    flow.clock.ms += 2 * DAY_MS
    archive = open_store(flow.bucket.uri("kept"), flow.access)
    flow.run(cleaning=Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=archive), keep_ms=DAY_MS))
    keys = flow.bucket.keys()
    assert f"kept/{name}" in keys
    assert f"src/{name}" not in keys


def test_a_connection_that_breaks_after_the_last_byte(flow: BucketFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    flow.put("a.ndjson", 0, 3)
    real = S3Store._download
    times: list[int] = []

    async def breaks(self: Any, key: str, wanted: Any, got: bytearray) -> bytearray:
        found = await real(self, key, wanted, got)
        if "Range" in wanted and not times:
            times.append(1)
            raise ConnectionResetError("after the last byte")
        return found

    monkeypatch.setattr(S3Store, "_download", breaks)
    flow.run()
    assert (flow.ids(), times) == ([0, 1, 2], [1])


def test_rights_to_list_only_the_prefixes_of_source_and_table(
    flow: BucketFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """s3:ListBucket with a condition on s3:prefix, as shared buckets have it. The server here knows no such thing."""
    flow.put("a.ndjson", 0, 3)
    real, allowed = S3Store._call, ("src/", "table/", "table_quarantine/")

    def call(self: Any, method: str, **arguments: Any) -> Any:
        if method == "list_objects_v2" and not arguments.get("Prefix", "").startswith(allowed):
            raise PermissionError("denied") from ClientError({"Error": {"Code": "AccessDenied"}}, "ListObjectsV2")
        return real(self, method, **arguments)

    monkeypatch.setattr(S3Store, "_call", call)
    flow.run()
    assert flow.ids() == [0, 1, 2]


def test_new_files_in_a_deep_part_are_seen(deep: BucketFlow) -> None:
    deep.put(DEEP + "1.ndjson", 0, 3)
    deep.run(late=LARGE)
    assert deep.ids() == [0, 1, 2, 100]


def test_a_file_in_progress_in_a_deep_part_is_not_taken_for_gone(deep: BucketFlow) -> None:
    deep.put(DEEP + "1.ndjson", 0, 6)
    deep.run(limits=Limits(max_records=3), max_batches=1)
    assert deep.ids() == [0, 1, 2, 100]
    deep.run(late=LARGE)
    assert deep.ids() == [0, 1, 2, 3, 4, 5, 100]


def test_a_page_without_names_is_not_the_end() -> None:
    """Where many objects were deleted, S3 may answer so."""

    def pages(prefix: str = "", *, after: str = "", delimiter: str = "") -> Iterator[Any]:
        if not delimiter:
            yield [], [], False
        yield [SourceFile(path="a", size_bytes=1, etag="")], [], True

    assert [file.path for file in _list_pages(pages, "")] == ["a"]
