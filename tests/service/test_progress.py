"""What a person sees: a bar on a terminal, plain lines elsewhere, and never a bar in a log file."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.core.events import Committed, Discovered, Noted, Planned, Warned
from blizzard.core.kinds import CommitKind
from blizzard.core.types import BatchPlan, BatchResult, Budget, Slice, SliceReport, TaskPlan, TaskReport
from blizzard.service.logs import logged_as_events
from blizzard.service.progress import JsonProgress, TerminalProgress, make_progress
from tests.core.test_codec import example

SLICE = Slice(path="a", size_bytes=1, etag="e", from_record=0)
PLAN = BatchPlan(
    tasks=(TaskPlan(slot=0, slices=(SLICE,), budget=Budget(output_bytes=1, max_records=None, seconds=None)),),
    frontier=("a",),
)
REPORT = SliceReport(path="a", size_bytes=1, etag="e", from_record=0, to_record=1500, finished=True, rows=1500)
RESULT = BatchResult(reports=(TaskReport(slot=0, slices=(REPORT,), bytes_read=9_000_000),))


def committed(sequence: int, version: int) -> Committed:
    return Committed(
        kind=CommitKind.BATCH,
        position=example(sequence=sequence),
        result=RESULT,
        version=version,
        payload_bytes=1,
        seconds=0.1,
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_a_batch(out: io.StringIO) -> str:
    progress = TerminalProgress(out)
    progress.see(Noted(message="pipeline p"))
    progress.see(Discovered(backlog_files=4, backlog_bytes=4))
    progress.see(Planned(plan=PLAN, sequence=1))
    progress.see(committed(1, 7))
    progress.see(Warned(message="careful"))
    progress.close()
    return out.getvalue()


def test_a_terminal_gets_a_bar_that_redraws_itself() -> None:
    shown = run_a_batch(Terminal())
    assert "██████░░░░░░░░░░░░░░░░░░ 1/4 files  1,500 records" in shown
    assert "\r\x1b[Kwarning: careful\n" in shown


def test_a_log_gets_lines_and_no_control_characters() -> None:
    shown = run_a_batch(io.StringIO())
    assert "batch 1: reading 1 of 4 files in 1 task\n" in shown
    assert "batch 1: committed version 7: 1,500 records in 0 files" in shown
    assert "\r" not in shown
    assert "\x1b" not in shown


FIRST_FIELDS = ["time", "level", "pipeline", "run_id", "sequence", "batch", "message"]


def objects(text: str) -> list[dict[str, Any]]:
    """Each line an object with the same first fields."""
    said: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    assert said
    for fields in said:
        assert list(fields)[:7] == FIRST_FIELDS
    return said


def test_json_lines_say_which_run_sequence_and_batch_they_are_about() -> None:
    out = io.StringIO()
    progress = JsonProgress("orders", "r1", out)
    progress.see(Noted(message="hello"))
    progress.see(Planned(plan=PLAN, sequence=41))
    progress.see(Planned(plan=PLAN, sequence=42))
    progress.see(committed(41, 7))  # while the next one is being read
    progress.see(Warned(message="care\nful \ud800"))
    said = objects(out.getvalue())
    assert {(fields["pipeline"], fields["run_id"]) for fields in said} == {("orders", "r1")}
    assert [(f["level"], f["sequence"], f["batch"]) for f in said] == [
        ("info", None, None),
        ("info", 41, 1),
        ("info", 42, 2),
        ("info", 41, 1),
        ("warning", 42, 2),
    ]
    assert (said[3]["delta_version"], said[3]["records"], said[3]["bytes_read"]) == (7, 1500, 9_000_000)
    assert said[4]["message"] == "care\nful \\ud800"
    assert said[0]["time"].endswith("Z")


def test_what_the_stores_say_is_part_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    with logged_as_events(make_progress("json", "orders", "r1").see):
        logging.getLogger("blizzard.store").warning("once %s", "more")
    (said,) = objects(capsys.readouterr().err)
    assert (said["level"], said["message"], said["run_id"]) == ("warning", "once more", "r1")


def test_a_whole_run_speaks_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "src").mkdir()
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--schema", "id INT", "--pipeline", "p"]
    assert main(["run", *where, "--log-json"]) == 0
    said = objects(capsys.readouterr().err)
    assert len({fields["run_id"] for fields in said}) == 1
    assert said[0]["run_id"]
    assert said[-1]["message"].startswith("nothing new")
    assert said[-1]["status"] == "idle"


@pytest.mark.parametrize("how", [["--log-json"], ["--set", "log.format=json"]])
def test_a_failed_run_does_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], how: list[str]) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "t").write_text("no folder")
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--schema", "id INT"]
    assert main(["run", *where, *how]) != 0
    said = objects(capsys.readouterr().err)
    assert said[-1]["level"] == "error"
    assert said[-1]["kind"]


def test_an_error_before_there_is_a_run_does_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--source", "ftp://x/y", "--table", "t", "--log-json"]) == 2
    (said,) = objects(capsys.readouterr().err)
    assert (said["level"], said["kind"], said["run_id"]) == ("error", "unsupported_scheme", None)
