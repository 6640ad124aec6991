"""Compares a schema from the user with the table's schema, in sentences, and makes a fingerprint to compare schemas.

Order, comments and other metadata are no difference. Only the fingerprint depends on the order, because files are
written in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, fold_name, quote_name, show_path
from blizzard.schema.ddl import show_type

_Differences: TypeAlias = Iterator[tuple[str, bool]]  # a sentence; True: a nullable column that only the table has


def schema_differences(
    given: DeltaSchema, table: DeltaSchema, *, called: str = "given", may_have_more: bool = False
) -> tuple[str, ...]:
    """How `given` differs from the table's schema, one sentence each. Empty if it fits. With `may_have_more`, nullable
    columns that only the table has are no difference."""
    differences = _struct_differences(given, table, (), called)
    return tuple(text for text, is_more in differences if not (is_more and may_have_more))


def fingerprint(schema: DeltaSchema) -> str:
    """16 hex digits that change with any name, type, nullability or order, and with nothing else."""
    canonical = json.dumps(_bare(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:16]


def _struct_differences(given: dict[str, Any], table: dict[str, Any], path: ColumnPath, called: str) -> _Differences:
    in_table = {fold_name(field["name"]): field for field in table["fields"]}
    for field in given["fields"]:
        here = (*path, field["name"])
        other = in_table.pop(fold_name(field["name"]), None)
        if other is None:
            yield f"{show_path(here)}: {called} {show_type(field['type'])}, missing in the table", False
            continue
        if other["name"] != field["name"]:
            yield f"{show_path(here)}: {called} with this case, the table has {quote_name(other['name'])}", False
        yield from _null_differences(field["nullable"], other["nullable"], here, called)
        yield from _type_differences(field["type"], other["type"], here, called)
    for field in in_table.values():
        here = (*path, field["name"])
        text = f"{show_path(here)}: table {show_type(field['type'])}, missing in the {called} schema"
        yield text, field["nullable"]


def _null_differences(given_nullable: bool, table_nullable: bool, path: ColumnPath, called: str) -> _Differences:
    # NOT NULL only in the table is no difference: it is checked for every record anyway.
    if table_nullable and not given_nullable:
        yield f"{show_path(path)}: {called} NOT NULL, table nullable", False


def _type_differences(given: DeltaType, table: DeltaType, path: ColumnPath, called: str) -> _Differences:
    match (given, table):
        case ({"type": "struct"}, {"type": "struct"}):
            yield from _struct_differences(given, table, path, called)
        case ({"type": "array"}, {"type": "array"}):
            here = (*path, "element")
            yield from _null_differences(given["containsNull"], table["containsNull"], here, called)
            yield from _type_differences(given["elementType"], table["elementType"], here, called)
        case ({"type": "map"}, {"type": "map"}):
            here = (*path, "value")
            yield from _type_differences(given["keyType"], table["keyType"], (*path, "key"), called)
            yield from _null_differences(given["valueContainsNull"], table["valueContainsNull"], here, called)
            yield from _type_differences(given["valueType"], table["valueType"], here, called)
        case _ if given != table:
            yield f"{show_path(path)}: {called} {show_type(given)}, table {show_type(table)}", False


def _bare(data_type: Any) -> Any:
    """The same type without the metadata of any field. (A column may itself be called "metadata".)"""
    match data_type:
        case {"type": "struct", "fields": fields}:
            return [
                {"name": field["name"], "type": _bare(field["type"]), "nullable": field["nullable"]} for field in fields
            ]
        case dict():
            return {key: _bare(value) for key, value in data_type.items()}
        case _:
            return data_type
