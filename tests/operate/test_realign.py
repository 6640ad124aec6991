"""`dlq realign` on real tables: what was put back alone goes on, and no record vanishes from rows and quarantine."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard import faults
from blizzard.errors import OutOfStep, Refused, Temporary
from blizzard.operate.realign import Realigned, realign
from blizzard.operate.transfer import export_position, import_position
from blizzard.quarantine import contents
from blizzard.tasks.quarantine import Selection
from tests.flows.backups import (
    Elsewhere,
    add_file,
    keep,
    lines,
    live,
    orphans,
    put_back,
    put_back_log,
    realigned,
    three_batches,
)
from tests.flows.in_process import Flow, Told, actions_of, clean_up_log, info, log_file, newest, write_raw
from tests.flows.replaying import HOPELESS, in_quarantine, mendable, newest_position, quarantined_flow, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids


@pytest.fixture
def flow(tmp_path: Path) -> Elsewhere:
    return three_batches(tmp_path)


def refused(flow: Flow) -> str:
    with pytest.raises(Refused) as error:
        flow.run()
    return error.value.kind


def test_an_older_table_reads_again_and_what_it_does_not_know_is_set_aside(flow: Flow) -> None:
    put_back(flow, "table-1")
    assert refused(flow) == "quarantine_ahead"
    assert realigned(flow) == Realigned(orphaned=2)
    assert (live(flow), orphans(flow)) == (lines(1), lines(2, 3))
    assert realigned(flow) == Realigned(was_in_step=True)
    flow.run()
    assert (ids(flow.table), live(flow), orphans(flow)) == ([1, 2, 3], lines(1, 2, 3), lines(2, 3))
    add_file(flow, 4)
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(1, 2, 3, 4))


def test_a_table_from_before_the_first_batch_begins_again(flow: Flow) -> None:
    for version in range(1, newest(flow.table) + 1):
        log_file(flow.table, version).unlink()
    assert refused(flow) == "quarantine_ahead"
    assert realigned(flow) == Realigned(orphaned=3)
    flow.run()
    assert (ids(flow.table), live(flow), orphans(flow)) == ([1, 2, 3], lines(1, 2, 3), lines(1, 2, 3))


def test_the_newer_table_put_back_after_all_has_its_records_back(flow: Flow) -> None:
    put_back(flow, "table-1")
    realigned(flow)
    put_back(flow, "table-3")
    assert refused(flow) == "quarantine_behind"
    assert realigned(flow) == Realigned(live_again=2)
    flow.run()
    assert (ids(flow.table), live(flow), orphans(flow)) == ([1, 2, 3], lines(1, 2, 3), [])


@pytest.mark.parametrize("number", [1, 2])
def test_what_an_older_quarantine_lacks_is_added_again_from_the_files(flow: Flow, number: int) -> None:
    flow.run()
    put_back_log(flow, number)
    if number == 1:
        assert refused(flow) == "quarantine_behind"
        assert realigned(flow) == Realigned(added=2)
    else:
        assert realigned(flow) == Realigned(was_in_step=True)  # only the newest: settled as after any crash
    flow.run()
    assert (live(flow), orphans(flow)) == (lines(1, 2, 3), [])
    add_file(flow, 4)
    flow.run()
    assert live(flow) == lines(1, 2, 3, 4)


def test_records_that_are_gone_are_named_and_given_up_only_when_told(flow: Flow) -> None:
    put_back(flow, "quarantine-1")
    assert refused(flow) == "quarantine_behind"
    before = DeltaVersions.of(flow)
    with pytest.raises(Refused) as error:
        realigned(flow)
    assert error.value.kind == "quarantine_lost"
    assert "2.ndjson records 0 to 2 (sequence 2); 3.ndjson records 0 to 2 (sequence 3)" in str(error.value)
    assert DeltaVersions.of(flow) == before
    done = realigned(flow, accepts_loss=True)
    assert (done.added, len(done.lost)) == (0, 2)
    add_file(flow, 4)
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4], lines(1, 4))


class DeltaVersions(tuple[int, int]):
    @classmethod
    def of(cls, flow: Flow) -> DeltaVersions:
        return cls((newest(flow.table), newest(Path(flow.quarantine.root))))


def test_a_dropped_log_is_made_anew_from_the_files(flow: Flow) -> None:
    shutil.rmtree(Path(flow.quarantine.root) / "_delta_log")
    assert refused(flow) == "quarantine_moved"
    assert realigned(flow) == Realigned(added=3)
    flow.run()
    assert live(flow) == lines(1, 2, 3)


def test_another_path_takes_over_when_told_and_the_old_table_stays(flow: Elsewhere) -> None:
    old = Path(flow.quarantine.root)
    flow.quarantine_at = flow.folder / "another"
    assert refused(flow) == "quarantine_moved"
    with pytest.raises(Refused) as error:
        realigned(flow)
    assert error.value.kind == "quarantine_lost"
    assert "set quarantine.path back" in str(error.value)
    realigned(flow, accepts_loss=True)
    add_file(flow, 4)
    flow.run()
    assert live(flow) == lines(4)
    flow.quarantine_at = old
    assert live(flow) == lines(1, 2, 3)


def test_two_copies_of_a_table_that_share_a_quarantine(flow: Elsewhere) -> None:
    """Each has its own history. Whoever comes second is told; realigning loses nothing of either, as often as it is
    done."""
    copy = replace(flow, table_at=flow.folder / "copy")
    shutil.copytree(flow.table, copy.table)
    add_file(flow, 4)
    flow.run()
    assert refused(copy) == "quarantine_ahead"
    assert realigned(copy) == Realigned(orphaned=1)
    copy.run()
    assert (ids(copy.table), live(copy), orphans(copy)) == ([1, 2, 3, 4], lines(1, 2, 3, 4), lines(4))
    assert refused(flow) == "quarantine_ahead"
    assert realigned(flow) == Realigned(orphaned=1, live_again=1)
    add_file(flow, 5)
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3, 4, 5], lines(1, 2, 3, 4, 5))


def test_records_that_a_lost_replay_took_come_back(tmp_path: Path) -> None:
    """The table no longer has the rows that the replay made of them."""
    flow = quarantined_flow(tmp_path)
    before = in_quarantine(flow)
    keep(flow, 1)
    replay_in(flow)
    put_back(flow, "table-1")
    assert refused(flow) == "quarantine_ahead"
    assert realigned(flow) == Realigned(orphaned=1, added=3)
    assert [r["raw"] for r in flow.quarantined() if not r["orphaned"]] == [raw for _, _, raw in before]
    assert replay_in(flow).replayed == 2
    assert ids(flow.table) == [0, 1, 2, 3, 4]
    assert live(flow) == [HOPELESS]


def test_records_that_a_replay_made_rows_of_do_not_come_back_to_be_replayed_again(tmp_path: Path) -> None:
    flow = quarantined_flow(tmp_path)
    keep(flow, 1)
    replay_in(flow)
    flow.run()
    add_file(flow, 9)
    flow.run()
    put_back_log(flow, 1)
    assert refused(flow) == "quarantine_behind"
    assert realigned(flow) == Realigned(orphaned=3, added=2)
    assert live(flow) == sorted([HOPELESS, *lines(9)])
    assert Counter(orphans(flow)) == Counter([HOPELESS, mendable(3), mendable(4) + b"\r"])
    assert replay_in(flow).replayed == 0
    assert ids(flow.table) == [0, 1, 2, 3, 4, 9]


def test_records_of_batches_that_a_rollback_took_back_stay_away(flow: Flow) -> None:
    roll_back(flow, 1)
    flow.run()
    flow.run()
    assert live(flow) == lines(1, 2, 3)
    put_back_log(flow, 3)
    assert refused(flow) == "quarantine_behind"
    assert realigned(flow) == Realigned(orphaned=2, added=2)
    assert (live(flow), orphans(flow)) == (lines(1, 2, 3), lines(2, 3))


@pytest.mark.parametrize("point", ["realign.marks", "realign.adds"])
def test_dying_in_between_leaves_it_refused_and_realigning_again_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    flow = quarantined_flow(tmp_path)
    before = [raw for _, _, raw in in_quarantine(flow)]
    keep(flow, 1)
    replay_in(flow)
    put_back(flow, "table-1")
    faults._visits.clear()
    monkeypatch.setenv("BLIZZARD_FAULT", f"{point}=raise")
    with pytest.raises(Temporary) as error:
        realigned(flow)
    assert error.value.kind == "quarantine_failed"
    monkeypatch.delenv("BLIZZARD_FAULT")
    assert refused(flow) == "quarantine_ahead"
    realigned(flow)
    assert [r["raw"] for r in flow.quarantined() if not r["orphaned"]] == before


def test_marks_outlive_the_log_and_a_compaction(flow: Flow) -> None:
    put_back(flow, "table-1")
    realigned(flow)
    table = flow.quarantine.open()
    assert table is not None
    table.optimize.compact()
    clean_up_log(Path(flow.quarantine.root))
    flow.run()
    assert (live(flow), orphans(flow)) == (lines(1, 2, 3), lines(2, 3))


def test_what_is_older_than_the_tables_log_is_no_orphan(flow: Flow) -> None:
    clean_up_log(flow.table)
    add_file(flow, 4)
    flow.run()
    keep(flow, 4)
    add_file(flow, 5)
    flow.run()
    put_back(flow, "table-4")
    assert refused(flow) == "quarantine_ahead"
    assert realigned(flow) == Realigned(orphaned=1)
    assert (live(flow), orphans(flow)) == (lines(1, 2, 3, 4), lines(5))


def test_orphans_are_left_out_unless_they_are_asked_for(flow: Flow) -> None:
    put_back(flow, "table-1")
    realigned(flow)
    everything, only = Selection(), Selection(orphaned=True)
    assert (flow.quarantine.count(), contents.count_records(flow.quarantine, everything)) == (1, 1)
    assert [g.source_file for g in contents.count_groups(flow.quarantine, only)] == ["2.ndjson", "3.ndjson"]
    assert replay_in(flow).still_bad == 1
    assert contents.purge(flow.quarantine, everything) == 1
    assert orphans(flow) == lines(2, 3)
    assert contents.purge(flow.quarantine, only) == 2
    assert flow.quarantined() == []


def test_a_purge_does_not_make_it_add_records_again(flow: Flow) -> None:
    contents.purge(flow.quarantine, Selection(source_file="1.ndjson"))
    put_back(flow, "table-2")
    assert realigned(flow) == Realigned(orphaned=1)
    assert live(flow) == lines(2)


def test_what_is_given_up_is_known_to_whoever_cleans_the_source(flow: Flow) -> None:
    put_back(flow, "quarantine-1")
    realigned(flow, accepts_loss=True)
    position = newest_position(flow)
    assert flow.quarantine.took_in(position, {1, 2, 3}) == {1}


def test_a_table_that_was_restored_as_well_can_be_mended_in_either_order(flow: Flow) -> None:
    """Neither command waits for the other: the quarantine follows the position, the position the table."""
    DeltaTable(str(flow.table)).restore(1)
    put_back_log(flow, 1)
    assert refused(flow) == "table_rewritten"
    assert realigned(flow) == Realigned(added=2)
    roll_back(flow, 1)
    flow.run()
    assert (ids(flow.table), live(flow)) == ([1, 2, 3], lines(1, 2, 3))


def test_a_ledger_in_the_commit_of_another_writer_makes_no_orphans(tmp_path: Path) -> None:
    flow = three_batches(tmp_path)
    forged = json.loads(next(a for a in actions_of(flow.table, "commitInfo") if "userMetadata" in a)["userMetadata"])
    forged |= {"sequence": 3, "superseded": [1, 2], "batch_id": "forged"}
    write_raw(flow.table, info("WRITE", userMetadata=json.dumps(forged)))
    put_back(flow, "quarantine-1")
    realigned(flow, accepts_loss=True)
    assert (live(flow), orphans(flow)) == (lines(1), [])


def test_an_import_beside_a_quarantine_that_is_ahead_is_done_and_told(tmp_path: Path) -> None:
    """To end as refused would be untrue: it is committed. The next run refuses, and realigning mends it."""
    flow = three_batches(tmp_path)
    put_back(flow, "table-1")
    kept, told = export_position(flow.open(), "p"), Told()
    before = newest(flow.table)
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True, emit=told.see)
    assert newest(flow.table) == before + 1
    assert "blizzard dlq realign" in told.warnings[0]
    with pytest.raises(OutOfStep) as refused:
        flow.run()
    assert refused.value.kind == "quarantine_ahead"
    realign(flow.open(), flow.quarantine, pipeline="p")
    flow.run()
    assert ids(flow.table) == [1, 2, 3]
    assert len([row for row in flow.quarantined() if not row["orphaned"]]) == 3
