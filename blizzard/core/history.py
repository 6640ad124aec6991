"""The ledgers that still count: those that a rollback took back are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blizzard.core.ledger import Ledger, decode_ledger
from blizzard.core.log import CommitFacts, fence_version


def ledgers_of(commits: Iterable[CommitFacts], pipeline: str | None = None) -> Iterator[tuple[CommitFacts, Ledger]]:
    """The commits whose ledger still counts, of all pipelines or of one. `commits` are given newest first.

    A sequence number belongs to one commit for ever, so a rollback only has to name the numbers. A ledger counts only
    if the fence of its own commit has the same number.
    """
    return ((commit, ledger) for commit, ledger, counts in every_ledger(commits, pipeline) if counts)


def every_ledger(
    commits: Iterable[CommitFacts], pipeline: str | None = None
) -> Iterator[tuple[CommitFacts, Ledger, bool]]:
    """Those that were taken back too, and whether each still counts. Records that a commit dropped from quarantine do
    not come back when the commit is taken back."""
    superseded = Superseded()
    for commit in commits:
        ledger = decode_ledger(commit.user_metadata)
        if ledger is None or pipeline not in (None, ledger.pipeline):
            continue
        if fence_version(commit, ledger.pipeline) == ledger.sequence:
            yield commit, ledger, not superseded.meets(ledger)


class Superseded:
    """Collects which commits were taken back, while ledgers are read newest first. A rollback that was itself taken
    back does not count."""

    def __init__(self) -> None:
        self._sequences: dict[str, set[int]] = {}

    def meets(self, ledger: Ledger) -> bool:
        """Whether this ledger is taken back. Must be called for every ledger, in order."""
        taken_back = self._sequences.setdefault(ledger.pipeline, set())
        if ledger.sequence in taken_back:
            return True
        taken_back.update(ledger.superseded)
        return False


def rolled_back_to(commit: CommitFacts, pipeline: str) -> int | None:
    """The sequence that this commit of the pipeline went back to, by its ledger."""
    ledger = decode_ledger(commit.user_metadata)
    return ledger.rolled_back_to if ledger is not None and ledger.pipeline == pipeline else None
