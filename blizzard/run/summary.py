"""What a run did, as one value, made from the events of the run. Scripts read it as one JSON line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
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
    Recovered,
    Rejected,
    StandsAt,
    UnknownFields,
    Waited,
)
from blizzard.core.framing import LINES
from blizzard.core.kinds import CommitKind
from blizzard.core.reasons import NO_REASONS, Met, Reason, Reasons, advice_for, explain, type_word
from blizzard.core.tally import Tally
from blizzard.schema import show_path
from blizzard.text.json import json_text

# Written as they are, not redacted: scripts decide by them, and none of them comes from a secret.
_OURS = ("status", "error_kind", "attempt", "pipeline", "recovery", "parser")
_MAX_NAMES = 20


@dataclass(slots=True, kw_only=True)
class Summary:
    """Filled in as the run goes, so that a failure still reports what was committed before it."""

    status: str = "running"  # then: done | idle | stopped | failed
    exit_code: int = 0
    error_kind: str | None = None
    error: str | None = None
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
    rescued_records: int = 0
    bad_files: int = 0
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

    def see(self, event: Event) -> None:
        match event:
            case Began():
                self.pipeline, self.table = event.pipeline, event.table
            case Ended():
                self.seconds += event.seconds
                if not event.has_failed:
                    self.status = "stopped" if event.was_stopped else "done" if self.commits else "idle"
            case Recovered():
                self.recovery = event.path
            case StandsAt():
                self.sequence, self.delta_version = event.newest.sequence, event.version
            case Discovered():
                self.backlog_files, self.held_files = event.backlog_files, event.held
                self.late_files += event.late
                self.rewritten_files += event.rewritten
            case Committed():
                self._count(event)
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

    def _count(self, committed: Committed) -> None:
        self.sequence, self.delta_version = committed.position.sequence, committed.version
        if committed.kind == CommitKind.RENEWAL:
            return  # a run that only renews its position is idle
        result = committed.result
        self.commits += 1
        self.files += result.finished_files
        self.backlog_files = (self.backlog_files or 0) - result.finished_files
        self.records += result.rows
        self.bad_records += result.bad
        self.reasons = self.reasons.merge(result.reasons)
        self.bad_files += sum(s.broken is not None for s in result.slices)
        self.rescued_records += result.rescued
        self.quarantined += sum(f.rows for f in result.quarantine)
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

    def to_json(self) -> str:
        return json_text(self.to_dict(), verbatim=_OURS)

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(replace(self, reasons=NO_REASONS))
        reasons = [_shown(reason, met) for reason, met in self.reasons.commonest(_MAX_NAMES)]
        renamed = {"bad_reasons" if name == "reasons" else name: value for name, value in plain.items()}
        return renamed | {
            "bad_reasons": reasons,
            "seconds": round(self.seconds, 3),
            "blocked_seconds": round(self.blocked_seconds, 3),
        }


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
