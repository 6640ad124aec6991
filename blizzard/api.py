"""The Python API: the same run as the command line's, with typed exceptions instead of exit codes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from blizzard.cli.context import request_for, session_for
from blizzard.config.load import make_config
from blizzard.config.request import Request, make_request
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import SchemaError
from blizzard.operate.status import TableStatus, read_status
from blizzard.quarantine.contents import purge_older
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.assemble import Job, ListedSource, SystemClock, make_job, open_for_writing
from blizzard.run.commit import new_run_id
from blizzard.run.drain import run_pipeline
from blizzard.run.infer import infer_from_source
from blizzard.run.inflight import ThreadBackground
from blizzard.run.ports import NoTelemetry, Ports, Progress, StopRequest, Telemetry
from blizzard.run.preparing import layout_of_new_table, layout_of_table, parse_policy, with_rescued_column
from blizzard.run.preview import NothingRead, plan_nothing, plan_run
from blizzard.run.starting import NO_FILE_MATCHES, RunSettings
from blizzard.run.summary import Summary
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.schema.layout import TableLayout
from blizzard.service.control import NeverStop
from blizzard.service.progress import SilentProgress
from blizzard.spark.gone import told_if_gone
from blizzard.spark.ingestor import SparkIngestor
from blizzard.spark.session import settings_of
from blizzard.store.uri import show_uri


class SchemaMissing(SchemaError):
    """A new table was asked for without a schema. `ddl` is what a sample of the records suggests."""

    kind = Kind.SCHEMA_MISSING

    def __init__(self, ddl: str) -> None:
        super().__init__(f"a new table needs a schema. A sample of the records suggests: {ddl}")
        self.ddl = ddl


def run_job(
    session: Callable[[], Any],
    job: Job,
    summary: Summary,
    *,
    progress: Progress | None = None,
    stop: StopRequest | None = None,
    begin_session: Callable[[], None] | None = None,
    telemetry: Telemetry | None = None,
    run_id: str | None = None,
) -> Summary:
    """Drain the source. The summary is filled in even when this raises. `session` is asked for only when there is work,
    `begin_session` as soon as that is known."""
    summary.pipeline, summary.table = job.pipeline, show_uri(job.table_root)
    started, run_id, config = time.monotonic(), run_id or new_run_id(), job.config
    progress, parsing = progress or SilentProgress(), parse_policy(config)
    quarantine = job.quarantine(progress)
    quarantine.open()  # what is wrong with it is better known before a commit names files in it
    table = open_for_writing(job)
    layout = _layout_to_write(job, table, progress)
    if layout is None:
        summary.status, summary.recovery, summary.backlog_files = "idle", "fresh", 0
        return summary
    if table is not None and parsing.rescues:
        table.add_columns(with_rescued_column(table.schema), pipeline=job.pipeline)
        layout = layout.with_schema(table.schema)
    spec = job.spec(layout, run_id=run_id, table=table)
    stop, background = stop or NeverStop(), ThreadBackground()
    ports = Ports(
        source=job.source,
        place=job.place(layout),
        quarantine=quarantine,
        ingestor=SparkIngestor(session, spec, slots=config.spark.slots, begin_session=begin_session),
        background=background,
        clock=SystemClock(),
        progress=progress,
        stop=stop,
        telemetry=telemetry or NoTelemetry(),
    )
    settings = run_settings(job, run_id)
    try:
        run_pipeline(ports, settings, summary)
        if config.quarantine.keep_days is not None:
            _purge_older(job, layout, quarantine, config.quarantine.keep_days)
        summary.status = "stopped" if stop.requested() else "done" if summary.commits else "idle"
    finally:
        background.close()
        summary.seconds = time.monotonic() - started
    return summary


def run_settings(job: Job, run_id: str) -> RunSettings:
    config = job.config
    return RunSettings(
        pipeline=job.pipeline,
        run_id=run_id,
        limits=config.batch_limits,
        bad=config.bad_policy,
        max_quarantined=config.quarantine.max_records,
        rejects_overflow=config.quarantine.overflow == "reject",
        scan_commits=config.checkpoint.scan_commits,
        start_from=job.start_from,
        reads_again=job.reads_again,
        max_batches=job.max_batches,
        max_inflight=config.limits.max_inflight,
        max_held_files=config.limits.max_held_files,
        late=config.late_policy,
        cleaning=job.cleaning,
    )


def _purge_older(job: Job, layout: TableLayout, quarantine: DeltaRsQuarantine, days: int) -> None:
    table = job.place(layout).open()
    if table is not None:  # else nothing was ever committed
        purge_older(quarantine, days, pipeline=job.pipeline, table_id=table.table_id)


def _layout_to_write(job: Job, table: DeltaRsTable | None, progress: Progress) -> TableLayout | None:
    """The table's layout, or that of the new one. None: there is no record to write."""
    if table is not None:
        return layout_of_table(job.config, table)
    schema = job.schema or _inferred_schema(job, progress)
    return None if schema is None else layout_of_new_table(job.config, schema)


def _inferred_schema(job: Job, progress: Progress) -> DeltaSchema | None:
    """Raises with the inferred schema as a suggestion where none was asked for. None: there is no record."""
    files = job.source.list()
    inferred = infer_from_source(job.source.location, files, job.config, progress)
    if inferred is None:
        if not files:
            progress.warn(NO_FILE_MATCHES)
        return None
    if not job.config.schema.infer:
        raise SchemaMissing(inferred.ddl)
    progress.note(inferred.sentence)
    return inferred.schema


def ingest(
    spark: Any,
    *,
    source: str,
    table: str,
    schema: Any = None,
    infer: bool = False,
    pipeline: str | None = None,
    start_from: str | None = None,
    adopt: bool = False,
    reads_again: bool = False,
    max_batches: int | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Append every new record of `source` to `table`, exactly once, and say what was done.

    `schema` is that of a new table: DDL or Spark's JSON as text or in a file, a dict in Delta's form, a pyspark
    StructType, or a pyarrow Schema. With `infer` a new table gets the schema that a sample of the records suggests.
    Without `pipeline` the run goes on with the one of the table that reads this source; a second one over the same
    files is refused unless it `reads_again`.
    `options` takes the same keys as the configuration file, flat: {"limits.max_files": 100}. Raises a
    BlizzardError: ConfigError, Refused, Fenced, BadData or Temporary, each with a stable `kind`; what was committed
    before it is committed.
    """
    given = dict(options or {}) | {"source.path": source, "table.path": table}
    if isinstance(schema, str):
        given["schema.ddl"], schema = schema, None
    if infer:
        given["schema.infer"] = True
    request = make_request(make_config(given), lambda: spark, settings_of(spark))
    job = make_job(
        request.config,
        pipeline=pipeline,
        start_from=start_from,
        adopts=adopt,
        reads_again=reads_again,
        max_batches=max_batches,
        schema=schema,
        spark_settings=request.spark_settings,
        session=request.session,
    )
    with told_if_gone():
        return run_job(lambda: spark, job, Summary(), progress=progress)


def status(
    table: str,
    *,
    source: str | None = None,
    pattern: str | None = None,
    explain: bool = False,
    options: Mapping[str, Any] | None = None,
) -> TableStatus:
    """Which pipelines write to a table, where each stands, and how a start would recover. Changes nothing.

    `options` takes the keys of the configuration file, such as `storage_options.AWS_REGION`.
    """
    given = {"source.path": source, "source.pattern": pattern, "table.path": table}
    config = make_config(dict(options or {}) | {key: value for key, value in given.items() if value is not None})
    with session_for(config) as session:
        return table_status(request_for(config, session), explain=explain)


def table_status(request: Request, *, explain: bool = False) -> TableStatus:
    config = request.config
    location = request.source_location() if config.source.path is not None else None
    table = request.open_table()
    return read_status(
        table,
        uri=show_uri(table.root),
        scan_commits=config.checkpoint.scan_commits,
        source=location.identity if location else None,
        listed=ListedSource(location=location, min_age_s=config.source.min_age_s or 0).look(EVERYTHING)
        if location
        else None,
        late=config.late_policy,
        quarantine=request.quarantine(SilentProgress()),
        explain=explain,
    )


def preview(job: Job, *, slots: int, progress: Progress | None = None) -> dict[str, Any]:
    """What a run would do first, found out by the same steps, changing nothing."""
    progress = progress or SilentProgress()
    quarantine = job.quarantine(progress)
    quarantine.open()
    shown: dict[str, Any] = {"pipeline": job.pipeline, "table": show_uri(job.table_root)}
    layout = _layout_to_write(job, open_for_writing(job), progress)
    if layout is None:
        return shown | plan_nothing(job.source.look(EVERYTHING))
    ports = Ports(
        source=job.source,
        place=job.place(layout),
        quarantine=quarantine,
        ingestor=NothingRead(slots=slots, schema_fingerprint=fingerprint(layout.schema)),
        background=ThreadBackground(),
        clock=SystemClock(),
        progress=progress,
        stop=NeverStop(),
    )
    return shown | plan_run(ports, run_settings(job, run_id="plan"))
