"""The summary is a fold over the events of a run, and of all cycles of one that follows."""

from __future__ import annotations

import json

import pytest

from blizzard.core.events import (
    Began,
    Cleaned,
    ColumnsAdded,
    Committed,
    Discovered,
    Ended,
    Event,
    Held,
    OfTarget,
    Recovered,
    Rejected,
    StandsAt,
    TargetFailed,
    UnknownFields,
    Waited,
)
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.paths import Path
from blizzard.core.types import BatchResult, DataFile, SliceReport, TaskReport
from blizzard.run.summary import Summary, describe_ending
from blizzard.text.redaction import learn, of_one_command
from tests.core.test_codec import example


def read(rows: int, bad: int = 0, *, finished: bool = True, broken: str | None = None) -> BatchResult:
    piece = SliceReport(
        path="a",
        size_bytes=9,
        etag="e",
        from_record=0,
        to_record=rows + bad,
        finished=finished,
        rows=rows,
        bad=bad,
        broken=broken,
    )
    quarantine = (DataFile(path="q", size_bytes=1, rows=bad, stats="{}", modified_ms=0),) if bad else ()
    report = TaskReport(slot=0, slices=(piece,), bytes_read=10 * rows, quarantine=quarantine, rescued=1)
    return BatchResult(reports=(report,))


def committed(sequence: int, result: BatchResult, kind: CommitKind = CommitKind.BATCH) -> Committed:
    position = example(sequence=sequence)
    return Committed(kind=kind, position=position, result=result, version=sequence, payload_bytes=1, seconds=0.1)


CYCLE: list[Event] = [
    Began(pipeline="p", source="s", table="t", run_id="r"),
    Recovered(path=Path.LOG, seconds=0.1),
    StandsAt(newest=example(sequence=7), version=9),
    Discovered(backlog_files=3, backlog_bytes=30, late=1, rewritten=2),
    committed(8, read(5, bad=2)),
    committed(9, read(4, finished=False)),
    UnknownFields(names=("x", "y")),
    ColumnsAdded(names=("c",)),
    Rejected(records=1),
    Waited(seconds=0.5),
    Cleaned(done=2, kept=1),
    Held(files=1),
]


def summed(*events: Event) -> Summary:
    summary = Summary()
    for event in events:
        summary.see(event)
    return summary


def test_a_run_adds_up() -> None:
    found = summed(*CYCLE)
    assert (found.pipeline, found.recovery, found.sequence, found.delta_version) == ("p", "log", 9, 9)
    assert (found.commits, found.files, found.records, found.bad_records, found.quarantined) == (2, 1, 9, 2, 2)
    assert (found.backlog_files, found.held_files, found.bytes_read, found.rescued_records) == (2, 1, 90, 2)
    assert (found.late_files, found.rewritten_files, found.rejected) == (1, 2, 1)
    assert (found.unknown_fields, found.added_columns) == (["x", "y"], ["c"])
    assert (found.cleaned_files, found.kept_files, found.blocked_seconds) == (2, 1, 0.5)


def test_cycles_add_up_and_what_is_so_now_is_as_the_newest_has_it() -> None:
    found = summed(*CYCLE, *CYCLE[:4], committed(10, read(1)))
    assert (found.commits, found.files, found.records, found.late_files) == (3, 2, 10, 2)
    assert (found.sequence, found.backlog_files, found.held_files) == (10, 2, 0)
    assert found.unknown_fields == ["x", "y"]


def test_a_renewal_moves_the_position_and_is_no_work() -> None:
    found = summed(committed(3, BatchResult(), kind=CommitKind.RENEWAL))
    assert (found.sequence, found.commits) == (3, 0)


@pytest.mark.parametrize(("broken", "bad_files"), [(None, 0), ("truncated", 1)])
def test_a_broken_file_is_counted(broken: str | None, bad_files: int) -> None:
    assert summed(committed(1, read(1, broken=broken))).bad_files == bad_files


def test_only_the_first_names_are_kept() -> None:
    assert len(summed(UnknownFields(names=tuple(f"f{n}" for n in range(50)))).unknown_fields) == 20


def test_what_scripts_decide_by_is_not_hidden_in_targets_either() -> None:
    with of_one_command():
        learn("failed")
        summary = Summary(
            status="done", targets={"a": Summary(status="failed", error="it failed", error_kind="failed")}
        )
        told = json.loads(summary.to_json())["targets"]["a"]
    assert (told["status"], told["error_kind"], told["error"]) == ("failed", "failed", "it ***")


def test_the_next_cycle_of_a_run_that_follows_tries_a_failed_target_again() -> None:
    summary, began = Summary(), Began(pipeline="p", source="s", table="t", run_id="r")
    ended = Ended(seconds=1, was_stopped=False, has_failed=False)
    failed = OfTarget(target="a", event=TargetFailed(kind=Kind.COMMIT_FAILED, message="down"))
    for event in (began, failed, ended):
        summary.see(event)
    assert (summary.status, summary.targets["a"].status, summary.targets["a"].error) == ("done", "failed", "down")
    for event in (began, ended):
        summary.see(event)
    assert (summary.status, summary.targets["a"].status, summary.targets["a"].error) == ("idle", "idle", None)


def test_a_first_run_that_finds_nothing_has_no_table_to_speak_of() -> None:
    assert describe_ending(Summary(status="idle"), has_seconds=False) == "nothing new"
    assert describe_ending(Summary(status="idle", delta_version=7), has_seconds=False) == "nothing new; table version 7"
