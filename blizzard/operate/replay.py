"""A replay: the lines in quarantine are parsed once more, and those that pass now become rows of the table.

It is a batch like any other, whose lines come from the quarantine table instead of the source: it takes the
pipeline's next sequence, and its one commit holds the rows, names those that failed again as pending, and says which
records were taken. `settle` makes the quarantine table follow; if this process dies before it, the next run does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blizzard.core.bad import BadPolicy
from blizzard.core.batch import renewed_position
from blizzard.core.kinds import Kind
from blizzard.core.position import Position
from blizzard.core.quarantine import lead_quarantine
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, Budget, TaskPlan
from blizzard.errors import ConfigError, Refused
from blizzard.faults import reach
from blizzard.quarantine.leaving import replay_marks
from blizzard.quarantine.reparse import Reparsing
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.assemble import Job, SystemClock, open_for_writing
from blizzard.run.commit import Committing, Intent, new_run_id
from blizzard.run.inflight import CommitQueue, ThreadBackground
from blizzard.run.ingest import BatchIngest
from blizzard.run.ports import Ports, Progress, StopRequest, Table
from blizzard.run.preparing import layout_of_table, parse_policy, with_rescued_column
from blizzard.run.starting import RunSettings, Start
from blizzard.run.summary import Summary
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.service.control import NeverStop
from blizzard.service.progress import SilentProgress
from blizzard.tasks.quarantine import Selection
from blizzard.tasks.task import JobSpec

# A replay reads no file of the source: one task without slices, and no bound but the quarantine itself.
_PLAN = BatchPlan(
    tasks=(TaskPlan(slot=0, slices=(), budget=Budget(output_bytes=1 << 62, max_records=None, seconds=None)),),
    frontier=(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of the records. Where none passed, nothing was committed and the quarantine is as it was."""

    replayed: int
    still_bad: int
    sequence: int  # the pipeline's newest, this replay's own if it committed
    delta_version: int


def replay(ports: Ports, ingestor: QuarantineIngestor, settings: RunSettings, chosen: Selection) -> Replayed:
    """Append what passes now of the chosen records. `ingestor` is that of the ports.

    Refuses what a run would refuse, and is fenced as a run is.
    """
    table = ports.place.open()
    if table is None:
        raise ConfigError("there is no Delta table to replay into", kind=Kind.TABLE_NOT_FOUND)
    summary, planned_ms = Summary(), ports.clock.now_ms()
    position = _begin(ports, settings, summary, table)
    if chosen.through_sequence is None or chosen.through_sequence > position.sequence:
        chosen = replace(chosen, through_sequence=position.sequence)
    ingestor.chosen = chosen
    # Those that fail again were in quarantine before: there is room for them.
    settings = replace(settings, max_quarantined=None)
    queue = CommitQueue(ports, settings, summary, table, position.on.delta_version)
    position, result = BatchIngest(ports, settings, summary, table, queue).run(_PLAN, position, planned_ms=planned_ms)
    rows, still_bad = sum(f.rows for f in result.files), sum(f.rows for f in result.quarantine)
    if rows == 0:
        _forget(ingestor.spec, result)
        return Replayed(replayed=0, still_bad=still_bad, sequence=position.sequence, delta_version=table.version)
    after = position_after(position, chosen, result, batch_id=result.batch_id, now_ms=ports.clock.now_ms())
    reach("replay.before_commit")
    committing = Committing(
        table=table,
        quarantine=ports.quarantine,
        clock=ports.clock,
        progress=ports.progress,
        attempts=settings.commit_attempts,
    )
    sequence, version = committing.commit_edit(
        Intent(position=after, result=result, planned_ms=planned_ms, kind="replay")
    )
    return Replayed(replayed=rows, still_bad=still_bad, sequence=sequence, delta_version=version)


def _begin(ports: Ports, settings: RunSettings, summary: Summary, table: Table) -> Position:
    try:
        return Start(ports, settings, summary).go_on(table)
    except Refused as e:
        if e.kind not in (Kind.TABLE_HAS_DATA, Kind.SOURCE_READ_BY_OTHER):
            raise
        raise Refused(
            f"pipeline {settings.pipeline!r} has no position in this table, so nothing in quarantine is its own. Give"
            f" --source and --pipeline as its runs are given them; blizzard status shows which there are.",
            kind=e.kind,
        ) from e


def replay_job(job: Job, chosen: Selection, *, progress: Progress | None = None) -> Replayed:
    """Replay what a pipeline has in quarantine, under the configuration its runs are given."""
    config, run_id, progress = job.config, new_run_id(), progress or SilentProgress()
    parsing, table = parse_policy(config), open_for_writing(job)
    if table is None:
        raise ConfigError(f"there is no Delta table at {job.table_root}", kind=Kind.TABLE_NOT_FOUND)
    if parsing.rescues:
        table.add_columns(with_rescued_column(table.schema), pipeline=job.pipeline)
    layout, quarantine = layout_of_table(config, table), job.quarantine(progress)
    spec = replace(job.spec(layout, run_id=run_id, table=table), bad=BadPolicy())  # what fails again goes back
    ingestor = QuarantineIngestor(spec, quarantine)
    ports = Ports(
        source=job.source,
        place=job.place(layout),
        quarantine=quarantine,
        ingestor=ingestor,
        background=ThreadBackground(),  # there is nothing to do beside the one commit
        clock=SystemClock(),
        progress=progress,
        stop=NeverStop(),
    )
    settings = RunSettings(
        pipeline=job.pipeline, run_id=run_id, limits=config.batch_limits, scan_commits=config.checkpoint.scan_commits
    )
    return replay(ports, ingestor, settings, chosen)


def position_after(
    position: Position, chosen: Selection, result: BatchResult, *, batch_id: str, now_ms: int
) -> Position:
    """The position in the source stays where it was."""
    after, pending = (
        renewed_position(position, batch_id=batch_id, now_ms=now_ms),
        tuple(f.path for f in result.quarantine),
    )
    after = replace(
        after,
        on=replace(after.on, add_path=result.files[0].path),
        quarantine=replace(after.quarantine, pending=pending, replayed=replay_marks(chosen)),
    )
    return lead_quarantine(after)


def _forget(spec: JobSpec, result: BatchResult) -> None:
    """Nothing was committed, so nobody has heard of these files."""
    for file in result.quarantine:
        spec.quarantine.delete(file.path)


class QuarantineIngestor:
    """Stands where a run has its Spark job: the lines of the chosen records, parsed in this process."""

    slots = 1

    def __init__(self, spec: JobSpec, quarantine: DeltaRsQuarantine) -> None:
        self.spec, self._quarantine = spec, quarantine
        self.chosen = Selection()

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self.spec.layout.schema)

    def prepare(self) -> None:
        return None

    def adopt(self, schema: DeltaSchema) -> None:
        self.spec = replace(self.spec, layout=self.spec.layout.with_schema(schema))

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult:
        del plan, stop  # killing a replay does no harm
        selection = replace(self.chosen, pipeline=self.spec.pipeline, table_id=ticket.table_id, complete=True)
        parsing = Reparsing(self.spec, ticket)
        for rows in self._quarantine.read(selection):
            parsing.add(rows.to_pylist())
        return BatchResult(reports=(parsing.finish(),))
