"""A run with a transform, from the command line to the table: every line is a row, bad, blank or filtered, and keeps
its place in the source. Only Spark is replaced."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blizzard.config.load import make_config
from blizzard.core.ledger import decode_ledger
from blizzard.errors import ConfigError
from blizzard.schema.load import load_schema
from blizzard.schema.where import parse_where
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.transform_code import Transform, make_transform
from tests.flows.in_process import Flow, actions_of
from tests.flows.shell import Shell
from tests.ingesting import rows, write

READS = "id BIGINT, name STRING"
SQL = "SELECT id, CAST(name AS INTEGER) AS n FROM records WHERE id <> 3"
LINES = b'{"id":1,"name":"5"}\n{"id":2,"name":"x"}\n\n{"id":3,"name":"7"}\nbad\n{"id":5,"name":"8"}\n'
# Names that the functions below are found by.
HERE = __name__


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(0, "id", pa.array([2 * value for value in batch["id"].to_pylist()], pa.int64()))


def changes_its_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch if not batch.num_rows else batch.rename_columns(["other", *batch.schema.names[1:]])


def sql(text: str = SQL, reads: str = READS) -> Transform:
    return make_transform(load_schema(reads), sql=text)


def options(text: str = SQL, reads: str = READS) -> list[str]:
    return ["--schema", reads, "--set", f"transform.sql={text}", "--pipeline", "p"]


def run(shell: Shell, *words: str) -> Any:
    where = ["--source", str(shell.folder / "src"), "--table", str(shell.table)]
    return shell("run", *where, *words)


def entries(table: Path) -> list[Any]:
    found: list[Any] = []
    for info in actions_of(table, "commitInfo"):
        ledger = decode_ledger(info.get("userMetadata"))
        found += ledger.entries if ledger is not None else ()
    return found


def test_every_line_is_a_row_bad_blank_or_filtered(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    said = run(shell, *options())
    assert said.code == 0, said.text
    assert (said.last["records"], said.last["bad_records"], said.last["filtered_records"]) == (2, 2, 1)
    assert rows(shell.table) == [{"id": 1, "n": 5}, {"id": 5, "n": 8}]
    (entry,) = entries(shell.table)
    assert (entry.to_record, entry.bad, entry.filtered) == (6, 2, 1)
    assert (said.last["bad_reasons"][0]["kind"], said.last["bad_reasons"][0]["why"]) == (
        "transform",
        "the transform cannot make a row of it",
    )


def test_a_bad_record_keeps_its_raw_line(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", LINES)
    flow.run(spec={"transform": sql()})
    first, second = flow.quarantined()
    assert (first["error_kind"], first["line"], first["raw"]) == ("transform", 2, b'{"id":2,"name":"x"}')
    assert first["message"].startswith("transform.sql: Conversion Error: Could not convert string 'x' to INT32")
    assert first["byte_offset"] == LINES.index(b'{"id":2')
    assert (second["error_kind"], second["line"]) == ("not_json", 5)


def test_null_or_a_value_that_the_column_does_not_take_is_a_bad_record(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id TINYINT, n INT NOT NULL")
    write(flow.src / "a.ndjson", b'{"id":1,"name":"5"}\n{"id":300,"name":"6"}\n{"id":4}\n')
    flow.run(spec={"transform": sql("SELECT id, TRY_CAST(name AS INTEGER) AS n FROM records")})
    assert rows(flow.table) == [{"id": 1, "n": 5}]
    assert [(row["line"], row["error_kind"], row["column"], row["message"]) for row in flow.quarantined()] == [
        (2, "transform", "id", "column id: 300 does not fit TINYINT"),
        (3, "transform", "n", "column n: null, but the column is NOT NULL"),
    ]


def test_provenance_and_the_raw_line_stay_with_their_row(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    write(tmp_path / "src/b.ndjson", b'{"id":3,"name":"1"}\n{"id":7,"name":"7"}\n')
    facts = "source_file,source_line,record_key,raw"
    assert run(shell, *options(), "--set", f"table.provenance={facts}").code == 0
    found = {row["id"]: row for row in rows(shell.table)}
    assert {i: (row["_source_file"], row["_source_line"], row["_raw"]) for i, row in found.items()} == {
        1: ("a.ndjson", 1, '{"id":1,"name":"5"}'),
        5: ("a.ndjson", 6, '{"id":5,"name":"8"}'),
        7: ("b.ndjson", 2, '{"id":7,"name":"7"}'),
    }
    assert found[7]["_record_key"].endswith("|1")


def test_rescued_data_stays_with_its_row(tmp_path: Path, shell: Shell) -> None:
    text = b'{"id":3,"extra":3}\n{"id":4,"extra":4}\n{"id":5}\n{"id":6,"name":"x","extra":6}\n{"id":7,"extra":[7]}\n'
    write(tmp_path / "src/a.ndjson", text)
    said = run(shell, *options(), "--set", "schema.evolution=rescue")
    assert said.code == 0, said.text
    assert {row["id"]: row["_rescued_data"] for row in rows(shell.table)} == {
        4: '{"extra":4}',
        5: None,
        7: '{"extra":[7]}',
    }
    assert said.last["rescued_records"] == 2


def test_values_of_records_that_are_no_rows_are_not_counted_as_ignored(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"more":1}\n{"id":2,"name":"x","more":2}\n{"id":3,"more":3}\n')
    said = run(shell, *options())
    assert (said.last["bad_records"], said.last["filtered_records"], said.last["ignored_values"]) == (1, 1, 1)


def test_a_python_function_by_its_place(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n')
    words = ["--schema", READS, "--set", f"transform.python={HERE}:doubled"]
    assert run(shell, *words).code == 0
    assert rows(shell.table) == [{"id": 2, "name": "a"}, {"id": 4, "name": "b"}]
    assert run(shell, *words).last["status"] == "idle"


def test_the_policy_decides_about_records_that_fail(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    failed = run(shell, *options(), "--set", "bad_records.policy=fail")
    assert (failed.code, failed.kind) == (5, "bad_record")
    assert "a.ndjson line 2: transform: transform.sql: Conversion Error" in failed.text
    dropped = run(shell, *options(), "--set", "bad_records.policy=drop")
    assert (dropped.code, dropped.last["bad_records"], dropped.last["quarantined"]) == (0, 2, 0)


def test_a_transform_that_fits_no_record_of_a_first_batch_commits_nothing(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"name":"x"}\n' * 20)
    said = run(shell, *options())
    assert (said.code, said.kind) == (5, "mostly_bad")
    assert not shell.table.exists() or rows(shell.table) == []


# Schemas.


def test_what_a_transform_reads_must_be_given_and_a_sample_suggests_it(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    said = run(shell, "--set", f"transform.sql={SQL}")
    assert (said.code, said.kind) == (2, "schema_missing")
    assert (
        "a transform needs the schema of the records. A sample of the records suggests: id BIGINT, name STRING"
        in said.text
    )
    assert "--schema 'id BIGINT, name STRING'" in said.text
    assert "--infer" not in said.text
    assert run(shell, *options()).code == 0
    write(tmp_path / "src/b.ndjson", b'{"id":9,"name":"9"}\n')
    again = run(shell, "--set", f"transform.sql={SQL}")
    assert (again.code, again.kind) == (2, "schema_missing"), "the table does not say what the transform reads"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--infer"], "--infer (schema.infer) looks at other records in each run"),
        (["--variant"], "--variant (schema.variant) takes each record whole"),
        (["--schema", READS, "--set", "schema.evolution=add_columns"], "schema.evolution add_columns adds what"),
        (
            ["--schema", READS, "--set", f"transform.python={HERE}:doubled"],
            "transform.sql or transform.python, not both",
        ),
    ],
)
def test_what_decides_about_columns_beside_the_transform_is_refused(
    tmp_path: Path, shell: Shell, words: list[str], said: str
) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    refused = run(shell, *words, "--set", f"transform.sql={SQL}")
    assert refused.code == 2
    assert said in refused.text


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("SELECT count(*) FROM records", "transform", "transform.sql cannot be used: it has count_star()"),
        ("SELECT nobody FROM records", "transform", "nobody is no column of the records; they have id, name"),
        ("SELECT id, id FROM records", "transform", "column id: named more than once"),
        ("SELECT NULL AS n FROM records", "transform", "makes nothing but null in n"),
        ("SELECT id AS _rescued_data FROM records", "transform", "blizzard fills a column of this name"),
    ],
)
def test_a_statement_that_cannot_be_used_is_refused_before_anything_is_read(
    tmp_path: Path, shell: Shell, text: str, kind: str, said: str
) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    refused = run(shell, *options(text))
    assert (refused.code, refused.kind) == (2, kind)
    assert said in refused.text
    assert not shell.table.exists()


def test_an_existing_table_must_take_the_columns(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    assert run(shell, *options()).code == 0
    write(tmp_path / "src/b.ndjson", b'{"id":9,"name":"9"}\n')
    other = run(shell, *options("SELECT id, name AS n, 1 AS more FROM records"))
    assert (other.code, other.kind) == (2, "schema_mismatch")
    assert "n is INT in the table, and the transform makes STRING; more is no column of the table" in other.text
    fewer = run(shell, *options("SELECT id FROM records"))
    assert fewer.code == 0, fewer.text
    assert rows(shell.table)[-1] == {"id": 9, "n": None}


def test_a_new_table_is_partitioned_by_columns_of_the_result(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"name":"2026-01-31T10:00:00Z"}\n')
    text = "SELECT id, CAST(name AS TIMESTAMPTZ) AS at FROM records"
    assert run(shell, *options(text), "--set", "table.partition_by=day=date(at)").code == 0
    assert str(rows(shell.table)[0]["day"]) == "2026-01-31"


# Looking first.


def test_try_shows_the_rows_that_a_transform_would_make(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    said = shell("try", str(tmp_path / "src"), "--json", "--set", f"transform.sql={SQL}")
    found = json.loads(said.text)
    assert (said.code, found["ddl"]) == (0, "id BIGINT, name STRING")
    assert (found["rows"], found["bad"], found["filtered"], found["blank"]) == (2, 2, 1, 1)
    assert found["first_rows"] == [{"id": 1, "n": 5}, {"id": 5, "n": 8}]
    assert "--schema 'id BIGINT, name STRING'" in found["next"]
    assert "--infer" not in found["next"]
    text = shell("try", str(tmp_path / "src"), "--set", f"transform.sql={SQL}").text
    assert "1 record left out by where or transform" in text
    assert "the transform fails for them: let it make null" in text
    refused = shell("try", str(tmp_path / "src"), "--set", "transform.sql=SELECT count(*) FROM records")
    assert (refused.code, refused.kind) == (2, "transform")


def test_plan_validates_with_the_transform(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    where = ["--source", str(tmp_path / "src"), "--table", str(shell.table)]
    said = shell("plan", "--validate", "--json", *where, *options())
    found = json.loads(said.text)["validation"]
    assert (found["rows"], found["bad"], found["filtered"]) == (2, 2, 1)
    assert run(shell, *options()).code == 0
    write(tmp_path / "src/b.ndjson", b'{"id":3}\n{"id":8,"name":"z"}\n{"id":9,"name":"1"}\n')
    found = json.loads(shell("plan", "--validate", "--json", *where, *options()).text)["validation"]
    assert (found["rows"], found["bad"], found["filtered"]) == (1, 1, 1)


def test_dlq_replay_takes_the_transform_from_the_configuration(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    assert run(shell, *options()).code == 0
    where = ["--source", str(tmp_path / "src"), "--table", str(shell.table)]
    missing = shell("dlq", "replay", *where, "--pipeline", "p", "--set", f"transform.sql={SQL}")
    assert (missing.code, missing.kind) == (2, "schema_missing")
    keys = ["--set", f"schema.ddl={READS}", "--set", "transform.sql=SELECT id, 0 AS n FROM records WHERE id <> 3"]
    done = shell("dlq", "replay", *where, "--pipeline", "p", *keys)
    assert done.code == 0, done.text
    assert "1 record appended" in done.text
    assert [row["id"] for row in rows(shell.table)] == [1, 2, 5]


# Several targets.


def test_each_target_has_its_own_transform(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", LINES + b'{"id":7,"name":"y"}\n')
    keys = {
        "schema.ddl": READS,
        "targets.plain.table.path": str(tmp_path / "plain"),
        "targets.sql.table.path": str(tmp_path / "sql"),
        "targets.sql.transform.sql": SQL,
        "targets.python.table.path": str(tmp_path / "python"),
        "targets.python.transform.python": f"{HERE}:doubled",
    }
    said = shell("run", "--source", str(tmp_path / "src"), "--pipeline", "p", *sets(keys))
    assert said.code == 0, said.text
    assert [row["id"] for row in rows(tmp_path / "plain")] == [1, 2, 3, 5, 7]
    assert [row["id"] for row in rows(tmp_path / "python")] == [2, 4, 6, 10, 14]
    assert rows(tmp_path / "sql") == [{"id": 1, "n": 5}, {"id": 5, "n": 8}]
    (entry,) = entries(tmp_path / "sql")
    assert (entry.to_record, entry.bad, entry.filtered) == (7, 3, 1)
    again = shell("run", "--source", str(tmp_path / "src"), "--pipeline", "p", *sets(keys))
    assert (again.code, again.last["commits"]) == (0, 0), again.text


def test_a_target_whose_transform_fails_stops_no_other(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"name":"1"}\n')
    keys = {
        "schema.ddl": READS,
        "targets.good.table.path": str(tmp_path / "good"),
        "targets.bad.table.path": str(tmp_path / "bad"),
        "targets.bad.required": "false",
        "targets.bad.transform.python": f"{HERE}:changes_its_columns",
    }
    said = shell("run", "--source", str(tmp_path / "src"), "--pipeline", "p", *sets(keys))
    assert said.code == 0, said.text
    assert [row["id"] for row in rows(tmp_path / "good")] == [1]
    assert "other is no column of the table" in said.last["targets"]["bad"]["error"]
    keys["targets.bad.transform.python"] = f"{HERE}:doubled"
    assert shell("run", "--source", str(tmp_path / "src"), "--pipeline", "p", *sets(keys)).code == 0
    assert [row["id"] for row in rows(tmp_path / "bad")] == [2]
    assert [row["id"] for row in rows(tmp_path / "good")] == [1]


def test_where_is_judged_first_and_on_the_records(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", LINES + b'{"id":7,"name":"y"}\n')
    where = parse_where("name <> 'y'", load_schema(READS))
    flow.run(spec={"transform": sql("SELECT id + 100 AS id, CAST(name AS INTEGER) AS n FROM records"), "where": where})
    assert rows(flow.table) == [{"id": 101, "n": 5}, {"id": 103, "n": 7}, {"id": 105, "n": 8}]
    assert [row["line"] for row in flow.quarantined()] == [2, 5], "the last record never came to the transform"
    (entry,) = entries(flow.table)
    assert (entry.to_record, entry.bad, entry.filtered) == (7, 2, 1)


def sets(keys: dict[str, str]) -> list[str]:
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def test_a_transform_of_a_target_takes_the_place_of_the_common_one() -> None:
    keys = {
        "transform.sql": SQL,
        "targets.a.table.path": "/a",
        "targets.b.table.path": "/b",
        "targets.b.transform.python": "m:f",
    }
    config = make_config(keys)
    assert config.targets["a"].transform.sql == SQL
    assert (config.targets["b"].transform.sql, config.targets["b"].transform.python) == (None, "m:f")


# In a task.


def test_a_worker_that_would_run_something_else_stops_the_run(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", LINES)
    with pytest.raises(ConfigError) as stopped:
        flow.run(spec={"transform": replace(sql(), code="that of another DuckDB")})
    assert stopped.value.kind == "transform_differs"
    assert "Give driver and executors the same packages" in str(stopped.value)
    assert rows(flow.table) == []


def test_without_duckdb_the_driver_says_what_to_install(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "src/a.ndjson", LINES)
    forget_duckdb(monkeypatch)
    said = run(shell, *options())
    assert (said.code, said.kind) == (2, "transform")
    assert "pip install 'blizzard-delta[sql]'" in said.text


def test_without_duckdb_a_worker_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", LINES)
    transform = sql()
    forget_duckdb(monkeypatch)
    with pytest.raises(ConfigError, match=r"pip install 'blizzard-delta\[sql\]'.*docs/deploy-cluster.md") as stopped:
        flow.run(spec={"transform": transform})
    assert stopped.value.kind == "worker_environment"


def forget_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr("blizzard.tasks.duck._of_threads", {})
    monkeypatch.setattr("blizzard.tasks.transform_code._loaded", threading.local())
    monkeypatch.setattr("blizzard.tasks.transform_code._made", {})


def test_a_task_under_another_policy_for_unknown_fields_makes_them_bad(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, n INT")
    write(flow.src / "a.ndjson", b'{"id":1,"name":"1"}\n{"id":2,"other":1}\n{"id":4,"name":"4"}\n')
    flow.run(spec={"transform": sql(), "parsing": ParsePolicy(unknown=Unknown.BAD)})
    assert [row["error_kind"] for row in flow.quarantined()] == ["unknown_field"]
    assert [row["id"] for row in rows(flow.table)] == [1, 4]
