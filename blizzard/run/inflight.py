"""Commits in flight: batch k+1 is read while batch k is being committed, and commits land in order.

A commit that fails takes every batch planned after it down with it: they stand on a state that never was. When the
queue is full, planning waits; that time is told as `blocked_seconds`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from blizzard.core.batch import find_passed, next_position, renewed_position
from blizzard.core.look import Look
from blizzard.core.position import Position
from blizzard.core.quarantine import name_quarantine
from blizzard.core.types import BatchPlan, BatchResult
from blizzard.run.commit import Committing, Intent, Landing, new_batch_id
from blizzard.run.ports import Pending, Result, Table
from blizzard.run.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from blizzard.run.ports import Ports
    from blizzard.run.starting import RunSettings


_NOTHING_NEW = "nothing new; the position was committed once more"  # it does not expire while nothing is ingested


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
    intent: Intent


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
        self._committing = Committing(
            table=table,
            quarantine=ports.quarantine,
            clock=ports.clock,
            progress=ports.progress,
            attempts=settings.commit_attempts,
            telemetry=ports.telemetry,
        )
        self._queue: deque[_InFlight] = deque()
        self._quarantine_id: str | None = None  # as the newest commit of this run names it
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
        position: Position,
        plan: BatchPlan,
        result: BatchResult,
        *,
        planned_ms: int,
        held: Mapping[str, str] | None = None,
    ) -> Position:
        """Commit the batch behind those before it. Returns the state that its commit will hold."""
        after = next_position(
            position,
            plan,
            result,
            batch_id=result.batch_id or new_batch_id(),
            now_ms=self._ports.clock.now_ms(),
            held=held,
            look=self._look,
        )
        late = find_passed(position.marks, result)
        self._begin(Intent(position=after, result=result, planned_ms=planned_ms, late=late))
        self._settle(while_more_than=self._settings.max_inflight - 1)
        return after

    def renew(self, position: Position, why: str = _NOTHING_NEW) -> Position:
        """Commit the position once more, without data. Returns the state that its commit will hold."""
        now_ms = self._ports.clock.now_ms()
        after = renewed_position(position, batch_id=new_batch_id(), now_ms=now_ms)
        self._begin(Intent(position=after, planned_ms=now_ms, kind="renewal"))
        self._ports.progress.note(f"{why} (sequence {after.sequence})")
        return after

    def _begin(self, intent: Intent) -> None:
        commit = self._ports.background.start(lambda: self._commit(intent))
        self._queue.append(_InFlight(commit=commit, intent=intent))

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

    def _commit(self, intent: Intent) -> Landing:
        if self._broken:
            raise RuntimeError("a batch was about to be committed on top of one that failed")
        self._broken = True  # until this one has landed
        # It stands on the commit before it: what landed between that plan and that commit has been looked at.
        position = replace(intent.position, on=replace(intent.position.on, delta_version=self._landed_in))
        # It was made before the commits in front of it could know the quarantine table.
        if self._quarantine_id is not None:
            position = name_quarantine(position, self._quarantine_id)
        landing = self._committing.commit(replace(intent, position=position))
        committed = landing.position.quarantine.head
        self._quarantine_id = committed.table_id if committed is not None else None
        self._landed_in, self._broken = landing.version, landing.error is not None
        return landing

    def _count(self, landed: _InFlight, version: int) -> None:
        summary, result, sequence = self._summary, landed.intent.result, landed.intent.position.sequence
        finished = sum(1 for s in result.slices if s.finished)
        summary.sequence, summary.delta_version = sequence, version
        if landed.intent.kind == "renewal":
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
        self._ports.progress.committed(result, sequence=sequence, version=version)


def _has_failed(batch: _InFlight) -> bool:
    return batch.commit.done() and (batch.commit.exception() or batch.commit.result().error) is not None
