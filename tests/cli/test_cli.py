"""The command-line contract that needs no Spark: exit codes, the last line, what each command shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main

FIELDS = [
    *("status", "exit_code", "error_kind", "error", "paused", "attempt"),
    *("pipeline", "table", "delta_version", "sequence", "commits"),
    *(
        "files",
        "records",
        *("bad_records", "bad_reasons", "quarantined", "rejected", "dropped_records", "rescued_records", "bad_files"),
        *("filtered_records", "unrouted_records", "unknown_fields"),
        *("ignored_values", "ignored_fields", "sibling_values", "sibling_fields", "framings"),
        *("cut_timestamps", "parser", "doubtful_lines", "added_columns"),
        *("late_files", "rewritten_files", "held_files", "cleaned_files", "kept_files"),
        "backlog_files",
        "bytes_read",
        "seconds",
        "blocked_seconds",
        "recovery",
    ),
]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def last_line(out: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert list(parsed) == FIELDS
    return parsed


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ([], "usage"),
        (["--source", "x"], "usage"),
        (["--nonsense"], "usage"),
        (["--source", "x", "--table", "t", "--set", "limits.max_file=3"], "unknown_key"),
        (["--source", "x", "--table", "t", "--set", "nonsense"], "usage"),
        (["--source", "x", "--table", "t", "--start-from", "yesterday"], "usage"),
        (["--source", "x", "--table", "t", "--max-batches", "0"], "usage"),
        (["--source", "x", "--table", "t", "--pipeline", "no spaces"], "usage"),
        (["--source", "x", "--table", "t", "--config", "nowhere.yaml"], "config"),
        (["--source", "x", "--table", "t", "--schema", "id WHATEVER"], "schema"),
        (["--source", "ftp://b/x", "--table", "t"], "unsupported_scheme"),
        (["--source", "nowhere", "--table", "t", "--schema", "id INT"], "source_not_found"),
    ],
)
def test_usage_and_configuration_end_with_two_and_an_object(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "run", *arguments)
    summary = last_line(out)
    assert code == summary["exit_code"] == 2
    assert summary["status"] == "failed"
    assert summary["error_kind"] == kind
    assert f"[{kind}]" in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_do_is_zero_or_ninety_nine_when_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    job = ["run", "--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--schema", "id INT"]
    code, out, _ = call(capsys, *job)
    assert (code, last_line(out)["status"]) == (0, "idle")
    code, out, _ = call(capsys, *job, "--exit-99-when-idle")
    assert (code, last_line(out)["exit_code"]) == (99, 99)


def test_the_summary_goes_to_a_file_too_on_failure_as_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    code, out, _ = call(capsys, "run", "--source", "nowhere", "--table", str(tmp_path / "t"), "--summary", str(file))
    assert code == 2
    assert json.loads(file.read_text()) == last_line(out)
    code, out, _ = call(
        capsys,
        "run",
        "--source",
        str(tmp_path),
        "--table",
        str(tmp_path / "t"),
        "--summary",
        str(tmp_path / "no/where"),
    )
    assert code == 2
    assert last_line(out)["error_kind"] == "summary"


@pytest.mark.parametrize("wrong", [("--no-such-flag",), ("--max-batches", "many"), ("--committer=nobody",)])
def test_a_run_that_is_called_wrongly_still_leaves_its_summary(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    file = tmp_path / "summary.json"
    code, out, _ = call(capsys, "run", *wrong, f"--summary={file}", "--attempt", "try-1")
    assert code == 2
    assert json.loads(file.read_text()) == last_line(out)
    assert (last_line(out)["error_kind"], last_line(out)["attempt"]) == ("usage", "try-1")


def test_the_summary_repeats_what_the_caller_calls_the_attempt(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = ("run", "--source", str(tmp_path), "--table", str(tmp_path / "t"), "--schema", "id BIGINT")
    _, out, _ = call(capsys, *job, "--attempt", "try-2")
    assert (last_line(out)["status"], last_line(out)["attempt"]) == ("idle", "try-2")
    _, out, _ = call(capsys, *job)
    assert last_line(out)["attempt"] is None


def test_a_schema_is_suggested_with_the_command_to_paste(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b'{"id":1,"at":"2024-01-01T00:00:00Z","o\'k":{"x":[1.5]}}\n')
    code, out, err = call(capsys, "run", "--source", str(tmp_path), "--table", str(tmp_path / "t"))
    assert code == 2
    assert last_line(out)["error_kind"] == "schema_missing"
    command = next(line for line in err.splitlines() if line.strip().startswith("blizzard run")).removesuffix(
        " [schema_missing]"
    )
    import shlex

    words = shlex.split(command)
    assert words[:2] == ["blizzard", "run"]
    assert words[-1] == "id BIGINT, at TIMESTAMP, `o'k` STRUCT<x: ARRAY<DOUBLE>>"


def test_plan_shows_the_first_batch_and_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(b'{"id":1}\n')
    job = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--schema", "id INT"]
    code, out, _ = call(capsys, "plan", *job)
    assert code == 0
    assert "a.ndjson" in out
    code, out, _ = call(capsys, "plan", *job, "--json")
    shown = json.loads(out)
    assert shown["creates_table"] is True
    assert shown["recovery"] == "fresh"
    assert [s["path"] for s in shown["first_batch"]] == ["a.ndjson"]
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("command", [["status"], ["checkpoint", "show"], ["files"]])
def test_looking_at_no_table_is_a_clear_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    code, out, err = call(capsys, *command, "--table", str(tmp_path / "nowhere"))
    assert code == 2
    assert out == ""
    assert "[table_not_found]" in err


def test_no_java_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").write_bytes(b'{"id":1}\n')
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    job = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--schema", "id INT"]
    done = subprocess.run(
        [sys.executable, "-m", "blizzard", "run", *job], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no java on PATH, and Spark" in done.stderr
    assert "Install one of them, or set JAVA_HOME." in done.stderr
    assert last_line(done.stdout)["error_kind"] == "no_java"


def test_the_core_and_the_help_load_no_spark_and_no_delta() -> None:
    code = "import sys, {}; print(sorted({{'pyspark', 'deltalake', 's3fs', 'pyarrow', 'pandas'}} & set(sys.modules)))"
    core = "blizzard.core.batch, blizzard.core.plan, blizzard.core.recover, blizzard.core.outcome, blizzard.core.late"
    for modules in (core, "blizzard, blizzard.cli.main"):
        done = subprocess.run([sys.executable, "-c", code.format(modules)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("redirection", [">&-", "> /dev/full", "| true"])
def test_a_stdout_that_takes_nothing_changes_nothing_about_the_exit_code(tmp_path: Path, redirection: str) -> None:
    (tmp_path / "src").mkdir()
    command = f"{sys.executable} -m blizzard run --source src --table t --schema 'id INT'"
    shell = f"set -o pipefail; {command} {redirection}"
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_is_not_utf8_still_ends_in_an_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    code, out, _ = call(capsys, "run", "--source", name, "--table", str(tmp_path / "t"))
    assert code == last_line(out)["exit_code"] == 2
    code, out, _ = call(capsys, "run", "--source", "x", "--table", "t", "--config", name)
    assert code == last_line(out)["exit_code"] == 2


def test_an_empty_source_says_that_nothing_matches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "t")]
    code, _, err = call(capsys, "run", *where, "--schema", "id INT")
    assert code == 0
    assert "no file of the source matches" in err
