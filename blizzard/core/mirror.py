"""Decides what a mirror has to write. A mirror is a copy of the newest positions of a table, for people: the log stays
the only authority, and no run ever reads a position from a mirror.

The newest version of a series is the one with the highest sequence. So a driver that is late can add its older version
at any time, and it never looks newer. A sequence that the log has no more (the table was put back from a backup) leaves
the mirror, but only if it was seen in the mirror before the log was read: what is committed later is then never taken
for lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from blizzard.core.export import export_of
from blizzard.core.log import CommitFacts, fence_version, positions_in
from blizzard.core.position import Position

_SQL = re.compile(r"(sqlite|postgresql|postgres)(\+[a-z0-9_]+)?:", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The versions of one pipeline in one table. A copy of a table has its id, so the place counts too."""

    pipeline: str
    table_id: str
    table: str  # its URI

    @property
    def place(self) -> str:
        return hashlib.sha256(self.table.encode()).hexdigest()[:8]

    @property
    def folder(self) -> str:
        """Where a mirror of files keeps it. The id of a table is whatever its writer chose."""
        return "/".join((_as_name(self.pipeline), _as_name(self.table_id), self.place))


def _as_name(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else "id-" + hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionId:
    sequence: int
    batch_id: str | None  # None: not looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One position, as it was committed."""

    series: Series
    sequence: int
    batch_id: str
    delta_version: int
    taken_at_ms: int
    run_id: str
    payload: bytes  # as `checkpoint export` writes it

    @property
    def id(self) -> VersionId:
        return VersionId(sequence=self.sequence, batch_id=self.batch_id)

    @property
    def size_bytes(self) -> int:
        return len(self.payload)


def version_of(series: Series, position: Position, delta_version: int) -> Version:
    return Version(
        series=series,
        sequence=position.sequence,
        batch_id=position.batch_id,
        delta_version=delta_version,
        taken_at_ms=position.taken_at_ms,
        run_id=position.run_id,
        payload=export_of(position, table_id=series.table_id),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a mirror has of a series. `newest` None: nothing, or what it calls the newest is not."""

    batches: Mapping[int, str | None] = field(default_factory=lambda: MappingProxyType({}))  # by sequence
    newest: VersionId | None = None

    @property
    def highest(self) -> int:
        return max(self.batches, default=0)

    def is_missing_some_below(self, sequence: int) -> bool:
        """Whether somebody who made up for what was missing got no further than a part of it."""
        below = [s for s in self.batches if s < sequence]
        return bool(below) and len(below) < sequence - min(below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a mirror has to do: write these, oldest first; call `newest` the newest; then remove those."""

    write: tuple[Version, ...] = ()
    newest: Version | None = None  # one of those written; None: that stays as it is
    remove: tuple[VersionId, ...] = ()
    lost: tuple[int, ...] = ()  # of the removed: sequences that the log has no more

    @property
    def is_empty(self) -> bool:
        return not (self.write or self.remove)


def append(held: Held, version: Version, *, keep: int) -> Change | None:
    """For a version that is newer than all in the mirror. None: it is there, or something newer is."""
    if held.highest >= version.sequence:
        return None
    return Change(write=(version,), newest=version, remove=_beyond(held, 1, set(), keep))


def follows(held: Held, version: Version, confirmed: VersionId | None) -> bool:
    """Whether nothing is missing between the mirror and this version. `confirmed` is what the mirror and the log were
    last known to agree on."""
    if version.sequence == 1:
        return held.highest == 0
    return held.newest is not None and held.newest == confirmed and held.highest == version.sequence - 1


def compare(
    held: Held,
    commits: Iterable[CommitFacts],
    series: Series,
    *,
    known: int,
    keep: int,
    batch_of: Callable[[int], str | None],
) -> Change:
    """What makes the mirror agree with the log. `commits` are the newest, newest first. `known` is a sequence that was
    committed: a log that ends before it is not believed. Reading stops where both agree and no gap follows."""
    newest: int | None = None
    seen: list[Version] = []
    agreeing: set[int] = set()
    for commit in commits:
        sequence = fence_version(commit, series.pipeline)
        newest = sequence if newest is None else newest
        version = None if sequence is None else _version_in(commit, series, sequence)
        if version is None:
            continue
        seen.append(version)
        if version.sequence == newest:
            agrees = held.newest == version.id
        else:
            agrees = version.sequence in held.batches and batch_of(version.sequence) == version.batch_id
        if agrees:
            agreeing.add(version.sequence)
        # What was just added agrees, and may have a gap below it.
        has_more = version.sequence - 1 in held.batches and not held.is_missing_some_below(version.sequence)
        if len(seen) == keep or (agrees and has_more and version.sequence != newest):
            break
    if newest is None or newest < known:
        return Change()
    write = [version for version in reversed(seen) if version.sequence not in agreeing]
    lost = {sequence for sequence in held.batches if sequence > newest}
    new = sum(version.sequence not in held.batches for version in write)
    return Change(
        write=tuple(write),
        newest=write[-1] if write and write[-1].sequence == newest else None,
        remove=(*_ids(held, lost), *_beyond(held, new, lost, keep)),
        lost=tuple(sorted(lost)),
    )


def _version_in(commit: CommitFacts, series: Series, sequence: int) -> Version | None:
    """None: its payload is damaged, or of another table."""
    for position in positions_in(commit.txns):
        if (position.pipeline, position.sequence, position.on.table_id) == (series.pipeline, sequence, series.table_id):
            return version_of(series, position, commit.version)
    return None


def _beyond(held: Held, new: int, lost: set[int], keep: int) -> tuple[VersionId, ...]:
    """The oldest ones, if the mirror would keep too many with the new ones."""
    kept = sorted(held.batches.keys() - lost)
    return _ids(held, kept[: max(0, len(kept) + new - keep)])


def _ids(held: Held, sequences: Iterable[int]) -> tuple[VersionId, ...]:
    return tuple(VersionId(sequence=s, batch_id=held.batches[s]) for s in sorted(sequences))


def is_sql(uri: str) -> bool:
    """Whether the mirror is a table in a database."""
    return _SQL.match(uri) is not None


def sqlite_file(uri: str) -> str | None:
    """The file of a SQLite database, as SQLAlchemy reads it: three slashes, then the path. None: it is none."""
    scheme, found, path = uri.partition(":///")
    if not found or scheme.partition("+")[0].lower() != "sqlite":
        return None
    return path.partition("?")[0] or None
