"""The Python API: the same run as the command line's, with typed exceptions instead of exit codes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.config import Config, make_config
from blizzard.core.plan import count_backlog, is_drained, plan_batch
from blizzard.core.recover import Refuse, StartFrom, check_in_progress, decide_recovery
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.delta.quarantine import DeltaRsQuarantine
from blizzard.delta.table import DeltaRsPlace, DeltaRsTable
from blizzard.dlq import purge_older
from blizzard.errors import ConfigError, SchemaError
from blizzard.inferring import infer_from_source
from blizzard.inflight import ThreadBackground
from blizzard.inspection import TableStatus, read_status
from blizzard.pipeline import run_pipeline
from blizzard.ports import Ports, Progress, StopRequest
from blizzard.preparing import (
    check_given_schema,
    job_spec,
    layout_of_new_table,
    layout_of_table,
    parse_policy,
    with_rescued_column,
)
from blizzard.progress import SilentProgress
from blizzard.schema import DeltaSchema
from blizzard.schema.hints import parse_hints
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.source.listing import list_source
from blizzard.source.uri import SourceLocation, default_pipeline, file_uri, local_path, locate_source
from blizzard.starting import RunSettings, check_start_from
from blizzard.stopping import NeverStop
from blizzard.summary import Summary
from blizzard.tasks.job import SparkIngestor
from blizzard.tasks.stats import DEFAULT_INDEXED_COLUMNS
from blizzard.tasks.task import JobSpec

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    location: SourceLocation

    @property
    def identity(self) -> SourceIdentity:
        return self.location.identity

    def list(self) -> Sequence[SourceFile]:
        return list_source(self.location)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A validated request to ingest: where from, where to, under which name."""

    config: Config
    source: LocalSource
    table_root: str
    pipeline: str
    start_from: StartFrom | None
    schema: DeltaSchema | None  # as the user gave it, or for a new table as inferred
    max_batches: int | None = None
    accepts_quarantine_loss: bool = False

    def place(self, layout: TableLayout | None = None) -> DeltaRsPlace:
        """`layout` is for making the table."""
        return DeltaRsPlace(
            root=self.table_root,
            schema=layout.schema if layout else None,
            partition_by=layout.partition_by if layout else (),
            clock=SystemClock(),
        )

    @property
    def quarantine_root(self) -> str:
        given = self.config["quarantine.path"]
        if given is None:
            return self.table_root + "_quarantine"
        root = local_path(given, what="quarantine table")
        if os.path.commonpath([root, self.table_root]) in (root, self.table_root):
            raise ConfigError(
                f"quarantine.path {root} and the table {self.table_root}: neither may be in the other, since a VACUUM"
                f" of the outer one deletes the files of the inner. Choose another quarantine.path.",
                kind="usage",
            )
        return root

    def spec(self, layout: TableLayout, *, run_id: str, table: DeltaRsTable | None) -> JobSpec:
        return job_spec(
            self.config,
            source_root=self.source.location.root,
            table_root=self.table_root,
            quarantine_root=self.quarantine_root,
            layout=layout,
            indexed_columns=table.indexed_columns if table is not None else DEFAULT_INDEXED_COLUMNS,
            pipeline=self.pipeline,
            run_id=run_id,
        )

    def quarantine(self, progress: Progress) -> DeltaRsQuarantine:
        return DeltaRsQuarantine(
            root=self.quarantine_root,
            clock=SystemClock(),
            progress=progress,
            accepts_loss=self.accepts_quarantine_loss,
        )


def make_job(
    config: Config,
    *,
    pipeline: str | None = None,
    start_from: str | None = None,
    max_batches: int | None = None,
    schema: Any = None,
    accepts_quarantine_loss: bool = False,
) -> Job:
    """`schema` is one that the configuration cannot hold: whatever object `load_schema` takes."""
    location = locate_source(config.require("source.path", "--source"), config["source.pattern"])
    name = pipeline or default_pipeline(location.identity)
    if not _PIPELINE_NAME.fullmatch(name):
        raise ConfigError(f"pipeline name {name!r}: letters, digits, '_', '.' and '-' only, at most 100", kind="usage")
    if max_batches is not None and max_batches < 1:
        raise ConfigError("--max-batches must be at least 1", kind="usage")
    return Job(
        config=config,
        source=LocalSource(location=location),
        table_root=_table_root(config.require("table.path", "--table")),
        pipeline=name,
        start_from=parse_start_from(start_from, location),
        schema=_given_schema(config, schema),
        max_batches=max_batches,
        accepts_quarantine_loss=accepts_quarantine_loss,
    )


def _given_schema(config: Config, schema: Any) -> DeltaSchema | None:
    parse_hints(config["schema.hints"])  # a mistake in them is better known before the sample is read
    text = config["schema.ddl"] or config["schema.file"]
    if schema is not None and text is not None:
        raise ConfigError("the schema is given twice, as an object and by schema.ddl or schema.file", kind="usage")
    given = text if schema is None else schema
    if given is not None and (config["schema.infer"] or config["schema.hints"] is not None):
        raise ConfigError("give a schema, or --infer and --hints (schema.infer, schema.hints), not both", kind="usage")
    return None if given is None else load_schema(given)


def _table_root(uri: str) -> str:
    path = local_path(uri, what="table")
    if re.search(r"%[0-9A-Fa-f]{2}", path):
        raise ConfigError(f"the table path {path} holds a percent escape, which delta-rs cannot open", kind="usage")
    return path


def parse_start_from(text: str | None, location: SourceLocation) -> StartFrom | None:
    if text is None:
        return None
    start = StartFrom.parse(text)
    if start is None:
        raise ConfigError(f"--start-from takes 'beginning' or 'after:NAME', not {text!r}", kind="usage")
    if start.after is None:
        return start
    name = start.after
    # A path or URI is what a person has at hand; positions hold the name below the root.
    path = local_path(name, what="--start-from name")
    if path.startswith(location.root + os.sep) and (os.path.exists(path) or name.startswith(("file:", os.sep))):
        name = os.path.relpath(path, location.root)
    return StartFrom(after=name)


def open_for_writing(job: Job) -> DeltaRsTable | None:
    """The table, if there is one and it can be appended to under the given schema and layout."""
    table = job.place().open()
    if table is None:
        return None
    table.check_writable()
    check_given_schema(job.schema, layout_of_table(job.config, table), job.config)
    return table


class SchemaMissing(SchemaError):
    """A new table was asked for without a schema. `ddl` is what a sample of the records suggests."""

    kind = "schema_missing"

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
) -> Summary:
    """Drain the source. The summary is filled in even when this raises. `session` is asked for only when there is work,
    `begin_session` as soon as that is known."""
    summary.pipeline, summary.table = job.pipeline, file_uri(job.table_root)
    started, run_id, config = time.monotonic(), os.urandom(6).hex(), job.config
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
        ingestor=SparkIngestor(session, spec, slots=config["spark.slots"], begin_session=begin_session),
        background=background,
        clock=SystemClock(),
        progress=progress,
        stop=stop,
    )
    settings = RunSettings(
        pipeline=job.pipeline,
        run_id=run_id,
        limits=config.limits,
        bad=config.bad_policy,
        max_quarantined=config["quarantine.max_records"],
        rejects_overflow=config["quarantine.overflow"] == "reject",
        scan_commits=config["checkpoint.scan_commits"],
        start_from=job.start_from,
        max_batches=job.max_batches,
        max_inflight=config["limits.max_inflight"],
    )
    try:
        run_pipeline(ports, settings, summary)
        if config["quarantine.keep_days"] is not None:
            purge_older(job.quarantine_root, config["quarantine.keep_days"], ports.clock)
        summary.status = "stopped" if stop.requested() else "done" if summary.commits else "idle"
    finally:
        background.close()
        summary.seconds = time.monotonic() - started
    return summary


def _layout_to_write(job: Job, table: DeltaRsTable | None, progress: Progress) -> TableLayout | None:
    """The table's layout, or that of the new one. None: there is no record to write."""
    if table is not None:
        return layout_of_table(job.config, table)
    schema = job.schema or _inferred_schema(job, progress)
    return None if schema is None else layout_of_new_table(job.config, schema)


def _inferred_schema(job: Job, progress: Progress) -> DeltaSchema | None:
    """Raises with the inferred schema as a suggestion where none was asked for. None: there is no record."""
    inferred = infer_from_source(job.source.location, job.source.list(), job.config, progress)
    if inferred is None:
        return None
    if not job.config["schema.infer"]:
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
    max_batches: int | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Append every new record of `source` to `table`, exactly once, and say what was done.

    `schema` is that of a new table: DDL or Spark's JSON as text or in a file, a dict in Delta's form, a pyspark
    StructType, or a pyarrow Schema. With `infer` a new table gets the schema that a sample of the records suggests.
    `options` takes the same keys as the configuration file, flat: {"limits.max_files": 100}. Raises a
    BlizzardError: ConfigError, Refused, Fenced, BadData or Temporary, each with a stable `kind`; what was committed
    before it is committed.
    """
    given = dict(options or {}) | {"source.path": source, "table.path": table}
    if isinstance(schema, str):
        given["schema.ddl"], schema = schema, None
    if infer:
        given["schema.infer"] = True
    job = make_job(make_config(given), pipeline=pipeline, start_from=start_from, max_batches=max_batches, schema=schema)
    return run_job(lambda: spark, job, Summary(), progress=progress)


def status(
    table: str,
    *,
    source: str | None = None,
    pattern: str | None = None,
    scan_commits: int = 100,
    explain: bool = False,
) -> TableStatus:
    """Which pipelines write to a table, where each stands, and how a start would recover. Changes nothing."""
    location = locate_source(source, pattern) if source is not None else None
    return read_status(
        open_existing(table),
        uri=file_uri(local_path(table, what="table")),
        scan_commits=scan_commits,
        source=location.identity if location else None,
        listing=list_source(location) if location else None,
        explain=explain,
    )


def open_existing(uri: str) -> DeltaRsTable:
    root = local_path(uri, what="table")
    table = DeltaRsPlace(root=root, schema=None, clock=SystemClock()).open()
    if table is None:
        raise ConfigError(f"there is no Delta table at {root}", kind="table_not_found")
    return table


def preview(job: Job, *, slots: int, progress: Progress | None = None) -> dict[str, Any]:
    """What a run would do first, decided by the same functions, changing nothing."""
    listing = job.source.list()
    table = open_for_writing(job)
    _layout_to_write(job, table, progress or SilentProgress())
    check_start_from(job.start_from, listing)
    scan_commits = job.config["checkpoint.scan_commits"]
    facts = table.observe(job.pipeline, scan_commits=scan_commits) if table is not None else None
    recovery = decide_recovery(facts, pipeline=job.pipeline, source=job.source.identity, start_from=job.start_from)
    shown: dict[str, Any] = {
        "pipeline": job.pipeline,
        "table": file_uri(job.table_root),
        "recovery": recovery.path,
    }
    if isinstance(recovery, Refuse):
        return shown | {"error_kind": recovery.kind, "error": recovery.message}
    changed = check_in_progress(recovery.source_state, listing)
    if changed is not None:
        return shown | {"error_kind": changed.kind, "error": changed.message}
    drained = is_drained(recovery.source_state, listing)
    plan = None if drained else plan_batch(recovery.source_state, listing, job.config.limits, slots=slots)
    files, stored_bytes = count_backlog(recovery.source_state, listing)
    return shown | {
        "creates_table": table is None and plan is not None,
        "mark": recovery.source_state.last_committed_file,
        "backlog_files": files,
        "backlog_bytes": stored_bytes,
        "first_batch": [
            {"slot": t.slot, "path": s.path, "from_record": s.from_record, "size": s.size_bytes}
            for t in (plan.tasks if plan else ())
            for s in t.slices
        ],
    }
