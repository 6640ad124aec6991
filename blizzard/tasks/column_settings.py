"""Checks settings of columns (formats, coercions, new names) against the schema. A setting must never do nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from blizzard.core.lists import some
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, name_problems, show_path
from blizzard.schema.ddl import show_type
from blizzard.schema.derived import whole_record_column
from blizzard.schema.formats import parse_formats
from blizzard.tasks.policy import EVERY_COLUMN, Coercion, ParsePolicy, Unknown
from blizzard.tasks.values import INTEGER_BITS

_NUMBERS = (*INTEGER_BITS, "float", "double")
_CONTAINERS = ("struct", "array", "map")
_FOR = {
    Coercion.INTEGRAL_FLOATS: tuple(INTEGER_BITS),
    Coercion.BOOLEANS_0_1: ("boolean",),
    Coercion.PARSE_JSON_TEXT: _CONTAINERS,
}


def check_settings(policy: ParsePolicy, schema: DeltaSchema) -> None:
    """Raises ConfigError. `schema` is what is read from the records."""
    for path, formats in policy.formats.items():
        key = f"schema.formats.{show_path(path)}"
        data_type = _type_at(schema, path, key)
        try:
            parse_formats(formats, _kind(data_type))
        except SchemaError as error:
            raise ConfigError(f"{key}: {error}") from None
    for path, coercions in policy.coerce.items():
        if path != EVERY_COLUMN:
            data_type = _type_at(schema, path, f"schema.coerce.{show_path(path)}")
            for coercion in sorted(coercions):
                _check_coercion(coercion, coercions, data_type, path)
    _check_rename(policy, schema)


def _check_coercion(coercion: Coercion, given: frozenset[Coercion], data_type: DeltaType, path: ColumnPath) -> None:
    kind = _kind(data_type)
    if coercion is Coercion.EMPTY_IS_NULL or kind in _FOR.get(coercion, ()):
        return
    if coercion is Coercion.NUMBERS_IN_STRINGS and (
        kind in _NUMBERS or kind.startswith("decimal") or (kind == "boolean" and Coercion.BOOLEANS_0_1 in given)
    ):
        return
    inside = " To change what is inside of it, name those columns, or use *." if kind in _CONTAINERS else ""
    what = f"{coercion.value} does nothing for a {show_type(data_type)}; remove it.{inside}"
    raise ConfigError(f"schema.coerce.{show_path(path)}: {what}")


def _check_rename(policy: ParsePolicy, schema: DeltaSchema) -> None:
    if policy.rename is None or isinstance(policy.rename, str):
        return
    whole = whole_record_column(schema["fields"])
    for source, name in policy.rename.items():
        key = f"schema.rename.{show_path(source)}"
        if whole is not None:
            raise ConfigError(f"{key}: the column {show_path([whole])} takes each record as it is; remove it")
        if problems := name_problems([name], source[:-1]):
            raise ConfigError(f"{key}: {problems[0]}")
        if policy.unknown is Unknown.REPORT:
            continue  # the column may be one that is added
        parent = _type_at(schema, source[:-1], key) if source[:-1] else schema
        columns = [field["name"] for field in parent["fields"]] if _kind(parent) == "struct" else []
        if name not in columns:
            raise ConfigError(f"{key}: there is no column {show_path((*source[:-1], name))}; {_near(name, columns)}")


def _kind(data_type: DeltaType) -> str:
    return data_type if isinstance(data_type, str) else str(data_type["type"])


def _type_at(schema: DeltaSchema, path: ColumnPath, key: str) -> DeltaType:
    data_type: DeltaType = schema
    for depth, name in enumerate(path):
        inside = dict(_inside(data_type))
        if name not in inside:
            missing = show_path(path[: depth + 1])
            raise ConfigError(f"{key}: there is no column {missing}; {_near(name, list(inside))}")
        data_type = inside[name]
    return data_type


def _inside(data_type: DeltaType) -> Iterator[tuple[str, DeltaType]]:
    match data_type:
        case {"type": "struct", "fields": fields}:
            yield from ((field["name"], field["type"]) for field in fields)
        case {"type": "array", "elementType": element}:
            yield "element", element
        case {"type": "map", "valueType": value}:
            yield "value", value


def _near(name: str, columns: list[str]) -> str:
    if not columns:
        return "nothing is inside of this column"
    near = difflib.get_close_matches(name, columns, n=1)
    return f"did you mean {show_path(near)}?" if near else f"there are {some(columns, 10)}"
