"""Fields the table has no column for, on real Delta tables: added, rescued, ignored or bad; never lost unseen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pytest
from deltalake import DeltaTable

from blizzard.core.bad import BadPolicy
from blizzard.core.log import pipelines_of
from blizzard.core.plan import Limits
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BadData, Temporary
from blizzard.schema.evolve import with_rescued_column
from blizzard.schema.fit import fingerprint
from blizzard.schema.layout import apply_layout
from blizzard.schema.load import load_schema
from blizzard.tasks.policy import ParsePolicy, Unknown
from tests.flows.in_process import Flow, actions_of, newest
from tests.ingesting import rows, write

ADD = {"parsing": ParsePolicy(unknown=Unknown.REPORT)}


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def write_records(flow: Flow, name: str, *records: dict[str, Any]) -> None:
    write(flow.src / name, b"".join(json.dumps(r).encode() + b"\n" for r in records))


def columns(flow: Flow) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in flow.open().schema["fields"]}


def test_a_new_field_becomes_a_column_in_the_running_batch(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "name": "x"}, {"id": 2, "name": "y", "age": 7})
    summary = flow.run(spec=ADD)
    assert columns(flow) == {"id": "long", "name": "string", "age": "long"}
    assert rows(flow.table) == [{"id": 1, "name": "x", "age": None}, {"id": 2, "name": "y", "age": 7}]
    assert (summary.commits, summary.records, summary.added_columns) == (1, 2, ["age"])


def test_nested_fields_are_added_too(flow: Flow) -> None:
    flow.ddl = "id BIGINT, user STRUCT<name: STRING>, items ARRAY<STRUCT<sku: STRING>>"
    write_records(
        flow, "a.ndjson", {"id": 1, "user": {"name": "x", "age": 3}, "items": [{"sku": "s", "tags": ["a"], "n": 1.5}]}
    )
    flow.run(spec=ADD)
    (row,) = rows(flow.table)
    assert row["user"] == {"name": "x", "age": 3}
    assert row["items"] == [{"sku": "s", "tags": ["a"], "n": 1.5}]


def test_kinds_met_by_different_tasks_are_unified(flow: Flow) -> None:
    for number, value in enumerate([1, 1.5, None, 2]):
        write_records(flow, f"{number}.ndjson", {"id": number, "x": value})
    write_records(flow, "4.ndjson", {"id": 4, "y": {"a": 1}})
    write_records(flow, "5.ndjson", {"id": 5, "y": "text"})
    flow.run(spec=ADD, slots=6)
    assert columns(flow) == {"id": "long", "name": "string", "x": "double", "y": "string"}
    found = {row["id"]: (row["x"], row["y"]) for row in rows(flow.table)}
    assert found == {
        0: (1.0, None),
        1: (1.5, None),
        2: (None, None),
        3: (2.0, None),
        4: (None, '{"a":1}'),
        5: (None, "text"),
    }


def test_only_the_tasks_that_met_new_fields_run_again(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1})
    write_records(flow, "b.ndjson", {"id": 2, "x": 1})
    flow.run(spec=ADD, slots=2)
    assert [row["x"] for row in rows(flow.table)] == [None, 1]
    files = {path.name.split("-")[3] for path in flow.table.glob("*.parquet")}
    assert len(list(flow.table.glob("*.parquet"))) == 3  # one of them is nobody's
    assert files == {"0000", "0001"}


def test_later_batches_and_later_runs_write_the_new_columns(flow: Flow) -> None:
    for number in range(4):
        write_records(flow, f"{number}.ndjson", {"id": number, **({"x": number} if number > 0 else {})})
    flow.run(spec=ADD, limits=Limits(max_files=1))
    write_records(flow, "4.ndjson", {"id": 4, "x": 4, "y": True})
    flow.run(spec=ADD)
    assert [(row["x"], row["y"]) for row in rows(flow.table)] == [
        (None, None),
        (1, None),
        (2, None),
        (3, None),
        (4, True),
    ]
    (position,) = [position for _, position in pipelines_of(flow.open().scan_back()).values()]
    assert position.on.schema_fingerprint == flow.open().schema_fingerprint


def test_the_commit_that_adds_a_column_carries_a_txn(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "x": 1})
    flow.run(spec=ADD)
    assert any(txn["appId"] == "blizzard-schema:p" for txn in actions_of(flow.table, "txn"))


def test_a_field_that_was_only_ever_null_is_added_when_it_has_a_value(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "x": None, "u": {"v": None}})
    assert flow.run(spec=ADD).added_columns == ["_rescued_data"], "an object without a value is kept as it is"
    assert rows(flow.table)[0]["_rescued_data"] == '{"u":{"v":null}}'
    write_records(flow, "b.ndjson", {"id": 2, "x": "v"})
    flow.run(spec=ADD)
    assert rows(flow.table)[1] == {"id": 2, "name": None, "_rescued_data": None, "x": "v"}


def test_what_cannot_become_a_column_is_kept_in_the_rescued_column(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "y": [], "z": {}, "n": None, "x": 7, "bad\nname": {"k": 1}})
    write_records(flow, "b.ndjson", {"id": 2})
    summary = flow.run(spec=ADD)
    first, second = rows(flow.table)
    assert json.loads(first.pop("_rescued_data")) == {"y": [], "z": {}, "`bad\nname`": {"k": 1}}
    assert (first, second["_rescued_data"]) == ({"id": 1, "name": None, "x": 7}, None)
    assert (summary.commits, summary.added_columns, summary.rescued_records) == (1, ["_rescued_data", "x"], 1)
    assert sum("go to _rescued_data" in warning for warning in flow.told.warnings) == 1
    write_records(flow, "c.ndjson", {"id": 3, "y": [1], "z": {}})
    assert flow.run(spec=ADD).added_columns == ["y"], "its type can be told now"
    assert [(row["y"], row["_rescued_data"]) for row in rows(flow.table)[2:]] == [([1], '{"z":{}}')]


def test_a_field_of_the_name_of_a_derived_column_is_kept_in_the_rescued_column(flow: Flow) -> None:
    layout = apply_layout(load_schema(flow.ddl), provenance=["source_line"])
    DeltaRsPlace(root=str(flow.table), schema=layout.schema, clock=flow.clock).create("p")
    write_records(flow, "a.ndjson", {"id": 1, "_source_line": 7, "_SOURCE_LINE": 8})
    flow.run(spec=ADD)
    (row,) = rows(flow.table)
    assert (row["_source_line"], json.loads(row["_rescued_data"])) == (1, {"_source_line": 7, "_SOURCE_LINE": 8})


def test_every_spelling_of_a_name_goes_into_one_column(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"ID": 1, "userName": "a"}, {"Id": 2, "UserName": "b", "user": {"City": "x"}})
    write_records(flow, "b.ndjson", {"id": 3, "USERNAME": 5, "User": {"city": "y"}}, {"id": 4, "ID": 5})
    summary = flow.run(spec=ADD, slots=2)
    assert summary.added_columns == ["USERNAME", "User"]
    assert rows(flow.table) == [
        {"id": 1, "name": None, "USERNAME": "a", "User": None},
        {"id": 2, "name": None, "USERNAME": "b", "User": {"City": "x"}},
        {"id": 3, "name": None, "USERNAME": "5", "User": {"City": "y"}},
    ]
    assert [r["error_kind"] for r in flow.quarantined()] == ["duplicate_key"]


def test_new_columns_get_the_names_that_the_settings_give_them(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "userName": "a", "homeCity": {"zipCode": 1}})
    summary = flow.run(spec={"parsing": ParsePolicy(unknown=Unknown.REPORT, rename="snake")})
    assert summary.added_columns == ["home_city", "user_name"]
    assert rows(flow.table) == [{"id": 1, "name": None, "home_city": {"zip_code": 1}, "user_name": "a"}]


def test_ignored_values_are_counted_and_named(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "x": 1, "y": None}, {"id": "bad", "x": 2})
    write_records(flow, "b.ndjson", {"id": 2, "x": [3]})
    summary = flow.run()
    assert (summary.ignored_values, summary.ignored_fields) == (3, {"x": 2, "y": 1})
    idle = flow.run()
    assert (idle.ignored_values, idle.ignored_fields) == (0, {})


def test_nothing_counts_as_ignored_where_it_is_rescued(flow: Flow) -> None:
    flow.ddl = "id BIGINT, name STRING, _rescued_data STRING"
    write_records(flow, "a.ndjson", {"id": 1, "x": 1})
    summary = flow.run(spec={"parsing": ParsePolicy(unknown=Unknown.RESCUE)})
    assert (summary.ignored_values, summary.unknown_fields) == (0, ["x"])


def test_times_that_are_cut_are_counted_and_told_once_for_each_column(flow: Flow) -> None:
    flow.ddl = "id BIGINT, ts TIMESTAMP"
    for name in ("a", "b"):
        write_records(flow, f"{name}.ndjson", *({"id": i, "ts": f"2024-01-01T00:00:00.{i}000007"} for i in range(3)))
    summary = flow.run(limits=Limits(max_files=1))
    assert (summary.commits, summary.cut_timestamps) == (2, {"ts": 6})
    assert [note for note in flow.told.notes if "microsecond" in note] == [
        "ts: 3 timestamps had digits beyond a microsecond; they were cut (schema.timestamps: exact makes them bad)"
    ]


def test_the_parser_that_read_the_lines_is_in_the_summary(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1})
    summary = flow.run(spec={"parser": "reference"})
    assert summary.parser == "reference"
    assert flow.run().parser is None


def test_another_writer_adding_the_same_column_meanwhile_is_noticed_and_nothing_is_lost(flow: Flow) -> None:
    flow.first_run()
    write_records(flow, "b.ndjson", {"id": 10, "x": 1})

    def alter() -> None:
        if "x" not in columns(flow):
            field = deltalake.Field("x", deltalake.schema.PrimitiveType("string"))
            DeltaTable(str(flow.table)).alter.add_columns([field])

    with pytest.raises(Temporary) as error:
        flow.run(spec=ADD, while_reading=alter)
    assert error.value.kind == "schema_changed"
    assert len(rows(flow.table)) == 3
    flow.run(spec=ADD)
    assert rows(flow.table)[-1] == {"id": 10, "name": None, "x": "1"}  # a number in a STRING column keeps its text


def test_a_schema_changed_between_writing_and_committing_is_noticed(flow: Flow) -> None:
    flow.first_run()
    write_records(flow, "b.ndjson", {"id": 10})

    def alter() -> None:
        field = deltalake.Field("other", deltalake.schema.PrimitiveType("string"))
        DeltaTable(str(flow.table)).alter.add_columns([field])

    with pytest.raises(Temporary) as error:
        flow.run(while_reading=alter)
    assert error.value.kind == "schema_changed"
    flow.run()
    assert [row["id"] for row in rows(flow.table)] == [0, 1, 2, 10]


def test_ignored_fields_are_named_in_the_summary(flow: Flow) -> None:
    write_records(flow, "a.ndjson", *({"id": i, f"f{i}": 1, "user": {"a": 1}} for i in range(30)))
    summary = flow.run()
    assert summary.records == 30
    assert len(summary.unknown_fields) == 20
    assert set(summary.unknown_fields) <= {"user", *(f"f{i}" for i in range(30))}


def test_strict_quarantines_a_record_with_an_unknown_field(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1}, {"id": 2, "x": 1})
    flow.run(spec={"parsing": ParsePolicy(unknown=Unknown.BAD)})
    assert [row["id"] for row in rows(flow.table)] == [1]
    assert [(r["error_kind"], r["column"]) for r in flow.quarantined()] == [("unknown_field", "x")]


def test_rescued_values_and_fields_stay_with_their_row(flow: Flow) -> None:
    flow.ddl = "id BIGINT, name STRING, _rescued_data STRING"
    write(flow.src / "a.ndjson", b'{"id":"x","name":"n","more":[1, 2.50]}\n{"id":1,"name":"m"}\nnot json\n')
    policy = ParsePolicy(unknown=Unknown.RESCUE, rescue_values=True)
    summary = flow.run(spec={"parsing": policy}, bad=BadPolicy(records="rescue"))
    table = DeltaTable(str(flow.table)).to_pyarrow_table().sort_by("name").to_pylist()
    assert [row["_rescued_data"] and json.loads(row["_rescued_data"]) for row in table] == [
        None,
        {"id": "x", "more": [1, 2.5]},
    ]
    assert (summary.records, summary.rescued_records, summary.bad_records) == (2, 1, 1)
    assert [r["raw"] for r in flow.quarantined()] == [b"not json"]


def test_the_column_to_rescue_into_is_added_to_a_table_that_lacks_it(flow: Flow) -> None:
    flow.first_run()
    table = flow.open()
    wanted = with_rescued_column(table.schema)
    table.add_columns(wanted, pipeline="p")
    assert table.schema_fingerprint == fingerprint(wanted) == flow.open().schema_fingerprint
    version = newest(flow.table)
    table.add_columns(wanted, pipeline="p")
    assert newest(flow.table) == version  # there is nothing to do


def test_field_names_that_are_data_do_not_become_thousands_of_columns(flow: Flow) -> None:
    write_records(flow, "a.ndjson", *({"id": number, f"user_{number}": 1} for number in range(1_500)))
    with pytest.raises(BadData, match="no column was added") as error:
        flow.run(spec=ADD)
    assert error.value.kind == "too_many_columns"
    if flow.place.open() is None:  # Spark's committer cannot take a table back
        flow.place.create("p")
    assert newest(flow.table) == 0
    with pytest.raises(BadData, match="no column was added"):
        flow.run(spec=ADD)
    assert columns(flow) == {"id": "long", "name": "string"}
    assert rows(flow.table) == []


def test_a_batch_is_committed_only_under_the_schema_it_was_written_under(flow: Flow) -> None:
    """Even if the handle that commits it has seen another one meanwhile."""
    flow.first_run()
    write_records(flow, "b.ndjson", {"id": 3, "name": "x", "late": "kept"})
    table = flow.open()
    place = OpenedBefore(table)

    def another_writer() -> None:
        field = deltalake.Field("late", deltalake.schema.PrimitiveType("string"))
        DeltaTable(str(flow.table)).alter.add_columns([field])
        table.refresh()

    with pytest.raises(Temporary) as error:
        flow.run(place=place, while_reading=another_writer)
    assert error.value.kind == "schema_changed"
    flow.run()
    assert [row["late"] for row in rows(flow.table) if row["id"] == 3] == ["kept"]


@dataclass(frozen=True)
class OpenedBefore:
    table: DeltaRsTable

    def open(self) -> DeltaRsTable:
        return self.table

    def create(self, pipeline: str) -> None:
        raise AssertionError(pipeline)

    def take_back(self, pipeline: str, run_id: str) -> bool:
        raise AssertionError(pipeline, run_id)
