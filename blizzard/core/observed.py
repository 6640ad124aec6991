"""What undeclared fields held, up to a limit. The order of merging must never change the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nsmallest

# How many paths one report may hold. Of more, the smallest are kept, in whatever order they came. The others are seen
# again once these are columns.
MAX_PATHS = 2000

FieldPath = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The kinds of values that undeclared fields held, by path. The values of an array are at `element`."""

    kinds: Mapping[FieldPath, frozenset[str]]

    def merge(self, other: Observations) -> Observations:
        merged = dict(self.kinds)
        for path, kinds in other.kinds.items():
            merged[path] = merged.get(path, frozenset()) | kinds
        return Observations(kinds=smallest(merged))


def smallest(kinds: dict[FieldPath, frozenset[str]]) -> dict[FieldPath, frozenset[str]]:
    # A path among the smallest of all is among the smallest of every part, so no order of merging loses it.
    return kinds if len(kinds) <= MAX_PATHS else {path: kinds[path] for path in nsmallest(MAX_PATHS, kinds)}
