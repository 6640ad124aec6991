"""The last step: archives or deletes source files after they were ingested, if the user asks for it.

A file must be ingested to its last line, old enough, unchanged, and shown by a listing: others can write to the log.
With several targets that holds for each of them, and each must have committed its intent.
The intent is committed first (`cleaned.due_through`); from then on no rollback goes back before it. After a crash the
same files are looked at again; one that is gone is done. Never touches a file that has the only copy of a line: that
is reported. A file that cannot be moved is reported and tried again by the next run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from blizzard.core.cleanable import IngestedFile, find_ingested, is_whole, why_still_needed
from blizzard.core.events import Cleaned, Emit, Noted, Warned
from blizzard.core.history import ledgers_of
from blizzard.core.ledger import LedgerEntry
from blizzard.core.lists import count
from blizzard.core.log import CommitFacts, fence_version
from blizzard.core.position import Position
from blizzard.errors import BlizzardError
from blizzard.faults import reach
from blizzard.run.ports import Cleaner, Ports, Quarantine, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened to the files that were to be cleaned."""

    done: int = 0
    kept: int = 0  # they have the only copy of a line
    is_complete: bool = True  # nothing is left to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """Another target of the run, as its log has it."""

    name: str
    position: Position
    table: Table
    quarantine: Quarantine

    def still_needs(self, files: Sequence[IngestedFile]) -> dict[str, str]:
        """By path, why a file must stay for this target."""
        later = self.table.commits_after(self.position.on.delta_version)
        needed, proven = why_still_needed(self.position, newest_first(self.table, later), files)
        settled = _settled(proven.values(), self.position, self.quarantine)
        for path, file in proven.items():
            reason = _not_in_quarantine(file, settled)
            if reason is not None:
                needed.setdefault(path, reason)
        return {path: f"target {self.name} {why}" for path, why in needed.items()}


# None: not every other target can say what it needs, so nothing is cleaned.
Others: TypeAlias = Sequence[Other] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """`keep_ms`: how long files stay after the commit that finished them."""

    cleaner: Cleaner
    keep_ms: int

    def due_through(self, position: Position, commits: Iterable[CommitFacts], now_ms: int) -> int:
        """The newest sequence whose files have been kept long enough."""
        for commit, ledger in ledgers_of(commits, position.pipeline):
            if ledger.sequence <= position.cleaned.due_through:
                break
            if commit.timestamp_ms <= now_ms - self.keep_ms and any(map(is_whole, ledger.entries)):
                return ledger.sequence
        return position.cleaned.due_through

    def run(
        self,
        position: Position,
        commits: Iterable[CommitFacts],
        emit: Emit,
        quarantine: Quarantine,
        others: Others = (),
    ) -> Outcome:
        """Clean the files that a committed position says are to be cleaned, if no other target needs them."""
        files, is_complete = find_ingested(position, commits), True
        try:
            settled = _settled(files, position, quarantine)
        except (OSError, BlizzardError) as e:
            warn(emit, f"source files with bad records are not {self.cleaner.verb}: {e}. The next run tries again.")
            files, settled, is_complete = [file for file in files if not file.quarantined_by], (), False
        free = self._free(files, others, emit)
        is_complete, files = is_complete and len(free) == len(files), free
        done = kept = 0
        for file in files:
            path = file.entry.path
            try:
                reason = file.reason_to_keep or _not_in_quarantine(file, settled)
                if reason is None:
                    done += self._clean(file.entry, emit)
                elif self.cleaner.is_listed(path):
                    kept += 1
                    warn(emit, f"{path} was ingested and is not {self.cleaner.verb}: {reason}. Move it yourself.")
            except (OSError, BlizzardError) as e:
                is_complete = False
                warn(emit, f"{path} was ingested and could not be {self.cleaner.verb}: {e}. The next run tries again.")
        if done:
            emit(Noted(message=f"{count(done, 'ingested source file')} {self.cleaner.verb}"))
        return Outcome(done=done, kept=kept, is_complete=is_complete)

    def _free(self, files: list[IngestedFile], others: Others, emit: Emit) -> list[IngestedFile]:
        """Those that no other target needs. A file that is gone already is free."""
        if others is None:
            return []
        needed: dict[str, str] = {}
        for other in others:
            needed |= other.still_needs(files)
        waiting = {path: why for path, why in needed.items() if self.cleaner.is_listed(path)}
        if waiting:
            path, why = next(iter(waiting.items()))
            more = f"{count(len(waiting), 'ingested source file')} not {self.cleaner.verb} yet; the first"
            emit(Noted(message=f"{more}: {path}: {why}"))
        return [file for file in files if file.entry.path not in waiting]

    def _clean(self, entry: LedgerEntry, emit: Emit) -> int:
        reach("clean.before")
        outcome = self.cleaner.clean(entry)
        reach("clean.after")
        if outcome.problem is not None:
            warn(emit, f"{entry.path} is not {self.cleaner.verb}: {outcome.problem}")
        return int(outcome.is_done)


def _settled(files: Iterable[IngestedFile], position: Position, quarantine: Quarantine) -> Collection[int]:
    """The sequences whose bad records of these files are all in quarantine."""
    sequences = {sequence for file in files for sequence in file.quarantined_by}
    return quarantine.took_in(position, sequences) if sequences else ()


def _not_in_quarantine(file: IngestedFile, settled: Collection[int]) -> str | None:
    missing = [sequence for sequence in file.quarantined_by if sequence not in settled]
    return f"the quarantine does not have its bad records of sequence {missing[-1]}" if missing else None


def warn(emit: Emit, message: str) -> None:
    emit(Warned(message=message))


def clean_announced(
    ports: Ports, cleaning: Cleaning | None, table: Table, position: Position, others: Others = ()
) -> tuple[Position, str | None]:
    """Clean what an earlier commit announced, and name in the position what is due next. The second value says why the
    position must be committed once more; None if it need not be."""
    if cleaning is None or position.sequence == 0:
        return position, None
    cleaned, renewal = position.cleaned, None
    if clean_up(ports, cleaning, table, position, position.sequence, others):
        cleaned = replace(cleaned, done_through=cleaned.due_through)
        renewal = "otherwise every idle run would look again at source files that are already cleaned"
    through = cleaning.due_through(position, table.scan_back(), ports.clock.now_ms())
    if through > cleaned.due_through:
        renewal = "source files are about to be cleaned"
    return replace(position, cleaned=replace(cleaned, due_through=through)), renewal


def clean_up(
    ports: Ports,
    cleaning: Cleaning | None,
    table: Table,
    position: Position,
    sequence: int,
    others: Others = (),
) -> bool:
    """Clean what `position`, committed under this sequence, announced. True if there was something to clean and all of
    it is done."""
    if cleaning is None or position.cleaned.done_through >= position.cleaned.due_through:
        return False
    later = table.commits_after(position.on.delta_version)
    if any((fence_version(commit, position.pipeline) or 0) > sequence for commit in later):
        return False  # somebody else has committed a newer position
    commits = newest_first(table, later)
    outcome = cleaning.run(position, commits, ports.emit, ports.quarantine, others)
    ports.emit(Cleaned(done=outcome.done, kept=outcome.kept))
    return outcome.is_complete


def newest_first(table: Table, later: Sequence[CommitFacts]) -> Iterator[CommitFacts]:
    """All commits, backwards. The table's handle may be older than the newest ones, which are in `later`: they may have
    dropped records from quarantine."""
    known = min((commit.version for commit in later), default=table.version + 1)
    return chain(later, (commit for commit in table.scan_back() if commit.version < known))
