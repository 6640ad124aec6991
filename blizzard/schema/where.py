"""`where` of a target: which records are for its table. A SQL condition on the fields of a record.

It is checked here, before anything is read: what is not supported is refused by its name. It is judged before the
schema, on the fields that it names; one that is missing, or holds what its type cannot hold, is NULL there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, show_path
from blizzard.schema.evolve import RESCUED_COLUMN
from blizzard.schema.where_sql import read_condition
from blizzard.schema.where_tree import Where, WhereError
from blizzard.schema.where_types import Typer

__all__ = ["Where", "parse_where"]


def parse_where(text: str, record_schema: DeltaSchema, *, reserved: Collection[str] = (), key: str = "where") -> Where:
    """`record_schema` is what the target reads from the records. `reserved` are columns of the table that are not read
    from them. ConfigError, with `key`, if the condition cannot be used."""
    typer = Typer(record_schema, (RESCUED_COLUMN, *reserved))
    try:
        root = typer.type(read_condition(text))
        fields = typer.declared | typer.undeclared
        if not fields:
            raise WhereError("it names no field of the records; leave it out, or name one")
        schema = _schema_of(fields)
        _check_patterns(root)
    except WhereError as e:
        raise ConfigError(f"{key}: {e}", kind=Kind.WHERE) from None
    return Where(text=text, root=root, schema=schema, undeclared=tuple(sorted(typer.undeclared)))


def _schema_of(fields: dict[ColumnPath, DeltaType]) -> DeltaSchema:
    """A schema with these fields alone. All may be null, so that no record is bad for what it lacks."""
    inner: dict[str, dict[ColumnPath, DeltaType]] = {}
    for path, data_type in fields.items():
        inner.setdefault(path[0], {})[path[1:]] = data_type
    return {"type": "struct", "fields": [_schema_field(name, found, (name,)) for name, found in inner.items()]}


def _schema_field(name: str, found: dict[ColumnPath, DeltaType], path: ColumnPath) -> dict[str, Any]:
    if () in found and len(found) > 1:
        raise WhereError(f"{show_path(path)} is named as a whole and by its fields; use one of them")
    data_type = found[()] if () in found else _schema_of(found)
    return {"name": name, "type": _nullable(data_type), "nullable": True, "metadata": {}}


def _nullable(data_type: DeltaType) -> DeltaType:
    match data_type:
        case {"type": "struct", "fields": fields}:
            inner = [field | {"type": _nullable(field["type"]), "nullable": True} for field in fields]
            return data_type | {"fields": inner}
        case {"type": "array", "elementType": element}:
            return data_type | {"elementType": _nullable(element), "containsNull": True}
        case {"type": "map", "valueType": value}:
            return data_type | {"valueType": _nullable(value), "valueContainsNull": True}
        case _:
            return data_type


def _check_patterns(root: Any) -> None:
    """Arrow searches with RE2, which knows no back references and no look-around."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for call in _calls(root):
        if call.name == "regexp_like":
            try:
                pc.match_substring_regex(pa.array([""]), pattern=call.options[0])
            except pa.ArrowInvalid as e:
                said = str(e).removeprefix("Invalid regular expression: ")
                raise WhereError(f"{call.options[0][:60]!r} is no pattern that RE2 knows: {said}") from None


def _calls(node: Any) -> Iterable[Any]:
    for arg in getattr(node, "args", ()):
        yield from _calls(arg)
    if hasattr(node, "args"):
        yield node
