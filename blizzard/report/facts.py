"""What a report shows, as values. Nothing here is escaped or formatted, and nothing here reads anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from blizzard.core.paths import Path
from blizzard.core.position import Paused


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
    broken_files: int  # given up: they, or their rest, could not be read, or a policy left them unread
    late_files: int  # late or rewritten: at or before the mark of the position before it, and not named in it
    payload_bytes: int
    is_superseded: bool  # a later commit has taken it back
    superseded: tuple[int, ...]  # sequences that it took back itself
    rolled_back_to: int | None
    problem: str | None  # why its payload or its ledger cannot be read
    dropped: int = 0  # records of older batches that left the full quarantine for its bad ones
    skipped_files: int = 0  # left out on purpose, or gone before this target could read them; not in `files`
    began_ms: int | None = None  # when it began to read; None: it read nothing, or an older release wrote it


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
    paused: Paused | None = None


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
    made_at_ms: int | None = None  # when the pipeline made the table, if that commit was read

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
class TargetFacts:
    """One of several targets. `state`: front (as far as any other), behind, new, refused, failed (in the run that
    serves the page) or unknown (it cannot be looked at)."""

    table: str
    required: bool | None  # None: the policy does not ask for that
    state: str
    sequence: int | None
    last_commit_ms: int | None
    error: str | None = None  # why it cannot be looked at, or why it has failed last
    error_kind: str | None = None
    exit_code: int = 0
    facts: ReportFacts | None = None  # None: it cannot be looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetsFacts:
    pipeline: str | None  # None: it is not known which one is meant
    commit_policy: str
    made_at_ms: int
    targets: dict[str, TargetFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePaths:
    """Where the API has what the page of a run asks for."""

    actions: str  # followed by /pause and the like
    status: str
    page: str


OF_ONE_RUN = LivePaths(actions="", status="/status", page="/")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByRun:
    """Files that a run holds back now. `first` are some of the `files`. `target` is None where there is only one."""

    target: str | None
    files: int
    first: tuple[HeldFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The state of a run while it serves the page."""

    status: dict[str, Any]
    needs_token: bool
    paths: LivePaths = OF_ONE_RUN
    fleet: str | None = None  # where the page of the whole fleet is
    held: tuple[HeldByRun, ...] = ()  # by target


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """What the page of a fleet shows. Rows are those of `GET /pipelines`."""

    rows: tuple[dict[str, Any], ...]
    state: str
    uptime_s: float
    max_active: int
    queued: int
    config: str
    config_changed: bool
    needs_token: bool
    made_at_ms: int
