"""`--variant`: each record lands whole in one VARIANT column, on a real folder and a real Delta log, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.delta.place import DeltaRsPlace
from blizzard.errors import ConfigError, Temporary
from blizzard.run.clock import SystemClock
from blizzard.run.ports import NeverStop
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import whole_record_schema
from blizzard.schema.layout import apply_layout
from blizzard.spark.ingestor import SparkIngestor
from blizzard.spark.session import require_variant
from tests.flows.shell import Shell
from tests.ingesting import write
from tests.tasks.specs import make_spec
from tests.tasks.variants import decode

RECORDS: list[dict[str, Any]] = [
    {"id": 1, "user": {"name": "Jörg", "tags": ["a", None, True]}, "price": 1.5},
    {},
    {"record": {"metadata": "YQ==", "value": "YQ=="}, "": 0, "_rescued_data": -1},
    {"id": "one", "ID": [[]]},
]
BAD = ["not json", "[1]", '{"a":1,"a":2}', '{"n":' + "9" * 39 + "}"]


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def landed(table: Path, *columns: str) -> list[Any]:
    """The records as delta-rs gives them, and other columns beside them."""
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    records = [decode(row["record"]) for row in rows]
    return [(record, *(row[name] for name in columns)) for record, row in zip(records, rows, strict=True)]


@pytest.fixture
def made(shell: Shell) -> Shell:
    """A table with the records, bad ones in quarantine."""
    write(shell.folder / "src/a.ndjson", (lines(*RECORDS) + "\n".join(BAD)).encode())
    said = shell("run", "--source", "src", "--table", "table", "--variant", "--set", "table.provenance=source_line")
    assert (said.code, said.last["records"], said.last["quarantined"]) == (0, 4, 4), said.text
    return shell


def test_each_record_lands_whole_and_later_runs_go_on_without_the_option(made: Shell) -> None:
    assert landed(made.table, "_source_line") == [(record, n) for n, record in enumerate(RECORDS, 1)]
    assert made.run("--variant").last["status"] == "idle"
    write(made.folder / "src/b.ndjson", lines({"later": 1}).encode())
    assert made.run().last["records"] == 1
    assert ({"later": 1}, 1) in landed(made.table, "_source_line")
    assert len(landed(made.table)) == 5


def test_the_table_says_that_it_holds_variants_and_delta_rs_queries_it(made: Shell) -> None:
    table = DeltaTable(str(made.table))
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == protocol.writer_features == ["variantType"]
    table.create_checkpoint()
    query = QueryBuilder().register("t", DeltaTable(str(made.table)))
    found = pa.table(query.execute("select record from t where _source_line = 1").read_all()).to_pylist()
    assert [decode(row["record"]) for row in found] == RECORDS[:1]


def test_bad_lines_are_in_quarantine_with_their_reasons_and_can_be_replayed(made: Shell) -> None:
    listed = made("dlq", "list", "--table", "table").text
    for kind in ("not_json", "not_object", "duplicate_key", "bad_value"):
        assert kind in listed
    shown = made("dlq", "show", "--table", "table", "--limit", "10").text
    assert "is not a valid variant: it has more than 38 digits" in shown
    rescuing = ("--set", "bad_records.policy=rescue")
    assert made("dlq", "replay", "--source", "src", "--table", "table", *rescuing).code == 0
    rows = DeltaTable(str(made.table)).to_pyarrow_table().to_pylist()
    assert [row["_rescued_data"] for row in rows if row["record"] is None] == ['{"record":' + BAD[3] + "}"]
    assert len(rows) == 5


def test_a_value_that_no_variant_holds_can_be_rescued(shell: Shell) -> None:
    write(shell.folder / "src/a.ndjson", (lines(RECORDS[0]) + BAD[3]).encode())
    said = shell("run", "--source", "src", "--table", "table", "--variant", "--set", "bad_records.policy=rescue")
    assert (said.code, said.last["records"], said.last["rescued_records"]) == (0, 2, 1), said.text
    kept, rescued = DeltaTable(str(shell.table)).to_pyarrow_table().to_pylist()
    assert (decode(kept["record"]), kept["_rescued_data"]) == (RECORDS[0], None)
    assert (rescued["record"], rescued["_rescued_data"]) == (None, '{"record":' + BAD[3] + "}")


@pytest.mark.parametrize("parser", ["auto", "pyarrow", "reference"])
def test_a_variant_among_other_columns_and_partitions(shell: Shell, parser: str) -> None:
    write(shell.folder / "src/region=eu/a.ndjson", lines({"id": 1, "payload": RECORDS[0]}, {"id": 2}).encode())
    where = ("--set", "table.partition_by=region=path(region)", "--set", f"source.parser={parser}")
    schema = "id BIGINT, payload VARIANT, many ARRAY<VARIANT>"
    said = shell("run", "--source", "src", "--table", "table", "--schema", schema, *where)
    assert said.code == 0, said.text
    first, second = DeltaTable(str(shell.table)).to_pyarrow_table().sort_by("id").to_pylist()
    assert (decode(first["payload"]), first["region"]) == (RECORDS[0], "eu")
    assert (second["payload"], second["many"]) == (None, None)


def test_a_hint_makes_a_field_a_variant(shell: Shell) -> None:
    write(shell.folder / "src/a.ndjson", lines({"id": 1, "payload": {"x": 1}}).encode())
    hinted = ("--infer", "--hints", "payload VARIANT")
    assert shell("run", "--source", "src", "--table", "table", *hinted).code == 0
    (row,) = DeltaTable(str(shell.table)).to_pyarrow_table().to_pylist()
    assert (row["id"], decode(row["payload"])) == (1, {"x": 1})


@pytest.mark.parametrize(
    "given",
    [
        {"schema.ddl": "a INT"},
        {"schema.infer": True},
        {"schema.hints": "a INT"},
        {"schema.rename": "snake"},
        {"schema.rename.a": "b"},
        {"schema.formats.at": "epoch_s"},
        {"schema.coerce.a": "numbers_in_strings"},
    ],
)
def test_what_would_do_nothing_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    where = {"source.path": str(tmp_path), "table.path": str(tmp_path / "t"), "schema.variant": True}
    with pytest.raises(ConfigError, match=r"takes each record whole, so .* would do nothing") as caught:
        make_request(make_config(where | given))
    assert caught.value.kind == "usage"


def test_a_table_of_fields_does_not_take_whole_records(shell: Shell) -> None:
    write(shell.folder / "src/a.ndjson", b'{"record":1}\n')
    assert shell("run", "--source", "src", "--table", "table", "--schema", "record VARIANT").code == 0
    write(shell.folder / "src/b.ndjson", b'{"record":2}\n')
    said = shell.run("--variant")
    assert (said.code, said.kind) == (2, "layout_mismatch")
    assert shell.run().last["records"] == 1  # the way out
    assert sorted(row[0] for row in landed(shell.table)) == [1, 2]


def test_settings_of_fields_are_refused_on_a_table_of_whole_records(made: Shell) -> None:
    write(made.folder / "src/b.ndjson", b'{"x":1}\n')
    for setting in ("schema.rename.x=record", "schema.formats.x=epoch_s", "schema.coerce.x=empty_is_null"):
        said = made.run("--set", setting, "--set", "schema.evolution=add_columns")
        assert (said.code, said.kind) == (2, "config"), said.text
    assert made.run("--set", "schema.evolution=add_columns").last["added_columns"] == []
    assert len(landed(made.table)) == 5


def test_a_column_that_somebody_added_stays_null(made: Shell) -> None:
    field = deltalake.Field("note", deltalake.schema.PrimitiveType("string"), nullable=True)
    DeltaTable(str(made.table)).alter.add_columns([field])
    write(made.folder / "src/b.ndjson", b'{"note":"in the record"}\n')
    assert made.run("--variant").last["records"] == 1
    assert ({"note": "in the record"}, None) in landed(made.table, "note")


def test_a_table_cannot_be_partitioned_by_a_variant(shell: Shell) -> None:
    write(shell.folder / "src/a.ndjson", b"{}\n")
    words = ("--variant", "--set", "table.partition_by=record", "--set", "table.provenance=source_line")
    said = shell("run", "--source", "src", "--table", "table", *words)
    assert (said.code, said.kind) == (2, "schema")
    assert "cannot be partitioned by VARIANT" in said.text
    assert not shell.table.exists()


@dataclass(frozen=True)
class OldSession:
    """A session of Spark 3.5, as far as it is looked at."""

    version: str = "3.5.9"

    def comes_up(self, is_stopped: Callable[[], bool]) -> bool:
        del is_stopped
        return True

    def get(self) -> Any:
        return self


@pytest.mark.parametrize("ddl", ["a MAP<STRING, VARIANT>", "s STRUCT<a: ARRAY<VARIANT>>", None])
def test_spark_that_has_no_variants_is_refused_by_name_before_a_table_is_made(tmp_path: Path, ddl: str | None) -> None:
    schema = whole_record_schema() if ddl is None else parse_ddl(ddl)
    session: Any = OldSession()
    ingestor = SparkIngestor(session, make_spec(tmp_path, layout=apply_layout(schema)), slots=1)
    with pytest.raises(ConfigError, match=r"Spark 3\.5\.9 cannot read: Spark 4 can\. Run on Spark 4, or") as caught:
        ingestor.start(NeverStop())
    assert caught.value.kind == "spark_version"
    plain = make_spec(tmp_path, layout=apply_layout(parse_ddl("s STRUCT<a: ARRAY<STRING>>")))
    assert SparkIngestor(session, plain, slots=1).start(NeverStop()) == 1
    require_variant("4.0.0")


def test_two_drivers_that_make_the_table_in_two_ways_at_once_do_not_both_go_on(tmp_path: Path) -> None:
    clock = SystemClock()
    DeltaRsPlace(root=str(tmp_path), schema=parse_ddl("record VARIANT"), clock=clock).create("one")
    with pytest.raises(Temporary, match=r"with another layout\. Run again") as caught:
        DeltaRsPlace(root=str(tmp_path), schema=whole_record_schema(), clock=clock).create("two")
    assert caught.value.kind == "schema_changed"


def test_an_unknown_word_in_the_tables_schema_is_still_refused(made: Shell) -> None:
    """As a release without whole records does with a table that has them."""
    commit = made.table / "_delta_log/00000000000000000000.json"
    actions = [orjson.loads(action) for action in commit.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = action["metaData"]["schemaString"].replace('"blizzard.from":"record"', '"blizzard.from":"records"')
            action["metaData"]["schemaString"] = schema
    commit.write_bytes(b"\n".join(orjson.dumps(action) for action in actions))
    said = made.run()
    assert (said.code, said.kind) == (2, "layout_unknown"), said.text


def test_what_holds_whole_records_is_one_column(shell: Shell, tmp_path: Path) -> None:
    schema = whole_record_schema()
    schema["fields"].append(schema["fields"][0] | {"name": "again"})
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    write(shell.folder / "src/a.ndjson", b"{}\n")
    said = shell("run", "--source", "src", "--table", "table", "--schema", str(tmp_path / "schema.json"))
    assert (said.code, said.kind) == (2, "layout_unknown"), said.text
