"""Columns for undeclared fields: which type they get, what is never added, and that order never matters."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core import observed
from blizzard.core.observed import MAX_PATHS, Observations
from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH, DeltaSchema, DeltaType
from blizzard.schema.evolve import (
    MAX_NAME_CHARACTERS,
    Evolution,
    evolve_schema,
    has_rescued_column,
    observe,
    with_rescued_column,
)
from blizzard.schema.infer import infer_schema
from blizzard.schema.layout import apply_layout
from blizzard.schema.load import load_schema
from blizzard.schema.value_kinds import MANY_KEYS
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError


def field(name: str, data_type: DeltaType) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}


def struct_of(*fields: dict[str, Any]) -> DeltaSchema:
    return {"type": "struct", "fields": list(fields)}


def array_of(data_type: DeltaType) -> DeltaType:
    return {"type": "array", "elementType": data_type, "containsNull": True}


DECLARED = struct_of(
    field("a", "long"),
    field("s", struct_of(field("b", "long"))),
    field("l", array_of(struct_of(field("b", "long")))),
    {**field("m", {"type": "map", "keyType": "string", "valueType": struct_of(field("b", "long"))}), "nullable": False},
)
DECLARED["fields"][3]["type"]["valueContainsNull"] = False


def see(*records: Any, schema: DeltaSchema = DECLARED) -> Observations:
    return see_lines(*(json.dumps(record).replace("Infinity", "1e999").encode() for record in records), schema=schema)


def evolve(*records: Any, schema: DeltaSchema = DECLARED) -> Evolution:
    return evolve_schema(schema, [see(*records, schema=schema)])


def see_lines(*lines: bytes, schema: DeltaSchema = DECLARED) -> Observations:
    nullable = without_rescued(struct_of(*({**old, "nullable": True} for old in schema["fields"])))
    reader = RecordReader(nullable, ParsePolicy(unknown=Unknown.REPORT, rescue_values=True))
    found = []
    for line in lines:
        with suppress(LineError):
            reader.read(line)
            found += reader.undeclared
    return observe(found)


def type_of(*values: Any) -> DeltaType:
    """The type of a column that held these values."""
    fields = {new["name"]: new["type"] for new in evolve(*({"x": value} for value in values)).schema["fields"]}
    return fields.get("x")


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([1, None, -(2**63)], "long"),
        ([1, 2**63], "decimal(38,0)"),
        ([10**38 - 1], "decimal(38,0)"),
        ([10**38], "string"),
        ([1, 0.5], "double"),
        ([2**63, 0.5], "string"),
        ([2**53, 0.5], "double"),
        ([2**53 + 1, 0.5], "string"),
        ([2**53 + 1, 1], "long"),
        ([float("inf")], "string"),
        ([10**400], "string"),
        ([True], "boolean"),
        ([True, 1], "string"),
        ([1, "a"], "string"),
        (["a"], "string"),
        (["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5+01:00"], "timestamp"),
        (["2024-01-01T00:00:00Z", "later"], "string"),
        (["2024-01-01", "2024-12-31"], "date"),
        (["2024-01-01", "2024-01-01T00:00:00Z"], "timestamp"),
        (["2024-01-01T00:00:00", "2024-01-01 00:00:00.5"], "timestamp"),
        (["2024-01-01T00:00:00", "2024-01-01T00:00:00Z"], "string"),
        (["2024-01-01T00:00:00.123456789+0100"], "timestamp"),
        ([{"b": 1}, {"a": "x", "b": 0.5}], struct_of(field("a", "string"), field("b", "double"))),
        ([{"b": 1}, 5], "string"),
        ([{"b": 1}, [1]], "string"),
        ([[1], [], [2.5, None]], array_of("double")),
        ([[1, "a"]], array_of("string")),
        ([[[1]], [[]]], array_of(array_of("long"))),
        ([[{"b": 1}, {"c": True}]], array_of(struct_of(field("b", "long"), field("c", "boolean")))),
        ([None], None),
        ([[], {}], "string"),
        ([[]], None),
        ([[None], [[]]], None),
        ([{}], None),
        ([{"b": None, "c": []}], None),
        ([{"b": None, "c": 1}], struct_of(field("c", "long"))),
    ],
)
def test_a_new_column_takes_all_that_was_seen(values: list[Any], data_type: DeltaType | None) -> None:
    assert type_of(*values) == data_type


def test_fields_are_added_at_the_end_of_their_struct_wherever_it_is() -> None:
    records = [{"x": 1, "s": {"z": 1, "y": 2}}, {"l": [{"b": 1}, {"c": 1}], "m": {"k": {"d": 1}}}]
    evolution = evolve(*records)
    assert evolution.added == ("l.element.c", "m.value.d", "s.y", "s.z", "x")
    a, s, lists, maps, x = evolution.schema["fields"]
    assert (a, x) == (DECLARED["fields"][0], field("x", "long"))
    assert s["type"] == struct_of(field("b", "long"), field("y", "long"), field("z", "long"))
    assert lists["type"] == array_of(struct_of(field("b", "long"), field("c", "long")))
    assert maps["nullable"] is False
    assert maps["type"]["valueType"] == struct_of(field("b", "long"), field("d", "long"))
    assert maps["type"]["valueContainsNull"] is False


def test_nothing_undeclared_changes_nothing() -> None:
    before = json.dumps(DECLARED)
    nothing = Evolution(schema=DECLARED, added=(), refused=())
    assert evolve({"a": "x", "s": 5, "l": [1], "m": {}}, {}, {"A": 1, "S": {"B": 1}}, {"x": None}) == nothing
    evolve({"x": 1, "s": {"y": 1}})
    assert json.dumps(DECLARED) == before


@pytest.mark.parametrize("name", ["", "x\ty", "\x00", "_rescued_data", "_RESCUED_DATA", "x" * 256])
def test_a_name_that_delta_cannot_take_is_refused_and_its_values_are_rescued(name: str) -> None:
    evolution = evolve({name: {"also\nbad": 1, "y": 2}, "good": 1})
    assert evolution.added == ("_rescued_data", "good")
    assert len(evolution.refused) == 1
    assert evolve({name: None}) == Evolution(schema=DECLARED, added=(), refused=())


def test_a_bad_name_inside_a_new_struct_is_refused_alone() -> None:
    evolution = evolve({"x": {"bad\nname": 1, "y": 2}})
    assert (evolution.added, evolution.refused) == (("_rescued_data", "x"), ("x.`bad\ufffdname`",))
    assert evolution.schema["fields"][-2] == field("x", struct_of(field("y", "long")))


@pytest.mark.parametrize("value", [[], {}, [[], None], {"y": []}, [{}]])
def test_a_field_without_any_value_is_rescued_until_its_type_can_be_told(value: Any) -> None:
    evolution = evolve({"x": value})
    assert (evolution.added, evolution.refused) == (("_rescued_data",), ())
    assert evolve({"x": value}, schema=evolution.schema).added == ()


def test_spellings_of_one_name_are_one_column_with_the_smallest() -> None:
    evolution = evolve({"userId": 1, "s": {"y": 1}}, {"USERID": 0.5, "S": {"Y": "t"}}, {"userid": None})
    assert evolution.added == ("USERID", "s.Y")
    assert evolution.schema["fields"][-1] == field("USERID", "double")
    assert evolution.schema["fields"][1]["type"] == struct_of(field("b", "long"), field("Y", "string"))
    nested = evolve({"x": {"In": [{"k": 1}]}}, {"X": {"in": [{"K": "a", "z": 1}]}}).schema["fields"][-1]
    inside = array_of(struct_of(field("K", "string"), field("z", "long")))
    assert nested == field("X", struct_of(field("In", inside)))


def test_only_ascii_letters_make_one_column_of_two_spellings() -> None:
    evolution = evolve({"ä": 1}, {"Ä": 2})
    assert (evolution.added, evolution.refused) == (("_rescued_data", "`Ä`"), ("`ä`",)), "Spark takes them for the same"


def test_new_columns_have_their_new_names() -> None:
    record = {"userId": 1, "homeAddress": {"Zip Code": 1}, "user_id": 2, "s": {"newOne": 1}}
    snake = evolve_schema(DECLARED, [see(record)], "snake")
    assert snake.added == ("home_address", "s.new_one", "user_id")
    assert snake.schema["fields"][-2] == field("home_address", struct_of(field("zip_code", "long")))
    rename = {("userId",): "uid", ("homeAddress",): "home", ("home", "Zip Code"): "zip", ("s", "newOne"): "one"}
    given = evolve_schema(DECLARED, [see(record, {"USERID": 3})], rename)
    assert given.added == ("home", "s.one", "uid", "user_id")
    assert given.schema["fields"][-3] == field("home", struct_of(field("zip", "long")))


def test_a_field_that_the_reader_could_not_tell_from_another_is_rescued() -> None:
    schema = struct_of(field("a", "long"), field("b", "long"))
    reader = RecordReader(schema, ParsePolicy(unknown=Unknown.REPORT, rename={("a",): "b"}))
    reader.read(b'{"A":1}')
    evolution = evolve_schema(schema, [observe(reader.undeclared)], {("a",): "b"})
    assert (evolution.added, evolution.refused) == (("_rescued_data",), ("A",))


def test_a_field_with_the_name_of_a_derived_column_is_rescued() -> None:
    layout = apply_layout(struct_of(field("ts", "timestamp")), provenance=["source_file"])
    seen = observe([(("_source_file",), "x"), (("_SOURCE_FILE",), "y")])
    evolution = evolve_schema(layout.schema, [seen])
    assert (evolution.added, evolution.refused) == (("_rescued_data",), ("_SOURCE_FILE", "_source_file"))


def test_where_there_is_the_rescued_column_nothing_more_is_added_for_what_no_column_takes() -> None:
    schema = with_rescued_column(DECLARED)
    evolution = evolve({"x\n": 1, "y": []}, schema=schema)
    assert (evolution.schema, evolution.added, evolution.refused) == (schema, (), ("`x\ufffd`",))
    with pytest.raises(SchemaError) as caught:
        evolve({"x\n": 1}, schema=struct_of(field("_rescued_data", "long")))
    assert "must be a nullable STRING _rescued_data" in str(caught.value)
    assert "use schema.evolution ignore" in str(caught.value)  # a rename needs column mapping, which is refused


def test_inside_a_struct_the_name_of_the_rescued_column_is_like_any_other() -> None:
    assert evolve({"s": {"_rescued_data": 1}}).added == ("s._rescued_data",)


def test_an_object_with_very_many_names_is_kept_as_text() -> None:
    assert type_of({f"k{number}": 1 for number in range(MANY_KEYS)})["type"] == "struct"
    assert type_of({f"k{number}": 1 for number in range(MANY_KEYS + 1)}) == "string"


def test_what_is_too_deep_for_a_column_is_kept_as_text() -> None:
    value: Any = 1
    for _ in range(100):
        value = {"x": value}
    evolution = evolve(value)
    depth, data_type = 0, evolution.schema["fields"][-1]["type"]
    while isinstance(data_type, dict):
        depth, data_type = depth + 1, data_type["fields"][0]["type"]
    assert (depth, data_type) == (MAX_DEPTH - 1, "string")
    load_schema(json.dumps(evolution.schema))


def test_memory_is_bounded_and_what_is_left_out_comes_later() -> None:
    records = [{f"x{number:05}": 1} for number in range(3 * MAX_PATHS)]
    seen = see(*records)
    assert len(seen.kinds) == MAX_PATHS
    assert see(*reversed(records)) == seen
    first = evolve_schema(DECLARED, [seen])
    second = evolve(*records, schema=first.schema)
    assert (first.added[0], second.added[0]) == ("x00000", f"x{MAX_PATHS:05}")
    (long_name,) = see({"n" * 10_000_000: 1}).kinds
    assert len(long_name[0]) == MAX_NAME_CHARACTERS + 1


def test_an_observation_older_than_the_schema_adds_nothing_wrong() -> None:
    old = see({"x": {"value": {"b": 1}, "element": {"c": 1}}, "y": [{"b": 1}]})
    for data_type in ("string", {"type": "map", "keyType": "string", "valueType": struct_of(field("d", "long"))}):
        schema = struct_of(field("x", data_type), field("y", array_of(struct_of(field("a", "long")))))
        assert evolve_schema(schema, [old]).added == ("y.element.b",)
    schema = struct_of(field("x", array_of(struct_of(field("d", "long")))), field("y", "string"))
    assert evolve_schema(schema, [old]) == Evolution(schema=schema, added=(), refused=())


NAMES = st.sampled_from(["a", "b", "A", "s", "l", "m", "element", "value", "x\ny"])
SCALARS = st.sampled_from([None, True, 1, 2**64, 0.5, "t", "2024-01-01", "2024-01-01T00:00:00Z"])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))
RECORDS = st.lists(st.dictionaries(NAMES, JSON, max_size=4), min_size=1, max_size=4)


@given(records=RECORDS)
def test_the_order_of_records_and_of_merging_does_not_matter(records: list[Any]) -> None:
    expected = evolve(*records)
    seen = [see(record) for record in records]
    for order in permutations(seen):
        assert evolve_schema(DECLARED, order) == expected
    left, right = seen[0], seen[-1]
    assert pickle.loads(pickle.dumps(left.merge(right))) == right.merge(left) == see(records[0], records[-1])


@given(records=RECORDS, limit=st.integers(1, 12))
def test_nor_does_it_where_not_all_can_be_kept(records: list[Any], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observed, "MAX_PATHS", limit)
        expected = see(*records)
        assert len(expected.kinds) <= limit
        for order in permutations([see(record) for record in records]):
            merged = Observations(kinds={})
            for one in order:
                merged = merged.merge(one)
            assert merged == expected


@given(records=RECORDS)
def test_the_evolved_schema_is_valid_takes_the_values_and_needs_no_second_look(records: list[Any]) -> None:
    evolution = evolve(*records)
    load_schema(json.dumps(evolution.schema))
    again = evolve(*records, schema=evolution.schema)
    assert again.added == (), "one look is enough"
    assert evolve_schema(evolution.schema, [see(*records)]).added == ()
    # The old columns may have been given what they do not take; the new ones never are.
    columns = struct_of(*({**column, "nullable": True} for column in evolution.schema["fields"]))
    reader = RecordReader(without_rescued(columns), ParsePolicy(rescue_values=True))
    for record in records:
        with suppress(LineError):
            row = reader.read(json.dumps(record).encode())
            rescued = {path.split(".")[0].split("[")[0].lower() for path in json.loads(row["_rescued_data"] or "{}")}
            assert rescued <= {"a", "s", "l", "m"}
            others = [path for path, value in reader.undeclared if value is not None]
            assert not others or has_rescued_column(evolution.schema), "what has no column is rescued"


def without_rescued(schema: DeltaSchema) -> DeltaSchema:
    return struct_of(*(column for column in schema["fields"] if column["name"] != "_rescued_data"))


@given(text=st.text() | st.dates().map(str) | st.datetimes().map(lambda moment: moment.isoformat() + "Z"))
@pytest.mark.parametrize("form", ["{}", "{}T00:00:00Z", "{}+23:59", "{}.1234567Z"])
def test_text_is_judged_as_by_the_inference_of_schemas(text: str, form: str) -> None:
    value = form.format(text)
    assert type_of(value) == infer_schema([{"x": value}]).schema["fields"][0]["type"]


def test_numbers_are_observed_exactly_however_they_are_read() -> None:
    for value, data_type in (("18446744073709551616", "decimal(38,0)"), ("1e30", "double"), ("9" * 5000, "string")):
        for extra in ("", ',"y":1e999'):
            seen = see_lines(f'{{"x":{value}{extra}}}'.encode(), b"", b"NaN", b'{"x":')
            columns = evolve_schema(DECLARED, [seen]).schema["fields"]
            assert {column["name"]: column["type"] for column in columns}["x"] == data_type


def test_what_is_added_is_no_longer_unknown_to_the_reader() -> None:
    line = b'{"x":{"y":[1,{"z":2}]},"s":{"new":1},"l":[{"t":"2024-01-01T00:00:00Z"}],"m":{}}'
    evolution = evolve_schema(DECLARED, [see_lines(line)])
    record = RecordReader(evolution.schema, ParsePolicy(unknown=Unknown.BAD)).read(line)
    assert record["x"] == {"y": ["1", '{"z":2}']}
