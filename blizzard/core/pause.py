"""Whether a pipeline is paused, why, and in which words. A pause is part of a position: a commit begins and ends it."""

from __future__ import annotations

from collections.abc import Iterable

from blizzard.core.ledger import decode_ledger
from blizzard.core.log import CommitFacts, fence_version, positions_in
from blizzard.core.moments import moment_text
from blizzard.core.position import Paused

MAX_REASON_CHARS = 500


def find_pause(pauses: Iterable[Paused | None]) -> Paused | None:
    """Why a pipeline is paused of which the tables that it writes say this. One that says so is enough; of several the
    oldest pause is told. None: it is not paused."""
    return min((p for p in pauses if p is not None), key=lambda paused: paused.at_ms, default=None)


def pause_in_log(commits: Iterable[CommitFacts], pipeline: str, before: Paused | None) -> Paused | None:
    """What the newest commit of the pipeline says, even if its payload is damaged. `commits` are given newest first;
    `before` is what is known from before them."""
    for commit in commits:
        sequence = fence_version(commit, pipeline)
        if not sequence:
            continue
        for position in positions_in(commit.txns):
            if (position.pipeline, position.sequence) == (pipeline, sequence):
                return position.paused
        ledger = decode_ledger(commit.user_metadata)
        if ledger is not None and (ledger.pipeline, ledger.sequence) == (pipeline, sequence):
            return ledger.paused
    return before


def next_pause(now: Paused | None, *, reason: str | None, at_ms: int) -> Paused:
    """The pause after somebody asked for one. One that is already there goes on; only its reason can change."""
    if now is None:
        return Paused(at_ms=at_ms, reason=reason)
    return Paused(at_ms=now.at_ms, reason=now.reason if reason is None else reason)


def describe_pause(paused: Paused) -> str:
    """As the rest of a sentence that begins with what is paused."""
    return f"paused since {moment_text(paused.at_ms)}{'' if paused.reason is None else f' ({paused.reason})'}"
