"""Commits in flight: batch k+1 is read while batch k is being committed, and commits land in order.

A commit that fails takes every batch planned after it down with it: they stand on a state that never was. When the
queue is full, planning waits; that time is told as `blocked_seconds`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from blizzard.core.batch import find_passed, next_state, renewed_state, seal
from blizzard.core.codec import PayloadTooLarge
from blizzard.core.look import Look
from blizzard.core.state import CheckpointState
from blizzard.core.types import BatchPlan, BatchResult
from blizzard.delta.commit import commit_batch
from blizzard.errors import BadData
from blizzard.ports import CommitRequest, Pending, Result, Table
from blizzard.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from blizzard.ports import Ports
    from blizzard.starting import RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A commit that is in the log. `error` is what went wrong after it; the next run mends that."""

    version: int
    error: Exception | None = None


class ThreadBackground:
    """One thread, so that commits keep their order."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="blizzard-commit")

    def start(self, commit: Callable[[], Result]) -> Pending[Result]:
        return self._executor.submit(commit)

    def close(self) -> None:
        self._executor.shutdown(wait=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFlight:
    commit: Pending[Landing]
    result: BatchResult
    sequence: int
    kind: str


class CommitQueue:
    def __init__(
        self,
        ports: Ports,
        settings: RunSettings,
        summary: Summary,
        table: Table,
        planned_on: int,
        look: Look | None = None,
    ) -> None:
        self._ports, self._settings, self._summary, self._table, self._look = ports, settings, summary, table, look
        self._queue: deque[_InFlight] = deque()
        self._landed_in = planned_on  # only the committing thread writes this, one commit after the other
        self._broken = False

    @property
    def pending(self) -> int:
        return len(self._queue)

    def requested(self) -> bool:
        return self._ports.stop.requested()

    def ends_batch(self) -> bool:
        return self._ports.stop.ends_batch()

    def batch_ended(self) -> None:
        self._ports.stop.batch_ended()

    def must_cancel(self) -> bool:
        """Whether the batch being read is of no use any more: by a signal, or because it stands on a failed commit."""
        return self._ports.stop.must_cancel() or any(map(_has_failed, self._queue))

    def add(
        self,
        state: CheckpointState,
        plan: BatchPlan,
        result: BatchResult,
        *,
        planned_ms: int,
        held: Mapping[str, str] | None = None,
    ) -> CheckpointState:
        """Commit the batch behind those before it. Returns the state that its commit will hold."""
        after = next_state(
            state,
            plan,
            result,
            batch_id=os.urandom(8).hex(),
            now_ms=self._ports.clock.now_ms(),
            held=held,
            look=self._look,
        )
        self._begin(after, result, planned_ms, kind="batch", late=find_passed(state.source_state, result))
        self._settle(while_more_than=self._settings.max_inflight - 1)
        return after

    def renew(self, state: CheckpointState) -> None:
        """Commit the position once more, without data, so that it does not expire while there is nothing to ingest."""
        now_ms = self._ports.clock.now_ms()
        after = renewed_state(state, batch_id=os.urandom(8).hex(), now_ms=now_ms)
        self._begin(after, BatchResult(), now_ms, kind="renewal")
        self._ports.progress.note(f"nothing new; the position was committed once more (sequence {after.sequence})")

    def _begin(
        self,
        after: CheckpointState,
        result: BatchResult,
        planned_ms: int,
        *,
        kind: str,
        late: frozenset[str] = frozenset(),
    ) -> None:
        commit = self._ports.background.start(lambda: self._commit(after, result, planned_ms, kind, late))
        self._queue.append(_InFlight(commit=commit, result=result, sequence=after.sequence, kind=kind))

    def wait(self) -> None:
        """Until every batch added so far is committed."""
        self._settle(while_more_than=0)

    @contextmanager
    def finished_in_order(self) -> Iterator[None]:
        """Leaving the block waits for every commit. A failed one speaks before whatever it brought down."""
        try:
            yield
        except Exception:
            self.wait()
            raise
        self.wait()

    def _settle(self, *, while_more_than: int) -> None:
        while self._queue and (len(self._queue) > while_more_than or self._queue[0].commit.done()):
            started = time.monotonic()
            head = self._queue.popleft()
            try:
                landing = head.commit.result()
            except Exception:
                self._abandon()
                raise
            self._summary.blocked_seconds += time.monotonic() - started
            self._count(head, landing.version)
            if landing.error is not None:
                self._abandon()
                raise landing.error

    def _abandon(self) -> None:
        """Wait for the commits behind a failed one. They refuse by themselves, and only the first has news to tell."""
        while self._queue:
            self._queue.popleft().commit.exception()

    def _commit(
        self, after: CheckpointState, result: BatchResult, planned_ms: int, kind: str, late: frozenset[str]
    ) -> Landing:
        if self._broken:
            raise RuntimeError("a batch was about to be committed on top of one that failed")
        self._broken, started = True, time.monotonic()  # until this one has landed
        # It stands on the commit before it: what landed between that plan and that commit has been looked at.
        try:
            checkpoint = seal(replace(after, delta_version=self._landed_in), result, kind=kind, late=late)
        except PayloadTooLarge as e:
            raise BadData(
                f"{len(after.source_state.in_progress):,} files are held back or in progress, more than a position can"
                f" name ({e}). Nothing of this batch was committed. Mend or move the files that cannot be read.",
                kind="too_many_held_files",
            ) from e
        request = CommitRequest.of(checkpoint, result.files)
        try:
            self._landed_in = commit_batch(
                self._table,
                request,
                checkpoint.state,
                planned_ms=planned_ms,
                attempts=self._settings.commit_attempts,
                clock=self._ports.clock,
                progress=self._ports.progress,
            )
        except Exception:
            self._ports.telemetry.commit_failed()
            raise
        self._ports.telemetry.committed(
            checkpoint.state,
            result,
            version=self._landed_in,
            payload_bytes=len(checkpoint.app_id),
            seconds=time.monotonic() - started,
        )
        try:
            self._ports.quarantine.settle(checkpoint.state)  # before the next commit
        except Exception as e:
            return Landing(version=self._landed_in, error=e)
        self._broken = False
        return Landing(version=self._landed_in)

    def _count(self, landed: _InFlight, version: int) -> None:
        summary, result = self._summary, landed.result
        finished = sum(1 for s in result.slices if s.finished)
        summary.sequence, summary.delta_version = landed.sequence, version
        if landed.kind == "renewal":
            return  # the run is as idle as before
        summary.commits += 1
        summary.files += finished
        summary.backlog_files = (summary.backlog_files or 0) - finished
        summary.records += result.rows
        summary.bad_records += result.bad
        summary.bad_files += sum(s.broken is not None for s in result.slices)
        summary.rescued_records += result.rescued
        summary.quarantined += sum(f.rows for f in result.quarantine)
        summary.bytes_read += result.bytes_read
        self._ports.progress.committed(result, sequence=landed.sequence, version=version)


def _has_failed(batch: _InFlight) -> bool:
    return batch.commit.done() and (batch.commit.exception() or batch.commit.result().error) is not None
