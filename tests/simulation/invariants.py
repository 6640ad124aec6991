"""The invariants of the state machines, by name: what a run must never do, and which of them a failure is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# As the machine checks them. A mistake that none of these names catches is not caught.
NO_RECORD_TWICE = "no record is committed twice"
TABLE_IS_THE_SLICES = "the table holds the records of the committed slices"
QUARANTINE_IN_STEP = "the quarantine holds each bad record once, but for the newest commit"
NEWEST_STAY = "a full quarantine holds the newest batches that fit, and no other record has left it"
BOOKS_BALANCE = "records = rows + quarantined + dropped"
MARK_IS_TRUE = "every file at or before the mark is committed or named"
EVERYTHING_ARRIVES = "a run to the end leaves nothing in the source"
NOTHING_LATE_IS_LEFT = "a run to the end takes up every late file"
BROKEN_FILES_ARE_TOLD = "a file that breaks is in quarantine"
RESTORE_IS_NOTICED = "no run goes on over a RESTORE"
NOTHING_WHILE_PAUSED = "while it is paused nothing is read, and only a resume ends that"
ENDS_FOR_A_REASON = "a run ends only for the reason it was given"
NO_ROW_TWICE = "no record is in the table twice"
NOT_IN_QUARANTINE_TWICE = "no record is live in quarantine twice"
ROW_OR_BAD = "no record is both a row and live in quarantine"
NOTHING_VANISHES = "a record is a row, in quarantine, in the source or in the archive"
EVERYTHING_IS_IN = "after a run that ended well each record of the source is a row or live in quarantine"
EVERY_REFUSAL_HAS_A_WAY_OUT = "what a refusal says to do leads out of it"
REFUSED_CHANGES_NOTHING = "what is refused changes nothing"
OTHERS_KEEP_THEIRS = "a pipeline that shares the quarantine keeps its records"
ONE_READER = "a second name over the same source is refused"

_only: str | None = None


class InvariantBroken(AssertionError):
    def __init__(self, name: str, detail: object = "") -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name = name


def holds(name: str, condition: bool, detail: object = "") -> None:
    if not condition and _only in (None, name):
        raise InvariantBroken(name, detail)


@contextmanager
def only(name: str) -> Iterator[None]:
    """Check this one alone, to see that it catches what it is for without help from the others."""
    global _only  # noqa: PLW0603
    _only = name
    try:
        yield
    finally:
        _only = None
