"""Collects what a report shows: the newest commits of the log, the quarantine table, and what recovery would decide.

Damaged parts are reported and left out; only a table that cannot be opened is an error. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from blizzard.core.codec import FENCE_PREFIX
from blizzard.core.explain import explain_recovery
from blizzard.core.log import CommitFacts, positions_in
from blizzard.core.paths import Path
from blizzard.core.patterns import word_for
from blizzard.core.position import Position, RecordsRead
from blizzard.core.refuse import Refuse, filters_shown
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BlizzardError
from blizzard.quarantine import contents
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.report.facts import (
    BadGroup,
    FileInProgress,
    HeldFile,
    PipelineFacts,
    QuarantineFacts,
    RecoveryNow,
    ReportFacts,
    StandsAt,
    TableSize,
)
from blizzard.report.rows import Gathered, PipelineRows, gather
from blizzard.run.settle import recovery_with_quarantine
from blizzard.store.uri import show_uri
from blizzard.tasks.quarantine import Selection

MAX_COMMITS = 500
_MAX_NAMES = 100
# The total is in the quarantine table's log, but counting by reason reads some of its columns.
_MAX_COUNTED_BAD = 1_000_000


def collect(
    table: DeltaRsTable,
    quarantine: DeltaRsQuarantine,
    *,
    now_ms: int,
    pipeline: str | None = None,
    max_commits: int = MAX_COMMITS,
    scan_commits: int = 100,
) -> ReportFacts:
    window = _Window(table, max_commits)
    gathered = gather(window.commits())
    problems = list(window.problems)
    if window.has_older:
        _add_cleaned_up(table, gathered, problems)
    if gathered.rust_versions:
        problems.append(
            f"Version {gathered.rust_versions[0]} holds a position of the Rust program, which names no pipeline. It is"
            f" not shown here; blizzard run --adopt takes it over."
        )
    bad, (files, size_bytes, rows) = _Quarantined(quarantine, table.table_id), table.size()
    names = [name for name in sorted(gathered.pipelines) if pipeline in (None, name)]
    return ReportFacts(
        table=show_uri(table.root),
        made_at_ms=now_ms,
        table_id=table.table_id,
        version=table.version,
        size=TableSize(files=files, bytes=size_bytes, rows=rows),
        commits_read=window.read,
        oldest_read=window.oldest,
        is_cut=window.is_cut,
        foreign_commits=gathered.foreign,
        pipelines=tuple(_pipeline(table, name, gathered.of(name), bad, scan_commits) for name in names),
        quarantine=bad.facts,
        problems=tuple(problems),
    )


class _Window:
    """The newest commits of the log, at most `max_commits`."""

    def __init__(self, table: DeltaRsTable, max_commits: int) -> None:
        self._table, self._max = table, max_commits
        self.read, self.oldest = 0, None  # type: int, int | None
        self.problems: list[str] = []

    def commits(self) -> Iterator[CommitFacts]:
        try:
            for commit in islice(self._table.scan_back(), self._max):
                self.read, self.oldest = self.read + 1, commit.version
                yield commit
        except BlizzardError as e:
            self.problems.append(f"{e} Commits before it are not shown.")

    @property
    def has_older(self) -> bool:
        return self.oldest != 0

    @property
    def is_cut(self) -> bool:
        return self.has_older and self.read == self._max


def _add_cleaned_up(table: DeltaRsTable, gathered: Gathered, problems: list[str]) -> None:
    """Pipelines that are not in the commits read, but in a Delta checkpoint."""
    try:
        checkpoint = table.newest_checkpoint()
    except BlizzardError as e:
        problems.append(str(e))
        return
    for txn in checkpoint.txns if checkpoint else ():
        if txn.app_id.startswith(FENCE_PREFIX):
            gathered.of(txn.app_id.removeprefix(FENCE_PREFIX))
    newest: dict[str, Position] = {}
    for position in positions_in(checkpoint.txns if checkpoint else ()):
        if position.sequence > (newest[position.pipeline].sequence if position.pipeline in newest else -1):
            newest[position.pipeline] = position
    for name, position in newest.items():
        if gathered.of(name).newest is None:
            gathered.of(name).remembered = position


class _Quarantined:
    """What the quarantine has of this table, which others may share; read once for all pipelines."""

    def __init__(self, quarantine: DeltaRsQuarantine, table_id: str) -> None:
        self.quarantine = quarantine
        self._groups: list[contents.Group] = []
        uri, records, counted, problem = show_uri(quarantine.root), None, False, None
        try:
            records = quarantine.count(table_id=table_id)
            counted = records <= _MAX_COUNTED_BAD
            self._groups = contents.count_groups(quarantine, Selection(table_id=table_id)) if counted else []
        except (BlizzardError, OSError, ValueError) as e:
            problem = f"The quarantine table cannot be read: {e}"
        self.facts = QuarantineFacts(uri=uri, records=records, is_counted_by_reason=counted, problem=problem)

    def of(self, pipeline: str) -> tuple[BadGroup, ...]:
        kinds: dict[str, list[contents.Group]] = {}
        for group in self._groups:
            if group.pipeline == pipeline:
                kinds.setdefault(group.error_kind, []).append(group)
        found = (
            BadGroup(
                error_kind=kind,
                records=sum(g.records for g in groups),
                complete=sum(g.complete for g in groups),
                files=len(groups),
            )
            for kind, groups in kinds.items()
        )
        return tuple(sorted(found, key=lambda g: -g.records))

    def pending(self, position: Position) -> int:
        try:
            return 0 if self.quarantine.is_settled(position) else len(position.quarantine.pending)
        except (BlizzardError, OSError, ValueError):
            return len(position.quarantine.pending)


def _pipeline(
    table: DeltaRsTable, name: str, found: PipelineRows, bad: _Quarantined, scan_commits: int
) -> PipelineFacts:
    stands_at = None
    if found.newest is not None:
        commit, position = found.newest
        stands_at = _position(position, commit.version, bad)
    elif found.remembered is not None:
        stands_at = _position(found.remembered, None, bad)
    return PipelineFacts(
        name=name,
        position=stands_at,
        recovery=_recovery(table, name, scan_commits, bad),
        commits=tuple(found.rows),
        quarantine=bad.of(name),
        made_at_ms=found.made_at_ms,
    )


def _position(position: Position, version: int | None, bad: _Quarantined) -> StandsAt:
    source = position.marks
    marks = [("", source.last_committed_file)] if source.last_committed_file is not None else []
    marks += sorted(source.prefix_marks.items())
    held = position.seen.held_back
    # A file of which nothing was read is named in the position only because it is held back.
    begun = {path: read for path, read in source.in_progress.items() if read.records or path not in held}
    return StandsAt(
        source=position.source.root,
        pattern=word_for(position.source.pattern),
        filters=filters_shown(position.source),
        start_from=position.begun.start_from,
        paused=position.paused,
        sequence=position.sequence,
        version=version,
        taken_at_ms=position.taken_at_ms,
        run_id=position.run_id,
        marks=tuple(marks[:_MAX_NAMES]),
        marks_count=len(marks),
        in_progress=tuple(_files(islice(sorted(begun.items()), _MAX_NAMES))),
        in_progress_count=len(begun),
        held=tuple(HeldFile(path=path, why=why) for path, why in islice(sorted(held.items()), _MAX_NAMES)),
        held_count=len(held),
        pending_quarantine=bad.pending(position),
    )


def _files(progress: Iterable[tuple[str, RecordsRead]]) -> Iterator[FileInProgress]:
    for path, read in progress:
        yield FileInProgress(path=path, records=read.records, size_bytes=read.size_bytes)


def _recovery(table: DeltaRsTable, name: str, scan_commits: int, bad: _Quarantined) -> RecoveryNow:
    try:
        facts, recovery = recovery_with_quarantine(table, name, scan_commits=scan_commits, quarantine=bad.quarantine)
        sentences = explain_recovery(facts, recovery, name)
    except BlizzardError as e:
        return RecoveryNow(path=Path.REFUSED, kind=e.kind, sentences=(str(e),))
    kind = recovery.kind if isinstance(recovery, Refuse) else None
    return RecoveryNow(path=recovery.path, kind=kind, sentences=tuple(sentences))
