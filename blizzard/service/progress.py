"""Progress of a run on stderr, made from its events: a bar on a terminal, plain lines elsewhere, or JSON objects."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from datetime import datetime, timezone
from typing import Any, Protocol, TextIO

from blizzard.core.events import Began, Committed, Discovered, Event, Noted, Planned, SchemaInferred, Warned
from blizzard.core.kinds import CommitKind
from blizzard.core.lists import count, cut_columns
from blizzard.text.json import json_text
from blizzard.text.shown import shown
from blizzard.text.streams import as_lines, put_err

_BAR_WIDTH = 24


class Progress(Protocol):
    def see(self, event: Event) -> None: ...
    def line(self, level: str, message: str, **fields: Any) -> None:
        """For what is not an event of a run, such as how the command ended. Only our own text may hold newlines."""

    def close(self) -> None: ...


class _FromEvents(ABC):
    """What every form of progress makes of the events."""

    _backlog = 0

    def see(self, event: Event) -> None:
        match event:
            case Began():
                self._begin(event)
            case Noted():
                self._tell("info", event.message)
            case Warned():
                self._tell("warning", event.message)
            case SchemaInferred():
                self._infer(event)
            case Discovered():
                self._backlog = event.backlog_files
            case Planned():
                self._plan(event)
            case Committed(kind=CommitKind.BATCH):
                self._backlog -= event.result.finished_files
                self._commit(event)
            case _:
                pass

    def _begin(self, began: Began) -> None:
        self._tell("info", f"pipeline {began.pipeline}: {began.source}")

    @abstractmethod
    def _tell(self, level: str, message: str) -> None:
        """One line, whatever the message holds."""

    @abstractmethod
    def _infer(self, inferred: SchemaInferred) -> None: ...
    @abstractmethod
    def _plan(self, planned: Planned) -> None: ...
    @abstractmethod
    def _commit(self, committed: Committed) -> None: ...


class TerminalProgress(_FromEvents):
    """A bar over the files of this run, redrawn at each step of a batch."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        shown_on = out or sys.stderr
        self._bar = shown_on is not None and shown_on.isatty()
        self._done = self._records = self._bytes = 0
        self._started: float | None = None

    def _plan(self, planned: Planned) -> None:
        self._started = self._started or time.monotonic()
        files, tasks = len(planned.plan.slices), len(planned.plan.tasks)
        if not self._bar:
            self._say(
                f"batch {planned.sequence}: reading {files:,} of {count(self._backlog, 'file')} in"
                f" {count(tasks, 'task')}"
            )
        self._draw(f"batch {planned.sequence}: reading {count(files, 'file')}")

    def _commit(self, committed: Committed) -> None:
        result, batch = committed.result, f"batch {committed.position.sequence}"
        self._done += result.finished_files
        self._records += result.rows
        self._bytes += result.bytes_read
        if not self._bar:
            self._say(
                f"{batch}: committed version {committed.version}: {count(result.rows, 'record')} in"
                f" {count(len(result.files), 'file')} ({self._rate()})"
            )
        self._draw(f"{batch}: committed version {committed.version}")

    def _infer(self, inferred: SchemaInferred) -> None:
        self._say(f"{inferred.message}:", *(f"  {column}" for column in cut_columns(inferred.columns)))

    def line(self, level: str, message: str, **fields: Any) -> None:
        del level, fields
        self._say(*message.split("\n"))

    def close(self) -> None:
        if self._bar and self._done + self._backlog:
            _write(self._out, "\n")

    def _tell(self, level: str, message: str) -> None:
        self._say(f"warning: {message}" if level == "warning" else message)

    def _rate(self) -> str:
        seconds = time.monotonic() - self._started if self._started is not None else 0.0
        return f"{self._bytes / 1e6 / max(seconds, 1e-3):.0f} MB/s of JSON"

    def _say(self, *lines: str) -> None:
        clear = "\r\x1b[K" if self._bar else ""
        _write(self._out, clear + as_lines(self._out or sys.stderr, map(shown, lines)))

    def _draw(self, what: str) -> None:
        if not self._bar:
            return
        total = self._done + self._backlog
        filled = _BAR_WIDTH * self._done // max(total, 1)
        bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
        _write(
            self._out,
            f"\r\x1b[K{bar} {self._done}/{total} files  {self._records:,} records  {self._rate()}  {what}",
        )


class JsonProgress(_FromEvents):
    """One JSON object per line, for log collectors. Each begins with the same fields: time, level, pipeline, run_id,
    sequence (of this line, or the one planned last), batch (its number in this run) and message."""

    def __init__(self, pipeline: str | None = None, run_id: str | None = None, out: TextIO | None = None) -> None:
        self._out, self._pipeline, self._run_id = out, pipeline, run_id
        self._first: int | None = None
        self._newest: int | None = None

    def _plan(self, planned: Planned) -> None:
        self._first, self._newest = self._first or planned.sequence, planned.sequence
        self.line(
            "info",
            "reading",
            sequence=planned.sequence,
            files=len(planned.plan.slices),
            tasks=len(planned.plan.tasks),
            backlog_files=self._backlog,
        )

    def _commit(self, committed: Committed) -> None:
        result = committed.result
        self.line(
            "info",
            "committed",
            sequence=committed.position.sequence,
            delta_version=committed.version,
            records=result.rows,
            bad_records=result.bad,
            files=result.finished_files,
            parquet_files=len(result.files),
            bytes_read=result.bytes_read,
        )

    def _infer(self, inferred: SchemaInferred) -> None:
        self.line("info", inferred.message, ddl=inferred.ddl)

    def _begin(self, began: Began) -> None:
        self._pipeline, self._run_id = began.pipeline, began.run_id
        super()._begin(began)

    def _tell(self, level: str, message: str) -> None:
        self.line(level, message)

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
        _write(self._out, as_lines(self._out or sys.stderr, [text]))


def _write(out: TextIO | None, text: str) -> None:
    if out is None:
        put_err(text)  # a stderr that is closed or full must not stop a run
    else:
        out.write(text)
        out.flush()


def make_progress(kind: str, pipeline: str | None = None, run_id: str | None = None) -> TerminalProgress | JsonProgress:
    return JsonProgress(pipeline, run_id) if kind == "json" else TerminalProgress()
