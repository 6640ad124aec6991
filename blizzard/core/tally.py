"""How often something was met, by the path of its field. The order of merging must never change the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

from blizzard.core.observed import FieldPath

# How many paths are kept apart. Of more, the smallest are kept, in whatever order they came.
MAX_NAMES = 200
# What was met at all other paths is counted here.
OTHERS: FieldPath = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    counts: Mapping[FieldPath, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """The paths that are kept apart, sorted."""
        return tuple(sorted(path for path in self.counts if path != OTHERS))

    def merge(self, other: Tally) -> Tally:
        return tally([*self.counts.items(), *other.counts.items()])


NOTHING = Tally()


def tally(met: Iterable[tuple[FieldPath, int]]) -> Tally:
    counts: dict[FieldPath, int] = {}
    for path, count in met:
        counts[path] = counts.get(path, 0) + count
    # A path among the smallest of all is among the smallest of every part, so no order of merging loses it.
    kept = {OTHERS, *nsmallest(MAX_NAMES, counts.keys() - {OTHERS})}
    if len(counts) <= len(kept):
        return Tally(counts=counts)
    others = sum(count for path, count in counts.items() if path not in kept) + counts.get(OTHERS, 0)
    return Tally(counts={path: counts[path] for path in kept & counts.keys()} | {OTHERS: others})
