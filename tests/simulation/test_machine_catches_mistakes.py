"""The state machine is worth something only if it fails when an invariant is broken. Each mistake here was made by a
real ingester, and is caught by the invariant it breaks, with all others switched off: a mistake that fails in another
way, or is never made, proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import blizzard.core.batch
import blizzard.core.late
import blizzard.core.plan
import blizzard.core.recover
import blizzard.run.commit
import blizzard.run.discover
import blizzard.run.ingest
import blizzard.run.lane
import blizzard.run.recover
import tests.simulation.test_pipeline_machine
from blizzard.core.batch import position_before
from blizzard.core.late import Scope, Unexpected, compare_with_ledgers
from blizzard.core.look import digest_files, settled_files
from blizzard.core.outcome import Landed, NotLanded, TakenByOther, TakenByPause, decide_commit_outcome
from blizzard.core.overflow import Leaving, choose_leaving
from blizzard.core.position import Finished, Marks, RecordsRead
from blizzard.core.types import SourceFile
from blizzard.run.commit_queue import CommitQueue
from blizzard.run.ingest import BatchIngest
from blizzard.testing.memory import MemoryQuarantine
from tests.simulation.invariants import (
    BOOKS_BALANCE,
    ENDS_FOR_A_REASON,
    EVERYTHING_ARRIVES,
    MARK_IS_TRUE,
    NEWEST_STAY,
    NO_RECORD_TWICE,
    NOTHING_LATE_IS_LEFT,
    NOTHING_WHILE_PAUSED,
    QUARANTINE_IN_STEP,
    RESTORE_IS_NOTICED,
    InvariantBroken,
    only,
)
from tests.simulation.test_pipeline_machine import PipelineMachine

pytestmark = pytest.mark.slow


def mark_is_the_latest_finished_file(marks: Marks, _frontier: Iterable[str]) -> Marks:
    finished = [name for name, progress in marks.files.items() if isinstance(progress, Finished)]
    return replace(marks, last_committed_file=max(finished, default=marks.last_committed_file))


def files_in_progress_are_pruned(marks: Marks) -> Marks:
    return replace(marks, files={})


def positions_count_rows_and_not_lines(marks: Marks, reports: Iterable[Any]) -> Marks:
    files = dict(marks.files)
    for r in reports:
        records = r.from_record + r.rows
        files[r.path] = Finished() if r.finished else RecordsRead(records=records, size_bytes=r.size_bytes, etag=r.etag)
    return replace(marks, files=files)


def an_exception_means_it_did_not_land(*_: Any, **__: Any) -> NotLanded:
    return NotLanded()


def somebody_elses_commit_is_taken_for_ours(commits: Any, **given: Any) -> Any:
    outcome = decide_commit_outcome(commits, **given)
    return outcome if isinstance(outcome, NotLanded | Landed) else Landed(version=outcome.version)


def a_restore_goes_unnoticed(*_: Any, **__: Any) -> None:
    return None


def pending_bad_records_are_forgotten(self: MemoryQuarantine, position: Any) -> None:
    del position


def bad_records_are_added_without_looking(self: MemoryQuarantine, position: Any) -> None:
    self.change(position)
    self.world.quarantine_txn = position.sequence


def late_files_are_never_looked_for(*_: Any, **__: Any) -> Unexpected:
    return Unexpected()


def names_are_taken_for_compared(listed: Any, position: Any, commits: Any, policy: Any) -> Unexpected:
    """Only what is younger than the last look is compared, and yet all names are taken for known after it."""
    found = compare_with_ledgers(replace(listed, is_full=False), position, commits, replace(policy, grace_ms=0))
    return replace(found, settled_names=digest_files(settled_files(listed.files, position)))


def every_file_before_the_mark_is_late(listed: Any, position: Any, *_: Any) -> Unexpected:
    passed = [f.path for f in listed.files if position.marks.is_finished(f.path)]
    return Unexpected(late=tuple(sorted(passed)))


def names_are_never_compared(*_: Any) -> bool:
    return False


def the_whole_source_is_never_listed(position: Any, *_: Any, **__: Any) -> Scope:
    source: Marks = position.marks
    marks = {"": source.last_committed_file or "", **source.prefix_marks}
    return Scope(is_full=False, after=marks, also=tuple(sorted(source.in_progress)))


def the_mark_passes_what_was_only_listed(_: Any, listing: Iterable[SourceFile], *__: Any) -> tuple[str, ...]:
    return tuple(file.path for file in listing)


def what_a_crash_left_pending_is_not_settled(*given: Any) -> Any:
    with mock.patch.object(MemoryQuarantine, "settle", return_value=None):
        return _recover(*given)


def bad_records_are_settled_before_the_commit(self: CommitQueue, intent: Any) -> Any:
    self._committing.quarantine.settle(intent.position)
    return _commit(self, intent)


def bad_records_are_settled_by_the_next_run_only(self: CommitQueue, *given: Any) -> Any:
    with mock.patch.object(MemoryQuarantine, "settle", return_value=None):
        return _commit(self, *given)


def nothing_ever_leaves(held: Any, **_: Any) -> Leaving:
    del held
    return Leaving()


def the_newest_leave_first(held: Any, **given: Any) -> Leaving:
    return choose_leaving([replace(batch, sequence=-batch.sequence) for batch in held], **given)


def one_more_than_needed_leaves(held: Any, *, new_rows: int, limit: int) -> Leaving:
    return choose_leaving(held, new_rows=new_rows, limit=limit - 1)


def what_is_dropped_stays(self: MemoryQuarantine, position: Any) -> None:
    _change(self, replace(position, quarantine=replace(position.quarantine, dropped=())))


def what_leaves_is_decided_with_batches_in_flight(self: BatchIngest, *given: Any, **more: Any) -> Any:
    with mock.patch.object(self._commits, "wait", return_value=None):
        return _within_limits(self, *given, **more)


def dropped_records_are_not_counted(ledgers: Any, unsettled: Any) -> dict[str, int]:
    del ledgers, unsettled
    return {}


def a_position_is_never_found(*_: Any, **__: Any) -> Any:
    return blizzard.core.recover.Fresh(marks=Marks(), start_from="beginning")


def a_pause_is_not_noticed(*given: Any, **more: Any) -> Any:
    return replace(position_before(*given, **more), paused=None)


def a_pause_is_taken_for_another_run(commits: Any, **given: Any) -> Any:
    outcome = decide_commit_outcome(commits, **given)
    return TakenByOther(version=0, sequence=0, run_id=None) if isinstance(outcome, TakenByPause) else outcome


def what_was_read_before_a_pause_is_committed_after_it(commits: Any, **given: Any) -> Any:
    outcome = decide_commit_outcome(commits, **given)
    return Landed(version=outcome.version) if isinstance(outcome, TakenByPause) else outcome


_recover, _commit = blizzard.run.recover.recover, CommitQueue._commit
_change, _within_limits = MemoryQuarantine.change, BatchIngest._within_limits


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """Made in place of `name` in `where`."""

    where: Any
    name: str
    made: Callable[..., Any]
    breaks: str

    def __str__(self) -> str:
        return self.made.__name__


BATCH, COMMIT = blizzard.core.batch, blizzard.run.commit
RECOVER, DISCOVER, INGEST = blizzard.run.recover, blizzard.run.discover, blizzard.run.ingest
_LISTED: list[tuple[Any, str, Callable[..., Any], str]] = [
    (BATCH, "advance_mark", mark_is_the_latest_finished_file, MARK_IS_TRUE),
    (BATCH, "advance_mark", mark_is_the_latest_finished_file, EVERYTHING_ARRIVES),
    (BATCH, "prune_finished", files_in_progress_are_pruned, MARK_IS_TRUE),
    (BATCH, "apply_reports", positions_count_rows_and_not_lines, NO_RECORD_TWICE),
    (blizzard.core.plan, "_frontier", the_mark_passes_what_was_only_listed, MARK_IS_TRUE),
    (COMMIT, "decide_commit_outcome", an_exception_means_it_did_not_land, ENDS_FOR_A_REASON),
    (COMMIT, "decide_commit_outcome", somebody_elses_commit_is_taken_for_ours, MARK_IS_TRUE),
    (COMMIT, "decide_commit_outcome", a_pause_is_taken_for_another_run, ENDS_FOR_A_REASON),
    (COMMIT, "decide_commit_outcome", what_was_read_before_a_pause_is_committed_after_it, MARK_IS_TRUE),
    (RECOVER, "position_before", a_pause_is_not_noticed, NOTHING_WHILE_PAUSED),
    (COMMIT, "check_rewrites", a_restore_goes_unnoticed, RESTORE_IS_NOTICED),
    (blizzard.core.recover, "check_rewrites", a_restore_goes_unnoticed, RESTORE_IS_NOTICED),
    (RECOVER, "decide_recovery", a_position_is_never_found, ENDS_FOR_A_REASON),
    (DISCOVER, "compare_with_ledgers", late_files_are_never_looked_for, EVERYTHING_ARRIVES),
    (DISCOVER, "compare_with_ledgers", names_are_taken_for_compared, EVERYTHING_ARRIVES),
    (DISCOVER, "compare_with_ledgers", every_file_before_the_mark_is_late, NO_RECORD_TWICE),
    (DISCOVER, "compare_with_ledgers", every_file_before_the_mark_is_late, NOTHING_LATE_IS_LEFT),
    (DISCOVER, "plan_listing", the_whole_source_is_never_listed, EVERYTHING_ARRIVES),
    (blizzard.core.late, "_compares_names", names_are_never_compared, EVERYTHING_ARRIVES),
    (blizzard.run.lane, "recover", what_a_crash_left_pending_is_not_settled, QUARANTINE_IN_STEP),
    (CommitQueue, "_commit", bad_records_are_settled_before_the_commit, QUARANTINE_IN_STEP),
    (CommitQueue, "_commit", bad_records_are_settled_by_the_next_run_only, QUARANTINE_IN_STEP),
    (MemoryQuarantine, "settle", pending_bad_records_are_forgotten, QUARANTINE_IN_STEP),
    (MemoryQuarantine, "settle", bad_records_are_added_without_looking, QUARANTINE_IN_STEP),
    (MemoryQuarantine, "change", what_is_dropped_stays, QUARANTINE_IN_STEP),
    (INGEST, "choose_leaving", nothing_ever_leaves, NEWEST_STAY),
    (INGEST, "choose_leaving", the_newest_leave_first, NEWEST_STAY),
    (INGEST, "choose_leaving", one_more_than_needed_leaves, NEWEST_STAY),
    (BatchIngest, "_within_limits", what_leaves_is_decided_with_batches_in_flight, NEWEST_STAY),
    (tests.simulation.test_pipeline_machine, "dropped_rows", dropped_records_are_not_counted, BOOKS_BALANCE),
]
MISTAKES = [Mistake(where=where, name=name, made=made, breaks=breaks) for where, name, made, breaks in _LISTED]


SEARCH = settings(
    max_examples=1500,
    stateful_step_count=15,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_the_machine_catches(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    made = misfits = 0

    def make(*given: Any, **more: Any) -> Any:
        nonlocal made, misfits
        try:
            result = mistake.made(*given, **more)
        except TypeError:
            misfits += 1  # even where the code under test takes any exception for an answer
            raise
        made += 1
        return result

    monkeypatch.setattr(mistake.where, mistake.name, make)
    with only(mistake.breaks), pytest.raises(InvariantBroken) as caught:
        run_state_machine_as_test(PipelineMachine, settings=SEARCH)
    assert caught.value.name == mistake.breaks
    assert made, "the mistake was never made"
    assert not misfits, "the mistake does not take what the function it stands for is given"


def test_a_mistake_that_only_fails_is_not_taken_for_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one did for a while that no longer fitted the function it stood for."""
    monkeypatch.setattr(DISCOVER, "compare_with_ledgers", lambda listing, position, commits: Unexpected())
    with pytest.raises(TypeError, match="positional"):
        run_state_machine_as_test(PipelineMachine, settings=SEARCH)
