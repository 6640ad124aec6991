"""A file that no run can read is named with its reason, wherever somebody looks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.flows.shell import Shell
from tests.ingesting import ids, write, write_ids
from tests.source.test_recognise import KINDS

REASON = "other_kind: a Parquet file, not lines of JSON"


@pytest.fixture
def held(tmp_path: Path, shell: Shell) -> list[str]:
    """The options of commands over a source with such a file."""
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write(tmp_path / "src/b.ndjson", KINDS["a Parquet file"])
    said = shell.run("--pipeline", "p")
    assert (said.code, said.last["held_files"], said.last["bad_records"]) == (0, 1, 0)
    assert f"b.ndjson ({REASON}" in said.text
    return shell.where("--pipeline", "p")


def test_status_names_it(shell: Shell, held: list[str]) -> None:
    where = [word for word in held if word not in ("--pipeline", "p")]
    said = shell("status", *where)
    rows = {line[2:14].strip(): line for line in said.text.splitlines() if line.startswith("  ")}
    assert f"b.ndjson ({REASON}" in rows["held back"]
    assert "none" in rows["in progress"]
    (pipeline,) = json.loads(shell("status", *where, "--json").text)["pipelines"]
    assert list(pipeline["held_back"]) == ["b.ndjson"]
    assert pipeline["in_progress"] == {"b.ndjson": 0}


def test_plan_says_that_it_is_tried_again(shell: Shell, held: list[str]) -> None:
    assert f"by the last run, to be tried again: b.ndjson ({REASON}" in shell("plan", *held).text
    shown = json.loads(shell("plan", *held, "--json").text)
    assert ([s["path"] for s in shown["first_batch"]], list(shown["held_back"])) == (["b.ndjson"], ["b.ndjson"])


def test_audit_counts_it_as_unreadable(shell: Shell, held: list[str]) -> None:
    found = json.loads(shell("audit", *held, "--json").text)
    assert (found["waiting"], found["held"], found["unreadable"]) == (["b.ndjson"], ["b.ndjson"], ["b.ndjson"])
    assert (found["ok"], shell("audit", *held, "--check").code) == (False, 5)


def test_a_first_run_infers_from_the_others_and_holds_it_back(tmp_path: Path, shell: Shell) -> None:
    words = ["--source", str(tmp_path / "src"), "--table", str(shell.table), "--pipeline", "p", "--infer"]
    write(tmp_path / "src/a.ndjson", KINDS["a Parquet file"])
    write(tmp_path / "src/b.ndjson", '{"id":9}\n'.encode("utf-16"))
    said = shell("run", *words)
    assert (said.code, said.kind, shell.table.exists()) == (5, "nothing_to_infer_from", False)
    assert "2 files looked at, none could be used. The first: a.ndjson: a Parquet file, not lines of JSON" in said.text
    write_ids(tmp_path / "src/c.ndjson", 0, 3)
    said = shell("run", *words)
    assert (said.code, said.last["held_files"]) == (0, 2)
    assert "the sample goes on without a.ndjson: a Parquet file, not lines of JSON" in said.text
    assert "the sample goes on without b.ndjson: text in UTF-16; to read it set source.encoding=utf-16" in said.text
    assert ids(shell.table) == [0, 1, 2]


def test_a_first_run_infers_from_text_in_another_encoding(tmp_path: Path, shell: Shell) -> None:
    words = ["--source", str(tmp_path / "src"), "--table", str(shell.table), "--pipeline", "p", "--infer"]
    write(tmp_path / "src/a.ndjson", '{"id":1,"straße":"ß"}\n'.encode("utf-16"))
    said = shell("run", *words, "--set", "source.encoding=utf-16")
    assert (said.code, said.last["records"]) == (0, 1)
    assert "straße" in said.text
