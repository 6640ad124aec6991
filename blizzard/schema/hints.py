"""Hints: columns whose type a person decides, whatever the records suggest.

`user.age INT` is a column inside an object, `tags.element STRING` is what an array holds, `user STRUCT<…>` is a whole
object. A hint is taken as it is, with NOT NULL and comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.errors import SchemaError
from blizzard.schema import ColumnPath, show_path
from blizzard.schema.ddl import parse_column_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """The hints for one place in a schema: for the column itself, or for columns inside it, never both."""

    column: Mapping[str, Any] | None = None  # a field of a Delta schema
    inside: Mapping[str, Hints] = field(default_factory=dict)


NO_HINTS = Hints()


def parse_hints(text: str | None) -> Hints:
    """The hints in a line of DDL, as a tree of columns. SchemaError says where the mistake is."""
    if text is None:
        return NO_HINTS
    try:
        return _tree([(path, path, column) for path, column in parse_column_paths(text)])
    except SchemaError as error:
        raise SchemaError(f"hints: {error}") from None


def _tree(columns: list[tuple[ColumnPath, ColumnPath, dict[str, Any]]]) -> Hints:
    """The tree of hints from (rest of the path, whole path, column)."""
    leaves = [column for rest, _, column in columns if not rest]
    if leaves and len(columns) > 1:
        first, second = columns[0][1], columns[1][1]
        raise SchemaError(f"{show_path(first)} and {show_path(second)} speak of the same column; keep one of the two")
    if leaves:
        return Hints(column=leaves[0])
    names = dict.fromkeys(rest[0] for rest, _, _ in columns)
    return Hints(
        inside={name: _tree([(rest[1:], path, c) for rest, path, c in columns if rest[0] == name]) for name in names}
    )
