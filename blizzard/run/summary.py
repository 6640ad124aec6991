"""What a run did, as one value, made from the events of the run. Scripts read it as one JSON line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from blizzard.core.events import (
    Began,
    Cleaned,
    ColumnsAdded,
    Committed,
    Discovered,
    Ended,
    Event,
    Held,
    OfTarget,
    Recovered,
    Rejected,
    StandsAt,
    TargetFailed,
    UnknownFields,
    Waited,
)
from blizzard.core.framing import LINES
from blizzard.core.kinds import STANDING
from blizzard.core.lists import count
from blizzard.core.pause import describe_pause, find_pause
from blizzard.core.position import Paused
from blizzard.core.reasons import NO_REASONS, Met, Reason, Reasons, advice_for, explain, type_word
from blizzard.core.tally import Tally
from blizzard.schema import show_path
from blizzard.text.arguments import in_python
from blizzard.text.html import table_html
from blizzard.text.json import json_text
from blizzard.text.shown import shown

# Written as they are, not redacted: scripts decide by them, and none of them comes from a secret.
OURS = ("status", "error_kind", "attempt", "pipeline", "recovery", "parser")
_MAX_NAMES = 20


@dataclass(slots=True, kw_only=True)
class Summary:
    """Filled in as the run goes, so that a failure still reports what was committed before it."""

    status: str = "running"  # then: done | idle | paused | stopped | failed
    exit_code: int = 0
    error_kind: str | None = None
    error: str | None = None
    paused: Paused | None = None  # since when, and why: nothing is read until somebody resumes the pipeline
    attempt: str | None = None  # what the caller said with --attempt
    pipeline: str | None = None
    table: str | None = None
    delta_version: int | None = None
    sequence: int | None = None
    commits: int = 0
    files: int = 0
    records: int = 0
    bad_records: int = 0  # quarantined, rejected or dropped
    reasons: Reasons = NO_REASONS  # why; shown as bad_reasons, the 20 commonest
    quarantined: int = 0  # rows added to the quarantine table: bad records and broken files
    rejected: int = 0  # bad records dropped because the quarantine table was full
    dropped_records: int = 0  # older records that left the quarantine table to make room (overflow: drop_oldest)
    rescued_records: int = 0
    bad_files: int = 0
    filtered_records: int = 0  # not for this table: where, or a transform that leaves them out
    unrouted_records: int = 0  # how many of them are for no target
    unknown_fields: list[str] = field(default_factory=list)  # the first 20
    ignored_values: int = 0  # of good records, dropped because they have no column (schema.evolution ignore)
    ignored_fields: dict[str, int] = field(default_factory=dict)  # how many of them by field, the first 20
    sibling_values: int = 0  # beside the array of records in a document; nothing reads them
    sibling_fields: dict[str, int] = field(default_factory=dict)  # how many of them by key, the first 20
    framings: dict[str, int] = field(default_factory=dict)  # finished files that are not one record a line
    cut_timestamps: dict[str, int] = field(default_factory=dict)  # times cut to microseconds, by column
    parser: str | None = None  # native, pyarrow or reference; several are joined by +
    doubtful_lines: int = 0  # lines that the fast parser left to the reference
    added_columns: list[str] = field(default_factory=list)
    late_files: int = 0
    rewritten_files: int = 0
    held_files: int = 0  # left to the next run: young, unreadable, or changed while they were read
    cleaned_files: int = 0  # archived or deleted after their ingest
    kept_files: int = 0  # not archived or deleted: they have the only copy of a line
    backlog_files: int | None = None
    bytes_read: int = 0
    seconds: float = 0.0
    blocked_seconds: float = 0.0  # spent waiting for a commit before the next batch could be planned
    recovery: str | None = None
    targets: dict[str, Summary] = field(default_factory=dict)  # with several targets, one for each

    def see(self, event: Event) -> None:
        match event:
            case Began():
                self.pipeline, self.table = event.pipeline, event.table
                for target in self.targets.values():  # the next cycle of a run that follows: it tries again
                    target.status, target.error_kind, target.error = "running", None, None
            case Ended():
                self.seconds += event.seconds
                self._end(event)
            case OfTarget():
                self._see_target(self.targets.setdefault(event.target, Summary()), event.event)
            case TargetFailed():
                self.status, self.error_kind, self.error = "failed", event.kind, event.message
            case Recovered():
                self.recovery = event.path
            case StandsAt():
                self.sequence, self.delta_version = event.newest.sequence, event.version
                self.paused = event.newest.paused
            case Discovered():
                self.backlog_files, self.held_files = event.backlog_files, event.held
                self.late_files += event.late
                self.rewritten_files += event.rewritten
            case Committed():
                self._count(event)
            case _:
                self._see_more(event)

    def _see_more(self, event: Event) -> None:
        match event:
            case ColumnsAdded():
                self.added_columns += event.names
            case UnknownFields():
                new = [name for name in event.names if name not in self.unknown_fields]
                self.unknown_fields += new[: _MAX_NAMES - len(self.unknown_fields)]
            case Rejected():
                self.rejected += event.records
            case Waited():
                self.blocked_seconds += event.seconds
            case Held():
                self.held_files = event.files
            case Cleaned():
                self.cleaned_files += event.done
                self.kept_files = event.kept
            case _:
                pass

    def _end(self, ended: Ended) -> None:
        if not ended.has_failed:
            self.status = self._ending(ended)
        for target in self.targets.values():
            if target.status == "running":
                target.status = target._ending(ended)

    def _ending(self, ended: Ended) -> str:
        if ended.was_stopped:
            return "stopped"
        # A target that has failed may have had something new.
        has_done = self.commits or any(target.status == "failed" for target in self.targets.values())
        return "paused" if self.paused is not None else "done" if has_done else "idle"

    def _see_target(self, target: Summary, event: Event) -> None:
        """Rows, bad records and commits of all targets add up. The source is one: of files and bytes the most that one
        target has read counts."""
        target.see(event)
        if isinstance(event, Committed | ColumnsAdded | UnknownFields | Rejected | Waited | Cleaned):
            self.see(event)
        self.sequence = self.delta_version = None  # each target has its own
        self.paused = find_pause(target.paused for target in self.targets.values())
        targets = self.targets.values()
        self.files, self.bytes_read = max(t.files for t in targets), max(t.bytes_read for t in targets)
        self.backlog_files = max((t.backlog_files for t in targets if t.backlog_files is not None), default=None)
        self.held_files = max(t.held_files for t in targets)
        self.late_files = max(t.late_files for t in targets)
        self.rewritten_files = max(t.rewritten_files for t in targets)

    def _count(self, committed: Committed) -> None:
        self.sequence, self.delta_version = committed.position.sequence, committed.version
        self.paused = committed.position.paused
        if committed.kind in STANDING:
            return  # a run that only renews its position is idle
        result = committed.result
        self.commits += 1
        self.files += result.finished_files
        self.backlog_files = (self.backlog_files or 0) - result.finished_files
        self.records += result.rows
        self.bad_records += result.bad
        self.filtered_records += result.filtered
        self.unrouted_records += result.unrouted
        self.reasons = self.reasons.merge(result.reasons)
        self.bad_files += sum(s.broken is not None for s in result.slices)
        self.rescued_records += result.rescued
        self.quarantined += sum(f.rows for f in result.quarantine)
        self.dropped_records += sum(batch.rows for batch in result.dropped)
        self.bytes_read += result.bytes_read
        self.ignored_values += result.ignored.total
        self._add(self.ignored_fields, result.ignored)
        self.sibling_values += result.siblings.total
        self._add(self.sibling_fields, result.siblings)
        for piece in result.slices:
            if piece.finished and piece.framing != LINES:
                self.framings[piece.framing] = self.framings.get(piece.framing, 0) + 1
        self._add(self.cut_timestamps, result.cut_times)
        parsers = {*(self.parser or "").split("+"), *result.parsers} - {""}
        self.parser = "+".join(sorted(parsers)) or None
        self.doubtful_lines += result.doubtful

    @staticmethod
    def _add(counts: dict[str, int], more: Tally) -> None:
        """What is beyond the first 20 names is in no count but the total."""
        for path in more.paths:
            name = show_path(path)
            if name in counts or len(counts) < _MAX_NAMES:
                counts[name] = counts.get(name, 0) + more.counts[path]

    def __str__(self) -> str:
        """One line: what the terminal says at the end of a run."""
        if self.status == "failed":
            return f"failed: {self.error} [{self.error_kind}]"
        return shown(in_python(describe_ending(self)))

    def _repr_html_(self) -> str:
        """For a notebook: what was done, and a row for everything else that was not as usual."""
        return table_html(str(self), _rows(self))

    def to_json(self) -> str:
        return json_text(self.to_dict(), verbatim=OURS)

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(replace(self, reasons=NO_REASONS, targets={}))
        del plain["targets"]
        if self.targets:
            plain["targets"] = {name: target.to_dict() for name, target in self.targets.items()}
        reasons = [_shown(reason, met) for reason, met in self.reasons.commonest(_MAX_NAMES)]
        renamed = {"bad_reasons" if name == "reasons" else name: value for name, value in plain.items()}
        return renamed | {
            "bad_reasons": reasons,
            "seconds": round(self.seconds, 3),
            "blocked_seconds": round(self.blocked_seconds, 3),
        }


# Always shown; the others only if they say something.
_ROWS = ("status", "pipeline", "table", "delta_version", "commits", "files", "records", "backlog_files")
_HIDDEN = ("exit_code", "attempt", "reasons", "targets", "sequence", "bytes_read", "blocked_seconds", "parser")


def _rows(summary: Summary) -> Iterator[tuple[str, object]]:
    for name in _ROWS:
        value = getattr(summary, name)
        yield name, "-" if value is None else value
    for field_ in fields(summary):
        value = getattr(summary, field_.name)
        if value and field_.name not in (*_ROWS, *_HIDDEN):
            yield field_.name, round(value, 1) if isinstance(value, float) else value
    for reason, met in summary.reasons.commonest(_MAX_NAMES):
        yield "bad", f"{count(met.records, 'record')}: {explain(reason)}"
    for name, target in summary.targets.items():
        yield f"target {name}", str(target)


def _shown(reason: Reason, met: Met) -> dict[str, Any]:
    return {
        "records": met.records,
        "kind": str(reason.kind),
        "column": reason.column,
        "type": type_word(reason.expected) or None,
        "cause": str(reason.cause) or None,
        "why": explain(reason),
        "first": f"{met.path} line {met.line}: {met.message}",
        "settings": [str(remedy) for remedy in advice_for(reason)],
    }


def describe_ending(summary: Summary, *, has_seconds: bool = True) -> str:
    """One line, as it stands on the terminal when a run is over."""
    if summary.status == "idle":
        text = "nothing new"
    else:
        paused = summary.paused if summary.status == "paused" else None
        ended = summary.status if paused is None else describe_pause(paused)
        text = (
            f"{ended}: {count(summary.records, 'record')}, {count(summary.files, 'file')} finished,"
            f" {count(summary.commits, 'commit')}"
        )
    if summary.bad_records or summary.bad_files:
        text += f"; {count(summary.bad_records, 'bad record')}, {count(summary.bad_files, 'bad file')}"
        text += "".join(f"; most: {explain(reason)}" for reason, _ in summary.reasons.commonest(1))
        text += " (see blizzard dlq list)" if summary.quarantined else ""
    if summary.dropped_records:
        text += f"; {count(summary.dropped_records, 'old bad record')} dropped from quarantine"
    if summary.unrouted_records:
        text += f"; {count(summary.unrouted_records, 'record')} for no target"
    elif summary.filtered_records and not summary.targets:  # of several, each leaves out what is for the others
        text += f"; {count(summary.filtered_records, 'record')} left out by where or transform"
    if summary.ignored_values:
        text += f"; {count(summary.ignored_values, 'value')} without a column ignored"
    if summary.sibling_values:
        text += f"; {count(summary.sibling_values, 'value')} beside arrays of records not read"
    if summary.cut_timestamps:
        text += f"; {count(sum(summary.cut_timestamps.values()), 'timestamp')} cut to microseconds"
    if summary.parser is not None:
        text += f"; read by {summary.parser}"
    has_version = not summary.targets and summary.delta_version is not None
    version = [f"table version {summary.delta_version}"] if has_version else []
    seconds = [f"{summary.seconds:.1f} s"] if has_seconds else []
    return "; ".join(filter(None, [text, ", ".join(version + seconds)]))
