"""The last step: archives or deletes source files after they were ingested, if the user asks for it.

A file must be ingested to its last line, old enough, unchanged, and shown by a listing: others can write to the log.
The intent is committed first (`cleaned.due_through`); from then on no rollback goes back before it. After a crash the
same files are looked at again; one that is gone is done. Never touches a file that has the only copy of a line: that
is reported. A file that cannot be moved is reported and tried again by the next run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from blizzard.core.cleanable import IngestedFile, find_ingested, is_whole
from blizzard.core.events import Cleaned, Emit, Noted, Warned
from blizzard.core.history import ledgers_of
from blizzard.core.ledger import LedgerEntry
from blizzard.core.lists import count
from blizzard.core.log import CommitFacts, fence_version
from blizzard.core.position import Position
from blizzard.errors import BlizzardError
from blizzard.run.ports import Cleaner, Ports, Quarantine, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened to the files that were to be cleaned."""

    done: int = 0
    kept: int = 0  # they have the only copy of a line
    is_complete: bool = True  # nothing is left to do


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

    def run(self, position: Position, commits: Iterable[CommitFacts], emit: Emit, quarantine: Quarantine) -> Outcome:
        """Clean the files that a committed position says are to be cleaned."""
        files, is_complete = find_ingested(position, commits), True
        try:
            settled = _settled(files, position, quarantine)
        except (OSError, BlizzardError) as e:
            warn(emit, f"source files with bad records are not {self.cleaner.verb}: {e}. The next run tries again.")
            files, settled, is_complete = [file for file in files if not file.quarantined_by], (), False
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

    def _clean(self, entry: LedgerEntry, emit: Emit) -> int:
        outcome = self.cleaner.clean(entry)
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
    ports: Ports, cleaning: Cleaning | None, table: Table, position: Position
) -> tuple[Position, str | None]:
    """Clean what an earlier commit announced, and name in the position what is due next. The second value says why the
    position must be committed once more; None if it need not be."""
    if cleaning is None or position.sequence == 0:
        return position, None
    cleaned, renewal = position.cleaned, None
    if clean_up(ports, cleaning, table, position, position.sequence):
        cleaned = replace(cleaned, done_through=cleaned.due_through)
        renewal = "otherwise every idle run would look again at source files that are already cleaned"
    through = cleaning.due_through(position, table.scan_back(), ports.clock.now_ms())
    if through > cleaned.due_through:
        renewal = "source files are about to be cleaned"
    return replace(position, cleaned=replace(cleaned, due_through=through)), renewal


def clean_up(ports: Ports, cleaning: Cleaning | None, table: Table, position: Position, sequence: int) -> bool:
    """Clean what `position`, committed under this sequence, announced. True if there was something to clean and all of
    it is done."""
    if cleaning is None or position.cleaned.done_through >= position.cleaned.due_through:
        return False
    later = (fence_version(commit, position.pipeline) for commit in table.commits_after(position.on.delta_version))
    if any(found is not None and found > sequence for found in later):
        return False  # somebody else has committed a newer position
    outcome = cleaning.run(position, table.scan_back(), ports.emit, ports.quarantine)
    ports.emit(Cleaned(done=outcome.done, kept=outcome.kept))
    return outcome.is_complete
