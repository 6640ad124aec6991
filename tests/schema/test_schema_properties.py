"""Laws over random schemas and records."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from blizzard.schema import PRIMITIVES, DeltaSchema, DeltaType
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl, to_ddl
from blizzard.schema.fit import fingerprint, schema_differences
from blizzard.schema.infer import infer_schema
from blizzard.schema.load import load_schema, validate_schema

_characters = st.characters(exclude_categories=("Cs", "Cc"))
names = st.one_of(
    st.sampled_from(
        [
            "id",
            "Order",
            "like",
            "comment",
            "a b",
            "a.b",
            "it's",
            "`",
            "NOT",
            "struct",
            "1a",
            "é",
            "--",
            ",",
            ">",
        ]
    ),
    st.text(_characters, min_size=1, max_size=6),
)
comments: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}), st.text(max_size=12).map(lambda text: {"comment": text})
)
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))


def structs(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[DeltaSchema]:
    fields = st.fixed_dictionaries({"name": names, "type": types, "nullable": st.booleans(), "metadata": comments})
    several = st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field["name"].lower())
    return several.map(lambda fields: {"type": "struct", "fields": fields})


def containers(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[DeltaType]:
    return st.one_of(
        structs(types),
        types.map(lambda t: {"type": "array", "elementType": t, "containsNull": True}),
        types.map(lambda t: {"type": "map", "keyType": "string", "valueType": t, "valueContainsNull": True}),
    )


schemas = structs(st.recursive(st.one_of(st.sampled_from(sorted(PRIMITIVES)), decimals), containers, max_leaves=6))


@given(schemas)
def test_every_schema_survives_ddl_and_json(schema: DeltaSchema) -> None:
    ddl = to_ddl(schema)
    assert ddl.splitlines() == [ddl]
    assert parse_ddl(ddl) == schema
    assert load_schema(json.dumps(schema)) == schema
    assert validate_schema(schema) == schema


@given(schemas, schemas)
def test_two_schemas_fit_each_other_exactly_if_a_reader_could_not_tell_them_apart(
    one: DeltaSchema, other: DeltaSchema
) -> None:
    assert schema_differences(one, one) == ()
    if fingerprint(one) == fingerprint(other):
        assert schema_differences(one, other) == schema_differences(other, one) == ()
    if schema_differences(one, other):
        assert fingerprint(one) != fingerprint(other)


@given(schemas)
def test_every_schema_has_an_arrow_schema_with_its_columns(schema: DeltaSchema) -> None:
    arrow = to_arrow(schema)
    assert arrow.names == [field["name"] for field in schema["fields"]]
    assert [field.nullable for field in arrow] == [field["nullable"] for field in schema["fields"]]


_zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=_zones)
_values: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "long": st.integers(-(2**63), 2**64 - 1),
    "double": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53)),
    "string": st.text(st.characters(codec="utf-8"), max_size=12),
    "date": st.dates().map(date.isoformat),
    "timestamp": _moments.map(datetime.isoformat),
}


def values_of(data_type: DeltaType) -> st.SearchStrategy[Any]:
    """JSON values, null included, that belong in a column of this type."""
    match data_type:
        case {"type": "struct", "fields": fields}:
            optional: Any = {field["name"]: values_of(field["type"]) for field in fields}
            values: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional=optional)
        case {"type": "array", "elementType": element}:
            values = st.lists(values_of(element), max_size=3)
        case _:
            values = _values[data_type]
    return st.one_of(st.none(), values)


def accepts(data_type: DeltaType, value: Any) -> bool:
    """Whether a column of this type takes this JSON value as it is."""
    match data_type, value:
        case _, None:
            return True
        case {"type": "struct", "fields": fields}, dict():
            types = {field["name"]: field["type"] for field in fields}
            return all(name in types and accepts(types[name], item) for name, item in value.items())
        case {"type": "array", "elementType": element}, list():
            return all(accepts(element, item) for item in value)
        case {"type": "map", "valueType": item_type}, dict():
            return all(accepts(item_type, item) for item in value.values())
        case "boolean", bool():
            return True
        case _, bool():
            return False
        case "long", int():
            return -(2**63) <= value < 2**63
        case "decimal(38,0)", int():
            return abs(value) < 10**38
        case "double", int() | float():
            return True
        case _:
            return isinstance(value, str) and accepts_text(data_type, value)


def accepts_text(data_type: DeltaType, value: str) -> bool:
    match data_type:
        case "date":
            return date.fromisoformat(value).isoformat() == value
        case "timestamp":
            return datetime.fromisoformat(value.replace("Z", "+00:00")).tzinfo is not None
        case _:
            return bool(data_type == "string")


def lists_and_structs(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[DeltaType]:
    return st.one_of(structs(types), types.map(lambda t: {"type": "array", "elementType": t}))


inferable = structs(st.recursive(st.sampled_from(sorted(_values)), lists_and_structs, max_leaves=6))


@given(st.data())
def test_the_inferred_schema_accepts_every_record_it_was_inferred_from(data: st.DataObject) -> None:
    source = data.draw(inferable)
    every: dict[str, Any] = {field["name"]: values_of(field["type"]) for field in source["fields"]}
    records = data.draw(st.lists(st.fixed_dictionaries(every), min_size=1, max_size=5))
    records = [orjson.loads(orjson.dumps(record)) for record in records]
    schema = infer_schema(records)
    assert all(accepts(schema, record) for record in records)
    assert [field["name"] for field in schema["fields"]] == list(records[0])
    assert parse_ddl(to_ddl(schema)) == validate_schema(schema) == schema
    assert infer_schema(records * 2) == schema
