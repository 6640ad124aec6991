"""Transforms and what is committed: the position says which one it was, and a replay goes through it as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blizzard.core.kinds import Kind
from blizzard.core.plan import Limits
from blizzard.errors import BadData, ConfigError
from blizzard.schema.load import load_schema
from blizzard.tasks.transform_code import make_transform
from tests.flows.in_process import Flow
from tests.flows.replaying import newest_position, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import rows, write
from tests.run.test_transforms import LINES, SQL, changes_its_columns, sql


def begun(folder: Path, **settings: Any) -> Flow:
    """Of a.ndjson, 2 of 4 lines are committed."""
    flow = Flow(folder, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", b"".join(b'{"id":%d,"name":"%d"}\n' % (i, i) for i in range(4, 8)))
    flow.run(limits=Limits(max_records=2), max_batches=1, slots=1, **settings)
    assert newest_position(flow).marks.records_read("a.ndjson") == 2
    return flow


def told_of_transforms(flow: Flow) -> list[str]:
    return [warning for warning in flow.told.warnings if "transform" in warning]


def test_the_position_says_which_transform_it_was_and_a_change_inside_a_file_is_told_once(tmp_path: Path) -> None:
    first, same, other = sql(), sql(f"  {SQL.lower()} -- the same"), sql("SELECT id, 1 AS n FROM records")
    assert first.fingerprint == same.fingerprint != other.fingerprint
    flow = begun(tmp_path, spec={"transform": first})
    assert newest_position(flow).on.transform == first.fingerprint
    flow.run(spec={"transform": same}, limits=Limits(max_records=1), max_batches=1, slots=1)
    assert told_of_transforms(flow) == []
    flow.run(spec={"transform": other}, limits=Limits(max_records=1), max_batches=1, slots=1)
    (warning,) = told_of_transforms(flow)
    assert "is not the one that the first records of these files went through: a.ndjson" in warning
    assert [row["id"] for row in rows(flow.table)] == [4, 5, 6, 7], "each once"
    assert newest_position(flow).on.transform == other.fingerprint


def test_what_a_transform_reads_is_part_of_it(tmp_path: Path) -> None:
    assert sql().fingerprint != sql(reads="id BIGINT, name STRING, more STRING").fingerprint


def test_a_run_without_the_transform_says_so(tmp_path: Path) -> None:
    flow = begun(tmp_path, spec={"transform": sql()})
    flow.run(limits=Limits(max_records=2), max_batches=1, slots=1)
    (warning,) = told_of_transforms(flow)
    assert "The rest goes through none" in warning
    flow = Flow(tmp_path / "other", ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", b'{"id":1,"name":"1"}\n')
    flow.run(spec={"transform": sql()})
    write(flow.src / "b.ndjson", b'{"id":2}\n')
    flow.run()
    assert told_of_transforms(flow) == [
        "the last batch of this pipeline went through a transform, and this run has none"
    ]
    assert newest_position(flow).on.transform is None


def test_a_renewal_and_a_rollback_keep_what_the_position_says(tmp_path: Path) -> None:
    first, other = sql(), sql("SELECT id, 1 AS n FROM records")
    flow = begun(tmp_path, spec={"transform": first})
    flow.run(spec={"transform": other}, limits=Limits(max_records=1), max_batches=1, slots=1)
    roll_back(flow, 1)
    assert newest_position(flow).on.transform == first.fingerprint


# Replays.


def test_a_replay_goes_through_the_transform(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", LINES + b'{"id":9,"name":"y"}\n')
    flow.run(spec={"transform": sql()})
    assert [row["line"] for row in flow.quarantined()] == [2, 5, 7]
    again = replay_in(flow, transform=sql())
    assert (again.replayed, again.still_bad) == (0, 3)
    mended = sql("SELECT id, TRY_CAST(name AS INTEGER) AS n FROM records WHERE id <> 9")
    done = replay_in(flow, run_id="mended", transform=mended)
    assert (done.replayed, done.still_bad, done.not_selected) == (1, 1, 1)
    assert rows(flow.table) == [{"id": 1, "n": 5}, {"id": 2, "n": None}, {"id": 5, "n": 8}]
    assert [row["line"] for row in flow.quarantined()] == [5, 7], "records leave a quarantine only as rows"
    assert newest_position(flow).on.transform == sql().fingerprint, "no file of the source was read on"


def test_a_replay_without_the_transform_of_the_runs_is_refused(tmp_path: Path) -> None:
    """The record would be a row as it was read, beside others that are not."""
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n')
    flow.run(
        spec={
            "transform": sql(
                "SELECT id, CASE id WHEN 2 THEN CAST(CAST(name AS INT) AS VARCHAR) END AS name FROM records"
            )
        }
    )
    with pytest.raises(ConfigError, match="went through a transform, and this command has none") as refused:
        replay_in(flow)
    assert refused.value.kind == Kind.TRANSFORM
    assert [row["id"] for row in rows(flow.table)] == [1]
    write(flow.src / "b.ndjson", b'{"id":3,"name":"c"}\n')
    flow.run()
    assert replay_in(flow).replayed == 1, "the pipeline has none any more"


def test_a_replay_of_records_that_are_all_left_out_changes_nothing(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", LINES)
    flow.run(spec={"transform": sql()})
    done = replay_in(flow, transform=sql("SELECT id, 1 AS n FROM records WHERE false"))
    assert (done.replayed, done.still_bad, done.not_selected) == (0, 1, 1)
    assert len(flow.quarantined()) == 2


def test_a_replay_that_the_transform_stops_changes_nothing(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", b'{"id":"x"}\n{"id":1}\n')
    flow.run()
    broken = make_transform(load_schema("id STRING, name STRING"), function=changes_its_columns)
    with pytest.raises(BadData) as stopped:
        replay_in(flow, transform=broken)
    assert stopped.value.kind == Kind.TRANSFORM_FAILED
    assert "other is no column of the table" in str(stopped.value)
    assert len(flow.quarantined()) == 1
