"""`quarantine.overflow: drop_oldest` on real tables: the newest batches that fit stay, and the books balance."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import blizzard.core.overflow
from blizzard.core.ledger import Ledger, decode_ledger
from blizzard.core.plan import Limits
from blizzard.core.types import QuarantinedBatch
from blizzard.errors import Refused
from blizzard.quarantine import contents
from blizzard.run.commit_queue import ThreadBackground
from blizzard.run.summary import Summary
from blizzard.tasks.quarantine import Selection
from tests.flows.backups import Elsewhere, add_file, lines, live
from tests.flows.in_process import BEGINNING, actions_of, newest
from tests.flows.replaying import newest_position
from tests.ingesting import ids, write
from tests.quarantine.test_records_that_leave import folder, give, only_append


def dropping(limit: int) -> dict[str, Any]:
    return {"max_quarantined": limit, "overflow": "drop_oldest"}


def run_batches(flow: Elsewhere, *numbers: int, limit: int = 2) -> Summary:
    """Each has one good and one bad record. Returns the summary of the last run."""
    summary = Summary()
    for number in numbers:
        add_file(flow, number)
        summary = flow.run(**dropping(limit))
    return summary


def newest_ledger(flow: Elsewhere) -> Ledger:
    ledger = decode_ledger(next(flow.open().scan_back()).user_metadata)
    assert ledger is not None
    return ledger


def told(flow: Elsewhere) -> list[str]:
    """What was said about a full quarantine."""
    return [text for text in flow.told.warnings if "is full" in text or "quarantine.max_records" in text]


@pytest.fixture
def flow(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path)


def test_the_newest_batches_that_fit_stay(flow: Elsewhere) -> None:
    summary = run_batches(flow, 1, 2)
    assert (summary.dropped_records, live(flow)) == (0, lines(1, 2))
    assert told(flow) == []
    first = newest_ledger(flow).batch_id
    run_batches(flow, 3)
    summary = run_batches(flow, 4)
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(3, 4))
    assert (summary.dropped_records, summary.rejected, summary.quarantined, summary.bad_records) == (1, 0, 1, 1)
    assert newest_ledger(flow).dropped == {first: 1}
    assert newest_position(flow).quarantine.dropped == (first,)
    assert "Dropped to make room: 1 bad record of sequence 2 " in told(flow)[-1]
    flow.run(**dropping(2))
    assert live(flow) == lines(3, 4)


def test_as_few_batches_leave_as_are_needed(flow: Elsewhere) -> None:
    for number, bad in enumerate((1, 3, 1, 1), start=1):
        write(flow.src / f"{number}.ndjson", b"".join(b"bad %d%d\n" % (number, i) for i in range(bad)) + b'{"id":1}')
        flow.run(**dropping(6))
    assert live(flow) == lines(10, 20, 21, 22, 30, 40)
    write(flow.src / "5.ndjson", b"bad 50\nbad 51\n")
    assert flow.run(**dropping(6)).dropped_records == 4  # one of sequence 1 would not be enough
    assert live(flow) == lines(30, 40, 50, 51)


def test_a_limit_that_was_lowered_is_reached_with_the_next_bad_record(flow: Elsewhere) -> None:
    run_batches(flow, 1, 2, 3, 4, limit=9)
    write(flow.src / "5.ndjson", b'{"id":5}\n')
    flow.run(**dropping(2))
    assert live(flow) == lines(1, 2, 3, 4)
    assert run_batches(flow, 6).dropped_records == 3
    assert live(flow) == lines(4, 6)


@pytest.mark.parametrize("slots", [1, 2])
def test_for_a_batch_that_never_fits_nothing_leaves_without_need(flow: Elsewhere, slots: int) -> None:
    run_batches(flow, 1, 2)
    write(flow.src / "3.ndjson", b'{"id":3}\n' + b"".join(b"bad 3%d\n" % i for i in range(4)))
    write(flow.src / "4.ndjson", b"bad 40\nbad 41\n")
    summary = flow.run(**dropping(2), slots=slots)
    # Each task has a file of bad records, in quarantine or not as a whole.
    expected = (6, 0, 0, lines(1, 2)) if slots == 1 else (4, 2, 2, lines(40, 41))
    found = (summary.rejected, summary.dropped_records, summary.quarantined, live(flow))
    assert found == expected
    assert newest_ledger(flow).quarantined == (summary.quarantined or None)
    assert [(e.path, e.bad, e.cut) for e in newest_ledger(flow).entries] == [
        ("3.ndjson", 4, 4),
        ("4.ndjson", 2, 2 if slots == 1 else 0),
    ]
    assert "6 bad records, and quarantine.max_records is 2" in told(flow)[0]


def test_a_limit_of_zero_keeps_nothing(flow: Elsewhere) -> None:
    summary = run_batches(flow, 1, 2, limit=0)
    assert (summary.rejected, summary.dropped_records, flow.quarantined()) == (1, 0, [])


def test_batches_in_flight_leave_in_order(flow: Elsewhere) -> None:
    for number in range(1, 7):
        add_file(flow, number)
    background = ThreadBackground()
    summary = flow.run(limits=Limits(max_files=1), background=background, max_inflight=3, **dropping(2))
    background.close()
    assert (ids(flow.table), live(flow), summary.dropped_records) == ([1, 2, 3, 4, 5, 6], lines(5, 6), 4)


def test_only_this_pipeline_and_table_lose_records(flow: Elsewhere) -> None:
    other = Elsewhere(flow.folder, pipeline="q", src_at=flow.folder / "other")
    run_batches(flow, 1, 2)
    for number in (11, 12):
        add_file(other, number)
        other.run(start_from=BEGINNING if number == 11 else None, **dropping(9))
    for compacts in (False, True):
        if compacts:  # one file holds both pipelines
            DeltaTable(flow.quarantine.root).optimize.compact()
            assert len(DeltaTable(flow.quarantine.root).file_uris()) == 1
        run_batches(flow, *((5, 6) if compacts else (3, 4)))
        assert live(flow) == sorted(lines(*((5, 6) if compacts else (3, 4)), 11, 12))


def test_orphans_neither_count_nor_leave(flow: Elsewhere) -> None:
    run_batches(flow, 1, 2)
    DeltaTable(flow.quarantine.root).update({"orphaned": "true"}, predicate="sequence = 1")
    table_id = flow.open().table_id
    assert [b.sequence for b in flow.quarantine.batches("p", table_id)] == [2]
    run_batches(flow, 3)
    assert live(flow) == lines(2, 3)
    run_batches(flow, 4)
    assert (live(flow), len(flow.quarantined())) == (lines(3, 4), 3)


def test_records_of_an_older_version_leave_first_by_their_sequence(flow: Elsewhere) -> None:
    run_batches(flow, 1, 2, 3, limit=9)
    DeltaTable(flow.quarantine.root).update({"batch_id": "NULL"}, predicate="sequence <= 2")
    table_id = flow.open().table_id
    assert [b.name for b in flow.quarantine.batches("p", table_id)][:2] == ["sequence:1", "sequence:2"]
    run_batches(flow, 4, limit=3)
    assert (live(flow), dict(newest_ledger(flow).dropped)) == (lines(2, 3, 4), {"sequence:1": 1})
    run_batches(flow, 5, limit=2)
    assert live(flow) == lines(4, 5)


def test_records_of_an_older_version_of_other_pipelines_and_tables_stay(flow: Elsewhere) -> None:
    """Their batches have the same names: they are called by their sequences."""
    shared = flow.folder / "table_quarantine"
    others = [
        Elsewhere(flow.folder, pipeline="q", src_at=flow.folder / "src-q"),
        Elsewhere(flow.folder, src_at=flow.folder / "src-2", table_at=flow.folder / "table-2", quarantine_at=shared),
    ]
    run_batches(flow, 1, 2)
    for other, number in zip(others, (11, 21), strict=True):
        add_file(other, number)
        other.run(start_from=BEGINNING, **dropping(9))
    DeltaTable(str(shared)).update({"batch_id": "NULL"})
    run_batches(flow, 3)
    assert dict(newest_ledger(flow).dropped) == {"sequence:1": 1}
    assert live(flow) == sorted(lines(2, 3, 11, 21))


def test_batches_are_known_by_the_log_and_a_file_that_leaves_is_not_opened(flow: Elsewhere) -> None:
    run_batches(flow, 1, 2)
    for path in folder(flow).glob("*.parquet"):
        path.write_bytes(b"")
    held = flow.quarantine.batches("p", flow.open().table_id)
    assert [(b.sequence, b.rows) for b in held] == [(1, 1), (2, 1)]
    run_batches(flow, 3, 4)
    assert live(flow) == lines(3, 4)
    assert flow.quarantine.batches("p", "another") == flow.quarantine.batches("x", flow.open().table_id) == ()


def test_compacted_files_are_opened_to_count_their_batches(flow: Elsewhere) -> None:
    run_batches(flow, 1, 2, 3, limit=9)
    before = flow.quarantine.batches("p", flow.open().table_id)
    DeltaTable(flow.quarantine.root).optimize.compact()
    assert flow.quarantine.batches("p", flow.open().table_id) == before
    assert [(b.sequence, b.rows) for b in before] == [(1, 1), (2, 1), (3, 1)]
    assert Elsewhere(flow.folder / "none").quarantine.batches("p", "t") == ()


def test_by_names_as_many_are_deleted_as_are_read(flow: Elsewhere) -> None:
    """A selection has two forms, and both must choose the same records."""
    run_batches(flow, 1, 2, 3, limit=9)
    DeltaTable(flow.quarantine.root).update({"batch_id": "NULL"}, predicate="sequence = 1")
    names = [b.name for b in flow.quarantine.batches("p", flow.open().table_id)]
    chosen = Selection(batches=(names[0], names[2], "it's gone"))
    assert sorted(r["raw"] for r in contents.records(flow.quarantine, chosen)) == lines(1, 3)
    assert contents.purge(flow.quarantine, chosen) == 2
    assert live(flow) == lines(2)
    assert contents.purge(flow.quarantine, replace(chosen, batches=())) == 0


def test_more_batches_than_a_commit_can_name_leave_with_the_next_ones(
    flow: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_batches(flow, 1, 2, 3, 4, 5, limit=9)
    monkeypatch.setattr(blizzard.core.overflow, "MAX_DROPPED_BYTES", 2 * 19)
    assert run_batches(flow, 6, limit=1).dropped_records == 2
    assert live(flow) == lines(3, 4, 5, 6)
    assert "3 more than quarantine.max_records (1) stay" in told(flow)[-1]
    run_batches(flow, 7, limit=1)
    run_batches(flow, 8, limit=1)
    assert live(flow) == lines(7, 8)
    run_batches(flow, 9, limit=1)
    assert live(flow) == lines(9)
    assert "stay" not in told(flow)[-1]


def test_what_cannot_leave_stops_the_batch_before_its_commit(flow: Elsewhere) -> None:
    run_batches(flow, 1, 2)
    only_append(flow)
    before = newest(flow.table)
    with pytest.raises(Refused) as error:
        run_batches(flow, 3)
    assert (error.value.kind, newest(flow.table), live(flow)) == ("append_only", before, lines(1, 2))
    give(flow, {})
    flow.run(**dropping(2))
    assert (ids(flow.table), live(flow)) == ([1, 2, 3], lines(2, 3))


def test_commits_written_by_hand_get_delta_checkpoints_too(flow: Elsewhere) -> None:
    run_batches(flow, 1, limit=1)
    give(flow, {"delta.checkpointInterval": "5"})
    run_batches(flow, *range(2, 9), limit=1)
    last = json.loads((folder(flow) / "_delta_log" / "_last_checkpoint").read_text())
    assert last["version"] == newest(folder(flow)) // 5 * 5 > 0
    assert live(flow) == lines(8)


def test_the_quarantines_log_says_what_left(flow: Elsewhere) -> None:
    run_batches(flow, 1, 2, 3)
    removed = [action["path"] for action in actions_of(folder(flow), "remove")]
    added = [action["path"] for action in actions_of(folder(flow), "add")]
    assert removed == added[:1]
    assert len(added) == 3  # nothing had to be copied


def test_statistics_say_which_batch_a_file_is_of(flow: Elsewhere) -> None:
    run_batches(flow, 1)
    (batch,) = flow.quarantine.batches("p", flow.open().table_id)
    assert batch == QuarantinedBatch(name=newest_ledger(flow).batch_id, sequence=1, rows=1)
