"""One of something is never said as if there were several: `1 file`, not `1 files`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.every_command import COMMANDS, FlowWithQuarantine, arguments, call, places
from tests.ingesting import write_ids

_NOUNS = (
    "file|record|row|line|commit|batch|task|column|byte|sequence|pipeline|target|version|value|day|problem|core|orphan"
)
_WRONG = re.compile(rf"(?<![\w.,:/-])1 (?:[A-Za-z]+ )?(?:{_NOUNS})(?:s|es)\b")


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> FlowWithQuarantine:
    """One good record and a bad one in one file, in one commit; one more file is new."""
    made = FlowWithQuarantine(tmp_path_factory.mktemp("one"))
    made.src.mkdir(exist_ok=True)
    (made.src / "a.ndjson").write_text('{"id": 1}\nnonsense\n')
    made.run()
    write_ids(made.src / "b.ndjson", 1, 2)
    (made.src / "c.other").touch()
    return made


def test_the_pattern_finds_what_it_should() -> None:
    assert _WRONG.search("read 1 files")
    assert _WRONG.search("in 1 Parquet files")
    assert not _WRONG.search("read 11 files, 1 file, 1 of 3 records, version 1.1 files, 2026-1 files")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("run", "pause", "resume", "dlq replay")])
def test_one_is_one_in_the_text_of_every_command(
    capfd: pytest.CaptureFixture[str], flow: FlowWithQuarantine, command: str
) -> None:
    where = [word for key, value in places(flow).items() for word in ("--set", f"{key}={value}")]
    code, out, err = call(capfd, *arguments(command), *where)
    assert code in (0, 2, 5), err
    assert out + err
    assert not _WRONG.findall(out + err), out + err


def test_one_is_one_in_the_words_of_the_changes(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = FlowWithQuarantine(tmp_path)
    made.src.mkdir(exist_ok=True)
    (made.src / "a.ndjson").write_text('{"id": 1}\nnonsense\n')
    made.run()
    where = [word for key, value in places(made).items() for word in ("--set", f"{key}={value}")]
    for words in (
        ["dlq", "purge", "--all", "--yes"],
        ["checkpoint", "rollback", "--to", "0", "--yes", "--pipeline", "p"],
        ["audit", "--pipeline", "p"],
    ):
        code, out, err = call(capfd, *words, *where)
        assert code == 0, err
        assert not _WRONG.findall(out + err), out + err
    _, out, _ = call(capfd, "audit", "--pipeline", "p", *where)
    assert "1 file waiting for the next run: a.ndjson" in out
