"""The ledgers of a pipeline as they count: what a rollback took back is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blizzard.core.ledger import Ledger, decode_ledger
from blizzard.core.log import CommitFacts


def ledgers_of(commits: Iterable[CommitFacts], pipeline: str | None = None) -> Iterator[tuple[CommitFacts, Ledger]]:
    """Of the commits given newest first, those with a ledger that still counts; of all pipelines, or of one.

    A sequence number belongs to one commit for ever, so that naming it is enough to leave it out.
    """
    superseded: dict[str, set[int]] = {}
    for commit in commits:
        ledger = decode_ledger(commit.user_metadata)
        if ledger is None or pipeline not in (None, ledger.pipeline):
            continue
        taken_back = superseded.setdefault(ledger.pipeline, set())
        taken_back.update(ledger.superseded)
        if ledger.sequence not in taken_back:
            yield commit, ledger


def rolled_back_to(commit: CommitFacts, pipeline: str) -> int | None:
    """The sequence that this commit of the pipeline went back to, by its ledger."""
    ledger = decode_ledger(commit.user_metadata)
    return ledger.rolled_back_to if ledger is not None and ledger.pipeline == pipeline else None
