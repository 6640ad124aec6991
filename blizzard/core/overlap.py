"""Decides by roots and patterns alone whether two sources can have a file in common. In doubt they can. Filters do not
count: they can be changed, and then the two would meet.

Patterns mean what they mean to the listing: `**` crosses folders, `{a,b}` is either, and names that begin with `_` or
`.` are left out at every level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar
from urllib.parse import unquote

from blizzard.core.patterns import glob_of, ignores_case
from blizzard.core.types import SourceIdentity

_MAX_EXPANDED = 256
_RUN = "*"  # any characters, or none
_ANY = "?"  # any one character

Part = TypeVar("Part")


def is_same_source(one: SourceIdentity, other: SourceIdentity) -> bool:
    """The same root and pattern. `marks_per` and the filters do not matter."""
    return (one.root, one.pattern) == (other.root, other.pattern)


def may_change_to(one: SourceIdentity, other: SourceIdentity) -> bool:
    """Whether they differ only in what a person may change: the pattern and the filters."""
    return (one.root, one.marks_per) == (other.root, other.marks_per)


def may_overlap(one: SourceIdentity, other: SourceIdentity) -> bool:
    if is_same_source(one, other):
        return True
    for outer, inner in ((one, other), (other, one)):
        below = _folder_below(outer.root, inner.root)
        if below is not None:
            return _may_meet(outer.pattern, below, inner.pattern)
    return False


def _folder_below(outer: str, inner: str) -> tuple[str, ...] | None:
    """The folders from the outer root down to the inner one. Empty: they are equal. None: it is not inside."""
    above, whole = _folders_of(outer), _folders_of(inner)
    return whole[len(above) :] if whole[: len(above)] == above else None


def _folders_of(root: str) -> tuple[str, ...]:
    """The folders of a root, as names are written. Local roots are percent-encoded in an identity."""
    scheme, _, path = root.partition("://")
    path = (unquote(path) if scheme == "file" else path).strip("/")
    return (scheme, *path.split("/")) if path else (scheme,)


def _may_meet(outer: str, folders: tuple[str, ...], inner: str) -> bool:
    if any(name[:1] in ("_", ".") for name in folders):
        return False
    for mine in _segments_of(outer):
        for below in _segments_of(inner):
            theirs = (*(tuple(name) for name in folders), *below)
            if not _is_hidden(mine) and not _is_hidden(theirs) and _meet(mine, theirs, _is_globstar, _names_meet):
                return True
    return False


# A file or folder name as tokens: one character, both cases of a letter (`jJ`), _ANY or _RUN.
Name = tuple[str, ...]
_GLOBSTAR: Name = ("**",)


def _is_globstar(name: Name) -> bool:
    return name == _GLOBSTAR


def _is_hidden(names: Sequence[Name]) -> bool:
    """A hidden file is read only by a source that is this one file, and then both identities are the same."""
    return any(name[:1] in (("_",), (".",)) for name in names)


def _segments_of(pattern: str) -> list[tuple[Name, ...]]:
    names = [tuple(map(_tokens, _split(one))) for one in _expand(glob_of(pattern))]
    return [tuple(map(_in_any_case, one)) for one in names] if ignores_case(pattern) else names


def _in_any_case(name: Name) -> Name:
    return tuple(token.lower() + token.upper() if len(token) == 1 and token.isalpha() else token for token in name)


def _names_meet(one: Name, other: Name) -> bool:
    return _meet(one, other, lambda token: token == _RUN, _tokens_meet)


def _meet(
    one: Sequence[Part], other: Sequence[Part], is_run: Callable[[Part], bool], fit: Callable[[Part, Part], bool]
) -> bool:
    """Whether some text fits both. A part for which `is_run` is true stands for any number of parts."""

    @cache
    def meets(i: int, j: int) -> bool:
        if i < len(one) and is_run(one[i]):
            return meets(i + 1, j) or (j < len(other) and meets(i, j + 1))
        if j < len(other) and is_run(other[j]):
            return meets(i, j + 1) or (i < len(one) and meets(i + 1, j))
        if i == len(one) or j == len(other):
            return i == len(one) and j == len(other)
        return fit(one[i], other[j]) and meets(i + 1, j + 1)

    return meets(0, 0)


def _tokens_meet(one: str, other: str) -> bool:
    # `[a-z]` is taken for any character. At worst a second pipeline needs --reads-again without cause.
    return one == other or _ANY in (one, other) or _is_case_of(one, other) or _is_case_of(other, one)


def _is_case_of(letter: str, token: str) -> bool:
    return len(token) == 2 and token[0] != "\\" and letter in token


def _split(pattern: str) -> list[str]:
    """Split at slashes, escaped ones too."""
    return pattern.replace("\\/", "/").strip("/").split("/")


def _tokens(name: str) -> Name:
    if name == "**":
        return _GLOBSTAR
    tokens, i = [], 0
    while i < len(name):
        end = name.find("]", i + 2) if name[i] == "[" else -1
        if name[i] == "\\" and i + 1 < len(name):
            tokens.append("\\" + name[i + 1] if name[i + 1] in "*?" else name[i + 1])
            i += 2
        elif end > 0:
            tokens.append(_ANY)
            i = end + 1
        else:
            tokens.append(name[i])
            i += 1
    return tuple(tokens)


def _expand(pattern: str) -> list[str]:
    """The patterns without braces that this one stands for. If they are too many: `**`, which fits everything."""
    found = _first_group(pattern)
    if found is None:
        return [pattern]
    before, choices, after = found
    rest = _expand(after)
    expanded = [before + choice + end for part in choices for choice in _expand(part) for end in rest]
    return expanded if len(expanded) <= _MAX_EXPANDED else ["**"]


def _first_group(pattern: str) -> tuple[str, list[str], str] | None:
    """The text before the first `{a,b}`, its choices, and the text after it."""
    depth, start, choices, i = 0, 0, [], 0
    while i < len(pattern):
        if pattern[i] == "\\":
            i += 2
            continue
        if pattern[i] == "{":
            depth += 1
            if depth == 1:
                start, choices = i, [i]
        elif pattern[i] == "," and depth == 1:
            choices.append(i)
        elif pattern[i] == "}" and depth:
            depth -= 1
            if depth == 0:
                parts = [pattern[a + 1 : b] for a, b in zip(choices, [*choices[1:], i], strict=True)]
                # `{1..9}` is a range; `{a}` is no group for a shell. Both are taken for any text here.
                return pattern[:start], parts if len(parts) > 1 else [_RUN], pattern[i + 1 :]
        i += 1
    return ("", ["**"], "") if depth else None  # a brace that is never closed: fits everything
