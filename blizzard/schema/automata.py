"""Sets of texts, built from small parts, and a text that two of them have in common, if there is one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

_END = 0


@dataclass(slots=True, kw_only=True)
class _States:
    """State 0 is the end. `moves` are by a character of a set, `free` are by none."""

    moves: list[list[tuple[frozenset[str], int]]] = field(default_factory=lambda: [[]])
    free: list[list[int]] = field(default_factory=lambda: [[]])

    def add(self, *, move: tuple[frozenset[str], int] | None = None, free: Iterable[int] = ()) -> int:
        self.moves.append([] if move is None else [move])
        self.free.append(list(free))
        return len(self.moves) - 1

    def reachable(self, state: int) -> list[int]:
        """By free moves, in order; the state itself first."""
        found = {state: None}
        pending = [state]
        while pending:
            for following in self.free[pending.pop()]:
                if following not in found:
                    found[following] = None
                    pending.append(following)
        return list(found)


# Adds the states of a set of texts that is followed by what begins at the given state. Returns the first of them.
Language: TypeAlias = Callable[[_States, int], int]


def one_of(characters: str) -> Language:
    allowed = frozenset(characters)
    return lambda states, after: states.add(move=(allowed, after))


def sequence(*parts: Language) -> Language:
    def build(states: _States, after: int) -> int:
        for part in reversed(parts):
            after = part(states, after)
        return after

    return build


def alternatives(*parts: Language) -> Language:
    return lambda states, after: states.add(free=[part(states, after) for part in parts])


def maybe(part: Language) -> Language:
    return alternatives(part, sequence())


def many(part: Language) -> Language:
    """Once or more."""

    def build(states: _States, after: int) -> int:
        again = states.add(free=[after])
        start = part(states, again)
        states.free[again].append(start)
        return start

    return build


def word(text: str, *, any_case: bool = False) -> Language:
    """This text; with `any_case`, its letters may be small or capital."""
    return sequence(*(one_of(c.lower() + c.upper() if any_case else c) for c in text))


ANY_DIGIT = one_of("0123456789")


def common_text(one: Language, other: Language) -> str | None:
    """A shortest text that is in both."""
    states = _States()
    begin = one(states, _END), other(states, _END)
    reached: dict[tuple[int, int], str] = {begin: ""}
    pending = deque([begin])
    while pending:
        pair = pending.popleft()
        text = reached[pair]
        first, second = states.reachable(pair[0]), states.reachable(pair[1])
        if _END in first and _END in second:
            return text
        for allowed, following in _moves(states, first):
            for allowed_too, following_too in _moves(states, second):
                both = allowed & allowed_too
                if both and (following, following_too) not in reached:
                    reached[following, following_too] = text + min(both)
                    pending.append((following, following_too))
    return None


def _moves(states: _States, reachable: list[int]) -> list[tuple[frozenset[str], int]]:
    return [move for state in reachable for move in states.moves[state]]
