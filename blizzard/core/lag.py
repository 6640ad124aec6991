"""Says how far one target is behind the others: what they have committed of the source, and it has not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blizzard.core.position import Marks
from blizzard.core.types import SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Source files, and their size as stored."""

    files: int
    stored_bytes: int


def find_behind(marks: Marks, others: Iterable[Marks], listing: Sequence[SourceFile]) -> Behind:
    others, files, stored_bytes = tuple(others), 0, 0
    for file in listing:
        if not marks.is_finished(file.path) and any(_has_more(other, marks, file.path) for other in others):
            files, stored_bytes = files + 1, stored_bytes + file.size_bytes
    return Behind(files=files, stored_bytes=stored_bytes)


def _has_more(other: Marks, marks: Marks, path: str) -> bool:
    return other.is_finished(path) or other.records_read(path) > marks.records_read(path)


def stands_behind(marks: Marks, others: Iterable[Marks]) -> bool:
    """The same from the positions alone, where nobody lists the source: whether another has passed a name, or begun a
    file further, that this one has not."""
    return any(_is_ahead(other, marks) for other in others)


def _is_ahead(other: Marks, marks: Marks) -> bool:
    named = [other.last_committed_file, *other.prefix_marks.values(), *other.files, *marks.files]
    return any(name is not None and not marks.is_finished(name) and _has_more(other, marks, name) for name in named)
