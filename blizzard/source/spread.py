"""Which files of a listing a sample is taken from, and how much of each. Pure.

Files are spread evenly over the listing, the first and the last among them: data changes with time. While they hold too
few records, more files between them are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLimits:
    """`files` is how many files are taken at first. If they have too few records, and only then, more are taken:
    `most_files`, `bytes` (decompressed) and `seconds` bound that."""

    records: int
    files: int = 20
    most_files: int = 1_000
    bytes: int = 128 * 1024 * 1024
    seconds: float = 20.0


def sample_limits(records: int, files: int | None) -> SampleLimits:
    """`files` None: as many as are needed, within bounds."""
    limits = SampleLimits(records=records)
    return limits if files is None else replace(limits, files=files, most_files=files)


def spread(total: int, count: int) -> list[int]:
    """`count` indexes below `total` at even distances, with the first and the last."""
    if count >= total:
        return list(range(total))
    if count <= 0:
        return []
    return [i * (total - 1) // max(count - 1, 1) for i in range(count)]


def some_of(chosen: list[int], count: int) -> tuple[list[int], list[int]]:
    """At most `count` of them, spread evenly, and the others."""
    taken = spread(len(chosen), max(count, 0))
    others = set(range(len(chosen))).difference(taken)
    return [chosen[i] for i in taken], [chosen[i] for i in sorted(others)]


def rounds(total: int, limits: SampleLimits) -> Iterator[list[int]]:
    """The files of the listing to look at, round by round; each at most once. Every round is spread over the whole."""
    looked_at: set[int] = set()
    count = min(limits.files, limits.records)
    most = min(total, max(limits.most_files, count))
    while len(looked_at) < most:
        chosen, _ = some_of([i for i in spread(total, count) if i not in looked_at], most - len(looked_at))
        looked_at.update(chosen)
        if chosen:
            yield chosen
        count *= 2
