"""Decides what became of a commit. An exception from a commit always means "unknown"; only the log can say.

If a PUT landed but its answer was lost, the retry reports a conflict with our own commit. So neither the type nor the
text of an exception may decide anything here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import decode_ledger
from blizzard.core.log import CommitFacts, fence_version, payloads, positions_in
from blizzard.core.position import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The very commit asked for is in the log."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLanded:
    """Nobody has taken the sequence up to the newest version read. Trying the same commit again is safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenByOther:
    """Another run committed this sequence, or a later one: this run is fenced. All fields are of one commit."""

    version: int
    sequence: int
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenByOurselves:
    """An earlier attempt of this run committed the sequence with another batch. Recover; trust nothing in memory."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenByPause:
    """A person paused or resumed the pipeline, and nobody has read since. Recover: the log says whether it is paused
    now. What was read is discarded; a later run reads it."""

    version: int


Outcome = Landed | NotLanded | TakenByOther | TakenByOurselves | TakenByPause


def decide_commit_outcome(commits: Sequence[CommitFacts], *, app_id: str, position: Position) -> Outcome:
    """`commits` are all those after the version the batch was planned on, without a gap."""
    for commit in commits:
        if app_id in payloads(commit):
            return Landed(version=commit.version)
    pause = _find_pause(commits, position)
    if pause is not None:
        return TakenByPause(version=pause.version)
    for commit in commits:
        fence = fence_version(commit, position.pipeline)
        if fence is not None and fence >= position.sequence:
            run_id = _run_of(commit, position.pipeline)
            if run_id == position.run_id:
                return TakenByOurselves(version=commit.version)
            return TakenByOther(version=commit.version, sequence=fence, run_id=run_id)
    return NotLanded()


def _find_pause(commits: Sequence[CommitFacts], position: Position) -> CommitFacts | None:
    """The oldest of the commits that others made under this sequence and later ones, if it is a pause or a resume and
    none of the others read anything: a person may also edit the position, or roll it back, while it is paused."""
    taken = [c for c in commits if (fence_version(c, position.pipeline) or 0) >= position.sequence]
    others = [c for c in taken if _run_of(c, position.pipeline) != position.run_id]
    kinds = {c.version: _kind_of(c, position.pipeline) for c in others}
    oldest = min(others, key=lambda c: c.version, default=None)
    if oldest is None or kinds[oldest.version] not in (CommitKind.PAUSE, CommitKind.RESUME):
        return None
    return None if set(kinds.values()) & {CommitKind.BATCH, CommitKind.REPLAY, None} else oldest


def _kind_of(commit: CommitFacts, pipeline: str) -> CommitKind | None:
    """None: the commit has no ledger of the pipeline that can be read."""
    ledger = decode_ledger(commit.user_metadata)
    return ledger.kind if ledger is not None and ledger.pipeline == pipeline else None


def _run_of(commit: CommitFacts, pipeline: str) -> str | None:
    return next((p.run_id for p in positions_in(commit.txns) if p.pipeline == pipeline), None)
