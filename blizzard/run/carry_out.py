"""Carries out one request: finds the table or the schema of a new one, runs, and purges old quarantined records."""

from __future__ import annotations

import time
from typing import Any

from blizzard.core.events import Began, Discovered, Ended, Recovered, Warned
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING
from blizzard.core.paths import Path
from blizzard.core.patterns import word_for
from blizzard.core.refuse import filters_shown
from blizzard.errors import ConfigError, SchemaError
from blizzard.run.assemble import (
    Assembly,
    Opened,
    layout_of_new_table,
    layout_of_table,
    parse_policy,
)
from blizzard.run.commit_queue import ThreadBackground
from blizzard.run.discover import check_matches
from blizzard.run.drain import drain
from blizzard.run.ports import NeverStop, StopRequest
from blizzard.run.preview import NothingRead, error_shown, plan_nothing, plan_run
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
    """A new table was asked for without a schema. `ddl` is what a sample of the records suggests."""

    kind = Kind.SCHEMA_MISSING

    def __init__(self, ddl: str) -> None:
        shown = ddl if len(ddl) <= LONGEST_DDL else f"{ddl[:LONGEST_DDL]}… ({len(ddl):,} characters)"
        super().__init__(f"a new table needs a schema. A sample of the records suggests: {shown}")
        self.ddl = ddl


def carry_out(assembly: Assembly, opened: Opened, *, run_id: str, stop: StopRequest | None = None) -> None:
    """Drain the source. What happens is emitted, also when this raises."""
    stop, started, has_failed = stop or NeverStop(), time.monotonic(), True
    assembly = assembly.on(opened.table, opened.pipeline)
    source = assembly.request.source_location
    filters = [f"{key} {value}" for key, value in filters_shown(source.identity).items()]
    assembly.emit(
        Began(
            pipeline=opened.pipeline,
            source=f"{source.identity.root} ({', '.join([source.pattern, *filters])})",
            table=assembly.request.table_shown,
            run_id=run_id,
        )
    )
    try:
        _ingest(assembly, opened, run_id, stop)
        has_failed = False
    finally:
        seconds = time.monotonic() - started
        assembly.emit(Ended(seconds=seconds, was_stopped=stop.requested(), has_failed=has_failed))


def _ingest(assembly: Assembly, opened: Opened, run_id: str, stop: StopRequest) -> None:
    background = ThreadBackground()
    try:
        layout = _prepare(assembly, opened)
        if layout is None:
            assembly.emit(Recovered(path=Path.FRESH, seconds=0.0, has_table=False))
            assembly.emit(Discovered(backlog_files=0, backlog_bytes=0, has_table=False))
            return
        spec = assembly.task_spec(layout, pipeline=opened.pipeline, run_id=run_id, table=opened.table)
        ports = assembly.ports(layout, assembly.ingestor(spec), stop=stop, background=background)
        settings = assembly.settings(pipeline=opened.pipeline, run_id=run_id, has_table=opened.table is not None)
        filled = drain(ports, settings, opened.table)
        if filled is not None:
            assembly.purge_expired(opened.pipeline, filled.table_id)
    finally:
        background.close()


def preview(assembly: Assembly, opened: Opened, *, slots: int, validation: Validation | None = None) -> dict[str, Any]:
    """What a run would do first, found by the same steps. Changes nothing. With `validation` records are parsed too."""
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
        return shown | {"recovery": None, **error_shown(e), "settles": []}
    if layout is None:
        nothing_read = {} if validation is None else {"validation": validate_nothing()}
        return shown | plan_nothing(assembly.source.look(EVERYTHING)) | nothing_read
    nothing = NothingRead(slots=slots, schema_fingerprint=fingerprint(layout.schema))
    ports = assembly.ports(layout, nothing, stop=NeverStop(), background=ThreadBackground())
    settings = assembly.settings(pipeline=opened.pipeline, run_id="plan")
    if validation is None:
        return shown | plan_run(ports, settings, opened.table)
    return shown | plan_run(
        ports, settings, opened.table, lambda first: validate(assembly, opened, layout, first, validation, slots=slots)
    )


def _prepare(assembly: Assembly, opened: Opened) -> TableLayout | None:
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
        if opened.table.version == 0 and (assembly.config.schema.infer or assembly.config.schema.hints):
            assembly.emit(Warned(message=_MADE_BEFORE))
        return layout_of_table(assembly.config, opened.table)
    schema = assembly.request.schema or _inferred_schema(assembly)
    return None if schema is None else layout_of_new_table(assembly.config, schema)


def _inferred_schema(assembly: Assembly) -> DeltaSchema | None:
    """None: there is no record. Raises, with the schema as a suggestion, if inference was not asked for."""
    listed = assembly.source.look(EVERYTHING)
    if not listed.files:
        check_matches(assembly.emit, listed, assembly.source.identity)
    inferred = assembly.infer(listed.files)
    if inferred is None:
        return None
    if not assembly.config.schema.infer:
        raise SchemaMissing(inferred.ddl)
    assembly.emit(inferred.event)
    assembly.remarks.left_out(inferred.left_out)
    return inferred.schema
