"""One look at the source: what was listed and when, and what the position keeps of it for the next look.

`list_from`, `young_names` and `settled_names` are kept up to date while a run goes on. They only move forward, so the
whole run costs one pass over the listing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from blizzard.core.left_out import NONE_LEFT_OUT, LeftOut
from blizzard.core.position import Marks, Position, prefix_of
from blizzard.core.recover import StartFrom
from blizzard.core.types import SourceFile, find_file, first_after, seen_since


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The files found, sorted by name, and which of them to leave alone for now."""

    files: Sequence[SourceFile]
    at_ms: int  # by the store's clock, before the first name was listed
    is_full: bool = True
    held: Mapping[str, str] = field(default_factory=dict)  # and why
    asides: tuple[str, ...] = ()  # files that a process hid before it died: they must be put back or deleted
    left_out: LeftOut = NONE_LEFT_OUT  # what else is there; complete only if it is full


def settled_in(position: Position) -> Callable[[str], bool]:
    """Whether the position takes a name for done: the mark has passed it, and it is not named. Files that `after:NAME`
    left out never count."""
    start, source = StartFrom.parse(position.begun.start_from or ""), position.marks
    skipped = start.after if start is not None and start.after is not None else ""
    return lambda path: path > skipped and path not in source.files and source.is_passed(path)


def young_files(listing: Sequence[SourceFile], position: Position, grace_ms: int) -> Iterator[SourceFile]:
    """Files that were young at the last full look and that the position takes for done now."""
    looked_ms = position.seen.relist_watermark_ms
    if looked_ms is None:
        return
    is_settled = settled_in(position)
    for file in seen_since(listing, looked_ms - grace_ms):
        if file.seen_ms <= looked_ms and is_settled(file.path):
            yield file


def settled_files(listing: Sequence[SourceFile], position: Position) -> Iterator[SourceFile]:
    """All listed files that the position takes for done, whatever their times say."""
    source, end = position.marks, len(listing)
    if source.marks_per is None:  # names after the one mark need not be looked at
        mark = source.last_committed_file
        end = 0 if mark is None else first_after(listing, mark)
    is_settled = settled_in(position)
    for i in range(end):
        if is_settled((file := listing[i]).path):
            yield file


def digest_files(files: Iterable[SourceFile]) -> str:
    """A sum of hashes of names and versions: files can be added one by one, in any order."""
    return _add("0:0", files)


def salted(digest: str, salt: str) -> str:
    """Another digest of the same files. It is equal only with the same salt."""
    count, total = digest.split(":")
    return f"{count}:{(int(total, 16) + _hash(salt)) % (1 << 64):x}"


def digest_count(digest: str) -> int:
    """How many files are in a digest."""
    return int(digest.split(":", maxsplit=1)[0], 16)


def _add(digest: str, files: Iterable[SourceFile]) -> str:
    count, total = (int(part, 16) for part in digest.split(":"))
    for file in files:
        count += 1
        total += _hash(f"{file.path}\n{file.size_bytes}\n{file.etag}")
    return f"{count:x}:{total % (1 << 64):x}"


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class Look:
    """A listing that a run works through."""

    def __init__(self, listed: Listed, position: Position, grace_ms: int) -> None:
        self._files, self._at_ms, self._grace_ms = listed.files, listed.at_ms, grace_ms
        self._marks_per = position.source.marks_per
        self._starts = dict(position.seen.list_from)
        self._next: dict[str, int] = {}
        self._parts: dict[str, list[int]] | None = None

    def list_from(self, marks: Marks) -> dict[str, str]:
        """For each mark, a name before every young one that it has passed."""
        by_part = dict(marks.prefix_marks)
        if marks.last_committed_file is not None:
            by_part[""] = marks.last_committed_file
        return {part: self._list_from(part, mark) for part, mark in by_part.items()}

    def _list_from(self, part: str, mark: str) -> str:
        indexes, i = self._indexes(part), self._next.get(part, 0)
        start = self._starts.get(part, "")
        while i < len(indexes):
            file = self._files[indexes[i]]
            # Late files sort before `start` and must not move it back.
            if file.path > mark or (file.path > start and file.seen_ms >= self._at_ms - self._grace_ms):
                break
            i += 1
        self._next[part] = i
        before = self._files[indexes[i - 1]].path if i > 0 else start
        return max(start, min(before, mark))

    def digests(self, previous: Position, marks: Marks) -> tuple[str | None, str | None]:
        """`young_names` and `settled_names` after the position has moved from `previous` to these marks."""
        young, settled = previous.seen.young_names, previous.seen.settled_names
        latest_ms = previous.seen.relist_watermark_ms
        new = list(self._newly_settled(previous, marks)) if latest_ms is not None else []
        if young is not None and latest_ms is not None:
            earliest_ms = latest_ms - self._grace_ms
            young = _add(young, (f for f in new if earliest_ms <= f.seen_ms <= latest_ms))
        return young, None if settled is None else _add(settled, new)

    def _newly_settled(self, previous: Position, marks: Marks) -> Iterator[SourceFile]:
        before = previous.marks
        for path in before.files.keys() - marks.files.keys():  # finished, and its mark has passed it
            if before.is_passed(path) and (file := find_file(self._files, path)) is not None:
                yield file
        for path, mark in self._moved_marks(before, marks):
            for i in range(first_after(self._files, path) if path else 0, first_after(self._files, mark)):
                file = self._files[i]
                same_part = prefix_of(file.path, self._marks_per) == prefix_of(mark, self._marks_per)
                if same_part and file.path not in marks.files:
                    yield file

    def _moved_marks(self, before: Marks, after: Marks) -> Iterator[tuple[str, str]]:
        pairs = [(before.last_committed_file, after.last_committed_file)]
        pairs += [(before.prefix_marks.get(part), mark) for part, mark in after.prefix_marks.items()]
        for old, new in pairs:
            if new is not None and new != old:
                yield (old or (prefix_of(new, self._marks_per) if self._marks_per else "")), new

    def _indexes(self, part: str) -> Sequence[int]:
        if self._marks_per is None:
            return range(len(self._files))
        if self._parts is None:
            self._parts = {}
            for i, file in enumerate(self._files):
                self._parts.setdefault(prefix_of(file.path, self._marks_per), []).append(i)
        return self._parts.get(part, [])
