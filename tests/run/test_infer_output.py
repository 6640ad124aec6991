"""What `--infer` and `blizzard schema infer` print: one column a line, proposals to paste, no line without end."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from blizzard.core.lists import cut_columns
from blizzard.schema.ddl import parse_ddl


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def write(folder: Path, *records: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.ndjson").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return folder


def by_time(table: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=lambda row: row["ts"])


ZEEK = [{"ts": 1591367999.305988, "id.orig_h": "10.0.0.1"}, {"ts": 1591368000, "id.orig_h": "10.0.0.2"}]


def test_what_is_printed_is_the_schema_and_can_be_given_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = write(tmp_path / "src", {"id": 1, "u": {"a": [1]}, "o'k": None, "m": {"1": 1, "2": 2}})
    _, out, _ = call(capsys, "schema", "infer", "--source", str(source))
    assert out == "id BIGINT,\nu STRUCT<a: ARRAY<BIGINT>>,\nm MAP<STRING, BIGINT>\n"
    (tmp_path / "s.ddl").write_text(out)
    code, out, _ = call(
        capsys, "plan", "--source", str(source), "--table", str(tmp_path / "t"), "--schema", str(tmp_path / "s.ddl")
    )
    assert code == 0


@pytest.mark.usefixtures("in_process")
def test_a_proposed_format_is_printed_and_works_as_it_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = write(tmp_path / "src", *ZEEK)
    job = ["run", "--source", str(source), "--infer", "--table"]
    code, _, err = call(capsys, *job, str(tmp_path / "t"))
    assert code == 0
    assert [row["ts"] for row in by_time(tmp_path / "t")] == [1591367999.305988, 1591368000.0]
    (line,) = [line for line in err.splitlines() if "looks like a time" in line]
    assert line == "ts looks like a time (epoch_s); to make it a TIMESTAMP: --set schema.formats.ts=epoch_s"
    code, _, err = call(capsys, *job, str(tmp_path / "t2"), *shlex.split(line.partition("TIMESTAMP: ")[2]))
    assert code == 0, err
    assert "  ts TIMESTAMP\n" in err
    assert "looks like a time" not in err
    assert [row["ts"].isoformat() for row in by_time(tmp_path / "t2")] == [
        "2020-06-05T14:39:59.305988+00:00",
        "2020-06-05T14:40:00+00:00",
    ]


def test_as_json_it_has_the_formats_and_the_remarks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = write(tmp_path / "src", *ZEEK, {"day": "13/04/2024", "m": {"1": 1, "2": 2}})
    _, out, _ = call(capsys, "schema", "infer", "--source", str(source), "--json")
    found = json.loads(out)
    assert found["formats"] == {
        "ts": {"formats": ["epoch_s"], "type": "TIMESTAMP"},
        "day": {"formats": ["%d/%m/%Y"], "type": "DATE"},
    }
    assert found["ddl"] == "ts DOUBLE, `id.orig_h` STRING, day STRING, m MAP<STRING, BIGINT>"
    assert parse_ddl(found["ddl"]) == found["schema"]
    assert found["remarks"][0].startswith('m is a MAP<STRING, BIGINT>, for keys such as "1" are data.')


def wide(tmp_path: Path) -> Path:
    record = {f"column_{i}": i for i in range(245)} | {"s": {f"field_{i}": i for i in range(900)}}
    return write(tmp_path / "src", record)


def test_for_a_person_a_long_schema_is_cut_and_for_a_file_it_is_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = wide(tmp_path)
    infer = ["schema", "infer", "--source", str(source)]
    whole = call(capsys, *infer)[1].splitlines()
    assert len(whole) == 246
    assert len(whole[-1]) > 10_000
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shown = call(capsys, *infer)[1].splitlines()
    assert shown[0] == "column_0 BIGINT"
    assert shown[-1] == "… and 206 more columns"
    assert len(shown) == 41


@pytest.mark.usefixtures("in_process")
def test_a_run_prints_the_first_columns_of_many(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = ["run", "--source", str(wide(tmp_path)), "--table", str(tmp_path / "t"), "--infer"]
    code, _, err = call(capsys, *job)
    assert code == 0
    assert "  … and 206 more columns\n" in err
    assert max(map(len, err.splitlines())) < 500


def test_without_infer_a_long_schema_is_not_pasted_into_a_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = call(capsys, "run", "--source", str(wide(tmp_path)), "--table", str(tmp_path / "t"))
    assert code == 2
    assert "characters)" in err
    assert "To use it, add --infer. Or write it to a file" in err
    assert max(map(len, err.splitlines())) < 3000


def test_a_line_of_columns_is_cut() -> None:
    assert cut_columns(["a INT", "b STRUCT<" + "x" * 1000]) == ["a INT", f"b STRUCT<{'x' * 151}… (1,009 characters)"]
    assert cut_columns(["a INT"] * 41) == [*["a INT"] * 40, "… and 1 more column"]


def test_an_object_keyed_by_numbers_ends_with_what_to_do_and_no_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = write(tmp_path / "src", {str(i): {"a": i} for i in range(1264)})
    code, _, err = call(capsys, "run", "--source", str(source), "--table", str(tmp_path / "t"), "--infer")
    assert code == 2
    assert "jq -c" in err
    assert max(map(len, err.splitlines())) < 600
    assert not (tmp_path / "t").exists()


@pytest.mark.usefixtures("in_process")
def test_in_json_logs_the_schema_is_one_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = write(tmp_path / "src", {"id": 1, "x": "y"})
    job = ["run", "--source", str(source), "--table", str(tmp_path / "t"), "--infer", "--log-json"]
    code, _, err = call(capsys, *job)
    assert code == 0
    (line,) = [json.loads(line) for line in err.splitlines() if "inferred schema" in line]
    assert line["message"] == "inferred schema from 1 record of 1 file"
    assert line["ddl"] == "id BIGINT, x STRING"


@pytest.mark.usefixtures("in_process")
def test_maps_without_the_native_parser_are_said_to_be_slow(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = write(tmp_path / "src", {"m": {"1": 1, "2": 2}})
    job = ["run", "--source", str(source), "--infer", "--table"]
    _, _, err = call(capsys, *job, str(tmp_path / "a"), "--set", "source.parser=pyarrow")
    assert "lines of a table with a MAP are read slowly without the native parser" in err
