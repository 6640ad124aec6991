"""Any JSON value in a column of any type: what is stored is what the reference says, or the line is bad as it was."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from blizzard.schema import DeltaType
from blizzard.schema.arrow import to_arrow
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError
from tests.tasks.contract import PARSERS
from tests.tasks.hostile_lines import NUMBERS, PRIMITIVES, TEXTS

VALID_NUMBERS = [text for text in NUMBERS if text not in ("NaN", "-NaN", "Infinity", "-Infinity", "Inf", "nan")]
SCALARS = (
    st.sampled_from(["null", "true", "false"])
    | st.integers().map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.decimals(allow_nan=False, allow_infinity=False).map(str)
    | st.sampled_from(VALID_NUMBERS)
    | (st.text() | st.sampled_from(TEXTS) | st.dates().map(str) | st.datetimes().map(str)).map(json.dumps)
)
SPACE = st.sampled_from(["", "", " ", "\t"])


def values(scalars: SearchStrategy[str] = SCALARS) -> SearchStrategy[str]:
    """JSON text with whitespace here and there, and names that repeat."""

    def nest(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        names = st.sampled_from(["a", "b", "é", ""]).map(json.dumps)
        member = st.builds(lambda name, space, value: f"{name}{space}:{space}{value}", names, SPACE, inner)
        return st.builds(
            lambda items, space: f"[{space}{f'{space},'.join(items)}]", st.lists(inner, max_size=3), SPACE
        ) | (
            st.builds(lambda items, space: f"{{{f'{space},'.join(items)}{space}}}", st.lists(member, max_size=3), SPACE)
        )

    return st.recursive(scalars, nest, max_leaves=6)


def array_of(data_type: DeltaType) -> DeltaType:
    return {"type": "array", "elementType": data_type, "containsNull": True}


def map_of(data_type: DeltaType) -> DeltaType:
    return {"type": "map", "keyType": "string", "valueType": data_type, "valueContainsNull": True}


def struct_of(data_type: DeltaType) -> DeltaType:
    return {"type": "struct", "fields": [{"name": "a", "type": data_type, "nullable": True, "metadata": {}}]}


NESTED: list[DeltaType] = [
    wrap(inner) for inner in ("string", "long", array_of("string")) for wrap in (array_of, map_of)
]
TYPES: list[DeltaType] = [*PRIMITIVES, *NESTED, struct_of("string"), struct_of("long")]
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("data_type", TYPES, ids=str)
@relaxed
@given(column=st.lists(values(), min_size=1, max_size=12))
def test_a_value_is_stored_as_the_reference_converts_it_or_its_line_is_bad(
    data_type: DeltaType, column: list[str], parser: str
) -> None:
    schema = struct_of(data_type)
    reader = RecordReader(schema)
    lines = [f'{{"a":{value}}}'.encode() for value in column]
    block = b"\n".join(lines)
    rows, bad = [], []
    for index, line in enumerate(lines):
        try:
            rows.append(reader.read(line))
        except LineError:
            bad.append((index, line))
    parsed = RecordParser(schema, None, parser).parse(block, first_of_file=False)
    assert [(line.number, line.raw) for line in parsed.bad] == bad
    assert all(block[line.offset : line.offset + len(line.raw)] == line.raw for line in parsed.bad)
    expected = pa.Table.from_pylist(rows, schema=to_arrow(schema))
    assert list(map(repr, parsed.table.to_pylist())) == list(map(repr, expected.to_pylist()))


def pairs(text: str) -> Any:
    """JSON with every member in order and every number as it is written."""
    return json.loads(text, object_pairs_hook=lambda members: ("object", members), parse_int=str, parse_float=str)


@settings(relaxed, max_examples=200)
@given(
    value=values(st.sampled_from(["1.50", "-0", "1E+2", "true", "null", '"é\\n \\" { "']) | st.text().map(json.dumps))
)
def test_json_text_in_a_string_means_what_the_source_meant_and_is_compact(value: str) -> None:
    stored = RecordReader(struct_of("string")).read(f'{{"a":{value}}}'.encode())["a"]
    if value == "null":
        assert stored is None
    elif value.startswith('"'):
        assert stored == json.loads(value)
    else:
        assert pairs(stored) == pairs(value)
        assert len(stored) <= len(value)
        bare = "".join(
            part
            for index, part in enumerate(stored.replace("\\\\", "").replace('\\"', "").split('"'))
            if index % 2 == 0
        )
        assert not set(bare) & set(" \t\n\r")
