"""Laws over random schemas and records."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blizzard.errors import BadRecord, SchemaError
from blizzard.schema import PRIMITIVES, DeltaSchema, DeltaType, holds_variant, show_path
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl, to_ddl
from blizzard.schema.fit import fingerprint, schema_differences
from blizzard.schema.from_arrow import from_arrow
from blizzard.schema.hints import parse_hints
from blizzard.schema.infer import infer_schema
from blizzard.schema.load import load_schema, validate_schema
from blizzard.tasks.records import RecordReader

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


def structs(
    types: st.SearchStrategy[DeltaType], names: st.SearchStrategy[str] = names
) -> st.SearchStrategy[DeltaSchema]:
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
    if not holds_variant(schema):  # in Arrow it is a struct like any other
        assert fingerprint(from_arrow(arrow)) == fingerprint(schema)


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


def lists_and_structs(types: st.SearchStrategy[DeltaType]) -> st.SearchStrategy[DeltaType]:
    return st.one_of(structs(types, usable), types.map(lambda t: {"type": "array", "elementType": t}))


usable = names.filter(lambda name: not set(name) & set(" ,;{}()="))
inferable = structs(st.recursive(st.sampled_from(sorted(_values)), lists_and_structs, max_leaves=6), usable)


@given(st.data())
def test_the_inferred_schema_accepts_every_record_it_was_inferred_from(data: st.DataObject) -> None:
    source = data.draw(inferable)
    every: dict[str, Any] = {field["name"]: values_of(field["type"]) for field in source["fields"]}
    records = data.draw(st.lists(st.fixed_dictionaries(every), min_size=1, max_size=5))
    records = [orjson.loads(orjson.dumps(record)) for record in records]
    try:
        inference = infer_schema(records)
    except SchemaError:
        assert not any(holds_a_value(record) for record in records)
        return
    schema = inference.schema
    reader = RecordReader(schema)
    for record in records:
        reader.read(orjson.dumps(record))
    left_out = {name for name in records[0] if not any(holds_a_value(record[name]) for record in records)}
    assert [field["name"] for field in schema["fields"]] == [name for name in records[0] if name not in left_out]
    assert {show_path((name,)) for name in left_out} <= set(inference.left_out)
    assert parse_ddl(to_ddl(schema)) == validate_schema(schema) == schema
    assert infer_schema(records * 2) == inference


def holds_a_value(value: Any) -> bool:
    match value:
        case dict():
            return any(map(holds_a_value, value.values()))
        case list():
            return any(map(holds_a_value, value))
        case _:
            return value is not None


@given(st.data())
def test_a_hint_wins_over_whatever_the_records_hold(data: st.DataObject) -> None:
    source = data.draw(inferable)
    every: dict[str, Any] = {field["name"]: values_of(field["type"]) for field in source["fields"]}
    records = data.draw(st.lists(st.fixed_dictionaries(every), max_size=5))
    hints = data.draw(schemas)
    seen = {name.lower(): name for name in every}
    # A hint for a column that the records spell otherwise is another column, and the two cannot stand together.
    assume(all(seen.get(f["name"].lower(), f["name"]) == f["name"] for f in hints["fields"]))
    schema = infer_schema(records, parse_hints(to_ddl(hints))).schema
    assert all(field in schema["fields"] for field in hints["fields"])
    unhinted = set(every) - {field["name"] for field in hints["fields"]}
    assert all(field["nullable"] for field in schema["fields"] if field["name"] in unhinted)


_json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), *_values.values()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_leaves=6,
)


def strings_take_any_value() -> bool:
    try:
        RecordReader(parse_ddl("a STRING")).read(b'{"a":[1]}')
    except BadRecord:
        return False
    return True


@pytest.mark.skipif(not strings_take_any_value(), reason="STRING columns take text only")
@given(st.lists(st.dictionaries(st.sampled_from("abc"), _json_values), min_size=1, max_size=6))
def test_records_of_any_shape_fit_the_schema_inferred_from_them(records: list[dict[str, Any]]) -> None:
    records = [orjson.loads(orjson.dumps(record)) for record in records]
    if any(map(holds_a_value, records)):
        reader = RecordReader(infer_schema(records).schema)
        for record in records:
            reader.read(orjson.dumps(record))
