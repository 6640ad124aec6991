"""Commits in flight: batch k+1 is read while batch k is being committed, and commits land in order.

If a commit fails, every batch planned after it is given up: it was planned on a position that was never committed. When
the queue is full, planning waits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

from blizzard.core.commit import Intent
from blizzard.core.events import Emit, Waited
from blizzard.core.kinds import CommitKind
from blizzard.core.quarantine import name_quarantine
from blizzard.errors import Fenced
from blizzard.run.commit import Committing, Landing, OvertakenByPause
from blizzard.run.ports import Background, Pending, Result


class ThreadBackground:
    """One thread, so that commits keep their order."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="blizzard-commit")

    def start(self, commit: Callable[[], Result]) -> Pending[Result]:
        return self._executor.submit(copy_context().run, commit)

    def close(self) -> None:
        self._executor.shutdown(wait=True)


class Gate:
    """Closed when another run has committed to any target of this one. Then nothing more is committed to the others."""

    def __init__(self) -> None:
        self._fenced: Fenced | None = None

    def check(self) -> None:
        if self._fenced is not None:
            raise Fenced(f"nothing more is committed to any target: {self._fenced}") from self._fenced

    def commit(self, commit: Callable[[], Landing]) -> Landing:
        self.check()
        try:
            return commit()
        except OvertakenByPause:  # by a person, not by another run: the target recovers
            raise
        except Fenced as e:
            self._fenced = e
            raise


class CommitQueue:
    """`planned_on` is the version that the first batch was planned on."""

    def __init__(
        self,
        committing: Committing,
        background: Background,
        emit: Emit,
        *,
        planned_on: int,
        max_inflight: int,
        gate: Gate | None = None,
    ) -> None:
        self._committing, self._background, self._emit = committing, background, emit
        self._gate = gate or Gate()
        self._max_inflight = max_inflight
        self._queue: deque[Pending[Landing]] = deque()
        self._quarantine_id: str | None = None  # the one that the newest commit of this run names
        self._landed_in = planned_on  # only the committing thread writes this
        self._broken = False
        self.added = 0  # commits, landed or not
        self.landed = 0  # batches that are in the log
        self.newest: Landing | None = None

    def add(self, intent: Intent) -> None:
        """Commit it after those added before; wait while too many are in flight."""
        self._queue.append(self._background.start(lambda: self._commit(intent)))
        self.added += 1
        self._take_landed(while_more_than=self._max_inflight - 1)

    def wait(self) -> None:
        """Until everything added so far is committed."""
        self._take_landed(while_more_than=0)

    def has_failed(self) -> bool:
        """Whether a commit has failed that the batch being read now is planned on."""
        return any(map(_has_failed, self._queue))

    def _take_landed(self, *, while_more_than: int) -> None:
        while self._queue and (len(self._queue) > while_more_than or self._queue[0].done()):
            started = time.monotonic()
            try:
                self.newest = landing = self._queue.popleft().result()
            except Exception:
                self._abandon()
                raise
            self._emit(Waited(seconds=time.monotonic() - started))
            if landing.error is not None:
                self._abandon()
                raise landing.error

    def _abandon(self) -> None:
        """Wait for the commits after a failed one. They refuse by themselves; only the first error matters."""
        while self._queue:
            self._queue.popleft().exception()

    def _commit(self, intent: Intent) -> Landing:
        if self._broken:
            raise RuntimeError("a batch was about to be committed on top of one that failed")
        self._broken = True  # until this one has landed
        # It follows the commit before it. That commit has already looked at what others committed up to its version.
        position = replace(intent.position, on=replace(intent.position.on, delta_version=self._landed_in))
        # It was planned before the commits ahead of it may have created the quarantine table.
        if self._quarantine_id is not None:
            position = name_quarantine(position, self._quarantine_id)
        landing = self._gate.commit(lambda: self._committing.commit(replace(intent, position=position)))
        committed = landing.position.quarantine.head
        self._quarantine_id = committed.table_id if committed is not None else None
        self._landed_in, self._broken = landing.version, landing.error is not None
        self.landed += intent.kind == CommitKind.BATCH
        return landing


def _has_failed(commit: Pending[Landing]) -> bool:
    return commit.done() and (commit.exception() or commit.result().error) is not None
