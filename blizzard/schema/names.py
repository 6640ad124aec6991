"""Finds the column that a key of a record means: by its name, by its case, or by a new name that it was given.

A key that could mean two columns means none. Nothing here decides what becomes of such a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from blizzard.schema import ColumnPath

# "snake", or new names by the path of the field in the source.
Rename: TypeAlias = str | Mapping[ColumnPath, str] | None

SNAKE = "snake"

_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_IN_WORD = re.compile(r"[\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]")


def fold_ascii(name: str) -> str:
    """Equal for names that differ only by the case of ASCII letters."""
    return name.lower() if name.isascii() else name.translate(_ASCII_LOWER)


def snake(name: str) -> str:
    """`userID` → `user_id`, `First Name` → `first_name`. Characters beyond ASCII stay."""
    words = _NOT_IN_WORD.sub("_", _WORD_BEGINS.sub("_", name))
    short = re.sub("_+", "_", words)
    return fold_ascii(short if short == "_" else short.removesuffix("_"))


def new_name(name: str, path: ColumnPath, rename: Rename) -> str:
    """What a column for this field is called. `path` is that of the struct around it."""
    if rename == SNAKE:
        return snake(name)
    given = {source[-1]: new for source, new in _sources(rename) if source[:-1] == path}
    folded = {new for key, new in given.items() if fold_ascii(key) == fold_ascii(name)}
    return given.get(name) or (folded.pop() if len(folded) == 1 else name)


class FieldNames:
    """The columns of one struct, by the keys that mean them. Made once per struct, because lines are many."""

    def __init__(self, columns: Iterable[str], path: ColumnPath = (), rename: Rename = None) -> None:
        self.columns = frozenset(columns)
        self.is_snake = rename == SNAKE
        renamed = {source[-1]: name for source, name in _sources(rename) if source[:-1] == path}
        # Keys that mean a column as they are written. None: the field was given a name that is no column (yet).
        self.exact: dict[str, str | None] = {name: name for name in self.columns}
        self.exact |= {key: name if name in self.columns else None for key, name in renamed.items()}
        meanings: dict[str, set[str]] = {}
        for key, name in [*((name, name) for name in self.columns), *renamed.items()]:
            meanings.setdefault(fold_ascii(key), set()).add(name)
        # Keys with small letters for capital ones, where that leaves one column.
        self.folded = {key: min(names) for key, names in meanings.items() if len(names) == 1 and names <= self.columns}

    def find(self, key: str) -> str | None:
        """The column that this key means, if there is one."""
        if key in self.exact:
            return self.exact[key]
        folded = fold_ascii(key)
        if folded in self.folded:
            return self.folded[folded]
        return name if self.is_snake and (name := snake(key)) in self.columns else None


def _sources(rename: Rename) -> Iterable[tuple[ColumnPath, str]]:
    return rename.items() if isinstance(rename, Mapping) else ()
