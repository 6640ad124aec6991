"""A replay: parses the lines in quarantine once more; those that pass now become rows of the table.

It is a batch whose lines come from the quarantine table instead of the source. It takes the pipeline's next sequence.
Its one commit adds the rows, names the records that failed again as pending, and says which records were taken. Then
`settle` makes the quarantine table follow; if this process dies before that, the next run does it.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace

from blizzard import native
from blizzard.core.batch import renewed_position
from blizzard.core.commit import Intent
from blizzard.core.kinds import CommitKind, Kind, LineKind
from blizzard.core.pause import describe_pause
from blizzard.core.position import Position
from blizzard.core.quarantine import lead_quarantine
from blizzard.core.types import BatchResult, Budget, SharedPlan, TaskPlan
from blizzard.errors import ConfigError, Refused
from blizzard.faults import reach
from blizzard.quarantine.ingestor import QuarantineIngestor
from blizzard.quarantine.selected import replay_marks
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.carry_out import require_schema_of_transform
from blizzard.run.commit import Committing, new_run_id
from blizzard.run.commit_queue import CommitQueue, ThreadBackground
from blizzard.run.ingest import BatchIngest
from blizzard.run.layouts import layout_of_table, parse_policy
from blizzard.run.ports import NeverStop, Ports, Table
from blizzard.run.read import Part, ReadsForOne, read_batch
from blizzard.run.recover import recover
from blizzard.run.settings import RunSettings
from blizzard.schema.evolve import with_rescued_column
from blizzard.tasks.quarantine import Selection
from blizzard.tasks.spec import TaskSpec

# A replay reads no file of the source: one task without slices and without limits.
_PLAN = SharedPlan(
    tasks=(TaskPlan(slot=0, slices=(), budget=Budget(output_bytes=1 << 62, max_records=None, seconds=None)),),
    wanted={"": {}},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What happened to the records. If none passed, nothing was committed and the quarantine is unchanged."""

    replayed: int
    still_bad: int
    not_selected: int = 0  # good now, but `where` or the transform leaves them out; they stay in quarantine
    unrouted: int = 0  # for no target; they are never replayed
    sequence: int  # the pipeline's newest; this replay's own if it committed
    delta_version: int


def replay_request(assembly: Assembly, opened: Opened, chosen: Selection) -> Replayed:
    """Replay what a pipeline has in quarantine, with the configuration of its runs."""
    run_id, table = new_run_id(), opened.table
    if table is None:
        raise ConfigError(f"there is no Delta table at {assembly.request.table_root}", kind=Kind.TABLE_NOT_FOUND)
    assembly = assembly.on(table, opened.pipeline)
    require_schema_of_transform(assembly)
    assembly.check_for_writing(table)
    parsing = parse_policy(assembly.config)
    if parsing.rescues:
        table.add_columns(with_rescued_column(table.schema), pipeline=opened.pipeline)
    layout = layout_of_table(assembly.config, table)
    spec = assembly.task_spec(layout, pipeline=opened.pipeline, run_id=run_id, table=table)
    ingestor = assembly.replay_ingestor(spec)
    # There is only one commit, and killing a replay does no harm.
    ports = assembly.ports(layout, ingestor, stop=NeverStop(), background=ThreadBackground(), mirror=assembly.mirror)
    # The limits and policies for reading a source do not hold for a replay.
    settings = RunSettings(
        pipeline=opened.pipeline,
        run_id=run_id,
        limits=assembly.config.batch_limits,
        scan_commits=assembly.config.checkpoint.scan_commits,
        rename=parsing.rename,
        exact_timestamps=parsing.exact_timestamps,
        spark_adds_columns=assembly.config.table.committer == "delta-spark",
        parser=assembly.config.parser,
        native_here=native.is_available(),
    )
    return replay(ports, ingestor, settings, table, chosen)


def replay(
    ports: Ports, ingestor: QuarantineIngestor, settings: RunSettings, table: Table, chosen: Selection
) -> Replayed:
    """Append the chosen records that pass now. `ingestor` is the one in the ports.

    Refuses what a run would refuse, and is fenced like a run.
    """
    planned_ms = ports.clock.now_ms()
    position = _begin(ports, settings, table)
    if position.on.transform is not None and ingestor.spec.transform is None:
        raise ConfigError(
            "the last batch of this pipeline went through a transform, and this command has none: the records would"
            " become rows as they were read. Give it the configuration of the runs (--config), or their schema.ddl and"
            " transform.sql, or transform.python (module:function). If the runs have no transform any more, let one of"
            " them commit first; or take the records out with blizzard dlq export.",
            kind=Kind.TRANSFORM,
        )
    if chosen.through_sequence is None or chosen.through_sequence > position.sequence:
        chosen = replace(chosen, through_sequence=position.sequence)
    unrouted = _without_unrouted(ingestor, chosen, table.table_id)
    if unrouted:
        chosen = replace(chosen, but_not=LineKind.UNROUTED)
    ingestor.chosen = chosen
    # Records that fail again were in quarantine before, so there is room for them. No file of the source is read on, so
    # what the position says of the settings under which files were begun stays, and there is nothing to warn of.
    settings = replace(settings, max_quarantined=None, settings_fingerprint=position.on.settings_fingerprint)
    settings = replace(settings, transform=position.on.transform)
    committing = Committing.through(ports, settings, table)
    nothing_in_flight = CommitQueue(
        committing, ports.background, ports.emit, planned_on=position.on.delta_version, max_inflight=1
    )
    ingest = BatchIngest(ports, settings, table, nothing_in_flight)
    ticket, started = ingest.begin(position, planned_ms=planned_ms), time.monotonic()
    read = read_batch(ReadsForOne({"": ingestor}), _PLAN, {"": Part(ingest=ingest, ticket=ticket)}, ports.stop)[""]
    if isinstance(read, Exception):
        raise read
    seconds = time.monotonic() - started
    position, result = ingest.end(position, read, batch_id=ticket.batch_id, seconds=seconds)
    rows, back = sum(f.rows for f in result.files), sum(f.rows for f in result.quarantine)
    done = Replayed(
        replayed=rows,
        still_bad=back - ingestor.not_selected,
        not_selected=ingestor.not_selected,
        unrouted=unrouted,
        sequence=position.sequence,
        delta_version=table.version,
    )
    if rows == 0:
        _forget(ingestor.spec, result)
        return done
    after = position_after(position, chosen, result, batch_id=result.batch_id, now_ms=ports.clock.now_ms())
    reach("replay.before_commit")
    intent = Intent(position=after, result=result, planned_ms=planned_ms, kind=CommitKind.REPLAY)
    sequence, version = committing.commit_edit(intent)
    return replace(done, sequence=sequence, delta_version=version)


def _without_unrouted(ingestor: QuarantineIngestor, chosen: Selection, table_id: str) -> int:
    """How many of the chosen records must be left out."""
    if chosen.error_kind == LineKind.UNROUTED:
        raise ConfigError(
            "records that are for no target are not replayed: they are in the quarantine of the first target, and not"
            " its own. Give a new target a where that selects them, and it reads them from the source; or take them"
            " out with blizzard dlq export --kind unrouted.",
            kind=Kind.USAGE,
        )
    return ingestor.count_unrouted(chosen, table_id)


def _begin(ports: Ports, settings: RunSettings, table: Table) -> Position:
    try:
        position = recover(ports, settings, table).position
    except Refused as e:
        if e.kind not in (Kind.TABLE_HAS_DATA, Kind.SOURCE_READ_BY_OTHER):
            raise
        raise Refused(
            f"pipeline {settings.pipeline!r} has no position in this table, so nothing in quarantine is its own. Give"
            f" --source and --pipeline as its runs are given them; blizzard status shows which there are.",
            kind=e.kind,
        ) from e
    if position.paused is not None:
        raise Refused(
            f"pipeline {settings.pipeline!r} is {describe_pause(position.paused)}, and a replay appends rows. Nothing"
            f" was changed. Resume the pipeline, replay, and pause it again if need be: blizzard resume --pipeline"
            f" {shlex.quote(settings.pipeline)}.",
            kind=Kind.PAUSED,
        )
    return position


def position_after(
    position: Position, chosen: Selection, result: BatchResult, *, batch_id: str, now_ms: int
) -> Position:
    """The marks do not move: nothing was read from the source."""
    pending = tuple(f.path for f in result.quarantine)
    after = renewed_position(position, batch_id=batch_id, now_ms=now_ms)
    after = replace(
        after,
        on=replace(after.on, add_path=result.files[0].path, removed_path=None),
        quarantine=replace(after.quarantine, pending=pending, replayed=replay_marks(chosen)),
    )
    return lead_quarantine(after)


def _forget(spec: TaskSpec, result: BatchResult) -> None:
    """Nothing was committed, so no commit names these files."""
    for file in result.quarantine:
        spec.quarantine.delete(file.path)
