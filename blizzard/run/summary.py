"""What a run did, as one value: the JSON line others script against."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from blizzard.text.printing import json_text

# Words that others decide by. None is from a configuration that holds secrets.
_OURS = ("status", "error_kind", "attempt", "pipeline", "recovery")


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
    quarantined: int = 0  # rows added to the quarantine table: bad records and broken files
    rejected: int = 0  # bad records dropped because the quarantine table was full
    rescued_records: int = 0
    bad_files: int = 0
    unknown_fields: list[str] = field(default_factory=list)  # the first 20
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

    def to_json(self) -> str:
        return json_text(self.to_dict(), verbatim=_OURS)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "seconds": round(self.seconds, 3),
            "blocked_seconds": round(self.blocked_seconds, 3),
        }
