"""The ledgers of a pipeline as they count: what a rollback took back is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blizzard.core.ledger import Ledger, decode_ledger
from blizzard.core.log import CommitFacts, fence_version


def ledgers_of(commits: Iterable[CommitFacts], pipeline: str | None = None) -> Iterator[tuple[CommitFacts, Ledger]]:
    """Of the commits given newest first, those with a ledger that still counts; of all pipelines, or of one.

    A sequence number belongs to one commit for ever, so that naming it is enough to leave it out. A commit that did not
    take the number itself, by its fence, has no say.
    """
    superseded = Superseded()
    for commit in commits:
        ledger = decode_ledger(commit.user_metadata)
        if ledger is None or pipeline not in (None, ledger.pipeline):
            continue
        if fence_version(commit, ledger.pipeline) == ledger.sequence and not superseded.meets(ledger):
            yield commit, ledger


class Superseded:
    """Which commits have been taken back, gathered while ledgers are gone through newest first. What took something
    back and was itself taken back has no say any more."""

    def __init__(self) -> None:
        self._sequences: dict[str, set[int]] = {}

    def meets(self, ledger: Ledger) -> bool:
        """Whether this one is taken back; to be asked of every ledger, in order."""
        taken_back = self._sequences.setdefault(ledger.pipeline, set())
        if ledger.sequence in taken_back:
            return True
        taken_back.update(ledger.superseded)
        return False


def rolled_back_to(commit: CommitFacts, pipeline: str) -> int | None:
    """The sequence that this commit of the pipeline went back to, by its ledger."""
    ledger = decode_ledger(commit.user_metadata)
    return ledger.rolled_back_to if ledger is not None and ledger.pipeline == pipeline else None
