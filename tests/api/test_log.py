"""What a run tells on a terminal is logged under the name blizzard when it is called from Python, and only then."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pytest

import blizzard
from tests.flows.shell import Shell
from tests.ingesting import DDL, write, write_ids

NO_SPARK = cast(Any, None)


def make_source(folder: Path) -> dict[str, Any]:
    write_ids(folder / "src" / "a.ndjson", 0, 5)
    write(folder / "src" / "b.ndjson", b'{"id": 5}\n{"id": "x"}\n')
    return {"source": str(folder / "src"), "table": str(folder / "table")}


def without_numbers(line: str) -> str:
    """Times and rates differ from run to run."""
    return "".join("#" if c.isdigit() else c for c in line.split(", table version", maxsplit=1)[0]).rsplit(" s", 1)[0]


def test_the_records_have_the_text_of_the_lines(tmp_path: Path, shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "one").mkdir()
    caplog.set_level(logging.INFO, logger="blizzard")
    where = make_source(tmp_path / "one")
    blizzard.ingest(NO_SPARK, **where, schema=DDL, pipeline="p")
    logged = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    assert {name for name, _, _ in logged} == {"blizzard"}
    assert [level for _, level, _ in logged] == ["INFO", "INFO", "WARNING", "INFO", "INFO"]
    caplog.clear()
    said = shell(
        *["run", "--source", where["source"], "--table", str(tmp_path / "t"), "--schema", DDL], "--pipeline", "p"
    )
    lines = said.text.splitlines()
    assert caplog.records == []  # the command line has its own lines, each once
    assert len(lines) == len(logged) == len(set(lines))
    for line, (_, level, text) in zip(lines, logged, strict=True):
        plain = line.removeprefix("warning: ")
        assert (plain != line) == (level == "WARNING")
        if "--set" not in plain and "blizzard dlq" not in plain:
            assert without_numbers(plain) == without_numbers(text)
    warned = logged[2][2]
    assert warned.startswith("1 of 7 records (14.3%) go to quarantine: ")
    assert warned.endswith('schema= with id STRING for a new table, or options={"bad_records.policy": "rescue"}')
    assert "(see blizzard.quarantine(…))" in logged[4][2]


def test_nothing_is_printed(tmp_path: Path, in_process: None, capfd: pytest.CaptureFixture[str]) -> None:
    where = make_source(tmp_path)
    blizzard.plan(**where, infer=True, validate=True)
    blizzard.ingest(NO_SPARK, **where, infer=True)
    blizzard.audit(**where)
    blizzard.files(where["table"])
    found = blizzard.quarantine(where["table"])
    found.export(str(tmp_path / "out"))
    found.replay(source=where["source"])
    blizzard.rollback(where["table"], to=0, source=where["source"])
    with pytest.raises(blizzard.ConfigError):
        blizzard.status(str(tmp_path / "nowhere"))
    assert capfd.readouterr() == ("", "")


def test_a_hostile_name_stays_on_its_line(tmp_path: Path, in_process: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="blizzard")
    source = tmp_path / "src\nERROR all is lost\x1b[2J"
    write_ids(source / "a.ndjson", 0, 5)
    blizzard.ingest(NO_SPARK, source=str(source), table=str(tmp_path / "t"), schema=DDL, pipeline="p")
    said = [record.getMessage() for record in caplog.records]
    assert any("%0AERROR%20all%20is%20lost" in line for line in said)
    assert [line for line in said if not line.isprintable()] == []
