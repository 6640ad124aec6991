"""`blizzard try`: no table, no Spark, no trace; it says what the first run would make of the files."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

from blizzard.core.patterns import DEFAULT_GLOB
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS
from tests.cli.every_command import call
from tests.flows.shell import Shell
from tests.ingesting import ids, line, write, write_ids
from tests.run.test_mostly_bad import tree


def tried(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = call(capfd, "try", *words, "--json")
    found: dict[str, Any] = json.loads(out)
    return code, found


def test_it_says_what_was_found_the_schema_the_rows_and_the_next_command(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson.gz", b'{"id":1,"at":"2026-01-02T03:04:05Z","user":{"name":"\\u001b[31mA"}}\n' * 3)
    write(tmp_path / "src/b.ndjson", b'{"id":2}\noops\n\n')
    before = tree(tmp_path)
    said = shell("try", str(tmp_path / "src"), "--rows", "1")
    out = said.text[: said.text.index("--infer") + len("--infer")]  # without what is on stderr
    assert said.code == 0
    assert out.splitlines() == [
        "found       1 file *.ndjson, 15 bytes",
        f"found       1 file *.ndjson.gz, {(tmp_path / 'src/a.ndjson.gz').stat().st_size} bytes",
        "",
        "schema:",
        "  id BIGINT,",
        "  at TIMESTAMP,",
        "  user STRUCT<name: STRING>",
        "",
        "first rows:",
        "id  at                    user",
        '1   2026-01-02 03:04:05Z  {"name":"\\u001b[31mA"}',
        "",
        "records     5 records of 2 files, 1 blank line",
        "rows        4",
        "bad         1",
        "            1 record: not JSON: Expecting value (the first: b.ndjson line 2)",
        "              no setting takes them: fix or move the files",
        f"parser      {_parser(out)}",
        "",
        "next:",
        f"  blizzard run --source {tmp_path}/src --table {tmp_path}/src_table --infer",
    ]
    assert tree(tmp_path) == before
    assert shell(*shlex.split(out.splitlines()[-1])[1:]).code == 0
    assert ids(tmp_path / "src_table") == [1, 1, 1, 2]


def _parser(out: str) -> str:
    """Which one there is depends on the machine."""
    return next(line for line in out.splitlines() if line.startswith("parser"))[12:]


def test_the_object_has_everything(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [b'{"id":1,"ts":"2026-01-01T00:00:00.123456789Z","more":1}', b'{"id":"2"}', b'{"id":3.5,"d":"AA=="}']
    write(tmp_path / "a.log", b"\n".join(lines))
    ddl = "id BIGINT, ts TIMESTAMP, d BINARY, never STRING, s STRUCT<x: INT>"
    code, found = tried(capfd, str(tmp_path / "a.log"), "--schema", ddl, "--set", "table.provenance=raw")
    assert code == 0
    assert found["first_rows"] == [
        {
            "id": 1,
            "ts": "2026-01-01 00:00:00.123456Z",
            "d": None,
            "never": None,
            "s": None,
            "_raw": lines[0].decode(),
        }
    ]
    assert (found["records"], found["rows"], found["bad"], found["blank"], found["read_all"]) == (3, 1, 2, 0, True)
    assert found["found"] == [{"kind": "*.log", "files": 1, "bytes": len(b"\n".join(lines))}]
    assert found["ddl"] == ddl
    assert found["unknown_fields"] == {"more": 1}
    assert found["cut_timestamps"] == {"ts": 1}
    assert found["never_filled"] == ["d", "never", "s"]
    assert (found["exit_code"], found["error_kind"], found["error"]) == (0, None, None)
    reasons = {(r["column"], r["cause"]): r for r in found["bad_reasons"]}
    assert reasons["id", "number_in_text"]["remedies"][0]["options"] == "--set schema.coerce.id=numbers_in_strings"
    # Hints do nothing beside a given schema.
    assert reasons["id", "fraction"]["remedies"][0]["options"] == "--schema with id DOUBLE"
    assert reasons["id", "fraction"]["line"] == 3
    places = ["--source", f"{tmp_path}/a.log", "--table", f"{tmp_path}/a_table"]
    given = ["--schema", ddl, "--set", "table.provenance=raw"]
    assert found["next"] == shlex.join(["blizzard", "run", *places, *given])


def test_what_a_setting_would_take_is_taken_with_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The advice, followed by the letter."""
    write(tmp_path / "a.ndjson", b'{"id":"1","ok":1,"at":1767225600000}\n' * 5)
    given = [str(tmp_path / "a.ndjson"), "--schema", "id BIGINT, ok BOOLEAN, at TIMESTAMP"]
    options: list[str] = []
    for column in ("id", "ok", "at"):
        code, found = tried(capfd, *given, *options)
        (reason,) = found["bad_reasons"]
        assert (code, reason["column"], found["error_kind"]) == (5, column, "mostly_bad")
        options += shlex.split(reason["remedies"][0]["options"])
    code, found = tried(capfd, *given, *options)
    assert (code, found["rows"], found["bad"]) == (0, 5, 0)
    assert found["first_rows"][0] == {"id": 1, "ok": True, "at": "2026-01-01 00:00:00Z"}


def test_if_every_record_is_bad_it_exits_with_5(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.ndjson", b'{"id":1.5}\n' * 3)
    code, out, err = call(capfd, "try", str(tmp_path), "--schema", "id BIGINT")
    assert code == 5
    assert "3 records: id BIGINT holds a number with a fraction (the first: a.ndjson line 1)" in out
    assert "next:" not in out
    assert err.splitlines()[-1].startswith("blizzard: not one of 3 records becomes a row.")
    assert err.splitlines()[-1].endswith("[mostly_bad]")


@pytest.mark.parametrize("given", [(), ("--schema", "id BIGINT")])
def test_without_a_record_it_exits_with_5(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], given: tuple[str, ...]
) -> None:
    write(tmp_path / "a.ndjson", b"\n \n")
    code, _, err = call(capfd, "try", str(tmp_path), *given)
    assert (code, err.splitlines()[-1]) == (5, f"blizzard: there is no record in {tmp_path} ({_PATTERN}) [no_records]")


_PATTERN = DEFAULT_GLOB


def test_files_that_cannot_be_read_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = gzip.compress(line(1) * 1000)
    write_ids(tmp_path / "a.ndjson", 0, 3)
    (tmp_path / "b.ndjson.gz").write_bytes(content[:-4] + b"\0\0\0\0")
    code, found = tried(capfd, str(tmp_path), "--records", "all")
    assert (code, found["rows"]) == (0, 3)
    assert list(found["bad_files"]) == ["b.ndjson.gz"]
    (tmp_path / "a.ndjson").unlink()
    code, found = tried(capfd, str(tmp_path), "--schema", "id BIGINT", "--records", "all")
    assert (code, found["error_kind"]) == (5, "unreadable_files")


def test_it_is_bounded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_ids(tmp_path / "a.ndjson", 0, 500)
    for records, read in (("7", 7), ("0", 500), ("all", 500)):
        _, found = tried(capfd, str(tmp_path), "--records", records)
        assert (found["records"], found["read_all"]) == (read, read == 500)
    _, out, _ = call(capfd, "try", str(tmp_path), "--records", "7", "--rows", "0")
    assert "records     7 records of 1 file; --records all reads everything" in out
    assert "first rows" not in out
    code, _, err = call(capfd, "try", str(tmp_path), "--records", "many")
    assert (code, "is not a whole number" in err) == (2, True)


def test_fields_after_the_sample_would_become_columns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.ndjson", line(1) * 50 + b'{"id":1,"late":{"x":1}}\n')
    _, out, _ = call(capfd, "try", str(tmp_path), "--set", "schema.sample_records=10")
    assert "new columns late" in out


def test_a_file_and_a_source_are_one_too_many(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_ids(tmp_path / "a.ndjson", 0, 1)
    code, _, err = call(capfd, "try", str(tmp_path), "--source", str(tmp_path))
    assert (code, "[usage]" in err) == (2, True)


def test_files_in_a_bucket(capfd: pytest.CaptureFixture[str]) -> None:
    store = open_store("memory://of-a-trial/raw", NO_ACCESS)
    store.put("2026/a.ndjson", line(1) * 3)
    store.put("2026/b.ndjson", line(2) * 2)
    for named, rows in (("2026/a.ndjson", 3), ("2026", 5), ("*/b*", 2)):
        code, found = tried(capfd, f"memory://of-a-trial/raw/{named}")
        assert (code, found["rows"]) == (0, rows)
    code, found = tried(capfd, *(f"memory://of-a-trial/raw/2026/{name}.ndjson" for name in "ab"))
    assert (code, found["rows"]) == (0, 5)
    assert "--source memory://of-a-trial/raw/2026 --table memory://of-a-trial/raw/2026_table" in found["next"]


def test_it_needs_no_java_no_spark_and_no_table(tmp_path: Path) -> None:
    """In a process of its own: pyspark is never imported, and nothing is left in its folder."""
    write_ids(tmp_path / "a.ndjson", 0, 3)
    script = (
        "import sys; from blizzard.cli.main import main; code = main(['try', 'a.ndjson']);"
        " assert not {'pyspark', 'py4j'} & set(sys.modules); sys.exit(code)"
    )
    without_java = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": "/nowhere",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=without_java, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "3 records of 1 file" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["a.ndjson"]


def test_files_that_are_not_one_record_a_line_are_read_as_a_run_would(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "a.json", b'{"Records":[{"id":1},\n{"id":2}],"region":"eu"}')
    write(tmp_path / "b.json", b'{"id":3}{"id":4}')
    write(tmp_path / "c.json", b'{"id":5}\n')
    code, found = tried(capfd, str(tmp_path))
    assert (code, found["rows"], found["bad"]) == (0, 5, 0)
    assert found["framings"] == {"array:Records": 1, "concatenated": 1, "lines": 1}
    assert found["sibling_fields"] == {"region": 1}
    _, out, _ = call(capfd, "try", str(tmp_path))
    assert "framing     not one record a line: 1 file as array:Records, 1 file as concatenated\n" in out
    assert "siblings    beside the arrays, read by nothing: region\n" in out


def test_names_that_no_pattern_takes_end_as_in_a_run_with_the_setting_that_reads_them(
    tmp_path: Path, shell: Shell
) -> None:
    write_ids(tmp_path / "src/a.log", 0, 3)
    said = shell("try", str(tmp_path / "src"))
    assert (said.code, said.kind) == (2, "no_file_matches")
    assert said.text.endswith("to read the .log: --set 'source.pattern=**/*.log' [no_file_matches]\n")
    assert shell("try", str(tmp_path / "src"), "--set", "source.pattern=**/*.log").code == 0


def test_files_beside_that_no_pattern_takes_are_named(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write(tmp_path / "src/b.csv", b"id\n1\n")
    said = shell("try", str(tmp_path / "src"))
    assert said.text.count("warning: 1 file matches no pattern: 1 .csv") == 1
    # A file that is named is wanted alone; and source.pattern would be refused beside it.
    assert "no pattern" not in shell("try", str(tmp_path / "src/a.ndjson")).text
    planned = shell("plan", "--source", str(tmp_path / "src/a.ndjson"), "--table", str(shell.table), "--infer")
    assert (planned.code, "no pattern" in planned.text) == (0, False)


def test_the_filters_leave_out_what_they_leave_out_of_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/b.ndjson", 3, 5)
    assert tried(capfd, str(tmp_path / "src"), "--set", "source.ignore=b.*")[1]["rows"] == 3
    code, _, err = call(capfd, "try", str(tmp_path / "src"), "--set", "source.modified_after=2999-01-01")
    assert (code, err.splitlines()[-1].split()[-1]) == (5, "[no_records]")


@pytest.mark.parametrize("names", [("a.ndjson", "b.log"), ("sub/a.ndjson", "b.ndjson")])
def test_the_next_command_reads_the_named_files_and_no_others(
    tmp_path: Path, shell: Shell, names: tuple[str, str]
) -> None:
    for number, name in enumerate((*names, "other.ndjson")):
        write_ids(tmp_path / "src" / name, number, number + 1)
    said = shell("try", *(str(tmp_path / "src" / name) for name in names))
    command = next(line for line in said.text.splitlines() if line.startswith("  blizzard run"))
    assert shell(*shlex.split(command)[1:]).code == 0
    assert ids(tmp_path / "src_table") == [0, 1]


@pytest.mark.parametrize("given", [("--variant",), ("--set", "schema.variant=true")])
def test_records_are_tried_whole(tmp_path: Path, shell: Shell, given: tuple[str, ...]) -> None:
    write(tmp_path / "src/a.ndjson", b'{"":1}\n{"a":{"":2}}\n')
    said = shell("try", str(tmp_path / "src"), *given)
    assert said.code == 0
    assert "rows        2" in said.text.splitlines()
    command = next(line for line in said.text.splitlines() if line.startswith("  blizzard run"))
    assert shell(*shlex.split(command)[1:]).last["records"] == 2


def test_a_name_that_no_column_can_have_does_not_stop_the_first_run(tmp_path: Path, shell: Shell) -> None:
    """An unnamed index column, as some exporters write it; its values are kept."""
    write(tmp_path / "src/a.ndjson", b'{"":3,"id":1,"x":{"":2,"y":1}}\n{"a\\u0007b":4,"id":2}\n')
    said = shell("try", str(tmp_path / "src"))
    assert said.code == 0
    assert "column x: '' cannot be the name of a column; its values go the way of fields without one" in said.text
    command = next(line for line in said.text.splitlines() if line.startswith("  blizzard run"))
    assert shell(*shlex.split(command)[1:]).code == 0
    rows = deltalake.DeltaTable(str(tmp_path / "src_table")).to_pyarrow_table().to_pylist()
    assert [(row["id"], json.loads(row["_rescued_data"])) for row in rows] == [
        (1, {"``": 3, "x.``": 2}),
        (2, {"`a\x07b`": 4}),
    ]


def test_what_the_text_of_the_parser_says_of_a_place_is_not_said_twice(tmp_path: Path, shell: Shell) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":"a\tb"}\n{"id":"c"}\n')
    said = shell("try", str(tmp_path / "src")).text
    assert "not JSON: Invalid control character at character 8" in said
    assert "1 record: not JSON: Invalid control character (the first: a.ndjson line 1)" in said
