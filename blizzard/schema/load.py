"""Loads a schema from what the user gave: a file, a line of DDL, Spark's JSON, or the schema object of another library.

The result is in canonical form and can be ingested into. A mistyped path is never taken for DDL, and a JSON schema is
never repaired: what is wrong or missing in it is refused by name.
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from blizzard.errors import SchemaError
from blizzard.schema import (
    PRIMITIVES,
    ColumnPath,
    DeltaSchema,
    DeltaType,
    check_depth,
    check_names,
    decimal_digits,
    show_column,
)
from blizzard.schema.ddl import parse_ddl, show_type

_ARROW_ENDING = ".arrow"
_FILE_ENDINGS = (".json", ".ddl", ".sql", ".txt", _ARROW_ENDING)
_FIELD_KEYS = frozenset(("name", "type", "nullable", "metadata"))
_TYPE_KEYS = {
    "struct": frozenset(("type", "fields")),
    "array": frozenset(("type", "elementType", "containsNull")),
    "map": frozenset(("type", "keyType", "valueType", "valueContainsNull")),
}
# DDL words, and the names that Spark's JSON uses instead.
_JSON_NAMES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "bool": "boolean"}


def load_schema(given: Any) -> DeltaSchema:
    """The schema from a text, a file, a Delta schema as a dict, a StructType of Spark, or an Arrow schema."""
    if isinstance(given, str):
        return _load_text(given)
    if isinstance(given, dict):
        return validate_schema(given)
    if hasattr(given, "jsonValue"):  # pyspark's types have it; pyspark is not imported
        return validate_schema(given.jsonValue())
    if hasattr(given, "__arrow_c_schema__"):
        from blizzard.schema.from_arrow import from_arrow

        return validate_schema(from_arrow(given))
    raise SchemaError(
        f"schema: {type(given).__name__} is not a schema; give DDL, Spark's JSON, a file, a dict in Delta's form,"
        " a pyspark StructType or a pyarrow Schema"
    )


def _load_text(text_or_path: str) -> DeltaSchema:
    """The schema in this file or in this text: Spark JSON if it starts with `{`, else DDL."""
    content = text_or_path
    if os.path.isfile(text_or_path):
        if text_or_path.endswith(_ARROW_ENDING):
            from blizzard.schema.from_arrow import read_arrow_file

            return validate_schema(read_arrow_file(text_or_path))
        content = _read(text_or_path)
    elif _looks_like_a_path(text_or_path):
        raise SchemaError(
            f"schema file {text_or_path} was not found; give the path of a local file, "
            "or the schema itself: DDL such as id BIGINT, name STRING, or Spark's JSON"
        )
    content = content.strip()
    return _load_json(content) if content.startswith("{") else parse_ddl(content)


def validate_schema(schema: DeltaSchema) -> DeltaSchema:
    """A copy in canonical form, with `metadata` filled in. SchemaError if it cannot be ingested into."""
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        raise SchemaError('schema: the outermost type must be {"type": "struct", "fields": [...]}')
    return _canonical_struct(schema, ())


def _looks_like_a_path(text: str) -> bool:
    text = text.strip()
    if text.startswith("{"):  # JSON without spaces may have a slash in it
        return False
    has_separator = any(separator in text for separator in ("/", os.sep))
    return text.lower().endswith(_FILE_ENDINGS) or (has_separator and not any(c.isspace() for c in text))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:  # some editors put a byte order mark first
            return file.read()
    except UnicodeDecodeError:
        raise SchemaError(f"schema file {path} is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise SchemaError(f"schema file {path} cannot be read: {error.strerror}; check its permissions") from error


def _load_json(text: str) -> DeltaSchema:
    try:
        schema = json.loads(text, object_pairs_hook=_object_without_repeats)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SchemaError(f"schema: not valid JSON at {place} ({error.msg}); fix it, or write DDL") from None
    except ValueError:
        raise SchemaError("schema: a number in the JSON has more digits than can be read; fix it") from None
    except RecursionError:
        raise SchemaError("schema: the JSON is nested too deep to be a schema; flatten it") from None
    return validate_schema(schema)


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise SchemaError(f"schema: a JSON object has the key {repeated!r} twice; keep one of the two")
    return result


def _canonical_struct(data_type: dict[str, Any], path: ColumnPath) -> DeltaSchema:
    _check_keys(data_type, _TYPE_KEYS["struct"], _TYPE_KEYS["struct"], path)
    fields = data_type["fields"]
    if not isinstance(fields, list):
        raise SchemaError(f"{show_column(path)}: fields must be a list of columns")
    canonical = [_canonical_field(field, path) for field in fields]
    check_names([field["name"] for field in canonical], path)
    return {"type": "struct", "fields": canonical}


def _canonical_field(field: Any, parent: ColumnPath) -> dict[str, Any]:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str):
        raise SchemaError(f"{show_column(parent)}: each of its fields must be an object with a name")
    path = (*parent, field["name"])
    _check_keys(field, _FIELD_KEYS - {"metadata"}, _FIELD_KEYS, path)
    metadata = field.get("metadata", {})
    if not isinstance(metadata, dict):
        raise SchemaError(f"{show_column(path)}: metadata must be an object; write {{}} if there is none")
    return {
        "name": field["name"],
        "type": _canonical_type(field["type"], path),
        "nullable": _flag(field, "nullable", path),
        "metadata": copy.deepcopy(metadata),
    }


def _canonical_type(data_type: Any, path: ColumnPath) -> DeltaType:
    check_depth(path)
    if isinstance(data_type, str):
        return _canonical_primitive(data_type, path)
    kind = data_type.get("type") if isinstance(data_type, dict) else None
    if not isinstance(kind, str) or kind not in _TYPE_KEYS:
        raise SchemaError(f"{show_column(path)}: its type must be a name, or an object of type struct, array or map")
    if kind == "struct":
        return _canonical_struct(data_type, path)
    _check_keys(data_type, _TYPE_KEYS[kind], _TYPE_KEYS[kind], path)
    if kind == "array":
        element = _canonical_type(data_type["elementType"], (*path, "element"))
        return {
            "type": "array",
            "elementType": element,
            "containsNull": _flag(data_type, "containsNull", path),
        }
    key = _canonical_type(data_type["keyType"], (*path, "key"))
    if key != "string":
        found = f"the map has {show_type(key)} keys, but keys in JSON are strings"
        raise SchemaError(f'{show_column(path)}: {found}; write "keyType": "string"')
    return {
        "type": "map",
        "keyType": key,
        "valueType": _canonical_type(data_type["valueType"], (*path, "value")),
        "valueContainsNull": _flag(data_type, "valueContainsNull", path),
    }


def _canonical_primitive(name: str, path: ColumnPath) -> str:
    if name in PRIMITIVES:
        return name
    if name == "decimal":
        return "decimal(10,0)"
    if (digits := decimal_digits(name.replace(" ", ""))) is not None:
        return "decimal({},{})".format(*digits)
    every = ", ".join([*PRIMITIVES, "decimal(p,s) with 0 <= s <= p <= 38"])
    instead = _JSON_NAMES.get(name.lower(), f"one of {every}")
    raise SchemaError(f"{show_column(path)}: {name!r} is not a type blizzard can fill; write {instead}")


def _flag(holder: dict[str, Any], key: str, path: ColumnPath) -> bool:
    value = holder[key]
    if not isinstance(value, bool):
        raise SchemaError(f"{show_column(path)}: {key} must be true or false")
    return value


def _check_keys(holder: dict[str, Any], required: frozenset[str], allowed: frozenset[str], path: ColumnPath) -> None:
    if missing := sorted(required - holder.keys()):
        raise SchemaError(f"{show_column(path)}: {', '.join(missing)} is missing from its JSON; add it")
    if unknown := sorted(map(str, holder.keys() - allowed)):
        raise SchemaError(f"{show_column(path)}: unknown key {', '.join(unknown)} in its JSON; remove it")
