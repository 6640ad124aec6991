"""What a report shows, as values. Nothing here is escaped or formatted, and nothing here reads anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from blizzard.core.paths import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """One commit of one pipeline."""

    version: int
    at_ms: int
    sequence: int | None  # None if no fence, payload or ledger says it
    kind: str  # from the ledger; "unknown" if there is none
    run_id: str | None
    files: int  # source files it read something of
    finished_files: int
    records: int
    bytes: int  # stored size of the files it finished, so that each file counts once
    bad: int
    broken_files: int
    late_files: int  # late or rewritten: at or before the mark of the position before it, and not named in it
    payload_bytes: int
    is_superseded: bool  # a later commit has taken it back
    superseded: tuple[int, ...]  # sequences that it took back itself
    rolled_back_to: int | None
    problem: str | None  # why its payload or its ledger cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInProgress:
    path: str
    records: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadGroup:
    """Records in quarantine that are bad in the same way."""

    error_kind: str
    records: int
    complete: int  # those that can be exported and replayed
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandsAt:
    """The newest readable position of a pipeline. Lists are cut; the counts beside them are complete."""

    source: str
    pattern: str
    sequence: int
    version: int | None  # None: it is from a Delta checkpoint
    taken_at_ms: int
    run_id: str
    marks: tuple[tuple[str, str], ...]  # part of the source, and its mark; "" is the whole source
    marks_count: int
    in_progress: tuple[FileInProgress, ...]
    in_progress_count: int
    held: tuple[HeldFile, ...]
    held_count: int
    pending_quarantine: int  # files of bad records that it names and the quarantine table does not hold yet
    filters: dict[str, str] = field(default_factory=dict)  # source.ignore, source.modified_…
    start_from: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryNow:
    """What the next start would do."""

    path: Path
    kind: str | None  # of a refusal
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    name: str
    position: StandsAt | None
    recovery: RecoveryNow
    commits: tuple[CommitRow, ...]  # newest first
    quarantine: tuple[BadGroup, ...]

    @property
    def last_commit_ms(self) -> int | None:
        if self.commits:
            return self.commits[0].at_ms
        return None if self.position is None else self.position.taken_at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    files: int
    bytes: int
    rows: int | None  # None: a file has no statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFacts:
    uri: str
    records: int | None  # None: it cannot be read
    is_counted_by_reason: bool
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    table: str
    made_at_ms: int
    table_id: str | None = None
    version: int | None = None  # None: there is no table yet
    size: TableSize | None = None
    commits_read: int = 0
    oldest_read: int | None = None
    is_cut: bool = False  # there are older commits that were not read
    foreign_commits: int = 0  # commits of other writers, among those read
    pipelines: tuple[PipelineFacts, ...] = ()
    quarantine: QuarantineFacts | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The state of a run while it serves the page."""

    status: dict[str, Any]
    needs_token: bool
