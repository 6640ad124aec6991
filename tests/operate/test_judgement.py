"""Whatever others do to the table, a position is only gone on from where the table holds exactly what it says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from blizzard.core.log import fence_version
from blizzard.core.plan import Limits
from blizzard.delta.place import DeltaRsPlace
from blizzard.errors import Refused
from blizzard.operate.transfer import export_position, import_position
from blizzard.schema.layout import apply_layout
from blizzard.schema.load import load_schema
from tests.delta.test_hostile_log import change_payload
from tests.flows.histories import Beside
from tests.flows.in_process import BEGINNING, Flow, clean_up_log, log_file, newest, write_foreign
from tests.flows.replaying import quarantined_flow, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write, write_ids
from tests.operate.test_rollback import flow

__all__ = ["flow"]


def restore(flow: Flow, version: int) -> None:
    DeltaTable(str(flow.table)).restore(version)


def version_of(flow: Flow, sequence: int) -> int:
    return next(c.version for c in flow.open().scan_back() if fence_version(c, "p") == sequence)


def put_back(flow: Flow, sequence: int, *, is_trusted: bool = False) -> None:
    kept = export_position(flow.open(), "p", sequence=sequence)
    import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True, is_trusted=is_trusted)


def refuses(act: Callable[[], object], kind: str) -> str:
    with pytest.raises(Refused) as error:
        act()
    assert error.value.kind == kind, str(error.value)
    return str(error.value)


def update(flow: Flow) -> None:
    DeltaTable(str(flow.table)).update(updates={"name": "'other'"}, predicate="id >= 0")


def merge(flow: Flow) -> None:
    rows = pa.table({"id": pa.array([10], pa.int64()), "name": ["merged"]})
    merging = DeltaTable(str(flow.table)).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all().execute()


def delete(flow: Flow) -> None:
    DeltaTable(str(flow.table)).delete("id = 9")


def optimize(flow: Flow) -> None:
    DeltaTable(str(flow.table)).optimize.compact()


CHANGES = [update, merge, delete, optimize]


@pytest.mark.parametrize("change", CHANGES)
def test_an_older_position_is_refused_though_the_later_files_were_rewritten(
    flow: Flow, change: Callable[[Flow], None]
) -> None:
    change(flow)
    before = ids(flow.table)
    for sequence in (1, 2, 3):
        told = refuses(lambda s=sequence: put_back(flow, s), "rollback_files")  # type: ignore[misc]
        assert "RESTORE the table to version" in told
    flow.run()
    assert ids(flow.table) == before


@pytest.mark.parametrize("change", CHANGES)
def test_restored_after_a_rewrite_what_it_held_then_is_known(flow: Flow, change: Callable[[Flow], None]) -> None:
    change(flow)
    restore(flow, version_of(flow, 2))
    assert "checkpoint rollback --to 2" in refuses(flow.run, "table_rewritten")
    for wrong in (1, 3, 4):
        with pytest.raises(Refused):
            put_back(flow, wrong)
    roll_back(flow, 2)
    flow.run()
    assert ids(flow.table) == list(range(12))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("by", ["rollback", "import"])
def test_compacted_restored_compacted_and_restored_again(flow: Flow, change: Callable[[Flow], None], by: str) -> None:
    """In this order who removed which file says nothing."""
    optimize(flow)  # 5
    restore(flow, 3)  # 6: as after sequence 3
    change(flow)  # 7
    restore(flow, 5)  # 8: compacted, as after sequence 4
    flow.run()  # it fits
    restore(flow, 6)
    refuses(flow.run, "table_rewritten")
    roll_back(flow, 3) if by == "rollback" else put_back(flow, 3)
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_an_imported_position_is_judged_like_any_other(flow: Flow) -> None:
    """It has no Add of its own that could be missing."""
    put_back(flow, 4)  # 5
    write_ids(flow.src / "5.ndjson", 12, 15)
    flow.run()  # 6
    kept = export_position(flow.open(), "p", sequence=5)
    restore(flow, 3)
    refuses(flow.run, "table_rewritten")
    with pytest.raises(Refused):
        import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True)
    roll_back(flow, 3)
    flow.run()
    assert ids(flow.table) == list(range(15))


def test_an_undone_rollback_is_refused_and_its_bad_record_is_not_lost(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run()
    write(flow.src / "b.ndjson", line(3) + b"bad\n")
    flow.run()
    roll_back(flow, 1)  # version 3
    restore(flow, 2)
    assert "RESTORE the table to version 3" in refuses(flow.run, "table_rewritten")
    refuses(lambda: put_back(flow, 2), "import_mismatch")
    refuses(lambda: roll_back(flow, 2), "rollback_target")
    restore(flow, 3)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3]
    assert len(flow.quarantined()) == 1


def test_a_batch_without_rows_stands_in_nobodys_way(tmp_path: Path) -> None:
    """RESTORE to just before it changes nothing: its bad record is in quarantine and stays there."""
    flow = Flow(tmp_path).first_run()
    write(flow.src / "b.ndjson", b"bad\n")
    flow.run()
    restore(flow, 1)
    flow.run()
    assert (ids(flow.table), len(flow.quarantined())) == ([0, 1, 2], 1)


def test_a_table_that_was_repaired_is_refused(flow: Flow) -> None:
    next(flow.table.glob("blizzard-run2-*.parquet")).unlink()
    DeltaTable(str(flow.table)).repair()
    told = refuses(flow.run, "table_rewritten")
    assert "FSCK" in told
    assert "--unverified" in told
    refuses(lambda: roll_back(flow, 1), "table_rewritten")


def test_an_overwrite_is_undone_by_the_letter(flow: Flow) -> None:
    write_foreign(flow.table, 1_000, mode="overwrite")
    assert f"RESTORE the table to version {newest(flow.table) - 1}" in refuses(flow.run, "table_rewritten")
    restore(flow, newest(flow.table) - 1)
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_an_emptied_table_is_begun_again_by_a_rollback(flow: Flow) -> None:
    restore(flow, 0)
    assert "checkpoint rollback --to 0" in refuses(flow.run, "table_rewritten")
    roll_back(flow, 0)
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_what_the_log_no_longer_tells_is_refused(flow: Flow) -> None:
    kept = export_position(flow.open(), "p", sequence=3)
    restore(flow, 3)
    clean_up_log(flow.table)
    refuses(lambda: import_position(flow.open(), kept, quarantine=flow.quarantine, replaces=True), "import_mismatch")
    refuses(lambda: roll_back(flow, 2), "table_rewritten")


def test_a_position_of_another_table_needs_a_word(flow: Flow, tmp_path: Path) -> None:
    other = Flow(tmp_path / "other")
    write_ids(other.src / "a.ndjson", 0, 3)
    other.run()
    kept = export_position(flow.open(), "p")
    told = refuses(
        lambda: import_position(other.open(), kept, quarantine=other.quarantine, replaces=True), "import_mismatch"
    )
    assert "3.ndjson" in told
    assert "--unverified" in told


def test_a_position_of_a_copy_that_went_another_way_is_refused(flow: Flow, tmp_path: Path) -> None:
    """Same table id, same sequence, another commit."""
    copied = Flow(tmp_path / "copy")
    shutil.copytree(flow.table, copied.table)
    shutil.copytree(flow.src, copied.src)
    write_ids(flow.src / "5.ndjson", 12, 15)
    flow.run()
    write_foreign(copied.table, *range(12, 15))
    kept = export_position(flow.open(), "p")
    refuses(
        lambda: import_position(copied.open(), kept, quarantine=copied.quarantine, replaces=True), "import_mismatch"
    )


def test_rows_deleted_on_purpose_are_proved_out_by_their_provenance(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    table = flow.table
    _run_with_provenance(flow, 3)
    assert ids(table) == list(range(9))
    optimize(flow)
    refuses(lambda: roll_back(flow, 1), "rollback_files")
    DeltaTable(str(table)).delete("_sequence = 3")
    refuses(lambda: roll_back(flow, 1), "rollback_files")  # rows of 2 are still there
    DeltaTable(str(table)).delete("_sequence >= 2")
    roll_back(flow, 1)
    flow.run()
    assert ids(table) == list(range(9))


def _run_with_provenance(flow: Flow, files: int) -> None:
    layout = apply_layout(load_schema(flow.ddl), partition_by=(), provenance=("sequence",))
    DeltaRsPlace(root=str(flow.table), schema=layout.schema, clock=flow.clock).create("p")
    for number in range(files):
        write_ids(flow.src / f"{number}.ndjson", 3 * number, 3 * number + 3)
        flow.run()


def test_a_rollback_by_command_after_a_restore(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    restore(flow, 2)
    words = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["checkpoint", "rollback", "--to", "2", "--dry-run", *words]) == 0
    assert "out of the table: 0 records" in capsys.readouterr().out
    assert main(["checkpoint", "rollback", "--to", "2", "--yes", *words]) == 0
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_a_file_in_progress_goes_back_with_its_position(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 10)
    for _ in range(3):
        flow.run(limits=Limits(max_records=3), max_batches=1)
    optimize(flow)
    restore(flow, 1)
    roll_back(flow, 1)
    flow.run()
    assert ids(flow.table) == list(range(10))


def test_going_back_over_a_replay_is_refused_however_it_is_tried(tmp_path: Path) -> None:
    flow = quarantined_flow(tmp_path)
    replay_in(flow)
    restore(flow, 1)
    refuses(flow.run, "table_rewritten")
    told = refuses(lambda: roll_back(flow, 1), "rollback_replay")
    assert "RESTORE the table to version 2" in told
    refuses(lambda: put_back(flow, 1), "rollback_replay")
    restore(flow, 2)
    flow.run()
    assert (ids(flow.table), len(flow.quarantined())) == ([0, 1, 2, 3, 4], 1)


def test_rows_that_a_restore_brought_back_are_taken_out_again(flow: Flow) -> None:
    roll_back(flow, 2)  # sequence 5
    restore(flow, version_of(flow, 4))
    assert "rollback --to 5" in refuses(flow.run, "table_rewritten")
    roll_back(flow, 5)
    assert ids(flow.table) == list(range(6))
    refuses(lambda: roll_back(flow, 6), "rollback_target")  # there is nothing to take out
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_rows_that_were_brought_back_leave_although_later_ones_are_gone(flow: Flow) -> None:
    roll_back(flow, 2)  # sequence 5
    flow.run()  # sequence 6: both files again
    restore(flow, version_of(flow, 3))
    assert "rollback --to 5" in refuses(flow.run, "table_rewritten")
    roll_back(flow, 5)
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_a_rebuilt_position_knows_rows_that_were_taken_out_again(flow: Flow) -> None:
    roll_back(flow, 2)
    restore(flow, version_of(flow, 4))
    roll_back(flow, 5)
    change_payload(flow.table, lambda _: {})
    flow.run()
    assert ids(flow.table) == list(range(12))


def test_two_pipelines_that_went_back_are_not_sent_to_and_fro(tmp_path: Path) -> None:
    one, other = Beside(tmp_path, pipeline="one"), Beside(tmp_path, pipeline="other")
    write_ids(one.src / "a.ndjson", 0, 3)
    write_ids(other.src / "b.ndjson", 3, 6)
    one.run()
    other.run(start_from=BEGINNING)
    roll_back(one, 0)
    restore(one, 1)
    refuses(other.run, "table_rewritten")
    roll_back(other, 0)
    assert "rollback --to 2" in refuses(one.run, "table_rewritten")
    roll_back(one, 2)
    one.run()
    other.run()
    assert ids(one.table) == list(range(6))


def test_only_one_run_follows_the_whole_log_after_a_restore_was_undone(flow: Flow) -> None:
    restore(flow, 2)
    restore(flow, 4)
    assert flow.open().observe("p", scan_commits=100).history is not None
    flow.run()  # it has nothing to read, and commits the position once more
    assert flow.open().observe("p", scan_commits=100).history is None
    before = newest(flow.table)
    flow.run()
    assert newest(flow.table) == before


def test_commits_from_before_the_oldest_checkpoint_do_not_make_a_restore_unclear(tmp_path: Path) -> None:
    """Nothing says what the table held before it; what it held since is enough to go on by."""
    flow = Flow(tmp_path)
    for number in range(6):
        write_ids(flow.src / f"{number}.ndjson", number, number + 1)
        flow.run()
        if number == 3:
            DeltaTable(str(flow.table)).create_checkpoint()
    for version in range(3):
        log_file(flow.table, version).unlink()
    DeltaTable(str(flow.table)).restore(5)
    with pytest.raises(Refused, match="rollback --to 5") as refused:
        flow.run()
    version = newest(flow.table) - 1
    assert f"RESTORE the table to version {version}" in str(refused.value)
    DeltaTable(str(flow.table)).restore(version)
    flow.run()
    assert ids(flow.table) == list(range(6))
