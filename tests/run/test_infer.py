"""`--infer`, and the commands that infer and compare schemas. No Spark: where a run reads, its tasks run here."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import types as spark

import blizzard
from blizzard.cli.main import main
from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema.ddl import parse_ddl, to_ddl
from tests.ingesting import rows


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two plain files, one with a bad line, and one compressed file cut short."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a.ndjson").write_bytes(b'{"id":1,"user":{"age":7},"none":null}\n')
    (folder / "b.ndjson").write_bytes(b'not json\n{"id":2,"at":"2024-01-01T00:00:00Z"}\n')
    (folder / "c.ndjson.gz").write_bytes(gzip.compress(b'{"id":3}\n' * 100)[:-9])
    return folder


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def table_ddl(table: Path) -> str:
    return to_ddl(json.loads(DeltaTable(str(table)).schema().to_json()))


@pytest.mark.usefixtures("in_process")
def test_a_first_run_with_infer_is_one_step_and_later_ones_use_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(b'{"id":1,"none":null}\n{"id":2,"x":0.5}\n')
    job = ["run", "--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--infer"]
    code, out, err = call(capsys, *job)
    assert code == 0, err
    assert "sampling 1 of 1 file" in err
    assert "left out, as no value was seen: none" in err
    assert "inferred schema from 2 records of 1 file:\n  id BIGINT\n  x DOUBLE\n" in err
    assert json.loads(out.splitlines()[-1])["records"] == 2
    assert rows(tmp_path / "t") == [{"id": 1, "x": None}, {"id": 2, "x": 0.5}]

    (tmp_path / "src/b.ndjson").write_bytes(b'{"id":3,"x":1}\n')
    code, _, err = call(capsys, *job, "--hints", "id STRING")
    assert code == 0
    assert "sampling" not in err
    assert "inferred" not in err
    assert table_ddl(tmp_path / "t") == "id BIGINT, x DOUBLE"
    assert len(rows(tmp_path / "t")) == 3


@pytest.mark.usefixtures("in_process")
def test_ingest_infers_if_asked_with_hints_among_the_options(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(b'{"id":1}\n')
    where: dict[str, Any] = {"source": str(tmp_path / "src"), "table": str(tmp_path / "t")}
    with pytest.raises(SchemaError) as missing:
        blizzard.ingest(None, **where)
    assert missing.value.kind == "schema_missing"
    assert "id BIGINT" in str(missing.value)
    assert not (tmp_path / "t").exists()
    summary = blizzard.ingest(None, **where, infer=True, options={"schema.hints": "id INT, later DATE"})
    assert summary.records == 1
    assert table_ddl(tmp_path / "t") == "id INT, later DATE"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "schema",
    [
        "id BIGINT, tags ARRAY<STRING>",
        parse_ddl("id BIGINT, tags ARRAY<STRING>"),
        pa.schema([("id", pa.int64()), ("tags", pa.large_list(pa.large_string()))]),
        spark.StructType().add("id", spark.LongType()).add("tags", spark.ArrayType(spark.StringType())),
    ],
    ids=["ddl", "dict", "arrow", "spark"],
)
def test_ingest_takes_a_schema_in_every_form(tmp_path: Path, schema: Any) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(b'{"id":1,"tags":["x"]}\n')
    blizzard.ingest(None, source=str(tmp_path / "src"), table=str(tmp_path / "t"), schema=schema)
    assert rows(tmp_path / "t") == [{"id": 1, "tags": ["x"]}]
    assert table_ddl(tmp_path / "t") == "id BIGINT, tags ARRAY<STRING>"


def test_a_schema_is_given_once(tmp_path: Path) -> None:
    where = {"source.path": str(tmp_path), "table.path": str(tmp_path / "t")}
    arrow = pa.schema([("a", pa.int8())])
    with pytest.raises(ConfigError, match="given twice"):
        make_request(make_config(where | {"schema.ddl": "a INT"}), schema=arrow)
    for given in ({"schema.ddl": "a INT"}, {"schema.file": "s.ddl"}):
        with pytest.raises(ConfigError, match="not both"):
            make_request(make_config(where | given | {"schema.infer": "true"}))
    with pytest.raises(ConfigError, match="not both"):
        make_request(make_config(where | {"schema.infer": True}), schema=arrow)


def test_an_empty_source_stays_idle_and_makes_no_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(b"\n")
    job = ["run", "--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--infer"]
    code, out, _ = call(capsys, *job)
    assert (code, json.loads(out)["status"]) == (0, "idle")
    assert not (tmp_path / "t").exists()


def test_the_schema_is_chosen_before_spark_starts_and_no_table_is_made_without_it(source: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "blizzard", "run", "--source", str(source), "--table", "t", "--infer"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert (
        "inferred schema from 2 records of 2 files (1 line and 1 file skipped):\n"
        "  id BIGINT\n  user STRUCT<age: BIGINT>\n  at TIMESTAMP\n" in done.stderr
    )
    assert json.loads(done.stdout.splitlines()[-1])["error_kind"] == "no_java"
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (["--hints", "id WHATEVER"], "schema"),
        (["--infer", "--hints", "id INT, id INT"], "schema"),
        (["--infer", "--schema", "id INT"], "usage"),
        (["--hints", "id INT", "--schema", "id INT"], "usage"),
        (["--set", "schema.infer=perhaps"], "config"),
        (["--set", "schema.sample_files=0"], "config"),
    ],
)
def test_contradicting_and_misspelt_flags_end_with_two(
    capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path, flags: list[str], kind: str
) -> None:
    code, out, err = call(capsys, "run", "--source", str(source), "--table", str(tmp_path / "t"), *flags)
    assert code == 2
    assert json.loads(out)["error_kind"] == kind
    assert "sampling" not in err
    assert not (tmp_path / "t").exists()


def test_plan_infers_too_and_makes_nothing(capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path) -> None:
    code, out, err = call(capsys, "plan", "--source", str(source), "--table", str(tmp_path / "t"), "--infer", "--json")
    assert code == 0
    assert json.loads(out)["creates_table"] is True
    assert "inferred schema from" in err
    assert not (tmp_path / "t").exists()


def test_schema_infer_prints_the_ddl_alone(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    code, out, err = call(capsys, "schema", "infer", "--source", str(source))
    assert (code, out) == (0, "id BIGINT,\nuser STRUCT<age: BIGINT>,\nat TIMESTAMP\n")
    assert "b.ndjson line 1: not JSON" in err
    assert "without c.ndjson.gz: " in err


def test_schema_infer_takes_hints_a_pattern_and_limits(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    infer = ["schema", "infer", "--source", str(source)]
    assert call(capsys, *infer, "--pattern", "b*", "--hints", "id INT, x.y DATE")[1] == (
        "id INT,\nat TIMESTAMP,\nx STRUCT<y: DATE>\n"
    )
    assert call(capsys, *infer, "--sample-files", "1")[1] == "id BIGINT,\nuser STRUCT<age: BIGINT>\n"
    code, out, err = call(capsys, *infer, "--sample-records", "none")
    assert (code, out) == (2, "")
    assert "schema.sample_records must be a whole number" in err


def test_schema_infer_as_json(capsys: pytest.CaptureFixture[str], source: Path) -> None:
    code, out, _ = call(capsys, "schema", "infer", "--source", str(source), "--json")
    assert code == 0
    ddl = "id BIGINT, user STRUCT<age: BIGINT>, at TIMESTAMP"
    assert json.loads(out) == {
        "ddl": ddl,
        "schema": parse_ddl(ddl),
        "records": 2,
        "files": 2,
        "skipped_lines": 1,
        "skipped_files": 1,
        "left_out": ["none"],
        "remarks": [],
        "formats": {},
    }


@pytest.mark.parametrize(
    ("content", "code", "kind"),
    [
        (b"", 2, "no_records"),
        (b"not json\n", 5, "nothing_to_infer_from"),
        (b'{"a":null}\n', 2, "schema"),
        (b'{"":1}\n', 2, "schema"),
    ],
)
def test_schema_infer_says_why_there_is_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, code: int, kind: str
) -> None:
    (tmp_path / "a.ndjson").write_bytes(content)
    found, out, err = call(capsys, "schema", "infer", "--source", str(tmp_path))
    assert (found, out) == (code, "")
    assert f"[{kind}]" in err


def test_schema_diff_compares_with_what_is_given_or_inferred(
    capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    ddl = "id BIGINT, user STRUCT<age: INT>, old DATE"
    DeltaTable.create(str(table), schema=pa.schema([
        ("id", pa.int64()), ("user", pa.struct([("age", pa.int32())])), ("old", pa.date32())
    ]))  # fmt: skip
    diff = ["schema", "diff", "--table", str(table)]
    assert call(capsys, *diff, "--schema", ddl)[:2] == (0, "same\n")
    (tmp_path / "s.ddl").write_text(ddl.replace(", old DATE", ""))
    assert call(capsys, *diff, "--schema", str(tmp_path / "s.ddl"))[:2] == (
        0,
        "1 difference\nold: table DATE, missing in the given schema\n",
    )
    sentences = [
        "user.age: inferred BIGINT, table INT",
        "at: inferred TIMESTAMP, missing in the table",
        "old: table DATE, missing in the inferred schema",
    ]
    code, out, err = call(capsys, *diff, "--source", str(source))
    assert (code, out.splitlines()) == (0, ["3 differences", *sentences])
    assert "sampling 3 of 3 files" in err
    assert json.loads(call(capsys, *diff, "--source", str(source), "--json")[1]) == {
        "same": False,
        "differences": sentences,
    }
    hints = ["--pattern", "a*", "--hints", "user.age INT, old DATE"]
    assert json.loads(call(capsys, *diff, "--source", str(source), *hints, "--json")[1])["same"] is True


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["infer"], "usage"),
        (["guess"], "usage"),
        (["infer", "--source", "nowhere"], "source_not_found"),
        (["diff", "--table", "t"], "usage"),
        (["diff", "--table", "t", "--source", "s", "--schema", "a INT"], "usage"),
        (["diff", "--table", "t", "--schema", "a INT", "--hints", "a INT"], "usage"),
        (["diff", "--table", "nowhere", "--schema", "a INT"], "table_not_found"),
    ],
)
def test_the_schema_commands_refuse_what_makes_no_sense(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "schema", *arguments)
    assert (code, out) == (2, "")
    assert f"[{kind}]" in err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run"], ["--infer", "--hints DDL"]),
        (["plan"], ["--infer", "--hints DDL"]),
        (["schema"], ["infer", "diff"]),
        (["schema", "infer"], ["--source", "--pattern", "--hints", "--sample-records", "--sample-files", "--json"]),
        (["schema", "diff"], ["--table", "--source", "--schema", "--hints", "--json", "Exits 0"]),
    ],
)
def test_the_help_names_every_flag(capsys: pytest.CaptureFixture[str], command: list[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main([*command, "--help"])
    assert done.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert [word for word in words if word not in out] == []


def test_the_schema_commands_start_no_spark(source: Path) -> None:
    code = (
        "import sys; from blizzard.cli.main import main;"
        f" main(['schema', 'infer', '--source', {str(source)!r}]); print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
