"""What a person or a log collector reads about a run: lines of text, or JSON objects. The bar: see test_live.py."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.core.events import (
    Began,
    Committed,
    Discovered,
    Ended,
    Event,
    Held,
    Ingested,
    Noted,
    OfTarget,
    Planned,
    StandsAt,
    TargetFailed,
    Warned,
)
from blizzard.core.kinds import CommitKind, Kind
from blizzard.core.types import BatchPlan, BatchResult, Budget, Slice, SliceReport, TaskPlan, TaskReport
from blizzard.service.live import make_progress
from blizzard.service.logs import logged_as_events
from blizzard.service.progress import JsonProgress, PipelineLines, Progress, TerminalProgress
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
    progress.see(Planned(plan=PLAN, sequence=41))
    progress.see(Ingested(result=RESULT, seconds=2.04))
    progress.see(committed(41, 7))
    progress.see(Warned(message="careful"))
    progress.close()
    return out.getvalue()


def test_a_log_gets_lines_and_no_control_characters() -> None:
    assert run_a_batch(io.StringIO()).splitlines() == [
        "pipeline p",
        "batch 1: reading 1 of 4 files in 1 task",
        "batch 1: committed version 7, sequence 41: 1,500 records in 0 Parquet files; 9,000 kB of JSON read in 2.0 s",
        "warning: careful",
    ]


@pytest.mark.parametrize("kind", [TerminalProgress, partial(PipelineLines, "p"), partial(JsonProgress, "p", "r")])
def test_a_run_that_follows_names_its_source_once(kind: Callable[..., Progress]) -> None:
    """Each of its cycles begins. A log of a day would name it thousands of times."""
    out = io.StringIO()
    progress = kind(out=out)
    began = Began(pipeline="p", source="/data/events", table="/lake/events", run_id="r")
    for _ in range(3):
        progress.see(began)
        progress.see(Ended(seconds=0.1, was_stopped=False, has_failed=False))
    assert out.getvalue().count("/data/events") == 1
    assert len(out.getvalue().splitlines()) == 1
    progress.see(replace(began, run_id="another"))
    assert out.getvalue().count("/data/events") == 2


def test_a_terminal_has_colour_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33mwarning: careful\x1b[0m\n" in run_a_batch(Terminal())
    for name, value in {"NO_COLOR": "1", "TERM": "dumb"}.items():
        with monkeypatch.context() as without:
            without.setenv(name, value)
            assert "\x1b" not in run_a_batch(Terminal())


def test_a_rate_is_told_only_of_a_batch_that_is_large_enough_to_have_one() -> None:
    out = io.StringIO()
    progress = TerminalProgress(out)
    for json_bytes in (99_000_000, 100_000_000):
        result = replace(RESULT, reports=(replace(RESULT.reports[0], bytes_read=json_bytes),))
        progress.see(Planned(plan=PLAN, sequence=1))
        progress.see(Ingested(result=result, seconds=2.0))
        progress.see(replace(committed(1, 1), result=result))
    said = [line.rpartition("; ")[2] for line in out.getvalue().splitlines() if "committed" in line]
    assert said == ["99 MB of JSON read in 2.0 s", "100 MB of JSON read in 2.0 s, 50 MB/s"]


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


def test_a_commit_that_is_no_batch_takes_a_sequence_and_no_number_of_a_batch() -> None:
    out = io.StringIO()
    progress = JsonProgress(out=out)

    def take_batch(sequence: int) -> None:
        progress.see(Planned(plan=PLAN, sequence=sequence))
        progress.see(committed(sequence, version=sequence))

    take_batch(5)
    progress.see(replace(committed(6, version=6), kind=CommitKind.PAUSE))
    progress.see(StandsAt(newest=example(sequence=6), version=6))
    progress.line("info", "paused")  # about the batch that was planned last
    progress.see(replace(committed(7, version=7), kind=CommitKind.RESUME))
    take_batch(8)
    progress.see(StandsAt(newest=example(sequence=10), version=10))  # a person has paused and resumed it
    take_batch(11)
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["sequence"], line["batch"]) for line in said] == [
        (5, 1),
        (5, 1),
        (5, 1),
        (8, 2),
        (8, 2),
        (11, 3),
        (11, 3),
    ]


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


def of(target: str, *events: Event) -> list[Event]:
    return [OfTarget(target=target, event=event) for event in events]


def two_targets(out: io.StringIO) -> str:
    """Both have four files to read; one reads one of them, the other fails."""
    progress = TerminalProgress(out)
    for target in ("one", "two"):
        for event in of(target, Discovered(backlog_files=4, backlog_bytes=4), Planned(plan=PLAN, sequence=1)):
            progress.see(event)
    for event in of("one", committed(1, 7)):
        progress.see(event)
    for event in of("two", TargetFailed(kind=Kind.COMMIT_FAILED, message="the store is down\nsee there")):
        progress.see(event)
        progress.see(event)  # in the next cycle of a run that follows
    progress.close()
    return out.getvalue()


def test_lines_name_the_target_and_a_failure_is_said_once() -> None:
    first, second, third, fourth = two_targets(io.StringIO()).splitlines()
    assert first == "one: batch 1: reading 1 of 4 files in 1 task"
    assert second == "two: batch 1: reading 1 of 4 files in 1 task"
    assert third.startswith("one: batch 1: committed version 7, sequence 1: 1,500 records in 0 Parquet files")
    failed = "this target stays where it is, and takes no further part in this run"
    assert fourth == f"warning: two: {failed}: the store is down … [commit_failed]"


def test_a_failure_that_was_mended_is_said_again_if_it_comes_back() -> None:
    out = io.StringIO()
    progress, failed = TerminalProgress(out), of("two", TargetFailed(kind=Kind.COMMIT_FAILED, message="down"))
    for event in (*failed, *failed, *of("two", Held(files=0)), *failed):
        progress.see(event)
    assert out.getvalue().count("down") == 2


def test_json_lines_name_the_target_with_its_own_sequences() -> None:
    out = io.StringIO()
    progress = JsonProgress("orders", "r1", out)
    progress.see(Noted(message="hello"))
    for event in (
        *of("one", Planned(plan=PLAN, sequence=41)),
        *of("two", Planned(plan=PLAN, sequence=7)),
        *of("one", committed(41, 7), Warned(message="careful")),
    ):
        progress.see(event)
    said = objects(out.getvalue())
    assert [(f.get("target"), f["sequence"], f["batch"]) for f in said] == [
        (None, None, None),
        ("one", 41, 1),
        ("two", 7, 1),
        ("one", 41, 1),
        ("one", 41, 1),
    ]


def test_a_traceback_that_was_asked_for_is_shown_before_the_error() -> None:
    out = io.StringIO()
    TerminalProgress(out).line("error", "it failed", kind="internal", traceback="Traceback:\n  File x")
    assert out.getvalue() == "Traceback:\n  File x\nit failed\n"
