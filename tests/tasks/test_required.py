"""A struct that is null may have fields that may not be: such a record is written, whoever parsed it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blizzard.core.bad import BadPolicy
from blizzard.schema.arrow import to_arrow
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.tasks.required import fill_required
from blizzard.tasks.transform_code import make_transform
from tests.tasks.contract import PARSERS
from tests.tasks.test_shared_task import rows_of, run, spec_of, write_slices

CASES: list[tuple[str, list[Any]]] = [
    ("STRUCT<a: INT NOT NULL, b: STRING>", [None, {"a": 1, "b": None}, None]),
    ("STRUCT<a: STRING NOT NULL>", [{"a": ""}, None]),
    ("STRUCT<a: DECIMAL(9,2) NOT NULL, d: DATE NOT NULL, t: TIMESTAMP NOT NULL, b: BOOLEAN NOT NULL>", [None]),
    ("STRUCT<s: STRUCT<a: INT NOT NULL> NOT NULL>", [None, {"s": {"a": 1}}]),
    ("STRUCT<s: STRUCT<a: INT NOT NULL>>", [None, {"s": None}, {"s": {"a": 1}}]),
    ("STRUCT<l: ARRAY<INT> NOT NULL, m: MAP<STRING, INT> NOT NULL>", [None, {"l": [1], "m": [("k", 1)]}]),
    ("ARRAY<STRUCT<a: INT NOT NULL>>", [None, [], [None, {"a": 1}, None]]),
    ("MAP<STRING, STRUCT<a: INT NOT NULL>>", [None, [("k", None), ("l", {"a": 1})]]),
    ("STRUCT<v: VARIANT>", [None, {"v": None}]),
]


@pytest.mark.parametrize("parser", [*PARSERS, "reference"])
@pytest.mark.parametrize(("sql_type", "values"), CASES, ids=[sql_type for sql_type, _ in CASES])
def test_it_is_written_and_read_back(tmp_path: Path, sql_type: str, values: list[Any], parser: str) -> None:
    is_map = sql_type.startswith("MAP")
    lines = [json.dumps({"id": n, "c": dict(v) if is_map and v else v}) for n, v in enumerate(values)]
    text = "\n".join(lines).replace('[["k", 1]]', '{"k": 1}')
    layout = TableLayout(schema=load_schema(f"id INT, c {sql_type}"))
    spec = spec_of(tmp_path, "t", layout=layout, parser=parser, bad=BadPolicy(records="fail"), block_bytes=1 << 20)
    report = run({"t": spec}, write_slices(tmp_path, {"f": text.encode()}))["t"]
    assert report.failure is None
    assert [row["c"] for row in rows_of(spec, report)] == values


@pytest.mark.parametrize(("sql_type", "values"), CASES, ids=[sql_type for sql_type, _ in CASES])
def test_a_part_of_a_table_stays_what_it_is(sql_type: str, values: list[Any]) -> None:
    schema = to_arrow(load_schema(f"c {sql_type}"))
    whole = pa.Table.from_pylist([{"c": value} for value in values * 3], schema=schema)
    for table in (whole, whole.slice(1, len(values)), pa.concat_tables([whole.slice(2), whole.slice(0, 1)])):
        filled = fill_required(table)
        filled.validate(full=True)
        assert filled.schema == schema
        assert filled.to_pylist() == table.to_pylist()


def test_a_transform_may_leave_out_a_column_that_holds_such_a_field(tmp_path: Path) -> None:
    ddl = "id BIGINT, s STRUCT<a: INT NOT NULL>, v VARIANT"
    transform = make_transform(load_schema("id BIGINT"), sql="SELECT id FROM records")
    spec = spec_of(tmp_path, "t", layout=TableLayout(schema=load_schema(ddl)), transform=transform)
    report = run({"t": spec}, write_slices(tmp_path, {"f": b'{"id":1}\n'}))["t"]
    assert rows_of(spec, report) == [{"id": 1, "s": None, "v": None}]


def test_a_null_that_no_struct_hides_is_refused(tmp_path: Path) -> None:
    schema = to_arrow(load_schema("c STRUCT<a: INT NOT NULL>"))
    wrong = pa.StructArray.from_arrays([pa.array([None], pa.int32())], fields=list(schema.field(0).type))
    assert fill_required(pa.table([wrong], schema=schema))["c"].chunk(0).field(0).null_count == 1
