"""Decides by the ledgers which source files may be archived or deleted: only those whose every line is safe.

A line is safe if it is in the table, or whole in quarantine, or if the policy was to drop it. If the ledgers do not
prove that, the source file has the only copy and stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from blizzard.core.history import ledgers_of
from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import Ledger, LedgerEntry
from blizzard.core.log import CommitFacts
from blizzard.core.position import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCleaned:
    """What became of one file. `problem`: why it stays for good."""

    is_done: bool = False
    problem: str | None = None


@dataclass(slots=True, kw_only=True)
class IngestedFile:
    """A file as it was when its last line was committed, and what the ledgers prove about its lines."""

    entry: LedgerEntry  # the newest that names it
    unproven: int  # lines at its beginning that no ledger so far has taken from this version of the file
    cut: int = 0
    is_counted: bool = True  # whether the ledgers say how many of its bad records were cut
    quarantined_by: list[int] = field(default_factory=list)  # sequences that put bad records of it into quarantine

    @property
    def reason_to_keep(self) -> str | None:
        if self.entry.broken is not None:
            return "it was not read to its end"
        if self.unproven:
            return f"no ledger that is left says what became of its first {self.unproven:,} lines"
        if self.cut:
            return f"{self.cut:,} of its bad records are too long for the quarantine, or it was full"
        if not self.is_counted:
            return "it has bad records, and its ledger does not say whether the quarantine has them whole"
        return None

    def take(self, ledger: Ledger, entry: LedgerEntry, replays: Iterable[int]) -> None:
        """Add what a ledger says about the same version of the file; ledgers come newest first. `replays` are later
        sequences that took records out of quarantine and put those that are still bad back."""
        is_same = (entry.size_bytes, entry.etag) == (self.entry.size_bytes, self.entry.etag)
        if not is_same or entry.from_record >= self.unproven or entry.to_record < self.unproven:
            return
        self.unproven = entry.from_record
        self.cut += entry.cut or 0
        self.is_counted &= entry.cut is not None
        if entry.bad and ledger.quarantine:
            self.quarantined_by += [ledger.sequence, *replays]


def is_whole(entry: LedgerEntry) -> bool:
    return entry.finished and entry.broken is None


def find_ingested(position: Position, commits: Iterable[CommitFacts]) -> list[IngestedFile]:
    """The files whose last line was committed after `cleaned.done_through` and up to `cleaned.due_through`, oldest
    first. A file that will be read again is left out. `commits` run backwards and are read only as far as needed."""
    found: dict[str, IngestedFile] = {}
    open_paths: set[str] = set()  # an older ledger must prove their first lines
    seen: set[str] = set()
    replays: list[int] = []
    for _, ledger in ledgers_of(commits, position.pipeline):
        if ledger.sequence <= position.cleaned.done_through and not open_paths:
            break
        if ledger.kind == CommitKind.REPLAY and ledger.quarantine:
            replays.append(ledger.sequence)
        if ledger.source != position.source:
            continue  # the same name is another file there
        for entry in reversed(ledger.entries):
            if position.cleaned.done_through < ledger.sequence and entry.path not in seen:
                seen.add(entry.path)
                if ledger.sequence <= position.cleaned.due_through and _is_done(entry, position):
                    found[entry.path] = IngestedFile(entry=entry, unproven=entry.to_record)
                    if entry.broken is None:
                        open_paths.add(entry.path)
            if entry.path in open_paths:
                file = found[entry.path]
                file.take(ledger, entry, replays)
                if not file.unproven:
                    open_paths.discard(entry.path)
    return list(reversed(found.values()))


def _is_done(entry: LedgerEntry, position: Position) -> bool:
    return entry.finished and position.marks.is_finished(entry.path)
