"""What a commit requires of the table, on real Delta logs: each requirement has a test that fails without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from blizzard.core.codec import fence_app_id
from blizzard.core.commit import Intent
from blizzard.core.events import unheard
from blizzard.core.log import CommitFacts, rewrites_table
from blizzard.delta import log
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BlizzardError, Fenced, Refused, Temporary
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.commit import MAX_BATCH_AGE_MS, Committing
from blizzard.store import open_store
from tests.failing import ends_with
from tests.flows.in_process import (
    BEGINNING,
    NOW_MS,
    Batch,
    Flow,
    SetClock,
    actions_of,
    info,
    log_file,
    newest,
    write_foreign,
    write_raw,
)
from tests.ingesting import commit_actions, ids, write_ids


def commit(table: DeltaRsTable, batch: Batch, *, planned_ms: int = NOW_MS, now_ms: int = NOW_MS) -> int:
    clock = SetClock(now_ms)
    quarantine = DeltaRsQuarantine(root=f"{table.root}_quarantine", clock=clock)
    committing = Committing(table=table, quarantine=quarantine, clock=clock, emit=unheard, attempts=2)
    intent = Intent(position=batch.state, result=batch.result, planned_ms=planned_ms)
    return committing.commit(intent).version


def refuses(error: type[BlizzardError], kind: str, table: DeltaRsTable, batch: Batch, **arguments: Any) -> None:
    """The commit is refused, and the log is left as it was."""
    before = newest(Path(table.root))
    with pytest.raises(error) as caught:
        commit(table, batch, **arguments)
    assert caught.value.kind == kind
    assert newest(Path(table.root)) == before


def test_a_batch_that_nothing_speaks_against_is_committed(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    assert commit(table, flow.batch(table)) == 2
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("sequence", [1, 3])
def test_a_fence_that_is_not_one_behind_stops_the_commit(tmp_path: Path, sequence: int) -> None:
    """The commits since the plan show nothing; delta-rs itself would take a lower or a higher version as well."""
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    refuses(Fenced, "fenced", table, flow.batch(table, sequence=sequence))


def test_of_two_drivers_with_one_plan_only_the_first_commits(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    first, second = flow.open(), flow.open()
    winner, loser = flow.batch(first), flow.batch(second, run_id="theirs", batch_id="theirs")
    assert commit(first, winner) == 2
    refuses(Fenced, "fenced", second, loser)
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


def test_a_table_with_another_id_is_not_committed_to(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    batch = flow.batch(table)
    metadata = next(actions_of(flow.table, "metaData"))
    write_raw(flow.table, info("SET TBLPROPERTIES"), {"metaData": metadata | {"id": "another"}})
    refuses(Refused, "table_replaced", table, batch)


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_a_table_dropped_and_made_anew_while_a_batch_was_read_is_not_committed_to(
    tmp_path: Path, versions: int
) -> None:
    """A handle that only looks for newer versions sees nothing of it where the new log is no longer than the old."""
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    batch = flow.batch(table)
    shutil.rmtree(flow.table / "_delta_log")
    flow.place.create("q")
    for i in range(versions - 1):
        write_foreign(flow.table, 100 + i)
    before = newest(flow.table)
    with ends_with("table_replaced"):
        commit(table, batch)
    assert newest(flow.table) == before


def test_a_batch_is_committed_within_a_day_of_its_plan_and_never_later(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    batch = flow.batch(table)
    assert MAX_BATCH_AGE_MS == 86_400_000
    refuses(Temporary, "batch_too_old", table, batch, planned_ms=NOW_MS - 86_400_001)
    assert commit(table, batch, planned_ms=NOW_MS - 86_400_000) == 2


@pytest.mark.parametrize(
    ("operation", "mode", "removes", "expected"),
    [
        ("WRITE", "Overwrite", True, True),
        ("WRITE", "OVERWRITE", False, True),
        ("STREAMING UPDATE", "Complete", True, True),
        ("STREAMING UPDATE", "COMPLETE", False, True),
        ("WRITE", "Append", False, False),
        ("STREAMING UPDATE", "Append", False, False),
        ("", None, True, True),
        ("", None, False, False),
        ("OPTIMIZE", None, False, False),
        ("OPTIMIZE", None, True, True),
        ("FSCK", None, True, True),
        ("SOMETHING NEW", None, True, True),
        ("SOMETHING NEW", None, False, False),
        ("MERGE", None, True, False),
        ("UPDATE", None, True, False),
        ("DELETE", None, True, False),
    ],
)
def test_what_counts_as_a_rewrite(operation: str, mode: str | None, removes: bool, expected: bool) -> None:
    facts = CommitFacts(version=1, timestamp_ms=0, operation=operation, mode=mode, removes_rows=removes)
    assert rewrites_table(facts) is expected


def overwritten_by_delta_rs(table: Path) -> None:
    write_foreign(table, 100, mode="overwrite")


def completed_by_a_stream(table: Path) -> None:
    write_raw(table, info("STREAMING UPDATE", operationParameters={"outputMode": "Complete", "epochId": "1"}))


def overwritten_by_spark(table: Path) -> None:
    write_raw(table, info("WRITE", operationParameters={"mode": "Overwrite"}))


def removed_without_a_word(table: Path) -> None:
    add = next(actions_of(table, "add"))
    write_raw(table, {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}})


@pytest.mark.parametrize(
    "rewrite", [overwritten_by_delta_rs, completed_by_a_stream, overwritten_by_spark, removed_without_a_word]
)
def test_a_table_rewritten_while_a_batch_was_read_is_not_committed_to(tmp_path: Path, rewrite: Any) -> None:
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    batch = flow.batch(table)
    rewrite(flow.table)
    refuses(Refused, "table_rewritten", table, batch)


def test_ordinary_commits_of_others_while_a_batch_was_read_are_no_hindrance(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run(while_reading=lambda: write_foreign(flow.table, 100))
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 100]


def compact(table: Path) -> None:
    deltalake.DeltaTable(str(table)).optimize.compact()


def merge(table: Path) -> None:
    rows = pa.table({"id": [0], "name": ["merged"]})
    merging = deltalake.DeltaTable(str(table)).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all().execute()


def update(table: Path) -> None:
    deltalake.DeltaTable(str(table)).update(updates={"name": "'updated'"}, predicate="id = 1")


@pytest.mark.parametrize("others", [compact, merge, update], ids=lambda f: f.__name__)
@pytest.mark.parametrize("when", ["while the batch is read", "between the look and the commit"])
def test_other_writers_at_work_are_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: Callable[[Path], None], when: str
) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "aa.ndjson", 50, 52)
    flow.run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    done: list[int] = []

    def once() -> None:
        if not done:
            done.append(1)
            others(flow.table)

    if when == "while the batch is read":
        flow.run(while_reading=once)
    else:
        kind = type(flow.open())
        append = kind.append

        def append_late(self: DeltaRsTable, request: Any) -> None:
            once()
            append(self, request)

        monkeypatch.setattr(kind, "append", append_late)
        flow.run()
    assert done
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 50, 51]
    assert flow.run().commits == 0


def test_two_pipelines_on_one_table_do_not_disturb_each_other(tmp_path: Path) -> None:
    flow, other = Flow(tmp_path).first_run(), Flow(tmp_path, pipeline="q")
    other.run(start_from=BEGINNING, reads_again=True)
    write_ids(flow.src / "b.ndjson", 3, 6)

    def overtake() -> None:
        other.run()

    assert flow.run(while_reading=overtake).sequence == 2
    assert other.run().commits == 0
    assert ids(flow.table) == sorted([*range(6)] * 2)
    assert (flow.open().fence("p"), flow.open().fence("q")) == (2, 2)


def last_updated(table: Path, version: int) -> set[int]:
    return {action["txn"]["lastUpdated"] for action in commit_actions(table, version) if "txn" in action}


def test_last_updated_is_never_below_the_base_commits_time_when_the_clock_goes_back(tmp_path: Path) -> None:
    flow = Flow(tmp_path, clock=SetClock(NOW_MS)).first_run()
    flow.clock.ms = 1_000_000
    write_raw(flow.table, info("OPTIMIZE", timestamp_ms=NOW_MS + 7))
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()
    assert last_updated(flow.table, 3) == {NOW_MS + 7}


def test_last_updated_is_never_below_the_time_of_a_commit_made_since_the_plan(tmp_path: Path) -> None:
    flow = Flow(tmp_path, clock=SetClock(1_000_000)).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)

    def optimize() -> None:
        write_raw(flow.table, info("OPTIMIZE", timestamp_ms=NOW_MS + 9))

    flow.run(while_reading=optimize)
    assert last_updated(flow.table, 3) == {NOW_MS + 9}


def test_last_updated_is_the_time_of_the_commit_and_not_of_the_batch(tmp_path: Path) -> None:
    """A batch may wait long for those before it."""
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    assert commit(table, flow.batch(table), now_ms=NOW_MS + 50) == 2
    assert last_updated(flow.table, 2) == {NOW_MS + 50}


def test_a_gap_in_the_log_is_refused_and_not_read_over(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_foreign(flow.table, 100)
    write_foreign(flow.table, 101)
    assert [c.version for c in log.commits_between(open_store(str(flow.table)), 1, 3)] == [3, 2]
    log_file(flow.table, 2).unlink()
    with pytest.raises(Refused) as caught:
        log.commits_between(open_store(str(flow.table)), 1, 3)
    assert caught.value.kind == "log_gap"


@pytest.mark.parametrize("reopened", [True, False])
def test_versions_behind_a_gap_are_known_from_the_handle(tmp_path: Path, reopened: bool) -> None:
    """A probe forward from the planned version ends at the gap, and would call the sequence free."""
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    batch = flow.batch(table)
    write_foreign(flow.table, 100)
    write_foreign(flow.table, 101)
    deltalake.DeltaTable(str(flow.table)).create_checkpoint()
    if reopened:
        table = flow.open()
    else:
        table.refresh()
    log_file(flow.table, 2).unlink()
    assert table.version == 3
    with pytest.raises(Refused) as caught:
        table.commits_after(1)
    assert caught.value.kind == "log_gap"
    refuses(Refused, "log_gap", table, batch)


def test_files_are_on_the_disk_before_the_commit_and_the_commit_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, int]] = []
    real_fsync = os.fsync

    def fsync(fd: int) -> None:
        synced.append((os.fstat(fd).st_ino, newest(flow.table)))
        real_fsync(fd)

    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    monkeypatch.setattr(os, "fsync", fsync)
    flow.run()
    (add,) = (a["add"] for a in commit_actions(flow.table, 2) if "add" in a)
    on_disk = [
        ((flow.table / add["path"]).stat().st_ino, 1),  # its content, then its name, while version 1 is the newest
        (flow.table.stat().st_ino, 1),
        (log_file(flow.table, 2).stat().st_ino, 2),
        ((flow.table / "_delta_log").stat().st_ino, 2),
    ]
    assert synced == on_disk


def test_a_new_tables_first_commit_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    flow = Flow(tmp_path)
    flow.place.create("p")
    assert log_file(flow.table, 0).stat().st_ino in synced


def test_a_commit_found_after_a_lost_answer_is_made_durable_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(tmp_path).first_run()
    table = flow.open()
    batch = flow.batch(table)
    durable: list[int] = []
    monkeypatch.setattr(table, "make_durable", durable.append)
    monkeypatch.setenv("BLIZZARD_FAULT", "commit.answer=raise")
    assert commit(table, batch) == 2
    assert durable == [2]
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


def add_column(table: Path) -> None:
    field = deltalake.Field("extra", deltalake.schema.PrimitiveType("string"))
    deltalake.DeltaTable(str(table)).alter.add_columns([field])


def add_constraint(table: Path) -> None:
    deltalake.DeltaTable(str(table)).alter.add_constraint({"positive": "id >= 0"})


@pytest.mark.parametrize(
    ("change", "error", "kind"),
    [(add_column, Temporary, "schema_changed"), (add_constraint, Refused, "table_feature")],
)
def test_a_table_altered_while_a_batch_was_read_gets_nothing_of_it(
    tmp_path: Path, change: Any, error: type[BlizzardError], kind: str
) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    with pytest.raises(error) as caught:
        flow.run(while_reading=lambda: change(flow.table))
    assert caught.value.kind == kind
    assert ids(flow.table) == [0, 1, 2]
    fences = [t["version"] for t in actions_of(flow.table, "txn") if t["appId"] == fence_app_id("p")]
    assert fences == [0, 1]
