"""The whole story of a run: recover, list, plan, ingest, commit, until drained or told to stop.

The only state that outlives a run is in the Delta log; after any doubt it is read again from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blizzard.core.batch import RunIdentity, state_before
from blizzard.core.late import find_late_files
from blizzard.core.plan import Limits, count_backlog, is_drained, plan_batch
from blizzard.core.recover import Fresh, Refuse, Resume, StartFrom, check_in_progress, decide_recovery
from blizzard.core.state import CheckpointState
from blizzard.core.types import SourceFile, find_file
from blizzard.delta.commit import PositionMoved
from blizzard.errors import ConfigError, Refused, Temporary, error_of_failure
from blizzard.inflight import CommitQueue
from blizzard.ports import Background, Clock, Ingestor, Progress, Source, StopRequest, Table, TablePlace
from blizzard.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    pipeline: str
    run_id: str
    schema_fingerprint: str  # of the schema the tasks write
    limits: Limits
    scan_commits: int = 100
    start_from: StartFrom | None = None
    max_batches: int | None = None
    max_inflight: int = 2
    commit_attempts: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    source: Source
    place: TablePlace
    ingestor: Ingestor
    background: Background
    clock: Clock
    progress: Progress
    stop: StopRequest


def run_pipeline(ports: Ports, settings: RunSettings, summary: Summary) -> None:
    """Drain what is listed now. `summary` tells what was committed even when this raises."""
    listing = ports.source.list()
    while True:
        try:
            return _Run(ports, settings, summary, listing).drain()
        except PositionMoved as moved:  # each time round, the log holds one more commit of ours
            ports.progress.warn(f"{moved}; recovering from the log")
            settings = replace(settings, start_from=None)  # it was said, and recorded in the first commit


class _Run:
    def __init__(self, ports: Ports, settings: RunSettings, summary: Summary, listing: Sequence[SourceFile]) -> None:
        self._ports, self._settings, self._summary, self._listing = ports, settings, summary, listing
        self._held: frozenset[str] = frozenset()  # changed since they were listed: left to the next run

    def drain(self) -> None:
        table = self._ports.place.open()
        if table is None:
            recovery = self._recover(None)
            if is_drained(recovery.source_state, self._listing):
                self._summary.backlog_files = 0
                return  # nothing to put into a table: none is made
            table = self._create_table()
        recovery = self._recover(table)
        state = self._state_before(recovery, table)
        self._check_table(table)
        self._check_listing(state, table)
        self._summary.backlog_files, _ = count_backlog(state.source_state, self._listing)
        commits = CommitQueue(self._ports, self._settings, self._summary, table, state.delta_version)
        with commits.finished_in_order():
            while self._goes_on(state, commits):
                state = self._ingest_batch(state, commits)

    def _goes_on(self, state: CheckpointState, commits: CommitQueue) -> bool:
        limit = self._settings.max_batches
        return not (
            self._ports.stop.requested()
            or (limit is not None and self._summary.commits + commits.pending >= limit)
            or is_drained(state.source_state, self._listing, self._held)
        )

    def _ingest_batch(self, state: CheckpointState, commits: CommitQueue) -> CheckpointState:
        """Read one batch, queue its commit, and return the state the next one is planned on."""
        sequence, planned_ms = state.sequence + 1, self._ports.clock.now_ms()
        slots, limits = self._ports.ingestor.slots, self._settings.limits
        plan = plan_batch(state.source_state, self._listing, limits, slots=slots, held=self._held)
        self._ports.progress.planned(plan, sequence=sequence, backlog_files=self._summary.backlog_files or 0)
        result = self._ports.ingestor.run(plan, sequence=sequence, stop=commits)
        if result.failure is not None:
            raise error_of_failure(result.failure)
        if result.changed:
            self._hold_back(result.changed)
            if not result.slices:
                return state
        return commits.add(state, plan, result, planned_ms=planned_ms)

    def _hold_back(self, changed: tuple[str, ...]) -> None:
        """A file still being written must not stop the others."""
        self._held |= set(changed)
        names = ", ".join(changed[:5])
        self._ports.progress.warn(
            f"changed after they were listed, left to the next run: {len(changed)} files ({names})"
        )

    def _recover(self, table: Table | None) -> Resume | Fresh:
        facts = None
        if table is not None:
            facts = table.observe(self._settings.pipeline, scan_commits=self._settings.scan_commits)
        recovery = decide_recovery(
            facts,
            pipeline=self._settings.pipeline,
            source=self._ports.source.identity,
            start_from=self._settings.start_from,
        )
        self._summary.recovery = recovery.path
        if isinstance(recovery, Refuse):
            raise Refused(recovery.message, kind=recovery.kind)
        return recovery

    def _create_table(self) -> Table:
        _ = self._ports.ingestor.slots  # without a session that can fill it, no table is made
        self._ports.place.create(self._settings.pipeline)
        table = self._ports.place.open()
        if table is None:
            raise Refused("the table was created and is gone again", kind="table_create")
        return table

    def _check_table(self, table: Table) -> None:
        """The table opened here may not be the one looked at before Spark came up."""
        table.check_writable()
        if table.schema_fingerprint != self._settings.schema_fingerprint:
            raise Temporary(
                "the table's schema was changed, or another driver made it. Run again.", kind="schema_changed"
            )

    def _state_before(self, recovery: Resume | Fresh, table: Table) -> CheckpointState:
        newest = next(table.scan_back(), None)
        timestamp_ms = newest.timestamp_ms if newest is not None else 0
        identity = RunIdentity(
            pipeline=self._settings.pipeline,
            run_id=self._settings.run_id,
            source=self._ports.source.identity,
            table_id=table.table_id,
            schema_fingerprint=table.schema_fingerprint,
        )
        state = state_before(recovery, identity, version=table.version, timestamp_ms=timestamp_ms)
        self._summary.delta_version, self._summary.sequence = state.delta_version, state.sequence
        return state

    def _check_listing(self, state: CheckpointState, table: Table) -> None:
        begins_after = self._settings.start_from.after if self._settings.start_from else None
        if state.sequence == 0 and begins_after is not None and find_file(self._listing, begins_after) is None:
            raise ConfigError(f"--start-from after:{begins_after}: there is no such file in the source", kind="usage")
        refusal = check_in_progress(state.source_state, self._listing)
        if refusal is not None:
            raise Refused(refusal.message, kind=refusal.kind)
        late = find_late_files(self._listing, state, table.scan_back())
        self._summary.late_files = len(late)
        if late:
            names = ", ".join(late[:5]) + (", …" if len(late) > 5 else "")
            self._ports.progress.warn(
                f"{len(late)} late files sort at or before the mark and were never ingested; they are not read now"
                f" either: {names}. Give them a name after {state.source_state.last_committed_file} to have them read."
            )
