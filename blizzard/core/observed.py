"""What undeclared fields held, as far as a report may tell it. Merged in any order, the result is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nsmallest

# What one report may hold. Beyond that the smallest paths are kept, whatever the order they came in; the others are
# seen again once these are columns.
MAX_PATHS = 2000

FieldPath = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The kinds of values that undeclared fields held, by path; an array's values are at `element`."""

    kinds: Mapping[FieldPath, frozenset[str]]

    def merge(self, other: Observations) -> Observations:
        merged = dict(self.kinds)
        for path, kinds in other.kinds.items():
            merged[path] = merged.get(path, frozenset()) | kinds
        return Observations(kinds=smallest(merged))


def smallest(kinds: dict[FieldPath, frozenset[str]]) -> dict[FieldPath, frozenset[str]]:
    # A path that is among the smallest of all is so in every part: no order of merging can lose a kind of it.
    return kinds if len(kinds) <= MAX_PATHS else {path: kinds[path] for path in nsmallest(MAX_PATHS, kinds)}
