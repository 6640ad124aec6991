"""Plans one batch from marks, listing and limits: which slices, on which task slots, with what budget.

A plan says where each slice starts, never where it ends. It keeps the commit within the size limits of the log, in
whatever order the files finish.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from blizzard.core.codec import MAX_APP_ID_BYTES
from blizzard.core.framing import LINES, MAX_KEY_BYTES, UTF8
from blizzard.core.ledger import MAX_LEDGER_BYTES, ledger_entry_bytes
from blizzard.core.overflow import MAX_DROPPED_BYTES
from blizzard.core.position import Marks, entry_bytes, prefix_of
from blizzard.core.types import (
    ONE_CORE,
    BatchPlan,
    Budget,
    Cores,
    Slice,
    SourceFile,
    TaskPlan,
    find_file,
    first_after,
)

# JSON bytes that fit under the appId limit, less the fixed fields. base64 makes four bytes of three.
_PAYLOAD_BUDGET_BYTES = MAX_APP_ID_BYTES * 3 // 4 - 16 * 1024 - MAX_DROPPED_BYTES
# Each task may leave one file of bad records, which the payload names.
_QUARANTINE_NAME_BYTES = 100
_LEDGER_BUDGET_BYTES = MAX_LEDGER_BYTES - 16 * 1024 - 4 * MAX_DROPPED_BYTES


# Each part of a source with its own mark costs two names in every payload, for ever.
MAX_PREFIX_MARKS = 1_000


class TooManyPrefixes(Exception):
    """More parts of the source than a payload should name."""


def _version_bytes(path: str) -> int:
    """About what size, etag and framing of a file in progress cost. A batch leaves at most one such file per task."""
    return entry_bytes(path) + 200 + MAX_KEY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one batch may take. Any of these may differ between runs."""

    max_files: int = 10_000
    max_bytes: int | None = None  # as stored, compressed
    max_records: int | None = None
    commit_files: int = 10
    target_file_bytes: int = 128 * 1024 * 1024
    interval_s: float | None = 60.0


def plan_batch(
    marks: Marks,
    listing: Sequence[SourceFile],
    limits: Limits,
    *,
    slots: int,
    cores: Cores = ONE_CORE,
    held: Collection[str] = (),
    given_up: Mapping[str, str] | None = None,
    framing: str = LINES,
) -> BatchPlan:
    """The next batch. `listing` is sorted by path and must have a file to read. Names in `held` are left alone; the
    mark may pass them, and then the position names them. Names in `given_up` are not read. `framing` is for files of
    which nothing is read yet."""
    chosen: list[Slice] = []
    stored_bytes = 0
    # All sums are doubled: at most half of the new names become exceptions to the mark (see advance_mark). All names of
    # the old position may stay, and each partly read file costs its name once more, with size and etag.
    payload_bytes = 2 * sum(map(entry_bytes, marks.files)) + _marks_bytes(marks)
    payload_bytes += 2 * sum(_version_bytes(path) for path, p in marks.in_progress.items() if p.size_bytes is not None)
    longest = 0
    ledger_bytes = 0
    max_bytes = max_stored_bytes(limits)
    for file, is_new in _pending(marks, listing, held):
        stored_bytes += file.size_bytes
        payload_bytes += entry_bytes(file.path) if is_new else 0
        longest = max(longest, entry_bytes(file.path) + _version_bytes(file.path))
        ledger_bytes += ledger_entry_bytes(file.path, file.etag)
        if chosen and (
            len(chosen) >= limits.max_files
            or stored_bytes > max_bytes
            or payload_bytes + 2 * min(slots, len(chosen) + 1) * (longest + _QUARANTINE_NAME_BYTES)
            > 2 * _PAYLOAD_BUDGET_BYTES
            or ledger_bytes > _LEDGER_BUDGET_BYTES
        ):
            break
        chosen.append(_slice(marks, file, (given_up or {}).get(file.path), framing))
    if not chosen:
        raise ValueError("nothing to plan: everything listed is finished")
    _check_prefixes(marks, chosen)
    passable = {s.path for s in chosen}.union(marks.files, held)
    return BatchPlan(tasks=deal(chosen, limits, slots=slots, cores=cores), frontier=_frontier(marks, listing, passable))


def max_stored_bytes(limits: Limits) -> int:
    """Compressed bytes that one batch may take, unless its first file alone has more."""
    return min(limits.max_bytes or 1 << 62, limits.commit_files * limits.target_file_bytes)


def _slice(marks: Marks, file: SourceFile, given_up: str | None, framing: str) -> Slice:
    begun = marks.in_progress_of(file.path)
    return Slice(
        path=file.path,
        size_bytes=file.size_bytes,
        etag=file.etag,
        from_record=0 if begun is None else begun.records,
        given_up=given_up,
        framing=framing if begun is None else begun.framing,
        encoding=UTF8 if begun is None else begun.encoding,
    )


def is_drained(marks: Marks, listing: Sequence[SourceFile], held: Collection[str] = ()) -> bool:
    """Whether everything listed is finished, except files that are held back."""
    return next(_pending(marks, listing, held), None) is None


def count_backlog(marks: Marks, listing: Sequence[SourceFile], waiting: Iterable[str] = ()) -> tuple[int, int]:
    """Files and stored bytes still to be read, including files in progress and those in `waiting`, which the mark has
    passed."""
    files = stored_bytes = 0
    passed = (find_file(listing, path) for path in waiting)
    for file in chain((file for file, _ in _pending(marks, listing)), filter(None, passed)):
        files += 1
        stored_bytes += file.size_bytes
    return files, stored_bytes


def _pending(
    marks: Marks, listing: Sequence[SourceFile], held: Collection[str] = ()
) -> Iterator[tuple[SourceFile, bool]]:
    """Unfinished files, and whether each is new to the position. Files in progress come first, so that none starves."""
    for path in sorted(marks.in_progress):
        file = find_file(listing, path)
        if file is not None and path not in held:
            yield file, False
    for file in _after_mark(marks, listing):
        if file.path not in marks.files and file.path not in held:
            yield file, True


def _after_mark(marks: Marks, listing: Sequence[SourceFile]) -> Iterator[SourceFile]:
    if marks.marks_per is not None:
        yield from (file for file in listing if not marks.is_passed(file.path))
        return
    mark = marks.last_committed_file
    for i in range(0 if mark is None else first_after(listing, mark), len(listing)):
        yield listing[i]


def _frontier(marks: Marks, listing: Sequence[SourceFile], passable: set[str]) -> tuple[str, ...]:
    """For each part of the source: the names after its mark, up to the first that must not be passed."""
    names = []
    ended: set[str] = set()
    for file in _after_mark(marks, listing):
        part = prefix_of(file.path, marks.marks_per)
        if part in ended:
            continue
        if file.path in passable:
            names.append(file.path)
        elif marks.marks_per is None:
            break
        else:
            ended.add(part)
    return tuple(names)


def _check_prefixes(marks: Marks, chosen: Sequence[Slice]) -> None:
    if marks.marks_per is None:
        return
    parts = {prefix_of(piece.path, marks.marks_per) for piece in chosen}.union(marks.prefix_marks)
    if len(parts) > MAX_PREFIX_MARKS:
        raise TooManyPrefixes(
            f"source.marks_per {marks.marks_per} gives more than {MAX_PREFIX_MARKS:,} parts ({max(parts)} is one), and"
            f" the position would have to name the mark of each"
        )


def _marks_bytes(marks: Marks) -> int:
    """What the marks of all parts cost, and the names they are listed from. Doubled, like everything in that sum."""
    return 2 * sum(2 * len(prefix) + 2 * len(mark) + 40 for prefix, mark in marks.prefix_marks.items())


def deal(chosen: Sequence[Slice], limits: Limits, *, slots: int, cores: Cores) -> tuple[TaskPlan, ...]:
    """Largest file first, to the least loaded slot. A slot keeps the planned order, so that marks move evenly."""
    tasks = min(slots, len(chosen), limits.max_records or slots)
    loads = [(0, slot) for slot in range(tasks)]
    dealt: list[list[int]] = [[] for _ in range(tasks)]
    for i in sorted(range(len(chosen)), key=lambda i: -chosen[i].size_bytes):
        load, slot = heapq.heappop(loads)
        dealt[slot].append(i)
        # Opening a file has a cost, however small the file is: empty files are spread too.
        heapq.heappush(loads, (load + chosen[i].size_bytes + 4096, slot))
    return tuple(
        TaskPlan(
            slot=slot,
            slices=tuple(chosen[i] for i in sorted(indexes)),
            budget=Budget(
                output_bytes=max(1, limits.commit_files * limits.target_file_bytes // tasks),
                max_records=_share(limits.max_records, slot, tasks),
                seconds=limits.interval_s,
            ),
            threads=threads_of(cores, slots=slots, tasks=tasks),
        )
        for slot, indexes in enumerate(dealt)
    )


def threads_of(cores: Cores, *, slots: int, tasks: int) -> int:
    """How many cores each task may keep busy: its own, and its share of those that would idle."""
    return max(1, min(cores.per_executor, slots // tasks * cores.per_task))


def _share(total: int | None, slot: int, tasks: int) -> int | None:
    return None if total is None else total // tasks + (1 if slot < total % tasks else 0)
