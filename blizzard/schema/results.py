"""Compares the columns that a transform makes with those of the table that takes them.

A type fits if each of its values can be kept exactly, or be told from those that cannot. Nothing is rounded or read out
of a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, decimal_digits, fold_name, quote_name, show_path
from blizzard.schema.ddl import show_type

# The type of a column that only ever holds null: it says nothing about the column.
VOID = "void"
_INTEGERS = ("byte", "short", "integer", "long")


def result_problems(result: DeltaSchema, table: DeltaSchema) -> list[str]:
    """Why the rows of a transform cannot go into the table, one sentence each."""
    return list(_struct_problems(result, table, ()))


def fields_by_name(struct: DeltaSchema) -> dict[str, dict[str, Any]]:
    """As Delta finds them: whatever their case."""
    return {fold_name(field["name"]): field for field in struct["fields"]}


def _struct_problems(result: DeltaSchema, table: DeltaSchema, path: ColumnPath) -> Iterator[str]:
    made = fields_by_name(result)
    if len(made) < len(result["fields"]):
        names = Counter(fold_name(field["name"]) for field in result["fields"])
        yield from (f"{show_path((*path, name))} is made {count} times" for name, count in names.items() if count > 1)
    for field in table["fields"]:
        here = (*path, field["name"])
        own = made.pop(fold_name(field["name"]), None)
        if own is not None:
            yield from _type_problems(own["type"], field["type"], here)
        elif not field["nullable"]:
            yield f"{show_path(here)} is NOT NULL in the table, and the transform does not make it"
    for field in made.values():
        yield f"{show_path((*path, field['name']))} is no column of the table"


def _type_problems(result: DeltaType, table: DeltaType, path: ColumnPath) -> Iterator[str]:
    match (result, table):
        case ({"type": "struct"}, {"type": "struct"}):
            yield from _struct_problems(result, table, path)
        case ({"type": "array"}, {"type": "array"}):
            yield from _type_problems(result["elementType"], table["elementType"], (*path, "element"))
        case ({"type": "map"}, {"type": "map"}):
            yield from _type_problems(result["keyType"], table["keyType"], (*path, "key"))
            yield from _type_problems(result["valueType"], table["valueType"], (*path, "value"))
        case _ if not _fits(result, table):
            yield f"{show_path(path)} is {show_type(table)} in the table, and the transform makes {_shown(result)}"


def _shown(data_type: DeltaType) -> str:
    return "nothing but null" if data_type == VOID else show_type(data_type)


def _fits(result: DeltaType, table: DeltaType) -> bool:
    if result in (table, VOID):
        return True
    if not isinstance(result, str) or not isinstance(table, str):
        return False
    is_whole = table in _INTEGERS
    if result in _INTEGERS:
        return is_whole or table in ("float", "double") or decimal_digits(table) is not None
    if decimal_digits(result) is not None:
        return is_whole or decimal_digits(table) is not None
    return (result in ("float", "double") and is_whole) or (result, table) == ("float", "double")


def untyped(result: DeltaSchema) -> list[str]:
    """The columns whose type a new table could not know."""
    return [quote_name(field["name"]) for field in result["fields"] if field["type"] == VOID]
