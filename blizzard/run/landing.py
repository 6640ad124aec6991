"""Committing one batch: fence, attempt, and the log's own answer on what became of it.

Never classifies by an exception, never deletes a file, never commits when anybody else took the sequence.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from blizzard.core.kinds import Kind
from blizzard.core.outcome import Landed, NotLanded, TakenByOther, TakenByOurselves, decide_commit_outcome
from blizzard.core.position import Position
from blizzard.core.readers import find_other_reader
from blizzard.core.recover import check_rewrites
from blizzard.delta.errors import plain
from blizzard.errors import BlizzardError, Fenced, Refused, Temporary
from blizzard.faults import reach
from blizzard.run.ports import Clock, CommitRequest, Progress, Table
from blizzard.store.failures import failure_to_write

MAX_BATCH_AGE_MS = 24 * 3600 * 1000


class PositionMoved(Exception):
    """An earlier attempt of this run landed after all, with another batch: recover from the log."""


class FilesGone(Temporary):
    """Files of the batch are gone from the table's folder before they were committed: read them again."""

    kind = Kind.FILES_GONE


def commit_batch(
    table: Table,
    request: CommitRequest,
    position: Position,
    *,
    planned_ms: int,
    attempts: int,
    clock: Clock,
    progress: Progress,
    verify: Callable[[], None] = lambda: None,
) -> int:
    """The version in which this very batch is in the log. `verify` raises if the table, as it has just been read, no
    longer is what the request was made for."""
    reach("commit.before")
    cause: Exception | None = None
    for attempt in range(1, attempts + 1):
        _refresh(table)
        version = _settle(table, request, position)
        if version is None:
            _require_same_table(table, position)
            if clock.now_ms() - planned_ms > MAX_BATCH_AGE_MS:
                raise Temporary("the batch is more than 24 hours old and was not committed", kind=Kind.BATCH_TOO_OLD)
            verify()
            _require_files(table, request)
            try:
                table.append(_stamped(request, table, position, clock.now_ms()))
            except Exception as e:  # any exception, conflicts included, means: unknown
                cause = e
            version = _settle(table, request, position)
        if version is not None:
            table.make_durable(version)
            reach("commit.after")
            return version
        if attempt == attempts:
            break
        # Whoever else commits to the table makes an attempt fail: pauses are short, and there are some of them.
        delay_s = min(2.0, 0.05 * 2**attempt) * random.uniform(0.5, 1.5)
        progress.warn(
            f"commit of sequence {position.sequence}: attempt {attempt + 1}/{attempts} in {delay_s:.1f}s:"
            f" {plain(cause) if cause is not None else 'the version was taken'}"
        )
        clock.sleep(delay_s)
    then = f"Sequence {position.sequence} was not committed; the next run recovers from the log."
    failure = None if cause is None else failure_to_write(cause, "the table", then=then)
    raise failure or Temporary(
        f"sequence {position.sequence} could not be committed in {attempts} attempts"
        f" ({plain(cause) if cause is not None else 'unknown'}). Nothing was lost:"
        f" the next run recovers from the log.",
        kind=Kind.COMMIT_FAILED,
    ) from cause


def _refresh(table: Table) -> None:
    try:
        table.refresh()
    except BlizzardError:
        raise
    except Exception as e:
        raise Temporary(
            f"the table can no longer be read: {e}. What became of the batch, the next run reads from the log.",
            kind=Kind.TABLE_UNREADABLE,
        ) from e


def _stamped(request: CommitRequest, table: Table, position: Position, now_ms: int) -> CommitRequest:
    """With a lastUpdated that is not below the time of any commit it follows, whatever our clock says."""
    seen_ms = max((c.timestamp_ms for c in table.commits_after(position.on.delta_version)), default=0)
    return replace(request, last_updated_ms=max(request.last_updated_ms, now_ms, seen_ms))


def _settle(table: Table, request: CommitRequest, position: Position) -> int | None:
    """The version if our commit is in the log, None if its place is still free; raises if it was taken."""
    commits = table.commits_after(position.on.delta_version)
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
    # None is not 0: an expired fence, or a pipeline that joins the table. The commits just read have settled that.
    fence = table.fence(position.pipeline)
    if fence is not None and fence != position.sequence - 1:
        raise Fenced(
            f"the fence of pipeline {position.pipeline!r} stands at {fence}, this run expected {position.sequence - 1}."
            f" Another run is at work. This one stops; nothing of its batch was committed."
        )
    if table.table_id != position.on.table_id:
        raise Refused("the table was replaced while the batch was being read", kind=Kind.TABLE_REPLACED)
    table.check_writable()  # a constraint or a feature may be new
    if table.schema_fingerprint != position.on.schema_fingerprint:
        raise Temporary(
            "the table's schema was changed while the batch was being read; nothing of it was committed. Run again.",
            kind=Kind.SCHEMA_CHANGED,
        )
