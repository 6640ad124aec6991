"""Decides what became of a commit. An exception from a commit always means "unknown"; only the log can say.

If a PUT landed but its answer was lost, the retry reports a conflict with our own commit. So neither the type nor the
text of an exception may decide anything here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


Outcome = Landed | NotLanded | TakenByOther | TakenByOurselves


def decide_commit_outcome(commits: Sequence[CommitFacts], *, app_id: str, position: Position) -> Outcome:
    """`commits` are all those after the version the batch was planned on, without a gap."""
    for commit in commits:
        if app_id in payloads(commit):
            return Landed(version=commit.version)
    for commit in commits:
        fence = fence_version(commit, position.pipeline)
        if fence is not None and fence >= position.sequence:
            run_id = _run_of(commit, position.pipeline)
            if run_id == position.run_id:
                return TakenByOurselves(version=commit.version)
            return TakenByOther(version=commit.version, sequence=fence, run_id=run_id)
    return NotLanded()


def _run_of(commit: CommitFacts, pipeline: str) -> str | None:
    return next((p.run_id for p in positions_in(commit.txns) if p.pipeline == pipeline), None)
