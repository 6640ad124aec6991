"""Progress of a run on stderr, made from its events: lines of text, or JSON objects. A terminal also has a bar: see
`live.py`.

In both, a batch has the number that it has in this run. Its sequence is its number in the life of the pipeline.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol, TextIO

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
    SchemaInferred,
    StandsAt,
    TargetFailed,
    Warned,
)
from blizzard.core.kinds import CommitKind
from blizzard.core.lists import count, cut_columns
from blizzard.text.json import json_text
from blizzard.text.shown import shown
from blizzard.text.streams import as_lines, put_err
from blizzard.text.terminal import Colour, painted

# Of less JSON a rate would only tell how long Spark takes to begin.
_BYTES_WITH_RATE = 100_000_000
_COLOURS = {"error": Colour.RED, "warning": Colour.YELLOW}


class Progress(Protocol):
    def see(self, event: Event) -> None: ...
    def line(self, level: str, message: str, **fields: Any) -> None:
        """For what is not an event of a run, such as how the command ended. Only our own text may hold newlines."""

    def begin(self, what: str) -> None:
        """What the command does before there is an event, where somebody sees it come and go."""

    @property
    def is_reading(self) -> bool:
        """Whether a batch is read now, as far as the events tell."""

    def close(self) -> None: ...


@dataclass(slots=True)
class Seen:
    """What was seen of one target."""

    backlog: int = 0  # files
    backlog_bytes: int = 0  # as they are stored
    done: int = 0  # files
    done_bytes: int = 0
    records: int = 0
    reads_s: deque[float] = field(default_factory=deque)  # for how long each batch was read that is not committed yet
    read_s: float | None = None  # that of the last commit
    before: int | None = None  # the sequence before the first batch, if this run had committed nothing but batches
    batches: int = 0  # that this run has committed
    newest: int | None = None  # sequence that was planned
    number: int = 0  # of that batch in this run
    failure: str | None = None  # said, and not mended since


class _FromEvents(ABC):
    """What every form of progress makes of the events."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, Seen] = defaultdict(Seen)  # by target
        self.is_reading = False
        self._target = ""  # the one that the event is about; empty where there is one table
        self._begun: Began | None = None

    @property
    def _own(self) -> Seen:
        return self._seen[self._target]

    def _batch_of(self, sequence: int | None) -> int | None:
        """Its number in this run."""
        newest = self._own.newest
        return None if sequence is None or newest is None else self._own.number - (newest - sequence)

    def see(self, event: Event) -> None:
        match event:
            case OfTarget():
                self._target = event.target
                try:
                    self.see(event.event)
                finally:
                    self._target = ""
            case TargetFailed():
                first, *further = event.message.split("\n")
                self._fail(f"{first}{' …' if further else ''} [{event.kind}]")
            case Held():
                self._own.failure = None
            case Began() if event != self._begun:  # each cycle of a run that follows begins in the same way
                self._begun = event
                self._begin(event)
            case Noted():
                self._tell("info", event.message)
            case Warned():
                self._tell("warning", event.message)
            case SchemaInferred():
                self._infer(event)
            case Discovered():
                self._own.backlog, self._own.backlog_bytes = event.backlog_files, event.backlog_bytes
                self._own.reads_s.clear()
            case StandsAt():
                self._own.before = event.newest.sequence - self._own.batches
            case Planned():
                self.is_reading = True
                before = self._own.before = event.sequence - 1 if self._own.before is None else self._own.before
                self._own.newest, self._own.number = event.sequence, event.sequence - before
                self._plan(event)
            case Committed(kind=CommitKind.BATCH):
                self._count(event)
                self._commit(event)
            case Committed():  # a sequence that is no batch: a renewal, or the end of a pause
                self._own.before = event.position.sequence - self._own.batches
            case _:
                self._see_more(event)

    def _see_more(self, event: Event) -> None:
        match event:
            case Ingested():
                self.is_reading = False
                if event.result.slices:
                    self._own.reads_s.append(event.seconds)
            case Ended():
                self.is_reading = False
            case _:
                pass

    def begin(self, what: str) -> None:
        del what

    def _begin(self, began: Began) -> None:
        self._tell("info", f"pipeline {began.pipeline}: {began.source}")

    def _count(self, committed: Committed) -> None:
        own, result = self._own, committed.result
        own.batches += 1
        done_bytes = sum(piece.size_bytes for piece in result.slices if piece.finished)
        own.backlog -= result.finished_files
        own.done += result.finished_files
        own.backlog_bytes -= done_bytes
        own.done_bytes += done_bytes
        own.records += result.rows
        own.read_s = own.reads_s.popleft() if own.reads_s else None

    def _fail(self, why: str) -> None:
        """A run that follows finds the same in every cycle: it is said once."""
        self._own.backlog = 0  # nobody works on it any more
        if self._own.failure != why:
            self._own.failure = why
            self._tell("warning", f"this target stays where it is, and takes no further part in this run: {why}")

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
    """Lines of text, for a log or a terminal. A batch has one when it is planned, and one when it is committed."""

    def __init__(self, out: TextIO | None = None) -> None:
        super().__init__()
        self._out = out

    def _plan(self, planned: Planned) -> None:
        files, tasks = len(planned.plan.slices), len(planned.plan.tasks)
        batch = f"{self._about}batch {self._batch_of(planned.sequence)}"
        self._say(f"{batch}: reading {files:,} of {count(self._own.backlog, 'file')} in {count(tasks, 'task')}")

    def _commit(self, committed: Committed) -> None:
        result, sequence = committed.result, committed.position.sequence
        number = self._batch_of(sequence) or 1
        self._say(
            f"{self._about}batch {number}: committed version {committed.version}, sequence {sequence}:"
            f" {count(result.rows, 'record')} in {count(len(result.files), 'Parquet file')};"
            f" {_read(result.bytes_read, self._own.read_s)}"
        )

    def _infer(self, inferred: SchemaInferred) -> None:
        self._say(f"{self._about}{inferred.message}:", *(f"  {column}" for column in cut_columns(inferred.columns)))

    def line(self, level: str, message: str, **fields: Any) -> None:
        trace = str(fields.get("traceback", ""))
        self._say(*(trace.split("\n") if trace else ()), *message.split("\n"), level=level)

    def close(self) -> None: ...

    def _tell(self, level: str, message: str) -> None:
        self._say(f"{'warning: ' if level == 'warning' else ''}{self._about}{message}", level=level)

    @property
    def _about(self) -> str:
        return f"{self._target}: " if self._target else ""

    def _say(self, *lines: str, level: str = "info") -> None:
        out = self._out or sys.stderr
        text = as_lines(out, map(shown, lines))
        if level in _COLOURS:
            text = "".join(painted(line, _COLOURS[level], out) + "\n" for line in text.splitlines())
        _write(self._out, text)


class PipelineLines(TerminalProgress):
    """The lines of one pipeline among those of others: its name first."""

    def __init__(self, pipeline: str, out: TextIO | None = None) -> None:
        super().__init__(out)
        self._prefix = f"{pipeline}: "

    def _begin(self, began: Began) -> None:
        self._tell("info", began.source)

    def _say(self, *lines: str, level: str = "info") -> None:
        super()._say(*(self._prefix + line for line in lines), level=level)


class JsonProgress(_FromEvents):
    """One JSON object per line, for log collectors. Each begins with the same fields: time, level, pipeline, run_id,
    sequence (of this line, or the one planned last), batch (its number in this run) and message. With several targets
    `target` follows, where it is about one: each has its own sequences."""

    def __init__(self, pipeline: str | None = None, run_id: str | None = None, out: TextIO | None = None) -> None:
        super().__init__()
        self._out, self._pipeline, self._run_id = out, pipeline, run_id

    def _plan(self, planned: Planned) -> None:
        self.line(
            "info",
            "reading",
            sequence=planned.sequence,
            files=len(planned.plan.slices),
            tasks=len(planned.plan.tasks),
            backlog_files=self._own.backlog,
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
            **({"filtered_records": result.filtered} if result.filtered else {}),
            **({"unrouted_records": result.unrouted} if result.unrouted else {}),
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
        about = self._own.newest if sequence is None else sequence
        said = {
            "time": now,
            "level": level,
            "pipeline": self._pipeline,
            "run_id": self._run_id,
            "sequence": about,
            "batch": self._batch_of(about),
            "message": message,
            **({"target": self._target} if self._target else {}),
            **fields,
        }
        text = json_text(said, verbatim=("level", "pipeline", "target"))
        _write(self._out, as_lines(self._out or sys.stderr, [text]))


def _write(out: TextIO | None, text: str) -> None:
    if out is None:
        put_err(text)  # a stderr that is closed or full must not stop a run
    else:
        out.write(text)
        out.flush()


def _read(json_bytes: int, seconds: float | None) -> str:
    """What reading the batch took, without the commit and without the start of Spark."""
    text = f"{json_bytes / 1e6:,.0f} MB" if json_bytes >= 10_000_000 else f"{json_bytes / 1e3:,.0f} kB"
    if seconds is None:
        return f"{text} of JSON"
    rate = f", {json_bytes / 1e6 / seconds:,.0f} MB/s" if json_bytes >= _BYTES_WITH_RATE and seconds > 0 else ""
    return f"{text} of JSON read in {seconds:.1f} s{rate}"


def progress_of_pipeline(kind: str, pipeline: str | None) -> Progress:
    """In a fleet. None: of the process itself."""
    if kind == "json":
        return JsonProgress(pipeline)
    return TerminalProgress() if pipeline is None else PipelineLines(pipeline)
