"""Source files archived or deleted after they were ingested, where the user asks for it.

Only files whose last line is committed, some time after that, and only while they are still the very files that were
ingested. A file that has the only copy of a line stays, and is told. That it will be done is committed first
(`cleaning_through`): from then on nobody goes back before it. After a crash the same files are looked at again, and
those that are gone are done. A file that cannot be moved is told, and tried again by the next run.

The names come from the log, which others can write to: a file is touched only if a listing of the source shows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from blizzard.core.cleanable import Ingested, find_ingested, is_whole
from blizzard.core.history import ledgers_of
from blizzard.core.ledger import LedgerEntry
from blizzard.core.log import CommitFacts
from blizzard.core.position import Position
from blizzard.errors import BlizzardError
from blizzard.run.ports import Progress, Quarantine
from blizzard.source.listing import find_listed
from blizzard.source.uri import SourceLocation
from blizzard.store.files import FileChanged, Store
from blizzard.store.uri import join


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What became of the files that were to be cleaned."""

    done: int = 0
    kept: int = 0  # they have the only copy of a line
    is_complete: bool = True  # nothing of it is left to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """`archive` None: files are deleted. `keep_ms`: how long after their commit they stay."""

    source: SourceLocation
    archive: Store | None
    keep_ms: int

    def due_through(self, position: Position, commits: Iterable[CommitFacts], now_ms: int) -> int:
        """The newest sequence with files that have been kept for long enough."""
        for commit, ledger in ledgers_of(commits, position.pipeline):
            if ledger.sequence <= position.cleaned.due_through:
                break
            if commit.timestamp_ms <= now_ms - self.keep_ms and any(map(is_whole, ledger.entries)):
                return ledger.sequence
        return position.cleaned.due_through

    def run(
        self, position: Position, commits: Iterable[CommitFacts], progress: Progress, quarantine: Quarantine
    ) -> Cleaned:
        """Deal with what a committed state says is to be cleaned."""
        files, is_complete = find_ingested(position, commits), True
        try:
            settled = _settled(files, position, quarantine)
        except (OSError, BlizzardError) as e:
            progress.warn(f"source files with bad records are not {self._verb}: {e}. Tried again later.")
            files, settled, is_complete = [file for file in files if not file.quarantined_by], (), False
        done = kept = 0
        for file in files:
            path = file.entry.path
            try:
                reason = file.reason_to_keep or _not_in_quarantine(file, settled)
                if reason is None:
                    done += self._clean(file.entry, progress)
                elif find_listed(self.source, path) is not None:
                    kept += 1
                    progress.warn(f"{path} was ingested and is not {self._verb}: {reason}. Move it yourself.")
            except (OSError, BlizzardError) as e:
                is_complete = False
                progress.warn(f"{path} was ingested and could not be {self._verb}: {e}. Tried again later.")
        if done:
            progress.note(f"{done:,} source files that were ingested are {self._verb}")
        return Cleaned(done=done, kept=kept, is_complete=is_complete)

    @property
    def _verb(self) -> str:
        return "deleted" if self.archive is None else "archived"

    def _clean(self, entry: LedgerEntry, progress: Progress) -> int:
        file = find_listed(self.source, entry.path)
        if file is None:
            return 0
        if (file.size_bytes, file.etag) != (entry.size_bytes, entry.etag):
            progress.warn(f"{entry.path} changed after it was ingested, and is not {self._verb}")
            return 0
        if self.archive is not None:
            self._archive(entry, self.archive)
        try:
            return int(self.source.store.delete_version(file))
        except FileChanged as e:
            progress.warn(f"{entry.path} is not {self._verb}: {e}")
            return 0

    def _archive(self, entry: LedgerEntry, archive: Store) -> None:
        name = entry.path
        if archive.stat(name) is not None:  # an earlier file of this name, or this one, and then it died
            name = f"{entry.path}~{hashlib.blake2b(entry.etag.encode(), digest_size=4).hexdigest()}"
        self.source.store.copy(entry.path, join(archive.root, name))
        kept = archive.stat(name)
        if kept is None or kept.size_bytes != entry.size_bytes:
            raise OSError(f"its copy at {join(archive.root, name)} is not whole")


def _settled(files: Iterable[Ingested], position: Position, quarantine: Quarantine) -> Collection[int]:
    """Of the sequences that put bad records of these files into quarantine, those whose records came there."""
    sequences = {sequence for file in files for sequence in file.quarantined_by}
    return quarantine.took_in(position, sequences) if sequences else ()


def _not_in_quarantine(file: Ingested, settled: Collection[int]) -> str | None:
    missing = [sequence for sequence in file.quarantined_by if sequence not in settled]
    return f"the quarantine does not have its bad records of sequence {missing[-1]}" if missing else None
