"""What a person sees while a run goes: a bar on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, TextIO

from blizzard.core.types import BatchPlan, BatchResult
from blizzard.text.printing import as_lines, json_text
from blizzard.text.shown import shown
from blizzard.text.streams import put_err

_BAR_WIDTH = 24


class TerminalProgress:
    """A bar over the files of this run, redrawn at each step of a batch."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        shown_on = out or sys.stderr
        self._bar = shown_on is not None and shown_on.isatty()
        self._done = self._total = self._records = 0
        self._bytes = 0
        self._started: float | None = None

    def note(self, message: str) -> None:
        self._line(message)

    def warn(self, message: str) -> None:
        self._line(f"warning: {message}")

    def planned(self, plan: BatchPlan, *, sequence: int, backlog_files: int) -> None:
        self._total = self._done + backlog_files
        self._started = self._started or time.monotonic()
        if not self._bar:
            self._line(
                f"batch {sequence}: reading {len(plan.slices)} of {backlog_files} files in {len(plan.tasks)} tasks"
            )
        self._draw(f"batch {sequence}: reading {len(plan.slices)} files")

    def committed(self, result: BatchResult, *, sequence: int, version: int) -> None:
        self._done += sum(1 for s in result.slices if s.finished)
        self._records += result.rows
        self._bytes += result.bytes_read
        if not self._bar:
            self._line(
                f"batch {sequence}: committed version {version}: {result.rows:,} records in {len(result.files)} files"
                f" ({self._rate()})"
            )
        self._draw(f"batch {sequence}: committed version {version}")

    def close(self) -> None:
        if self._bar and self._total:
            _write(self._out, "\n")

    def _rate(self) -> str:
        seconds = time.monotonic() - self._started if self._started is not None else 0.0
        return f"{self._bytes / 1e6 / max(seconds, 1e-3):.0f} MB/s of JSON"

    def _line(self, message: str) -> None:
        clear = "\r\x1b[K" if self._bar else ""
        _write(self._out, clear + as_lines(self._out or sys.stderr, [shown(message)]))

    def _draw(self, what: str) -> None:
        if not self._bar:
            return
        filled = _BAR_WIDTH * self._done // max(self._total, 1)
        bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
        _write(
            self._out,
            f"\r\x1b[K{bar} {self._done}/{self._total} files  {self._records:,} records  {self._rate()}  {what}",
        )


class JsonProgress:
    """One JSON object a line, for whatever gathers logs. Each has the same first fields: time, level, pipeline, run_id,
    sequence (that the line is about, or that was planned last), batch (its number in this run) and message."""

    def __init__(self, pipeline: str | None, run_id: str | None = None, out: TextIO | None = None) -> None:
        self._out, self._pipeline, self._run_id = out, pipeline, run_id
        self._lock = threading.Lock()
        self._first: int | None = None
        self._newest: int | None = None

    def note(self, message: str) -> None:
        self.line("info", message)

    def warn(self, message: str) -> None:
        self.line("warning", message)

    def planned(self, plan: BatchPlan, *, sequence: int, backlog_files: int) -> None:
        self._first, self._newest = self._first or sequence, sequence
        self.line(
            "info",
            "reading",
            sequence=sequence,
            files=len(plan.slices),
            tasks=len(plan.tasks),
            backlog_files=backlog_files,
        )

    def committed(self, result: BatchResult, *, sequence: int, version: int) -> None:
        self.line(
            "info",
            "committed",
            sequence=sequence,
            delta_version=version,
            records=result.rows,
            bad_records=result.bad,
            files=sum(1 for s in result.slices if s.finished),
            parquet_files=len(result.files),
            bytes_read=result.bytes_read,
        )

    def close(self) -> None: ...

    def line(self, level: str, message: str, *, sequence: int | None = None, **fields: Any) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        about = self._newest if sequence is None else sequence
        said = {
            "time": now,
            "level": level,
            "pipeline": self._pipeline,
            "run_id": self._run_id,
            "sequence": about,
            "batch": None if about is None or self._first is None else about - self._first + 1,
            "message": message,
            **fields,
        }
        text = json_text(said, verbatim=("level", "pipeline"))
        with self._lock:
            _write(self._out, as_lines(self._out or sys.stderr, [text]))


def _write(out: TextIO | None, text: str) -> None:
    if out is None:
        put_err(text)  # nobody who does not listen to stderr stops a run
    else:
        out.write(text)
        out.flush()


@contextmanager
def make_progress(kind: str, pipeline: str, run_id: str) -> Iterator[TerminalProgress | JsonProgress]:
    """What a command says while it works. What the stores say about requests they make again is part of it."""
    progress = JsonProgress(pipeline, run_id) if kind == "json" else TerminalProgress()
    handler, log = _ToProgress(progress), logging.getLogger("blizzard")
    log.addHandler(handler)
    try:
        yield progress
    finally:
        log.removeHandler(handler)
        progress.close()


class _ToProgress(logging.Handler):
    def __init__(self, progress: TerminalProgress | JsonProgress) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.warn(record.getMessage())


class SilentProgress:
    """For library use: the caller has the Summary."""

    def note(self, message: str) -> None: ...
    def warn(self, message: str) -> None: ...
    def planned(self, plan: BatchPlan, *, sequence: int, backlog_files: int) -> None: ...
    def committed(self, result: BatchResult, *, sequence: int, version: int) -> None: ...
    def close(self) -> None: ...
