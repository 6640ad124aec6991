"""Late files whose own times are old: a renamed folder, a link, a clock that jumps. Names tell them, times do not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blizzard.cli.main import main
from blizzard.core.late import LatePolicy
from blizzard.core.log import CommitFacts
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BadData
from blizzard.operate.transfer import export_position, import_position
from tests.flows.in_process import Flow, clean_up_log, write_foreign
from tests.flows.replaying import newest_position
from tests.ingesting import ids, write_ids

HOUR_MS = 3_600_000


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """File m, ids 0 to 2, is ingested. Looked at by a clock three hours on: everything made now is old to it."""
    made = Flow(tmp_path, later_ms=3 * HOUR_MS)
    write_ids(made.src / "m.ndjson", 0, 3)
    made.run()
    return made


def stage(flow: Flow, first: int, last: int) -> Path:
    """A folder beside the source, with one file in it."""
    folder = flow.folder / "staging"
    write_ids(folder / "x.ndjson", first, last)
    return folder


def rename_folder(flow: Flow, file: Path) -> str:
    os.rename(file.parent, flow.src / "dt=01")
    return "dt=01/x.ndjson"


def hard_link(flow: Flow, file: Path) -> str:
    os.link(file, flow.src / "b.ndjson")
    return "b.ndjson"


def symbolic_link(flow: Flow, file: Path) -> str:
    os.symlink(file, flow.src / "b.ndjson")
    return "b.ndjson"


@pytest.mark.parametrize("publish", [rename_folder, hard_link, symbolic_link])
def test_a_late_file_with_an_old_time_is_read_once(flow: Flow, publish: Callable[[Flow, Path], str]) -> None:
    name = publish(flow, stage(flow, 50, 53) / "x.ndjson")
    summary = flow.run()
    assert (summary.late_files, summary.records) == (1, 3)
    assert any(name in warning for warning in flow.told.warnings)
    again = flow.run()
    assert (again.late_files, again.commits) == (0, 0)
    assert ids(flow.table) == [0, 1, 2, 50, 51, 52]


@pytest.mark.parametrize(
    "jumps_ms", [(50 * HOUR_MS, 0), (50 * HOUR_MS, 60 * HOUR_MS), (0, 50 * HOUR_MS), (50 * HOUR_MS,)]
)
def test_clocks_that_jump_hide_nothing(flow: Flow, jumps_ms: tuple[int, ...]) -> None:
    flow.later_ms = jumps_ms[0]
    write_ids(flow.src / "n.ndjson", 3, 6)
    flow.run()
    write_ids(flow.src / "b.ndjson", 50, 53)
    for jump_ms in jumps_ms:
        flow.later_ms = jump_ms
        flow.run()
    assert ids(flow.table) == [*range(6), 50, 51, 52]


def test_the_policy_is_asked_about_old_late_files_too(flow: Flow) -> None:
    rename_folder(flow, stage(flow, 50, 53) / "x.ndjson")
    with pytest.raises(BadData) as error:
        flow.run(late=LatePolicy(late="fail"))
    assert error.value.kind == "late_files"
    summary = flow.run(late=LatePolicy(late="ignore"))
    assert (summary.late_files, summary.commits) == (1, 0)
    summary = flow.run(late=LatePolicy(late="quarantine"))
    assert (summary.late_files, summary.bad_files) == (1, 1)
    assert [row["error_kind"] for row in flow.quarantined()] == ["late"]
    assert flow.run().late_files == 0
    assert ids(flow.table) == [0, 1, 2]


def test_a_late_file_that_is_ignored_is_told_until_something_is_committed(flow: Flow) -> None:
    rename_folder(flow, stage(flow, 50, 53) / "x.ndjson")
    ignore = LatePolicy(late="ignore")
    assert [flow.run(late=ignore).late_files for _ in range(2)] == [1, 1]
    write_ids(flow.src / "z.ndjson", 3, 6)
    assert [flow.run(late=ignore).late_files for _ in range(2)] == [1, 0]
    assert ids(flow.table) == [*range(6)]


def test_each_part_of_a_source_is_compared_with_its_own_mark(tmp_path: Path) -> None:
    flow = Flow(tmp_path, marks_per="region", later_ms=3 * HOUR_MS)
    write_ids(flow.src / "region=eu/2.ndjson", 0, 3)
    write_ids(flow.src / "region=us/2.ndjson", 3, 6)
    write_ids(flow.src / "loose-2.ndjson", 6, 9)
    flow.run()
    file = stage(flow, 50, 53) / "x.ndjson"
    for number, name in enumerate(["region=eu/1", "region=us/3", "region=xx/1", "loose-1"]):
        (flow.src / "region=xx").mkdir(exist_ok=True)
        write_ids(file.with_name(f"{number}"), 50 + number, 51 + number)
        os.link(file.with_name(f"{number}"), flow.src / f"{name}.ndjson")
    summary = flow.run()
    assert (summary.late_files, summary.records) == (2, 4)  # the other two come after their marks
    assert flow.run().late_files == 0
    assert ids(flow.table) == [*range(9), *range(50, 54)]


def test_a_late_file_is_late_again_after_the_batch_that_took_it_was_rolled_back(flow: Flow) -> None:
    rename_folder(flow, stage(flow, 50, 53) / "x.ndjson")
    flow.run()
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["checkpoint", "rollback", *where, "--to", "1", "--yes"]) == 0
    assert ids(flow.table) == [0, 1, 2]
    summary = flow.run()
    assert (summary.late_files, summary.records) == (1, 3)
    assert flow.run().late_files == 0
    assert main(["checkpoint", "reset", *where, "--file", "dt=01/x.ndjson", "--from-record", "2", "--yes"]) == 0
    summary = flow.run()
    assert (summary.late_files, summary.records) == (0, 1)
    assert flow.run().late_files == 0
    assert ids(flow.table) == [0, 1, 2, 50, 51, 52, 52]


def test_a_file_that_was_skipped_is_not_late(flow: Flow) -> None:
    rename_folder(flow, stage(flow, 50, 53) / "x.ndjson")
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["checkpoint", "skip", *where, "--file", "dt=01/x.ndjson", "--yes"]) == 0
    summary = flow.run()
    assert (summary.late_files, summary.rewritten_files, summary.commits) == (0, 0, 0)


def test_files_that_are_taken_away_hide_no_late_one_and_are_not_late_themselves(flow: Flow) -> None:
    write_ids(flow.src / "n.ndjson", 3, 6)
    flow.run()
    (flow.src / "m.ndjson").unlink()
    rename_folder(flow, stage(flow, 50, 53) / "x.ndjson")
    assert flow.run().late_files == 1
    (flow.src / "n.ndjson").unlink()
    assert flow.run().late_files == 0
    assert ids(flow.table) == [*range(6), 50, 51, 52]


def test_an_idle_run_reads_no_ledger(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ids(flow.src / "n.ndjson", 3, 6)
    flow.run()
    scan_back = DeltaRsTable.scan_back

    def only_the_newest(table: DeltaRsTable) -> Iterator[CommitFacts]:
        yield next(scan_back(table))
        raise AssertionError("an idle run read more than the newest commit")

    monkeypatch.setattr(DeltaRsTable, "scan_back", only_the_newest)
    assert flow.run().commits == 0


def test_after_a_long_comparison_that_found_nothing_the_position_says_so(flow: Flow) -> None:
    write_ids(flow.src / "n.ndjson", 3, 6)
    write_foreign(flow.table, 9000)
    flow.run()
    (flow.src / "n.ndjson").unlink()
    before = newest_position(flow)
    assert flow.run(scan_commits=2).commits == 0  # as if three commits were many
    after = newest_position(flow)
    assert (after.sequence, after.seen.settled_names != before.seen.settled_names) == (before.sequence + 1, True)
    assert flow.run(scan_commits=2).sequence == after.sequence


def test_where_older_ledgers_are_gone_times_decide_and_audit_tells_the_rest(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bound as the documents state it: nothing is doubled, and what a run cannot tell is told."""
    write_foreign(flow.table, 9000)
    clean_up_log(flow.table)
    rename_folder(flow, stage(flow, 50, 53) / "x.ndjson")
    write_ids(flow.src / "z.ndjson", 3, 6)
    summary = flow.run()
    assert (summary.late_files, summary.records) == (0, 3)
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["audit", *where, "--check"]) == 5
    assert "dt=01/x.ndjson" in capsys.readouterr().out
    # What comes in behind the oldest ledger that is left is told from the others again.
    write_ids(flow.src / "zz.ndjson", 6, 9)
    flow.run()
    os.rename(stage(flow, 60, 63), flow.src / "z=1")
    assert flow.run().late_files == 1
    assert ids(flow.table) == [*range(9), 60, 61, 62, 9000]


def test_behind_an_imported_position_what_it_had_not_passed_is_late_whatever_its_time(
    flow: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    below = stage(flow, 50, 53).rename(flow.folder / "below")
    above = stage(flow, 60, 63).rename(flow.folder / "above")
    time.sleep(0.02)  # both are older than the import
    exported = export_position(flow.open(), "p")
    os.rename(flow.table, flow.folder / "old")
    flow.place.create("p")
    import_position(flow.open(), exported, quarantine=flow.quarantine, replaces=False, is_trusted=True)
    write_ids(flow.src / "p.ndjson", 3, 6)
    flow.run()
    os.rename(below, flow.src / "dt=01")
    os.rename(above, flow.src / "n=1")
    assert flow.run().late_files == 1
    assert ids(flow.table) == [3, 4, 5, 60, 61, 62]
    assert main(["audit", "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["taken_over"] == ["dt=01/x.ndjson", "m.ndjson"]
