"""Archives or deletes source files, each only if it is still the file that was ingested.

The names come from the log, and others can write to the log: a file is touched only if a listing of the source shows
it. Never overwrites a file in the archive: it may be the only copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from blizzard.core.cleanable import OneCleaned
from blizzard.core.ledger import LedgerEntry
from blizzard.core.types import SourceFile
from blizzard.source.listing import find_listed
from blizzard.source.uri import SourceLocation
from blizzard.store.files import FileChanged, Store
from blizzard.store.uri import join

_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCleaner:
    """`archive` None: files are deleted."""

    source: SourceLocation
    archive: Store | None = None

    @property
    def verb(self) -> str:
        return "deleted" if self.archive is None else "archived"

    def is_listed(self, path: str) -> bool:
        return find_listed(self.source, path) is not None

    def clean(self, entry: LedgerEntry) -> OneCleaned:
        file = find_listed(self.source, entry.path)
        if file is None:
            return OneCleaned()
        if (file.size_bytes, file.etag) != (entry.size_bytes, entry.etag):
            return OneCleaned(problem="it changed after it was ingested")
        if self.archive is not None:
            self._archive(file, self.archive)
        try:
            return OneCleaned(is_done=self.source.store.delete_version(file))
        except FileChanged as e:
            return OneCleaned(problem=str(e))

    def _archive(self, file: SourceFile, archive: Store) -> None:
        """Under its own name, or that name with a number if another file has it. This file may be there already, copied
        by a process that died before it deleted it here."""
        for number in count(1):
            name = file.path if number == 1 else f"{file.path}~{number}"
            # Reserve the name with an empty file: another process may want it at the same moment.
            if archive.reserve(name):
                self.source.store.copy(file.path, join(archive.root, name))
                kept = archive.stat(name)
                if kept is None or kept.size_bytes != file.size_bytes:
                    raise OSError(f"its copy at {join(archive.root, name)} is not whole")
                return
            if self._is_there(file, archive, name):
                return

    def _is_there(self, file: SourceFile, archive: Store, name: str) -> bool:
        kept = archive.stat(name)
        if kept is None or kept.size_bytes != file.size_bytes:
            return False
        with self.source.store.open_seekable(file.path) as one, archive.open_seekable(name) as other:
            while chunk := one.read(_CHUNK_BYTES):
                if chunk != other.read(len(chunk)):
                    return False
        return True
