"""What a person sees: a bar on a terminal, plain lines elsewhere, and never a bar in a log file."""

from __future__ import annotations

import io

from blizzard.core.types import BatchPlan, BatchResult, Budget, Slice, SliceReport, TaskPlan, TaskReport
from blizzard.progress import TerminalProgress

SLICE = Slice(path="a", size_bytes=1, etag="e", from_record=0)
PLAN = BatchPlan(
    tasks=(TaskPlan(slot=0, slices=(SLICE,), budget=Budget(output_bytes=1, max_records=None, seconds=None)),),
    frontier=("a",),
)
REPORT = SliceReport(path="a", size_bytes=1, etag="e", from_record=0, to_record=1500, finished=True, rows=1500)
RESULT = BatchResult(reports=(TaskReport(slot=0, slices=(REPORT,), bytes_read=9_000_000),))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_a_batch(out: io.StringIO) -> str:
    progress = TerminalProgress(out)
    progress.note("pipeline p")
    progress.planned(PLAN, sequence=1, backlog_files=4)
    progress.committed(RESULT, sequence=1, version=7)
    progress.warn("careful")
    progress.close()
    return out.getvalue()


def test_a_terminal_gets_a_bar_that_redraws_itself() -> None:
    shown = run_a_batch(Terminal())
    assert "██████░░░░░░░░░░░░░░░░░░ 1/4 files  1,500 records" in shown
    assert "\r\x1b[Kwarning: careful\n" in shown


def test_a_log_gets_lines_and_no_control_characters() -> None:
    shown = run_a_batch(io.StringIO())
    assert "batch 1: reading 1 of 4 files in 1 tasks\n" in shown
    assert "batch 1: committed version 7: 1,500 records in 0 files" in shown
    assert "\r" not in shown
    assert "\x1b" not in shown
