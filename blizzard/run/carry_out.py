"""Carries out one request: finds the table or the schema of a new one, runs, and purges old quarantined records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from blizzard.core.events import Began, Discovered, Ended, Recovered, Warned
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING
from blizzard.core.paths import Path
from blizzard.core.patterns import word_for
from blizzard.core.refuse import filters_shown
from blizzard.errors import ConfigError, SchemaError
from blizzard.run.after_ingest import Others
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.commit_queue import Gate, ThreadBackground
from blizzard.run.discover import check_matches
from blizzard.run.drain import drain_all, raise_cause_of_end
from blizzard.run.lane import Lane, Prepared
from blizzard.run.layouts import layout_of_new_table, layout_of_table, parse_policy
from blizzard.run.ports import Ingestor, NeverStop, StopRequest
from blizzard.run.preview import FirstSteps, NothingRead, Preview, error_shown, plan_nothing, plan_run
from blizzard.run.validate import Validation, validate, validate_nothing
from blizzard.schema import DeltaSchema
from blizzard.schema.evolve import with_rescued_column
from blizzard.schema.fit import fingerprint
from blizzard.schema.layout import TableLayout

_MADE_BEFORE = (
    "the table exists, and nothing was ever written to it: its schema is used, and not what --infer or --hints say. To"
    " make it anew, delete the table first"
)
# A longer one is not for a terminal.
LONGEST_DDL = 2_000


class SchemaMissing(SchemaError):
    """A new table was asked for without a schema, or a transform without the schema of what it reads. `ddl` is what a
    sample of the records suggests."""

    kind = Kind.SCHEMA_MISSING

    def __init__(self, ddl: str, *, for_transform: bool = False) -> None:
        shown = ddl if len(ddl) <= LONGEST_DDL else f"{ddl[:LONGEST_DDL]}… ({len(ddl):,} characters)"
        what = "a transform needs the schema of the records" if for_transform else "a new table needs a schema"
        suggested = f"A sample of the records suggests: {shown}" if ddl else "There is no record to suggest one."
        super().__init__(f"{what}. {suggested}")
        self.ddl, self.for_transform = ddl, for_transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Of a run that follows: if one of several targets lags, it may end before that one is through, once
    `looks_again_s` have passed. Targets in `resting` are not tried: they fail with these errors."""

    looks_again_s: float | None = None
    resting: Mapping[str, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How it ended. `is_early`: one target lags, and the others must look again at once. `failed` are the targets
    without which it went on."""

    is_early: bool = False
    failed: Mapping[str, Exception] = field(default_factory=dict)


def carry_out(
    assembly: Assembly,
    opened: Opened,
    *,
    run_id: str,
    stop: StopRequest | None = None,
    cycle: Cycle | None = None,
) -> Ran:
    """Drain the source. What happens is emitted, also when this raises. `cycle`: it is one of a run that follows."""
    stop, started, has_failed = stop or NeverStop(), time.monotonic(), True
    if not assembly.config.targets:  # else each target has its own table and position
        assembly = assembly.on(opened.table, opened.pipeline)
    source = assembly.request.source_location
    filters = [f"{key} {value}" for key, value in filters_shown(source.identity).items()]
    assembly.emit(
        Began(
            pipeline=opened.pipeline,
            source=f"{source.identity.root} ({', '.join([source.pattern, *filters])})",
            table=", ".join(target.request.table_shown for target in assembly.targets().values()),
            run_id=run_id,
        )
    )
    try:
        ran = _ingest(assembly, opened, run_id, stop, cycle or Cycle())
        has_failed = False
    finally:
        seconds = time.monotonic() - started
        assembly.emit(Ended(seconds=seconds, was_stopped=stop.requested(), has_failed=has_failed))
    return ran


def _ingest(assembly: Assembly, opened: Opened, run_id: str, stop: StopRequest, cycle: Cycle) -> Ran:
    background, gate = ThreadBackground(), Gate()
    ingestors: dict[str, Ingestor] = {}  # of the targets that are prepared
    targets = assembly.targets()
    try:
        lanes = [
            Lane(
                partial(_prepare, target, opened, _Around(name, run_id, stop, background, ingestors, cycle.resting)),
                emit=target.emit,
                name=name,
                is_required=target.config.required,
                gate=gate,
            )
            for name, target in targets.items()
        ]
        looks = next(target.looks for target in targets.values())
        is_early = drain_all(
            lanes,
            assembly.config.policy_of_targets,
            assembly.reader(ingestors),
            stop,
            looks.forget if looks is not None else lambda: None,
            looks_again_s=cycle.looks_again_s,
        )
        is_paused = any(lane.is_paused for lane in lanes)
        for lane in lanes:
            if lane.table is not None and lane.error is None and not is_paused:
                lane.attempt(partial(targets[lane.name].purge_expired, opened.pipeline, lane.table.table_id))
        raise_cause_of_end(lanes, assembly.config.policy_of_targets)
        return Ran(is_early=is_early, failed={lane.name: lane.error for lane in lanes if lane.error is not None})
    finally:
        background.close()


@dataclass(frozen=True, slots=True)
class _Around:
    """What a target of a run gets from the run."""

    name: str
    run_id: str
    stop: StopRequest
    background: ThreadBackground
    ingestors: dict[str, Ingestor]
    resting: Mapping[str, Exception]


def _prepare(assembly: Assembly, opened: Opened, around: _Around) -> Prepared | None:
    """None: there is no record to write."""
    if around.name in around.resting:
        raise around.resting[around.name]
    if around.name:
        opened = Opened(table=assembly.place().open(), pipeline=opened.pipeline)
        assembly = assembly.on(opened.table, opened.pipeline)
    layout = _layout(assembly, opened)
    if layout is None:
        assembly.emit(Recovered(path=Path.FRESH, seconds=0.0, has_table=False))
        assembly.emit(Discovered(backlog_files=0, backlog_bytes=0, has_table=False))
        return None
    spec = assembly.task_spec(layout, pipeline=opened.pipeline, run_id=around.run_id, table=opened.table)
    ingestor = around.ingestors[around.name] = assembly.ingestor(spec)
    has_table = opened.table is not None
    return Prepared(
        ports=assembly.ports(layout, ingestor, stop=around.stop, background=around.background, mirror=assembly.mirror),
        settings=assembly.settings(pipeline=opened.pipeline, run_id=around.run_id, has_table=has_table),
        table=opened.table,
    )


def preview(
    assembly: Assembly, opened: Opened, *, slots: int, validation: Validation | None = None, others: Others = ()
) -> Preview:
    """What a run would do first, found by the same steps. Changes nothing. With `validation` records are parsed too.
    `others` are the other targets of the run."""
    assembly = assembly.on(opened.table, opened.pipeline)
    location = assembly.request.source_location
    shown: dict[str, Any] = {
        "pipeline": opened.pipeline,
        "table": assembly.request.table_shown,
        "source": location.identity.root,
        "pattern": word_for(location.identity.pattern),
        "filters": filters_shown(location.identity),
    }
    assembly.quarantine.open()
    assembly.check_for_writing(opened.table)
    try:
        layout = _layout_to_write(assembly, opened)
    except ConfigError as e:
        if e.kind != Kind.NO_FILE_MATCHES:
            raise
        return Preview(shown=shown | {"recovery": None, **error_shown(e), "settles": []})
    if layout is None:
        nothing_read = {} if validation is None else {"validation": validate_nothing()}
        found = plan_nothing(assembly.source.look(EVERYTHING))
        return replace(found, shown=shown | found.shown | nothing_read)
    nothing = NothingRead(slots=slots, schema_fingerprint=fingerprint(layout.schema))
    ports = assembly.ports(layout, nothing, stop=NeverStop(), background=ThreadBackground())
    settings = assembly.settings(pipeline=opened.pipeline, run_id="plan")

    def parse(first: FirstSteps) -> dict[str, Any]:
        assert validation is not None
        return validate(assembly, opened, layout, first, validation, slots=slots)

    found = plan_run(ports, settings, opened.table, None if validation is None else parse, others)
    return replace(found, shown=shown | found.shown)


def _layout(assembly: Assembly, opened: Opened) -> TableLayout | None:
    """How rows are written. None: there is no record to write."""
    table = opened.table
    assembly.quarantine.open()  # if something is wrong with it, say so before a commit names files in it
    assembly.check_for_writing(table)
    layout = _layout_to_write(assembly, opened)
    if layout is not None and table is not None and parse_policy(assembly.config).rescues:
        table.add_columns(with_rescued_column(table.schema), pipeline=opened.pipeline)
        layout = layout.with_schema(table.schema)
    return layout


def _layout_to_write(assembly: Assembly, opened: Opened) -> TableLayout | None:
    """The table's layout, or that of the new one. None: there is no record to write."""
    if opened.table is not None:
        require_schema_of_transform(assembly)
        if opened.table.version == 0 and (assembly.config.schema.infer or assembly.config.schema.hints):
            assembly.emit(Warned(message=_MADE_BEFORE))
        return layout_of_table(assembly.config, opened.table)
    schema = assembly.request.schema or _inferred_schema(assembly)
    return None if schema is None else layout_of_new_table(assembly.config, schema, assembly.transform)


def require_schema_of_transform(assembly: Assembly) -> None:
    """Raises, with a schema as a suggestion, if it is not said what a transform reads."""
    if assembly.request.transforms and assembly.request.schema is None:
        inferred = assembly.infer(assembly.source.look(EVERYTHING).files)
        raise SchemaMissing("" if inferred is None else inferred.ddl, for_transform=True)


def _inferred_schema(assembly: Assembly) -> DeltaSchema | None:
    """None: there is no record. Raises, with the schema as a suggestion, if inference was not asked for."""
    listed = assembly.source.look(EVERYTHING)
    if not listed.files:
        check_matches(assembly.remarks.once(assembly.emit), listed, assembly.source.identity)
    inferred = assembly.infer(listed.files)
    if inferred is None:
        return None
    if not assembly.config.schema.infer:
        raise SchemaMissing(inferred.ddl, for_transform=assembly.request.transforms)
    assembly.emit(inferred.event)
    assembly.remarks.left_out(inferred.left_out)
    return inferred.schema
