"""Source files archived or deleted after they were ingested, where the user asks for it.

Only files whose last line is committed, some time after that, and only while they are still the very files that were
ingested. What was done is written into the next commit; a crash before it makes the same files be looked at again, and
those that are gone are done. A file that cannot be moved is told, and tried again by the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from blizzard.core.history import ledgers_of
from blizzard.core.ledger import Ledger, LedgerEntry
from blizzard.core.log import CommitFacts
from blizzard.core.state import CheckpointState
from blizzard.errors import BlizzardError
from blizzard.ports import Progress
from blizzard.store.files import Store
from blizzard.store.uri import join


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """`archive` None: files are deleted. `keep_ms`: how long after their commit they stay."""

    source: Store
    archive: Store | None
    keep_ms: int

    def run(
        self, state: CheckpointState, commits: Iterable[CommitFacts], now_ms: int, progress: Progress
    ) -> tuple[int, int]:
        """The sequence up to which nothing is left to be done, and how many files were dealt with now."""
        through, done = state.cleaned_through, 0
        for ledger in reversed(list(self._due(state, commits, now_ms))):
            for entry in ledger.entries:
                if entry.finished and entry.broken is None:
                    try:
                        done += self._clean(entry, progress)
                    except (OSError, BlizzardError) as e:
                        progress.warn(
                            f"{entry.path} was ingested and could not be {self._verb}: {e}. Tried again later."
                        )
                        self._tell(done, progress)
                        return through, done
            through = ledger.sequence
        self._tell(done, progress)
        return through, done

    @property
    def _verb(self) -> str:
        return "deleted" if self.archive is None else "archived"

    def _tell(self, done: int, progress: Progress) -> None:
        if done:
            progress.note(f"{done:,} source files that were ingested are {self._verb}")

    def _due(self, state: CheckpointState, commits: Iterable[CommitFacts], now_ms: int) -> Iterator[Ledger]:
        for commit, ledger in ledgers_of(commits, state.pipeline):
            if ledger.sequence <= state.cleaned_through:
                return
            if commit.timestamp_ms <= now_ms - self.keep_ms:
                yield ledger

    def _clean(self, entry: LedgerEntry, progress: Progress) -> int:
        file = self.source.stat(entry.path)
        if file is None:
            return 0
        if (file.size_bytes, file.etag) != (entry.size_bytes, entry.etag):
            progress.warn(f"{entry.path} changed after it was ingested, and is not {self._verb}")
            return 0
        if self.archive is not None:
            self._archive(entry)
        self.source.delete(entry.path)
        return 1

    def _archive(self, entry: LedgerEntry) -> None:
        assert self.archive is not None
        self.source.copy(entry.path, join(self.archive.root, entry.path))
        kept = self.archive.stat(entry.path)
        if kept is None or kept.size_bytes != entry.size_bytes:
            raise OSError(f"its copy at {join(self.archive.root, entry.path)} is not whole")
