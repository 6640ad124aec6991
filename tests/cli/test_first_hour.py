"""The mistakes of the first hour: each message says what is wrong, with what, and what to do. Nothing is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.every_command import call

RUN = ["run", "--table", "t", "--infer", "--source"]

MISTAKES = {
    "a misspelt folder": ([*RUN, "srcc"], "source_not_found", "/srcc does not exist; did you mean {folder}/src?"),
    "a misspelt folder on the way": (
        [*RUN, "dep/est"],
        "source_not_found",
        "/dep is not there; did you mean {folder}/deep?",
    ),
    "a folder that is nowhere": ([*RUN, "xyzzy"], "source_not_found", "/xyzzy does not exist [source_not_found]"),
    "no schema": (["run", "--source", "src", "--table", "t"], "schema_missing", "To use it, add --infer, or:"),
    "a misspelt type": (
        ["run", "--source", "src", "--table", "t", "--schema", "id BIGNT"],
        "schema",
        "BIGNT is not a type blizzard can fill (character 4 of the DDL); write BIGINT",
    ),
    "a missing comma": (
        ["run", "--source", "src", "--table", "t", "--schema", "id BIGINT name STRING"],
        "schema",
        "'name' cannot follow here (character 11 of the DDL); only NOT NULL and COMMENT '...' may follow the type:"
        " remove it, or put a comma before a new column",
    ),
    "a schema file that is not there": (
        ["run", "--source", "src", "--table", "t", "--schema", "schema.ddl"],
        "schema",
        "schema file schema.ddl was not found; give the path of a local file, or the schema itself",
    ),
    "the source as the table": (
        ["run", "--source", "src", "--table", "src", "--infer"],
        "not_a_delta_table",
        "/src is not empty and is not a Delta table (it has no _delta_log). Choose another path",
    ),
    "a table of another format": (
        ["run", "--source", "src", "--table", "iceberg", "--infer"],
        "not_a_delta_table",
        "/iceberg is not empty and is not a Delta table (it has no _delta_log). Choose another path, or convert it",
    ),
    "a file as the table": (
        ["run", "--source", "src", "--table", "file", "--infer"],
        "not_a_delta_table",
        "/file is a file, not a folder",
    ),
    "CSV": (
        [*RUN, "csv"],
        "no_file_matches",
        "What is there: 1 .csv. Nothing was read; blizzard reads JSON records, and no .csv",
    ),
    "CSV by another name": ([*RUN, "renamed"], "nothing_to_infer_from", "a.json line 1: not JSON"),
    "text": ([*RUN, "text"], "no_file_matches", "to read the .txt: --set 'source.pattern=**/*.txt'"),
    "a misspelt key in the file": (
        ["run", "--config", "c.yaml", "--table", "t"],
        "unknown_key",
        "unknown key 'source.pth'; did you mean 'source.path'?",
    ),
    "a table that is not there": (
        ["status", "--table", "t"],
        "table_not_found",
        "there is no Delta table at {folder}/t; the first blizzard run makes it",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, file, content in (
        ("src", "a.ndjson", '{"id":1,"name":"a"}\n'),
        ("csv", "a.csv", "id,name\n1,a\n"),
        ("renamed", "a.json", "id,name\n1,a\n"),
        ("text", "a.txt", '{"id":1}\n'),
        ("iceberg/metadata", "v1.metadata.json", "{}"),
        ("deep/nest", "a.ndjson", '{"id":1}\n'),
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / file).write_text(content)
    (tmp_path / "file").touch()
    (tmp_path / "c.yaml").write_text("source:\n  pth: src\n")
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_says_what_to_do(capfd: pytest.CaptureFixture[str], folder: Path, mistake: str) -> None:
    words, kind, says = MISTAKES[mistake]
    code, _, err = call(capfd, *words)
    assert code == (5 if kind == "nothing_to_infer_from" else 2)  # 5: it is the data that must change
    assert f"[{kind}]" in err
    assert says.format(folder=os.path.realpath(folder)) in err
    assert not (folder / "t").exists()


def test_an_empty_folder_is_called_empty(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    code, _, err = call(capfd, "run", "--source", f"{tmp_path}/src", "--table", f"{tmp_path}/t", "--infer")
    assert code == 0
    assert "warning: no file of the source matches its pattern: it is empty" in err


def test_a_folder_that_may_not_be_entered_is_not_called_missing(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """root may enter everything, so the system's answer is put in its place."""
    (tmp_path / "locked").mkdir()
    real = os.stat

    def stat(path: str, **more: object) -> os.stat_result:
        if str(path).endswith("/locked/src"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat)
    code, _, err = call(capfd, "run", "--source", f"{tmp_path}/locked/src", "--table", f"{tmp_path}/t", "--infer")
    assert code == 2
    assert "locked/src cannot be looked at: Permission denied. Ask for the right to enter its folder" in err
    assert "[source_not_readable]" in err
