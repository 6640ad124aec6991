"""A validated request to ingest: where from, where to, under which name, and how to get there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from blizzard.cleaning import Cleaning
from blizzard.config import Config
from blizzard.core.late import EVERYTHING, Scope
from blizzard.core.look import Listed
from blizzard.core.recover import StartFrom
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.quarantine import DeltaRsQuarantine
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.ports import Progress
from blizzard.preparing import check_given_schema, job_spec, layout_of_table
from blizzard.schema import DeltaSchema
from blizzard.schema.hints import parse_hints
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.source.listing import find_young, list_source
from blizzard.source.uri import SourceLocation, default_pipeline, locate_source
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.uri import is_local, locate
from blizzard.tasks.stats import DEFAULT_INDEXED_COLUMNS
from blizzard.tasks.task import JobSpec

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


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
        return Listed(files=files, at_ms=at_ms, is_full=is_full, held=find_young(files, at_ms, self.min_age_s))

    def now_ms(self) -> int:
        return self.location.store.now_ms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A validated request to ingest: where from, where to, under which name."""

    config: Config
    source: ListedSource
    table_root: str
    pipeline: str
    start_from: StartFrom | None
    schema: DeltaSchema | None  # as the user gave it, or for a new table as inferred
    table_access: Access = NO_ACCESS
    session: Callable[[], Any] | None = field(default=None, repr=False)  # for a committer that needs one
    max_batches: int | None = None
    accepts_quarantine_loss: bool = False

    def place(self, layout: TableLayout | None = None) -> DeltaRsPlace:
        """`layout` is for making the table."""
        return make_place(
            self.config,
            self.table_root,
            self.table_access,
            self.session,
            schema=layout.schema if layout else None,
            partition_by=layout.partition_by if layout else (),
        )

    def open_table(self) -> DeltaRsTable:
        """The table as the job's committer opens it; raises where there is none."""
        return _require_table(self.place())

    @property
    def quarantine_root(self) -> str:
        return quarantine_root(self.config, self.table_root)

    def spec(self, layout: TableLayout, *, run_id: str, table: DeltaRsTable | None) -> JobSpec:
        return job_spec(
            self.config,
            source=self.source.location,
            table_access=self.table_access,
            table_root=self.table_root,
            quarantine_root=self.quarantine_root,
            layout=layout,
            indexed_columns=table.indexed_columns if table is not None else DEFAULT_INDEXED_COLUMNS,
            pipeline=self.pipeline,
            run_id=run_id,
        )

    @property
    def cleaning(self) -> Cleaning | None:
        """What is done with source files that are ingested; None: nothing."""
        action, given = self.config["after_ingest.action"], self.config["after_ingest.archive_path"]
        if (given is not None) != (action == "archive"):
            raise ConfigError("after_ingest.archive_path goes with after_ingest.action archive", kind="usage")
        if action == "none":
            return None
        location = self.source.location
        archive = None
        if given is not None:
            root = locate(given, what="archive")
            inside = root.removeprefix(location.root + "/")
            if root == location.root or (inside != root and not inside.startswith(("_", "."))):
                raise ConfigError(
                    f"after_ingest.archive_path {root} is in the source, where its files would be read again. Choose"
                    f" another, or one whose first folder begins with _.",
                    kind="usage",
                )
            if _kind(root) != _kind(location.root):
                raise ConfigError(
                    "after_ingest.archive_path must be in the same kind of store as the source", kind="usage"
                )
            archive = open_store(root, location.access)
        return Cleaning(source=location.store, archive=archive, keep_ms=self.config["after_ingest.keep_s"] * 1000)

    def quarantine(self, progress: Progress) -> DeltaRsQuarantine:
        return DeltaRsQuarantine(
            root=self.quarantine_root,
            clock=SystemClock(),
            progress=progress,
            accepts_loss=self.accepts_quarantine_loss,
            access=self.table_access,
        )


def quarantine_root(config: Config, table_root: str) -> str:
    given = config["quarantine.path"]
    if given is None:
        return table_root + "_quarantine"
    root = locate(given, what="quarantine table")
    if f"{root}/".startswith(f"{table_root}/") or f"{table_root}/".startswith(f"{root}/"):
        raise ConfigError(
            f"quarantine.path {root} and the table {table_root}: neither may be in the other, since a VACUUM of the"
            f" outer one deletes the files of the inner. Choose another quarantine.path.",
            kind="usage",
        )
    return root


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
    spark_settings: Mapping[str, str] | None = None,
    session: Callable[[], Any] | None = None,
) -> Job:
    """`schema` is one that the configuration cannot hold: whatever object `load_schema` takes. `spark_settings` are
    those of a session that runs already; they may say how to get to S3."""
    location = source_location(config, spark_settings)
    table_root = _table_root(config.require("table.path", "--table"))
    name = pipeline or default_pipeline(location.identity)
    if not _PIPELINE_NAME.fullmatch(name):
        raise ConfigError(f"pipeline name {name!r}: letters, digits, '_', '.' and '-' only, at most 100", kind="usage")
    if config["source.marks_per"] is not None and (adopts or (start_from or "beginning") != "beginning"):
        raise ConfigError(
            "with source.marks_per a pipeline begins at the beginning: there is no one mark to begin after",
            kind="usage",
        )
    if adopts and start_from is not None:
        raise ConfigError("--adopt and --start-from: give one of them", kind="usage")
    if max_batches is not None and max_batches < 1:
        raise ConfigError("--max-batches must be at least 1", kind="usage")
    return Job(
        config=config,
        source=ListedSource(location=location, min_age_s=config["source.min_age_s"] or 0),
        table_root=table_root,
        table_access=config.access("table", table_root, spark_settings),
        pipeline=name,
        start_from=StartFrom(adopts=True) if adopts else parse_start_from(start_from, location),
        schema=_given_schema(config, schema),
        session=session,
        max_batches=max_batches,
        accepts_quarantine_loss=accepts_quarantine_loss,
    )


def make_place(
    config: Config, root: str, access: Access, session: Callable[[], Any] | None, **new_table: Any
) -> DeltaRsPlace:
    """Where the table is, for the committer that the configuration names."""
    made = {"schema": None} | new_table
    if config["table.committer"] == "delta-rs":
        return DeltaRsPlace(root=root, clock=SystemClock(), access=access, **made)
    from blizzard.delta.spark_place import DeltaSparkPlace

    if session is None:
        raise ConfigError("the delta-spark committer needs a Spark session", kind="usage")
    return DeltaSparkPlace(
        root=root,
        clock=SystemClock(),
        access=access,
        session=session,
        is_sole_writer=config["table.sole_writer"],
        **made,
    )


def _require_table(place: DeltaRsPlace) -> DeltaRsTable:
    table = place.open()
    if table is None:
        raise ConfigError(f"there is no Delta table at {place.root}", kind="table_not_found")
    return table


def with_table_path(config: Config, session: Callable[[], Any]) -> Config:
    """With the path of a table that was given by its name in the session's catalog."""
    name = config["table.path"]
    if name is None:
        return config
    if config["table.committer"] != "delta-spark":
        if name.startswith("catalog:"):
            raise ConfigError("a table by its catalog name needs the committer delta-spark", kind="usage")
        return config
    from blizzard.delta.spark_place import is_catalog_name, resolve_name

    if not is_catalog_name(name):
        return config
    return replace(config, values={**config.values, "table.path": resolve_name(session(), name)})


def source_location(config: Config, spark_settings: Mapping[str, str] | None = None) -> SourceLocation:
    source = config.require("source.path", "--source")
    access = config.access("source", locate(source, what="source"), spark_settings)
    return locate_source(source, config["source.pattern"], access, marks_per=config["source.marks_per"])


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
    path = locate(uri, what="table")
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
    path = locate(name, what="--start-from name")
    is_whole = "://" in name or name.startswith(("file:", "/"))
    if path.startswith(location.root + "/") and (is_whole or (is_local(path) and os.path.exists(path))):
        name = path.removeprefix(location.root + "/")
    return StartFrom(after=name)


def open_for_writing(job: Job) -> DeltaRsTable | None:
    """The table, if there is one and it can be appended to under the given schema and layout."""
    table = job.place().open()
    if table is None:
        return None
    table.check_writable()
    check_given_schema(job.schema, layout_of_table(job.config, table), job.config)
    return table


def open_existing(config: Config) -> DeltaRsTable:
    """For looking at it: whoever commits to it, its log is read the same way."""
    root = locate(config.require("table.path", "--table"), what="table")
    access = config.access("table", root)
    return _require_table(DeltaRsPlace(root=root, schema=None, clock=SystemClock(), access=access))


def open_for_commit(config: Config, session: Callable[[], Any]) -> DeltaRsTable:
    root = locate(config.require("table.path", "--table"), what="table")
    return _require_table(make_place(config, root, config.access("table", root), session))
