"""Makes every commit of a position: batch, renewal, replay, edit, import, rollback and pause. Nothing else does.

The caller has looked at one version of the table and says what the position is after the commit. It is committed on
that version, or on a later one that gives the same answer; then the quarantine is made to follow. Never decides by the
exception what happened: the log says it. Never deletes a file, never commits when another run took the sequence.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from blizzard.core.batch import SealedPosition
from blizzard.core.clock import Clock
from blizzard.core.codec import PayloadTooLarge
from blizzard.core.commit import CommitRequest, Intent
from blizzard.core.events import CommitFailed, Committed, Emit, Warned
from blizzard.core.kinds import Kind
from blizzard.core.log import CommitFacts
from blizzard.core.outcome import (
    Landed,
    NotLanded,
    TakenByOther,
    TakenByOurselves,
    TakenByPause,
    decide_commit_outcome,
)
from blizzard.core.position import Position
from blizzard.core.readers import find_other_reader
from blizzard.core.recover import check_rewrites
from blizzard.core.retry import RetryPolicy
from blizzard.errors import BadData, BlizzardError, Fenced, Refused, Temporary, failure_to_write
from blizzard.faults import reach
from blizzard.run.ports import Mirror, NoMirror, Ports, Quarantine, Table
from blizzard.run.settings import COMMIT_ATTEMPTS, RunSettings
from blizzard.run.settle import settle
from blizzard.text.plain import plain

MAX_BATCH_AGE_MS = 24 * 3600 * 1000
# Every commit of another writer makes an attempt fail, so pauses are short.
_BETWEEN_ATTEMPTS = RetryPolicy(base_ms=50, max_ms=2_000)


class PositionMoved(Exception):
    """An earlier attempt of this run did land, with another batch: recover from the log."""


class OvertakenByPause(Fenced):
    """The pipeline was paused or resumed meanwhile. A run recovers from the log; a command stops."""


class FilesGone(Temporary):
    """Files of the batch were deleted from the table's folder before the commit: read the batch again."""

    kind = Kind.FILES_GONE


def new_batch_id() -> str:
    """By it this commit is found again in the log after a lost answer."""
    return os.urandom(8).hex()


def new_run_id() -> str:
    return os.urandom(6).hex()


def do_nothing() -> None:
    """For a batch: what every commit checks is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A commit that is in the log. `error` is what went wrong after it; the next run repairs that."""

    version: int
    position: Position  # as it was committed: it names the quarantine table
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """How commits are made: on which table, followed by which quarantine and which mirror."""

    table: Table
    quarantine: Quarantine
    clock: Clock
    emit: Emit
    mirror: Mirror = field(default_factory=NoMirror)
    attempts: int = COMMIT_ATTEMPTS

    @classmethod
    def through(cls, ports: Ports, settings: RunSettings, table: Table) -> Committing:
        return cls(
            table=table,
            quarantine=ports.quarantine,
            clock=ports.clock,
            emit=ports.emit,
            mirror=ports.mirror,
            attempts=settings.commit_attempts,
        )

    def commit(self, intent: Intent, *, look_again: Callable[[], None] = do_nothing) -> Landing:
        """`look_again` is called before each attempt, with the table at the version to commit on. It raises if the
        intent is no longer right there."""
        started = time.monotonic()
        position = self.quarantine.announce(intent.position, intent.result.quarantine)
        intent = replace(intent, position=position)
        sealed = _sealed(intent)
        request = replace(
            CommitRequest.of(sealed, intent.result.files), removes=intent.removes, metadata=intent.metadata
        )
        try:
            version = self._land(request, position, planned_ms=intent.planned_ms, look_again=look_again)
        except Exception:
            self.emit(CommitFailed(sequence=position.sequence))
            raise
        self.emit(
            Committed(
                kind=intent.kind,
                position=position,
                result=intent.result,
                version=version,
                payload_bytes=len(sealed.app_id),
                seconds=time.monotonic() - started,
            )
        )
        self.mirror.follow(position, version)
        try:
            settle(self.quarantine, self.table, position, since=version)  # before the next commit
        except Exception as e:
            return Landing(version=version, position=position, error=e)
        return Landing(version=version, position=position)

    def commit_edit(self, intent: Intent, *, look_again: Callable[[], None] = do_nothing) -> tuple[int, int]:
        """For a command: returns the sequence and the version. Raises what went wrong after the commit."""
        landing = self.commit(intent, look_again=look_again)
        if landing.error is not None:
            raise landing.error
        return intent.position.sequence, landing.version

    def _land(
        self, request: CommitRequest, position: Position, *, planned_ms: int, look_again: Callable[[], None]
    ) -> int:
        """The version in which this commit is in the log."""
        reach("commit.before", self.table.root)
        cause: Exception | None = None
        for attempt in range(1, self.attempts + 1):
            _refresh(self.table)
            commits = self.table.commits_after(position.on.delta_version)
            version = _find_landed(commits, request, position)
            if version is None:
                _require_same_table(self.table, position)
                if self.clock.now_ms() - planned_ms > MAX_BATCH_AGE_MS:
                    raise Temporary(
                        "the batch is more than 24 hours old and was not committed", kind=Kind.BATCH_TOO_OLD
                    )
                look_again()
                _require_files(self.table, request)
                try:
                    self.table.append(_stamped(request, commits, self.clock.now_ms()))
                except Exception as e:  # any exception, conflicts included, means: unknown
                    cause = e
                version = _find_landed(self.table.commits_after(position.on.delta_version), request, position)
            if version is not None:
                self.table.make_durable(version)
                reach("commit.after", self.table.root)
                return version
            if attempt < self.attempts:
                self._wait_after(attempt, position, cause)
        raise _not_landed(position, self.attempts, cause) from cause

    def _wait_after(self, attempt: int, position: Position, cause: Exception | None) -> None:
        delay_s = _BETWEEN_ATTEMPTS.delay_s(attempt, random.random())
        why = plain(cause) if cause is not None else "the version was taken"
        self.emit(
            Warned(
                message=f"commit of sequence {position.sequence}: attempt {attempt + 1}/{self.attempts} in"
                f" {delay_s:.1f}s: {why}"
            )
        )
        self.clock.sleep(delay_s)


def _sealed(intent: Intent) -> SealedPosition:
    try:
        return intent.sealed()
    except PayloadTooLarge as e:
        raise BadData(
            f"{len(intent.position.marks.in_progress):,} files are held back or in progress, more than a position can"
            f" name ({e}). Nothing of this batch was committed. Fix or move the files that cannot be read.",
            kind=Kind.TOO_MANY_HELD_FILES,
        ) from e


def _not_landed(position: Position, attempts: int, cause: Exception | None) -> BlizzardError:
    then = f"Sequence {position.sequence} was not committed; the next run recovers from the log."
    failure = None if cause is None else failure_to_write(cause, "the table", then=then)
    return failure or Temporary(
        f"sequence {position.sequence} could not be committed in {attempts} attempts"
        f" ({plain(cause) if cause is not None else 'unknown'}). Nothing was lost: the next run recovers from the log.",
        kind=Kind.COMMIT_FAILED,
    )


def _refresh(table: Table) -> None:
    try:
        table.refresh()
    except BlizzardError:
        raise
    except Exception as e:
        raise Temporary(
            f"the table can no longer be read: {e}. The next run reads from the log whether the batch was committed.",
            kind=Kind.TABLE_UNREADABLE,
        ) from e


def _stamped(request: CommitRequest, commits: Sequence[CommitFacts], now_ms: int) -> CommitRequest:
    """With a lastUpdated not below the time of any commit before it, even if our clock is slow."""
    seen_ms = max((c.timestamp_ms for c in commits), default=0)
    return replace(request, last_updated_ms=max(request.last_updated_ms, now_ms, seen_ms))


def _find_landed(commits: Sequence[CommitFacts], request: CommitRequest, position: Position) -> int | None:
    """The version if our commit is among these, the ones since the position's version. None if its place is still
    free; raises if it was taken."""
    outcome = decide_commit_outcome(commits, app_id=request.app_id, position=position)
    refusal = check_rewrites(commits)
    if refusal is not None:
        raise Refused(refusal.message, kind=refusal.kind)
    match outcome:
        case Landed(version=version):
            return version
        case NotLanded():
            second = find_other_reader(commits, position)
            if second is not None:
                raise Refused(second.message, kind=second.kind)
            return None
        case TakenByOurselves(version=version):
            raise PositionMoved(f"sequence {position.sequence} is already in version {version}")
        case TakenByPause(version=version):
            raise OvertakenByPause(
                f"pipeline {position.pipeline!r} was paused or resumed meanwhile, in version {version}; nothing of"
                f" sequence {position.sequence} was committed. blizzard status says how it stands. Run again."
            )
        case TakenByOther(version=version, sequence=sequence, run_id=run_id):
            raise Fenced(
                f"another run ({run_id or 'unknown'}) of pipeline {position.pipeline!r} committed sequence {sequence}"
                f" in version {version}. This run stops; nothing of its batch for sequence {position.sequence} was"
                f" committed. Run one driver per pipeline."
            )


def _require_files(table: Table, request: CommitRequest) -> None:
    """A commit that names a file which is not there makes the whole table unreadable."""
    missing = table.find_missing(request.files)
    if missing is not None:
        raise FilesGone(
            f"{missing}, which this batch wrote, is gone from the table's folder or has another size. Nothing of the"
            f" batch was committed. Does a VACUUM run with a retention shorter than a batch takes?"
        )


def _require_same_table(table: Table, position: Position) -> None:
    # None is not 0: the fence has expired, or the pipeline is new here. The commits just read show that none took it.
    fence = table.fence(position.pipeline)
    if fence is not None and fence != position.sequence - 1:
        raise Fenced(
            f"the fence of pipeline {position.pipeline!r} stands at {fence}, this run expected"
            f" {position.sequence - 1}. Another run is at work. This one stops; nothing of its batch was committed."
        )
    if table.table_id != position.on.table_id:
        raise Refused("the table was replaced while the batch was being read", kind=Kind.TABLE_REPLACED)
    table.check_writable()  # a constraint or a feature may be new
    if table.schema_fingerprint != position.on.schema_fingerprint:
        raise Temporary(
            "the table's schema was changed while the batch was being read; nothing of it was committed. Run again.",
            kind=Kind.SCHEMA_CHANGED,
        )
