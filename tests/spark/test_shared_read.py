"""One Spark job for several targets: read once, a result for each, and what ends one does not end the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from blizzard.core.bad import BadPolicy
from blizzard.core.kinds import Kind
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, Budget, SharedPlan, Slice, TaskPlan
from blizzard.errors import Temporary
from blizzard.run.ports import NeverStop
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.spark.ingestor import SharedSparkReader, SparkIngestor
from blizzard.spark.job import _EndMarker
from blizzard.spark.session import GivenSession
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.spec import TaskSpec
from tests.ingesting import DDL, line, write, write_ids
from tests.tasks.specs import make_spec

pytestmark = pytest.mark.spark

EVERYTHING = Budget(output_bytes=1 << 30, max_records=None, seconds=None)
TICKETS = {name: BatchTicket(sequence=n, planned_ms=0, table_id=name) for n, name in enumerate(("one", "two"), 1)}


class CancelNow:
    def must_cancel(self) -> bool:
        return True

    def ends_batch(self) -> bool:
        return False


def spec_of(folder: Path, name: str, **changes: Any) -> TaskSpec:
    places = {
        "source_root": str(folder / "src"),
        "table_root": str(folder / name),
        "quarantine_root": str(folder / f"{name}_quarantine"),
    }
    return make_spec(folder, **places | changes)


def piece_of(folder: Path, name: str, first: int = 0) -> Slice:
    info = (folder / "src" / name).stat()
    return Slice(path=name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=first)


def shared_plan(folder: Path, wanted: dict[str, dict[str, int]]) -> SharedPlan:
    paths = sorted({path for own in wanted.values() for path in own})
    firsts = {path: min(own[path] for own in wanted.values() if path in own) for path in paths}
    tasks = tuple(
        TaskPlan(slot=slot, slices=(piece_of(folder, path, firsts[path]),), budget=EVERYTHING)
        for slot, path in enumerate(paths)
    )
    return SharedPlan(tasks=tasks, wanted=wanted)


def rows(folder: Path, name: str, result: BatchResult) -> list[dict[str, Any]]:
    return [row for file in result.files for row in pq.ParquetFile(folder / name / file.path).read().to_pylist()]


def test_one_job_gives_each_target_its_own_result(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    ingestors = {
        "one": SparkIngestor(GivenSession(spark), spec_of(tmp_path, "one")),
        "two": SparkIngestor(
            GivenSession(spark), spec_of(tmp_path, "two", layout=TableLayout(schema=load_schema("id BIGINT")))
        ),
    }
    reader = SharedSparkReader(ingestors)
    plan = shared_plan(tmp_path, {"one": {"a.ndjson": 0, "b.ndjson": 0}, "two": {"a.ndjson": 7}})
    results = reader.run(plan, tickets=TICKETS, stop=NeverStop())
    assert [row["id"] for row in rows(tmp_path, "one", results["one"])] == list(range(20))
    assert rows(tmp_path, "two", results["two"]) == [{"id": 7}, {"id": 8}, {"id": 9}]
    assert [(s.path, s.from_record, s.to_record) for s in results["two"].slices] == [("a.ndjson", 7, 10)]
    assert [report.slot for report in results["two"].reports] == [0, 1]

    ingestors["two"].adopt(load_schema(DDL))  # only this target has new columns
    again = reader.run(plan.only(frozenset({0}), ["two"]), tickets=TICKETS, stop=NeverStop())
    assert list(again) == ["two"]
    assert rows(tmp_path, "two", again["two"])[0] == {"id": 7, "name": "n7"}


def test_a_target_that_fails_has_its_failure_alone(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", line(0) + b"oops\n")
    ingestors = {
        "one": SparkIngestor(GivenSession(spark), spec_of(tmp_path, "one", bad=BadPolicy(records="fail"))),
        "two": SparkIngestor(GivenSession(spark), spec_of(tmp_path, "two", bad=BadPolicy(records="quarantine"))),
    }
    plan = shared_plan(tmp_path, {"one": {"a.ndjson": 0}, "two": {"a.ndjson": 0}})
    results = SharedSparkReader(ingestors).run(plan, tickets=TICKETS, stop=NeverStop())
    assert results["one"].failure is not None
    assert results["one"].failure.kind == Kind.BAD_RECORD
    assert results["two"].failure is None
    assert (results["two"].rows, results["two"].bad) == (1, 1)


def test_a_job_that_is_cancelled_gives_nothing(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 200_000)
    spec = spec_of(tmp_path, "one", parser="reference", parsing=ParsePolicy(unknown=Unknown.RESCUE))
    spec = replace(spec, layout=TableLayout(schema=load_schema(f"{DDL}, _rescued_data STRING")))
    ingestors = {"one": SparkIngestor(GivenSession(spark), spec), "two": SparkIngestor(GivenSession(spark), spec)}
    plan = shared_plan(tmp_path, {"one": {"a.ndjson": 0}, "two": {"a.ndjson": 0}})
    with pytest.raises(Temporary, match="the batch was cancelled"):
        SharedSparkReader(ingestors).run(plan, tickets=TICKETS, stop=CancelNow())


def test_one_target_alone_goes_the_same_way(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingestor = SparkIngestor(GivenSession(spark), spec_of(tmp_path, "one"))
    task = TaskPlan(slot=0, slices=(piece_of(tmp_path, "a.ndjson", 4),), budget=EVERYTHING)
    result = ingestor.run(BatchPlan(tasks=(task,), frontier=()), ticket=TICKETS["one"], stop=NeverStop())
    assert [row["id"] for row in rows(tmp_path, "one", result)] == [4, 5, 6, 7, 8, 9]


def test_the_end_marker_is_put_where_it_can_be_written(tmp_path: Path) -> None:
    specs = {name: spec_of(tmp_path, name) for name in ("one", "two")}
    (tmp_path / "two").mkdir()  # and there is no folder for the other
    with _EndMarker(specs, TICKETS) as marker:
        marker.put()
        marker.put()
        assert [path.name for path in (tmp_path / "two").iterdir()] == ["_blizzard-end-r-00000002"]
    assert not list((tmp_path / "two").iterdir())
    (tmp_path / "two").rmdir()
    with _EndMarker(specs, TICKETS) as marker, pytest.raises(FileNotFoundError):
        marker.put()
