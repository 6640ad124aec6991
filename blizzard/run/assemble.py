"""A validated request to ingest: where from, where to, under which name, and how to get there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.config.load import Config
from blizzard.config.request import Request
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING, Scope
from blizzard.core.look import Listed
from blizzard.core.readers import readers_of
from blizzard.core.recover import StartFrom
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.after_ingest import Cleaning
from blizzard.run.clock import SystemClock
from blizzard.run.ports import Progress
from blizzard.run.preparing import check_given_schema, job_spec, layout_of_table
from blizzard.schema import DeltaSchema
from blizzard.schema.hints import parse_hints
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.source.listing import find_young, list_source
from blizzard.source.uri import SourceLocation, default_pipeline
from blizzard.store import aside, open_store
from blizzard.store.access import Access
from blizzard.store.uri import is_local, join, lies_in, locate, name_below
from blizzard.tasks.stats import DEFAULT_INDEXED_COLUMNS
from blizzard.tasks.task import JobSpec

__all__ = [
    "Job",
    "ListedSource",
    "SystemClock",
    "make_job",
    "open_existing",
    "open_for_writing",
    "parse_start_from",
]

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSource:
    location: SourceLocation
    min_age_s: float = 0

    @property
    def identity(self) -> SourceIdentity:
        return self.location.identity

    def list(self) -> Sequence[SourceFile]:
        return list_source(self.location)

    def look(self, scope: Scope) -> Listed:
        at_ms = self.now_ms()
        is_full = scope.is_full or is_local(self.location.root)  # a folder is read whole in any case
        files = list_source(self.location, EVERYTHING if is_full else scope)
        held = find_young(files, at_ms, self.min_age_s)
        return Listed(files=files, at_ms=at_ms, is_full=is_full, held=held, asides=files.asides)

    def finish_asides(self, names: Sequence[str]) -> Sequence[str]:
        return [said for name in names if (said := aside.finish(join(self.location.root, name))) is not None]

    def now_ms(self) -> int:
        return self.location.store.now_ms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A validated request to ingest: where from, where to, under which name."""

    request: Request
    source: ListedSource
    pipeline: str
    start_from: StartFrom | None
    schema: DeltaSchema | None  # as the user gave it, or for a new table as inferred
    max_batches: int | None = None
    accepts_quarantine_loss: bool = False
    reads_again: bool = False

    @property
    def config(self) -> Config:
        return self.request.config

    @property
    def table_root(self) -> str:
        return self.request.table_root

    @property
    def table_access(self) -> Access:
        return self.request.table_access

    @property
    def quarantine_root(self) -> str:
        return self.request.quarantine_root

    def place(self, layout: TableLayout | None = None) -> DeltaRsPlace:
        """`layout` is for making the table."""
        return self.request.place(layout)

    def open_table(self) -> DeltaRsTable:
        """The table as the job's committer opens it; raises where there is none."""
        return self.request.open_for_commit()

    def spec(self, layout: TableLayout, *, run_id: str, table: DeltaRsTable | None) -> JobSpec:
        return job_spec(
            self.request,
            source=self.source.location,
            layout=layout,
            indexed_columns=table.indexed_columns if table is not None else DEFAULT_INDEXED_COLUMNS,
            pipeline=self.pipeline,
            run_id=run_id,
        )

    @property
    def cleaning(self) -> Cleaning | None:
        """What is done with source files that are ingested; None: nothing."""
        action, given = self.config.after_ingest.action, self.config.after_ingest.archive_path
        if (given is not None) != (action == "archive"):
            raise ConfigError("after_ingest.archive_path goes with after_ingest.action archive", kind=Kind.USAGE)
        if action == "none":
            return None
        location = self.source.location
        archive = None
        if given is not None:
            root = locate(given, what="archive")
            check_archive(root, source=location.root, table=self.table_root, quarantine=self.quarantine_root)
            if _kind(root) != _kind(location.root):
                raise ConfigError(
                    "after_ingest.archive_path must be in the same kind of store as the source", kind=Kind.USAGE
                )
            archive = open_store(root, location.access)
        return Cleaning(source=location, archive=archive, keep_ms=self.config.after_ingest.keep_s * 1000)

    def quarantine(self, progress: Progress) -> DeltaRsQuarantine:
        return self.request.quarantine(progress, accepts_loss=self.accepts_quarantine_loss)


def check_archive(root: str, *, source: str, table: str, quarantine: str) -> None:
    """Raises where an archive there would be deleted, or read again."""
    for what, other in ("table", table), ("quarantine", quarantine):
        if lies_in(root, other) or lies_in(other, root):
            raise ConfigError(
                f"after_ingest.archive_path {root} and the {what} {other}: neither may be in the other, since a VACUUM"
                f" of the {what} deletes what it does not know. Choose another after_ingest.archive_path.",
                kind=Kind.USAGE,
            )
    inside = name_below(root, source)
    if lies_in(source, root) or (inside is not None and not inside.startswith(("_", "."))):
        raise ConfigError(
            f"after_ingest.archive_path {root} and the source {source}: neither may be in the other, where its files"
            f" would be read again. Choose another, or a folder of the source whose name begins with _.",
            kind=Kind.USAGE,
        )


def _check_source_place(job: Job) -> None:
    """For a new table. VACUUM leaves folders alone whose names begin with _ or a dot."""
    for what, root in ("table", job.table_root), ("quarantine", job.quarantine_root):
        inside = name_below(job.source.location.root, root)
        if lies_in(job.source.location.root, root) and not (inside or "").startswith(("_", ".")):
            raise ConfigError(
                f"the source {job.source.location.root} is in the {what} {root}: a VACUUM of it would delete source"
                f" files before they are read. Choose another {what}, or another source.",
                kind=Kind.USAGE,
            )


def _kind(root: str) -> str:
    return "file" if is_local(root) else root.split(":", 1)[0]


def make_job(
    config: Config,
    *,
    pipeline: str | None = None,
    start_from: str | None = None,
    adopts: bool = False,
    max_batches: int | None = None,
    schema: Any = None,
    accepts_quarantine_loss: bool = False,
    reads_again: bool = False,
    spark_settings: Mapping[str, str] | None = None,
    session: Callable[[], Any] | None = None,
) -> Job:
    """`schema` is one that the configuration cannot hold: whatever object `load_schema` takes."""
    request = Request(config=config, session=session, spark_settings=spark_settings or {})
    location = request.source_location()
    _ = request.table_root, request.quarantine_root  # a place that cannot be used is better known now
    if pipeline is not None and not _PIPELINE_NAME.fullmatch(pipeline):
        raise ConfigError(
            f"pipeline name {pipeline!r}: letters, digits, '_', '.' and '-' only, at most 100", kind=Kind.USAGE
        )
    if config.source.marks_per is not None and (adopts or (start_from or "beginning") != "beginning"):
        raise ConfigError(
            "with source.marks_per a pipeline begins at the beginning: there is no one mark to begin after",
            kind=Kind.USAGE,
        )
    if adopts and start_from is not None:
        raise ConfigError("--adopt and --start-from: give one of them", kind=Kind.USAGE)
    if max_batches is not None and max_batches < 1:
        raise ConfigError("--max-batches must be at least 1", kind=Kind.USAGE)
    return Job(
        request=request,
        source=ListedSource(location=location, min_age_s=config.source.min_age_s or 0),
        pipeline=pipeline or _find_pipeline(request, location),
        start_from=StartFrom(adopts=True) if adopts else parse_start_from(start_from, location),
        schema=_given_schema(config, schema),
        max_batches=max_batches,
        accepts_quarantine_loss=accepts_quarantine_loss,
        reads_again=reads_again,
    )


def _find_pipeline(request: Request, location: SourceLocation) -> str:
    """The pipeline of the table that reads this source, else the name that a new one gets. A folder that is renamed
    changes that name; the table knows better."""
    default = default_pipeline(location.identity)
    place = DeltaRsPlace(root=request.table_root, schema=None, clock=SystemClock(), access=request.table_access)
    table = place.open()
    if table is None or table.fence(default):
        return default
    readers = readers_of(table.standings(scan_commits=request.config.checkpoint.scan_commits), location.identity)
    if default in readers or not readers:
        return default
    if len(readers) > 1:
        raise Refused(
            f"{len(readers)} pipelines of this table read this source: {', '.join(readers)}. Say which one goes on:"
            f" --pipeline NAME.",
            kind=Kind.SEVERAL_PIPELINES,
        )
    return readers[0]


def _given_schema(config: Config, schema: Any) -> DeltaSchema | None:
    parse_hints(config.schema.hints)  # a mistake in them is better known before the sample is read
    text = config.schema.ddl or config.schema.file
    if schema is not None and text is not None:
        raise ConfigError("the schema is given twice, as an object and by schema.ddl or schema.file", kind=Kind.USAGE)
    given = text if schema is None else schema
    if given is not None and (config.schema.infer or config.schema.hints is not None):
        raise ConfigError(
            "give a schema, or --infer and --hints (schema.infer, schema.hints), not both", kind=Kind.USAGE
        )
    return None if given is None else load_schema(given)


def parse_start_from(text: str | None, location: SourceLocation) -> StartFrom | None:
    if text is None:
        return None
    start = StartFrom.parse(text)
    if start is None:
        raise ConfigError(f"--start-from takes 'beginning' or 'after:NAME', not {text!r}", kind=Kind.USAGE)
    if start.after is None:
        return start
    name = start.after
    # A path or URI is what a person has at hand; positions hold the name below the root.
    path = locate(name, what="--start-from name")
    is_whole = "://" in name or name.startswith(("file:", "/"))
    if path.startswith(location.root + "/") and (is_whole or (is_local(path) and os.path.exists(path))):
        name = path.removeprefix(location.root + "/")
    return StartFrom(after=name)


def open_for_writing(job: Job) -> DeltaRsTable | None:
    """The table, if there is one and it can be appended to under the given schema and layout."""
    table = job.place().open()
    if table is None:
        _check_source_place(job)
        return None
    table.check_writable()
    check_given_schema(job.schema, layout_of_table(job.config, table), job.config)
    return table


def open_existing(config: Config) -> DeltaRsTable:
    """For looking at it."""
    return Request(config=config).open_table()
