"""Source files archived or deleted after they were ingested, where the user asks for it.

Only files whose last line is committed, some time after that, and only while they are still the very files that were
ingested. That it will be done is committed first (`cleaning_through`): from then on nobody goes back before it. After a
crash the same files are looked at again, and those that are gone are done. A file that cannot be moved is told, and
tried again by the next run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from blizzard.core.history import ledgers_of
from blizzard.core.ledger import LedgerEntry
from blizzard.core.log import CommitFacts
from blizzard.core.state import CheckpointState
from blizzard.errors import BlizzardError
from blizzard.ports import Progress
from blizzard.store.files import FileChanged, Store
from blizzard.store.uri import join


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """`archive` None: files are deleted. `keep_ms`: how long after their commit they stay."""

    source: Store
    archive: Store | None
    keep_ms: int

    def due_through(self, state: CheckpointState, commits: Iterable[CommitFacts], now_ms: int) -> int:
        """The newest sequence with files that have been kept for long enough."""
        for commit, ledger in ledgers_of(commits, state.pipeline):
            if ledger.sequence <= state.cleaning_through:
                break
            if commit.timestamp_ms <= now_ms - self.keep_ms and any(map(_is_whole, ledger.entries)):
                return ledger.sequence
        return state.cleaning_through

    def run(self, state: CheckpointState, commits: Iterable[CommitFacts], progress: Progress) -> bool:
        """Deal with what a committed state says is to be cleaned. Whether nothing of it is left."""
        done, is_complete = 0, True
        for entry in self._entries(state, commits):
            try:
                done += self._clean(entry, progress)
            except (OSError, BlizzardError) as e:
                is_complete = False
                progress.warn(f"{entry.path} was ingested and could not be {self._verb}: {e}. Tried again later.")
        if done:
            progress.note(f"{done:,} source files that were ingested are {self._verb}")
        return is_complete

    @property
    def _verb(self) -> str:
        return "deleted" if self.archive is None else "archived"

    def _entries(self, state: CheckpointState, commits: Iterable[CommitFacts]) -> Iterator[LedgerEntry]:
        """What the newest ledger that names a file says of it, oldest first. A file that is to be read again stays."""
        found: dict[str, LedgerEntry] = {}
        for _, ledger in ledgers_of(commits, state.pipeline):
            if ledger.sequence <= state.cleaned_through:
                break
            if ledger.sequence <= state.cleaning_through:
                for entry in reversed(ledger.entries):
                    found.setdefault(entry.path, entry)
        for entry in reversed(found.values()):
            if _is_whole(entry) and state.source_state.is_finished(entry.path):
                yield entry

    def _clean(self, entry: LedgerEntry, progress: Progress) -> int:
        file = self.source.stat(entry.path)
        if file is None:
            return 0
        if (file.size_bytes, file.etag) != (entry.size_bytes, entry.etag):
            progress.warn(f"{entry.path} changed after it was ingested, and is not {self._verb}")
            return 0
        if self.archive is not None:
            self._archive(entry, self.archive)
        try:
            return int(self.source.delete_version(file))
        except FileChanged as e:
            progress.warn(f"{entry.path} is not {self._verb}: {e}")
            return 0

    def _archive(self, entry: LedgerEntry, archive: Store) -> None:
        name = entry.path
        if archive.stat(name) is not None:  # an earlier file of this name, or this one, and then it died
            name = f"{entry.path}~{hashlib.blake2b(entry.etag.encode(), digest_size=4).hexdigest()}"
        self.source.copy(entry.path, join(archive.root, name))
        kept = archive.stat(name)
        if kept is None or kept.size_bytes != entry.size_bytes:
            raise OSError(f"its copy at {join(archive.root, name)} is not whole")


def _is_whole(entry: LedgerEntry) -> bool:
    return entry.finished and entry.broken is None
