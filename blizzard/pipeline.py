"""The whole story of a run: recover, list, plan, ingest, commit, until drained or told to stop.

The only state that outlives a run is in the Delta log; after any doubt it is read again from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blizzard.core.plan import count_backlog, is_drained, plan_batch
from blizzard.core.state import CheckpointState
from blizzard.core.types import SourceFile
from blizzard.delta.commit import PositionMoved
from blizzard.inflight import CommitQueue
from blizzard.ingesting import BatchIngest
from blizzard.ports import Ports
from blizzard.starting import RunSettings, Start, check_start_from, tell
from blizzard.summary import Summary


def run_pipeline(ports: Ports, settings: RunSettings, summary: Summary) -> None:
    """Drain what is listed now. `summary` tells what was committed even when this raises."""
    listing = ports.source.list()
    if not listing:
        ports.progress.warn("no file of the source matches its pattern")
    check_start_from(settings.start_from, listing)
    while True:
        try:
            return _Run(ports, settings, summary, listing).drain()
        except PositionMoved as moved:  # each time round, the log holds one more commit of ours
            ports.progress.warn(f"{moved}; recovering from the log")
            settings = replace(settings, start_from=None)  # it was said, and recorded in the first commit


class _Run:
    def __init__(self, ports: Ports, settings: RunSettings, summary: Summary, listing: Sequence[SourceFile]) -> None:
        self._ports, self._settings, self._summary, self._listing = ports, settings, summary, listing
        self._start = Start(ports, settings, summary)
        self._held: frozenset[str] = frozenset()  # changed since they were listed: left to the next run

    def drain(self) -> None:
        table = self._ports.place.open()
        if table is None:
            recovery = self._start.recover(None)
            if is_drained(recovery.source_state, self._listing):
                self._summary.backlog_files = 0
                return  # nothing to put into a table: none is made
            _ = self._ports.ingestor.slots  # without a session that can fill it, no table is made
            if self._ports.stop.requested():
                return
            table = self._start.create_table()
        state = self._start.begin(table, self._listing)
        self._summary.backlog_files, _ = count_backlog(state.source_state, self._listing)
        commits = CommitQueue(self._ports, self._settings, self._summary, table, state.delta_version)
        ingest = BatchIngest(self._ports, self._settings, self._summary, table, commits)
        with commits.finished_in_order():
            while self._goes_on(state, commits):
                state = self._ingest_batch(state, ingest, commits)
            if self._start.renewal_due and state.sequence == self._summary.sequence and not self._summary.commits:
                commits.renew(state)

    def _goes_on(self, state: CheckpointState, commits: CommitQueue) -> bool:
        limit = self._settings.max_batches
        return not (
            self._ports.stop.requested()
            or (limit is not None and self._summary.commits + commits.pending >= limit)
            or is_drained(state.source_state, self._listing, self._held)
        )

    def _ingest_batch(self, state: CheckpointState, ingest: BatchIngest, commits: CommitQueue) -> CheckpointState:
        """Read one batch, queue its commit, and return the state the next one is planned on."""
        planned_ms, slots = self._ports.clock.now_ms(), self._ports.ingestor.slots
        plan = plan_batch(state.source_state, self._listing, self._settings.limits, slots=slots, held=self._held)
        self._ports.progress.planned(plan, sequence=state.sequence + 1, backlog_files=self._summary.backlog_files or 0)
        state, result = ingest.run(plan, state, planned_ms=planned_ms)
        self._hold_back(result.changed, "left to the next run: they changed after they were listed")
        self._hold_back(result.unreadable, "left to the next run: they cannot be read to their end")
        if not result.slices:
            return state
        return commits.add(state, plan, result, planned_ms=planned_ms)

    def _hold_back(self, files: tuple[str, ...], why: str) -> None:
        """One file's trouble must not stop the others."""
        self._held |= set(files)
        tell(self._ports.progress, files, why)
