"""The state machine is worth something only if it fails when an invariant is broken. Each mistake here was made
by a real ingester."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import blizzard.core.batch
import blizzard.delta.commit
import blizzard.starting
from blizzard.core.late import Unexpected, compare_with_ledgers
from blizzard.core.outcome import Landed, NotLanded, decide_commit_outcome
from blizzard.core.state import CheckpointState, Finished, RecordsRead, SourceState
from blizzard.testing.memory import MemoryQuarantine
from tests.simulation.test_pipeline_machine import PipelineMachine


def mark_is_the_latest_finished_file(state: SourceState, _frontier: Iterable[str]) -> SourceState:
    finished = [name for name, progress in state.files.items() if isinstance(progress, Finished)]
    return replace(state, last_committed_file=max(finished, default=state.last_committed_file))


def files_in_progress_are_pruned(state: SourceState) -> SourceState:
    return replace(state, files={})


def positions_count_rows_and_not_lines(state: SourceState, reports: Iterable[Any]) -> SourceState:
    files = dict(state.files)
    for r in reports:
        records = r.from_record + r.rows
        files[r.path] = Finished() if r.finished else RecordsRead(records=records, size_bytes=r.size_bytes, etag=r.etag)
    return replace(state, files=files)


def an_exception_means_it_did_not_land(*_: Any, **__: Any) -> NotLanded:
    return NotLanded()


def somebody_elses_commit_is_taken_for_ours(commits: Any, **given: Any) -> Any:
    outcome = decide_commit_outcome(commits, **given)
    return outcome if isinstance(outcome, NotLanded | Landed) else Landed(version=outcome.version)


def a_restore_goes_unnoticed(*_: Any, **__: Any) -> None:
    return None


def pending_bad_records_are_forgotten(self: MemoryQuarantine, state: Any) -> None:
    del state


def bad_records_are_added_without_looking(self: MemoryQuarantine, state: Any) -> None:
    for name in state.pending_quarantine:
        self.world.quarantine += self.world.bad_parquet[name]
    self.world.quarantine_txn = state.sequence


def late_files_are_never_looked_for(*_: Any, **__: Any) -> Unexpected:
    return Unexpected()


def the_last_look_is_forgotten_too_soon(
    listing: Any, state: CheckpointState, commits: Any, *, grace_ms: int
) -> Unexpected:
    """Only what is younger than the last look is compared: what became visible a little late is lost."""
    return compare_with_ledgers(listing, state, commits, grace_ms=0)


@pytest.mark.parametrize(
    ("module", "name", "mistake"),
    [
        (blizzard.core.batch, "advance_mark", mark_is_the_latest_finished_file),
        (blizzard.core.batch, "prune_finished", files_in_progress_are_pruned),
        (blizzard.core.batch, "apply_reports", positions_count_rows_and_not_lines),
        (blizzard.delta.commit, "decide_commit_outcome", an_exception_means_it_did_not_land),
        (blizzard.delta.commit, "decide_commit_outcome", somebody_elses_commit_is_taken_for_ours),
        (blizzard.delta.commit, "check_rewrites", a_restore_goes_unnoticed),
        (blizzard.starting, "compare_with_ledgers", late_files_are_never_looked_for),
        (blizzard.starting, "compare_with_ledgers", the_last_look_is_forgotten_too_soon),
        (MemoryQuarantine, "settle", pending_bad_records_are_forgotten),
        (MemoryQuarantine, "settle", bad_records_are_added_without_looking),
    ],
)
def test_the_machine_catches(module: Any, name: str, mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, mistake)
    search = settings(
        max_examples=1500,
        stateful_step_count=15,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
    )
    with pytest.raises(BaseException) as caught:  # any failure of the machine counts
        run_state_machine_as_test(PipelineMachine, settings=search)
    assert not isinstance(caught.value, KeyboardInterrupt | SystemExit)
