"""The one ritual of every commit: batch, renewal, replay, edit, import and rollback.

Whoever wants a commit has looked at one version of the table and says what the position shall be after it. Here it is
sealed, committed on the version that was looked at or on a later one that gives the same answer, and the quarantine is
made to follow. Nothing else commits a position.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from blizzard.core.batch import Checkpoint, seal
from blizzard.core.codec import PayloadTooLarge
from blizzard.core.kinds import Kind
from blizzard.core.ledger import LedgerEntry
from blizzard.core.position import Position
from blizzard.core.types import BatchResult
from blizzard.errors import BadData
from blizzard.run.landing import commit_batch
from blizzard.run.ports import Clock, CommitRequest, NoTelemetry, Progress, Quarantine, Table, Telemetry
from blizzard.run.settle import settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A commit that is wanted. `position` is the one after it, already numbered; its `delta_version` is the version of
    the table that was looked at."""

    position: Position
    planned_ms: int
    kind: str = "batch"
    result: BatchResult = field(default_factory=BatchResult)
    late: frozenset[str] = frozenset()
    edited: tuple[LedgerEntry, ...] = ()  # what a person said of files
    rolled_back_to: int | None = None
    superseded: tuple[int, ...] = ()
    removes: tuple[Mapping[str, Any], ...] = ()  # Adds that leave the table
    metadata: Mapping[str, Any] | None = None

    def sealed(self) -> Checkpoint:
        try:
            return seal(
                self.position,
                self.result,
                kind=self.kind,
                rolled_back_to=self.rolled_back_to,
                superseded=self.superseded,
                late=self.late,
                edited=self.edited,
            )
        except PayloadTooLarge as e:
            raise BadData(
                f"{len(self.position.marks.in_progress):,} files are held back or in progress, more than a"
                f" position can name ({e}). Nothing of this batch was committed. Mend or move the files that cannot be"
                f" read.",
                kind=Kind.TOO_MANY_HELD_FILES,
            ) from e


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A commit that is in the log. `error` is what went wrong after it; the next run mends that."""

    version: int
    position: Position  # as it was committed: it names the quarantine table
    error: Exception | None = None


def do_nothing() -> None:
    """Whoever commits what was read from the source has nothing to look at again but what every commit looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """How commits are made: on which table, followed by which quarantine."""

    table: Table
    quarantine: Quarantine
    clock: Clock
    progress: Progress
    attempts: int = 8
    telemetry: Telemetry = field(default_factory=NoTelemetry)

    def commit(self, intent: Intent, *, look_again: Callable[[], None] = do_nothing) -> Landing:
        """`look_again` is called with the table at the version that is about to be committed on; it raises where the
        intent is no longer what should be done there."""
        started = time.monotonic()
        position = self.quarantine.announce(intent.position, intent.result.quarantine)
        checkpoint = replace(intent, position=position).sealed()
        request = replace(
            CommitRequest.of(checkpoint, intent.result.files), removes=intent.removes, metadata=intent.metadata
        )
        try:
            version = commit_batch(
                self.table,
                request,
                checkpoint.position,
                planned_ms=intent.planned_ms,
                attempts=self.attempts,
                clock=self.clock,
                progress=self.progress,
                verify=look_again,
            )
        except Exception:
            self.telemetry.commit_failed()
            raise
        self.telemetry.committed(
            checkpoint.position,
            intent.result,
            version=version,
            payload_bytes=len(checkpoint.app_id),
            seconds=time.monotonic() - started,
        )
        try:
            settle(self.quarantine, self.table, position, since=version)  # before the next commit
        except Exception as e:
            return Landing(version=version, position=position, error=e)
        return Landing(version=version, position=position)

    def commit_edit(self, intent: Intent, *, look_again: Callable[[], None] = do_nothing) -> tuple[int, int]:
        """For a command: the sequence and the version. What goes wrong after the commit is raised."""
        landing = self.commit(intent, look_again=look_again)
        if landing.error is not None:
            raise landing.error
        return intent.position.sequence, landing.version


def new_batch_id() -> str:
    """Finds this very commit again after a lost answer."""
    return os.urandom(8).hex()


def new_run_id() -> str:
    return os.urandom(6).hex()
