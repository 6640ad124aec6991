"""Decides which targets share the next read, whose turn it is, and what that read takes for each of them.

Targets that want mostly the same files share a read. One that lags reads by itself, in turn with the others by bytes,
until one batch holds its lag: so it starves nobody, and nobody starves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from blizzard.core.framing import AUTO
from blizzard.core.plan import Limits, deal, max_stored_bytes
from blizzard.core.types import BatchPlan, Cores, SharedPlan, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What one target wants to read next, and how many bytes this run has read for it so far."""

    name: str
    plan: BatchPlan
    given_bytes: int = 0


def whose_turn(wants: Sequence[Want]) -> Want:
    """The one that has been given the fewest bytes; of equals, the first."""
    return min(wants, key=lambda want: want.given_bytes)


def choose_together(wants: Sequence[Want], limits: Limits) -> tuple[Want, ...]:
    """Whose turn it is, with all that can share its read, in the order of `wants`."""
    first = whose_turn(wants)
    together, union = [first], _by_path(first.plan)
    for want in wants:
        pieces = _by_path(want.plan)
        if want is first or not all(_can_be_one(_by_path(one.plan), pieces) for one in together):
            continue
        joined = _join(union, pieces)
        if _is_worth_it(union, pieces, joined, limits):
            together.append(want)
            union = joined
    return tuple(want for want in wants if want in together)


def share_read(wants: Sequence[Want], limits: Limits, *, slots: int, cores: Cores) -> SharedPlan:
    """One read for these targets, which `choose_together` has chosen."""
    wanted = {want.name: {piece.path: piece.from_record for piece in want.plan.slices} for want in wants}
    if len(wants) == 1:
        return SharedPlan(tasks=wants[0].plan.tasks, wanted=wanted)
    union = reduce(_join, (_by_path(want.plan) for want in wants))
    # Files that a target has begun come first in its own plan, so that none starves. Here the order of names is fair.
    pieces = [union[path] for path in sorted(union)]
    return SharedPlan(tasks=deal(pieces, limits, slots=slots, cores=cores), wanted=wanted)


def _by_path(plan: BatchPlan) -> Mapping[str, Slice]:
    return {piece.path: piece for piece in plan.slices}


def _join(one: Mapping[str, Slice], other: Mapping[str, Slice]) -> dict[str, Slice]:
    """Both as one read."""
    return {**one, **other} | {path: _earlier(one[path], other[path]) for path in one.keys() & other.keys()}


def _is_worth_it(
    one: Mapping[str, Slice], other: Mapping[str, Slice], joined: Mapping[str, Slice], limits: Limits
) -> bool:
    """If all of it is one batch, or most of it is wanted by both."""
    both, shared = _bytes(joined.values()), _bytes(joined[path] for path in one.keys() & other.keys())
    fits = both <= max_stored_bytes(limits) and len(joined) <= limits.max_files
    return fits or 2 * shared > both


def _can_be_one(one: Mapping[str, Slice], other: Mapping[str, Slice]) -> bool:
    return all(_is_one_file(one[path], other[path]) for path in one.keys() & other.keys())


def _is_one_file(one: Slice, other: Slice) -> bool:
    """Whether one reading of the file serves both. They must have listed the same version of it and read it in the same
    way. One that leaves this to the file reads it as another has begun with it: the file has told that one."""
    if (one.size_bytes, one.etag, one.given_up) != (other.size_bytes, other.etag, other.given_up):
        return False
    if one.encoding != other.encoding:
        return False
    new = [piece for piece in (one, other) if not piece.from_record]
    return one.framing == other.framing or (len(new) == 1 and new[0].framing == AUTO)


def _earlier(one: Slice, other: Slice) -> Slice:
    """From the smaller record, and in the way that the one with records was begun."""
    begun = max(one, other, key=lambda piece: piece.from_record)
    return replace(begun, from_record=min(one.from_record, other.from_record))


def _bytes(pieces: Iterable[Slice]) -> int:
    return sum(piece.size_bytes for piece in pieces)
