"""Which objects of a bucket are read: by name, and by the time that the store gives them."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.core.types import Filters
from blizzard.source.listing import list_source
from blizzard.source.uri import SourceLocation, locate_source
from tests.ingesting import line
from tests.s3.flows import access_to
from tests.s3.server import Bucket, S3Server

pytestmark = pytest.mark.s3


def located(bucket: Bucket, s3_server: S3Server, name: str = "src", **filters: Any) -> SourceLocation:
    return locate_source(f"s3://{bucket.name}/{name}", access=access_to(s3_server), filters=Filters(**filters))


def test_the_stores_time_and_any_suffix_choose(bucket: Bucket, s3_server: S3Server) -> None:
    bucket.put_files((f"src/{name}", line(1)) for name in ("a.JSON", "b.json.gz", "c.csv", "d/e.tmp.json"))
    everything = list_source(located(bucket, s3_server))
    assert [file.path for file in everything] == ["a.JSON", "b.json.gz", "d/e.tmp.json"]
    assert dict(everything.left_out.by_suffix) == {".csv": 1}
    newest = max(file.seen_ms for file in everything)
    chosen = list_source(located(bucket, s3_server, modified_after_ms=newest + 1))
    assert ([*chosen], chosen.left_out.filtered) == ([], 3)
    assert len(list_source(located(bucket, s3_server, modified_before_ms=newest + 1, ignore=("*.tmp.json",)))) == 2


def test_one_object_of_any_suffix_is_a_source(bucket: Bucket, s3_server: S3Server) -> None:
    bucket.put_files([("src/x.log", line(1)), ("src/v1.b/y.json", line(2))])
    assert [file.path for file in list_source(located(bucket, s3_server, "src/x.log"))] == ["x.log"]
    assert [file.path for file in list_source(located(bucket, s3_server, "src/v1.b"))] == ["y.json"]
