"""Decides by the ledgers which source files may be archived or deleted: only those whose every line is safe.

A line is safe if it is in the table, or whole in quarantine, or if the policy was to drop it. If the ledgers do not
prove that, the source file has the only copy and stays. A batch of bad records that had to leave a full quarantine is
safe nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from blizzard.core.history import every_ledger
from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import Ledger, LedgerEntry
from blizzard.core.lists import first_of
from blizzard.core.log import CommitFacts
from blizzard.core.overflow import is_named
from blizzard.core.position import CleanedThrough, Position
from blizzard.core.recover import StartFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCleaned:
    """What became of one file. `problem`: why it stays for good."""

    is_done: bool = False
    problem: str | None = None


@dataclass(slots=True, kw_only=True)
class IngestedFile:
    """A file as it was when its last line was committed, and what the ledgers prove about its lines."""

    entry: LedgerEntry  # the newest that names it
    sequence: int  # of that ledger
    unproven: int  # lines at its beginning that no ledger so far has taken from this version of the file
    cut: int = 0
    is_counted: bool = True  # whether the ledgers say how many of its bad records were cut
    quarantined_by: list[int] = field(default_factory=list)  # sequences that put bad records of it into quarantine
    dropped: list[int] = field(default_factory=list)  # those of them whose records had to leave it again

    @property
    def reason_to_keep(self) -> str | None:
        if self.entry.broken is not None:
            return "it was not read to its end"
        if self.unproven:
            return f"no ledger that is left says what became of its {first_of(self.unproven, 'line')}"
        if self.cut:
            return f"{self.cut:,} of its bad records are too long for the quarantine, or it was full"
        if self.dropped:
            return (
                f"its bad records of sequence {self.dropped[-1]} had to leave the full quarantine"
                f" (quarantine.overflow: drop_oldest)"
            )
        if not self.is_counted:
            return "it has bad records, and its ledger does not say whether the quarantine has them whole"
        return None

    def take(self, ledger: Ledger, entry: LedgerEntry, replays: Iterable[int], dropped: Collection[int]) -> None:
        """Add what a ledger says about the same version of the file; ledgers come newest first. `replays` are later
        sequences that took records out of quarantine and put those that are still bad back; of which files they were is
        not said. `dropped` are sequences whose records had to leave the quarantine."""
        is_same = (entry.size_bytes, entry.etag) == (self.entry.size_bytes, self.entry.etag)
        if not is_same or entry.from_record >= self.unproven or entry.to_record < self.unproven:
            return
        self.unproven = entry.from_record
        self.cut += entry.cut or 0
        self.is_counted &= entry.cut is not None
        if (entry.bad or entry.unrouted) and ledger.quarantine:
            self.quarantined_by += [ledger.sequence, *replays]
            self.dropped += [sequence for sequence in (ledger.sequence, *replays) if sequence in dropped]


def is_whole(entry: LedgerEntry) -> bool:
    return entry.finished and entry.broken is None


def find_ingested(
    position: Position, commits: Iterable[CommitFacts], only: Collection[str] | None = None
) -> list[IngestedFile]:
    """The files whose last line was committed after `cleaned.done_through` and up to `cleaned.due_through`, oldest
    first. A file that will be read again is left out. `commits` run backwards and are read only as far as needed: with
    `only`, until all of these are found."""
    found: dict[str, IngestedFile] = {}
    open_paths: set[str] = set()  # an older ledger must prove their first lines
    seen: set[str] = set()
    replays: list[int] = []
    dropped_names, dropped = set[str](), set[int]()
    for _, ledger, counts in every_ledger(commits, position.pipeline):
        is_all = only is not None and seen.issuperset(only)
        if (is_all or ledger.sequence <= position.cleaned.done_through) and not open_paths:
            break
        dropped_names.update(ledger.dropped)
        if not counts:
            continue
        if is_named(ledger.batch_id, ledger.sequence, dropped_names):
            dropped.add(ledger.sequence)
        if ledger.kind == CommitKind.REPLAY and ledger.quarantine:
            replays.append(ledger.sequence)
        if ledger.source != position.source:
            continue  # the same name is another file there
        for entry in reversed(ledger.entries):
            is_meant = only is None or entry.path in only
            if is_meant and position.cleaned.done_through < ledger.sequence and entry.path not in seen:
                seen.add(entry.path)
                if ledger.sequence <= position.cleaned.due_through and _is_done(entry, position):
                    found[entry.path] = IngestedFile(entry=entry, sequence=ledger.sequence, unproven=entry.to_record)
                    if entry.broken is None:
                        open_paths.add(entry.path)
            if entry.path in open_paths:
                file = found[entry.path]
                file.take(ledger, entry, replays, dropped)
                if not file.unproven:
                    open_paths.discard(entry.path)
    return list(reversed(found.values()))


def _is_done(entry: LedgerEntry, position: Position) -> bool:
    return entry.finished and position.marks.is_finished(entry.path)


def why_still_needed(
    position: Position, commits: Iterable[CommitFacts], files: Iterable[IngestedFile]
) -> tuple[dict[str, str], dict[str, IngestedFile]]:
    """For another target: by path, why it may still need a file or has the only proof of its lines; and for the others
    what its ledgers prove. It too must have announced that the file goes."""
    wanted = {file.entry.path: file.entry for file in files}
    everything = replace(position, cleaned=CleanedThrough(due_through=position.sequence))
    proven = {file.entry.path: file for file in find_ingested(everything, commits, only=wanted.keys())}
    start = StartFrom.parse(position.begun.start_from or "")
    began_after = start.after if start is not None and start.after is not None else ""
    needed: dict[str, str] = {}
    for path, entry in wanted.items():
        file = proven.get(path)
        if file is None and path <= began_after and position.marks.is_finished(path):
            continue  # left out from the beginning, and no ledger says that anybody has asked for it since
        if file is None or file.sequence > position.cleaned.due_through:
            needed[path] = "has not read all of it, or has not yet committed that it may go"
        elif (file.entry.size_bytes, file.entry.etag) != (entry.size_bytes, entry.etag):
            needed[path] = "has read another version of it"
        elif file.reason_to_keep is not None:
            needed[path] = f"cannot do without it: {file.reason_to_keep}"
    return needed, proven
