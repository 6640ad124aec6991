"""Step zero: makes the concrete parts for a request. Besides layouts.py, no other module of the spine names them.

Every command gets its table, quarantine, source and tasks here, so the same request always means the same parts. A
table is opened once and passed on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from blizzard import native
from blizzard.config.load import Config
from blizzard.config.places import check_source_place
from blizzard.config.request import Request, given_schema
from blizzard.core.bad import BadPolicy
from blizzard.core.clock import Clock
from blizzard.core.events import Emit, OfTarget, unheard
from blizzard.core.framing import framing_of_pipeline
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING
from blizzard.core.patterns import FIRST_DEFAULT
from blizzard.core.readers import is_meant, readers_of
from blizzard.core.trial import Trial
from blizzard.core.types import Slice, SourceFile
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BlizzardError, ConfigError, Refused
from blizzard.mirror import open_mirror
from blizzard.quarantine.contents import purge_older
from blizzard.quarantine.ingestor import QuarantineIngestor
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.after_ingest import Cleaning
from blizzard.run.clock import SystemClock
from blizzard.run.commit_queue import ThreadBackground
from blizzard.run.infer import InferredSchema, infer_from_sample
from blizzard.run.layouts import (
    check_given_schema,
    check_selected,
    check_transform,
    layout_of_new_table,
    layout_of_table,
    parse_policy,
)
from blizzard.run.mirror import MirrorThread, TableMirror
from blizzard.run.ports import Ingestor, Mirror, NoMirror, Ports, Reader, StopRequest
from blizzard.run.read import ReadsForOne
from blizzard.run.remarks import Remarks
from blizzard.run.settings import RunSettings
from blizzard.schema import DeltaSchema
from blizzard.schema.infer import InferenceSettings
from blizzard.schema.layout import TableLayout
from blizzard.schema.where import Where, parse_where
from blizzard.source.cleaning import SourceCleaner
from blizzard.source.listed import ListedSource
from blizzard.source.looked import LookedAt, Looks
from blizzard.source.sample import Sample
from blizzard.source.spread import sample_limits
from blizzard.source.uri import default_pipeline
from blizzard.store import open_store
from blizzard.tasks.dry_run import read_without_writing
from blizzard.tasks.policy import Unknown
from blizzard.tasks.records import read_undeclared
from blizzard.tasks.spec import Route, TaskSpec
from blizzard.tasks.stats import DEFAULT_INDEXED_COLUMNS
from blizzard.tasks.transform_code import Transform, make_transform

if TYPE_CHECKING:
    from blizzard.spark.ingestor import SparkIngestor
    from blizzard.spark.session import Session

NO_COLUMNS: DeltaSchema = {"type": "struct", "fields": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A table, opened once (None: there is none yet), and the pipeline that will write to it."""

    table: DeltaRsTable | None
    pipeline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """All targets of a pipeline: what none of them takes belongs to the first."""

    targets: Mapping[str, Assembly]  # by their names
    keeps_unrouted: bool  # in its quarantine; else it is only counted

    def all(self) -> tuple[Route, ...]:
        """Empty: one of them takes every record, so nothing is left."""
        if any(target.config.where is None for target in self.targets.values()):
            return ()
        return tuple(self._route(name) for name in self.targets)

    def _route(self, name: str) -> Route:
        """The first target asks for all of them, and must not take the mistake of another for its own."""
        try:
            return self.targets[name].route()
        except BlizzardError as e:
            if name == next(iter(self.targets)):
                raise
            whose = f"the condition of target {name} is needed to know which records are for no target"
            raise type(e)(f"{whose}: {e.args[0]}", kind=e.kind, further=e.further) from e


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts of a request. `session` may be None for commands that only look, or commit with delta-rs."""

    request: Request
    session: Session | None = None
    emit: Emit = unheard
    clock: Clock = field(default_factory=SystemClock)
    remarks: Remarks = field(default_factory=Remarks)
    looks: Looks | None = None  # of a run with several targets: they list the source once
    routes: Routes | None = None  # of the first target, or of the only table
    mirroring: MirrorThread = field(default_factory=MirrorThread)  # whoever makes the assembly finishes it

    @property
    def config(self) -> Config:
        return self.request.config

    @property
    def source(self) -> ListedSource | LookedAt:
        source = ListedSource(location=self.request.source_location, min_age_s=self.config.source.min_age_s or 0)
        return source if self.looks is None else self.looks.of(source)

    def sample(self, listing: Sequence[SourceFile]) -> Sample:
        config = self.config
        return Sample(
            source=self.request.source_location,
            listing=listing,
            compression=config.source.compression,
            encoding=config.source.encoding,
            framing=framing_of_pipeline(config.source.framing, None),
            max_record_bytes=config.limits.max_record_bytes,
            limits=sample_limits(config.schema.sample_records, config.schema.sample_files),
            parse=read_undeclared,
        )

    def infer(self, listing: Sequence[SourceFile]) -> InferredSchema | None:
        """The schema of a new table that a sample suggests; None if no file has a line."""
        parsing = parse_policy(self.config)
        settings = InferenceSettings(
            rename=parsing.rename,
            by_spark=self.config.table.committer == "delta-spark",
            exact_timestamps=parsing.exact_timestamps,
            formats=parsing.formats,
        )
        return infer_from_sample(
            self.sample(listing),
            self.config.schema.hints,
            self.emit,
            settings,
            reads_maps_slowly=self.config.parser not in ("auto", "native") or not native.is_available(),
        )

    @property
    def quarantine(self) -> DeltaRsQuarantine:
        return DeltaRsQuarantine(
            root=self.request.quarantine_root,
            clock=self.clock,
            emit=self.emit,
            accepts_loss=self.request.accepts_quarantine_loss,
            access=self.request.quarantine_access,
        )

    def place(self, layout: TableLayout | None = None) -> DeltaRsPlace:
        """The table's place, for the committer that the configuration names. `layout` is needed to make the table."""
        made: dict[str, Any] = {
            "root": self.request.table_root,
            "clock": self.clock,
            "access": self.request.table_access,
            "schema": layout.schema if layout else None,
            "partition_by": layout.partition_by if layout else (),
        }
        if self.config.table.committer == "delta-rs":
            return DeltaRsPlace(**made)
        from blizzard.delta.spark_place import DeltaSparkPlace

        if self.session is None:
            raise ConfigError("the delta-spark committer needs a Spark session", kind=Kind.USAGE)
        return DeltaSparkPlace(session=self.session.get, is_sole_writer=self.config.table.sole_writer, **made)

    def open_for_commit(self) -> DeltaRsTable:
        """The table as the committer opens it; raises where there is none."""
        return _require(self.place())

    def open_table(self) -> DeltaRsTable:
        """For looking at it, always with delta-rs: reading the log does not depend on the committer."""
        return _require(self._place_to_look)

    def find_table(self) -> DeltaRsTable | None:
        """For looking at it, if there is one."""
        return self._place_to_look.open()

    @property
    def _place_to_look(self) -> DeltaRsPlace:
        root, access = self.request.table_root, self.request.table_access
        return DeltaRsPlace(root=root, schema=None, clock=self.clock, access=access)

    def open(self) -> Opened:
        """The table, if there is one, as the committer opens it; and the pipeline that is meant. With several targets
        only the pipeline: each table is opened when its target begins, so that one that fails stops no other."""
        if self.config.targets:
            return Opened(table=None, pipeline=self.pipeline_of_targets())
        table = self.place().open()
        return Opened(table=table, pipeline=self.pipeline_of(table))

    def open_for(self, pipeline: str) -> Opened:
        """The same for a pipeline that is known already."""
        return Opened(table=None if self.config.targets else self.place().open(), pipeline=pipeline)

    def pipeline_of_targets(self) -> str:
        """All targets have one name: that of the first whose table knows a pipeline which reads this source."""
        if self.request.pipeline is not None:
            return self.request.pipeline
        unknown: Exception | None = None
        for target in self.targets().values():
            try:
                table = target.find_table()
                known = None if table is None else target._pipeline_known_to(table)
            except (BlizzardError, OSError) as e:
                unknown = unknown or e
                continue
            if known is not None:
                return known
        if unknown is not None:
            raise unknown  # it may know another name than the default
        return self.pipeline_of(None)

    def targets(self) -> dict[str, Assembly]:
        """The parts of each target by its name. Where there is one table, these, without a name."""
        if not self.config.targets:
            return {"": replace(self, routes=Routes(targets={"": self}, keeps_unrouted=self.config.keeps_unrouted))}
        looks = Looks()
        targets = {
            name: replace(
                self, request=request, emit=_of_target(name, self.emit), remarks=self.remarks.of(name), looks=looks
            )
            for name, request in self.request.of_targets().items()
        }
        first = next(iter(targets))
        routes = Routes(targets=targets, keeps_unrouted=self.config.keeps_unrouted)
        return targets | {first: replace(targets[first], routes=routes)}

    def where(self, schema: DeltaSchema, reserved: Collection[str] = ()) -> Where | None:
        """Which records are for this table; None: all. `schema` is what is read from them, `reserved` are the table's
        other columns."""
        return None if self.config.where is None else parse_where(self.config.where, schema, reserved=reserved)

    def route(self) -> Route:
        """The same, by the schema that the table has or will have, as far as that can be known now."""
        if self.config.where is None:
            return Route(where=None, parsing=parse_policy(self.config))
        schema = self._known_schema()
        return Route(where=self.where(schema), parsing=parse_policy(self.config, schema))

    def _known_schema(self) -> DeltaSchema:
        """If the table cannot be opened, a schema that was given may stand for it, and its target says what is wrong
        when it begins. One inferred from files may not: it could judge a record otherwise than the table will."""
        given = self.request.schema
        try:
            if (table := self.find_table()) is not None:
                return self.record_schema(layout_of_table(self.config, table))
        except (BlizzardError, OSError):
            if given is None:
                raise
        if given is not None:
            return given if self.request.transforms else layout_of_new_table(self.config, given).record_schema
        inferred = self.infer(self.source.look(EVERYTHING).files)
        return NO_COLUMNS if inferred is None else inferred.schema

    def check_for_writing(self, table: DeltaRsTable | None) -> None:
        """Raises if the table cannot be appended to with the given schema and layout, or cannot be made."""
        parse_policy(self.config)  # report a mistake before anything is read
        request = self.request
        check_source_place(
            request.source_location.root,
            table=request.table_root,
            quarantine=request.quarantine_root,
            is_new=table is None,
        )
        if table is None:
            return
        table.check_writable()
        layout = layout_of_table(self.config, table)
        check_selected(self.config, layout)
        if self.request.transforms:
            check_transform(self.transform, layout)
        else:
            check_given_schema(self.request.schema, layout, self.config)

    def pipeline_of(self, table: DeltaRsTable | None) -> str:
        """The given name; else the pipeline of the table that reads this source; else the default name for a new one.
        The default comes from the folder's name: if the folder is renamed, only the table knows the old one."""
        if self.request.pipeline is not None:
            return self.request.pipeline
        known = None if table is None else self._pipeline_known_to(table)
        return known or default_pipeline(self.request.source_location.identity)

    def _pipeline_known_to(self, table: DeltaRsTable) -> str | None:
        """The pipeline of the table that reads this source; None: there is none."""
        location = self.request.source_location
        source, default = location.identity, default_pipeline(location.identity)
        if table.fence(default):
            return default
        standings = table.standings(scan_commits=self.config.checkpoint.scan_commits)
        readers = readers_of(standings, source, by_default=location.by_default)
        if default in readers or not readers:
            return default if readers else None
        if len(readers) > 1:
            raise Refused(
                f"{len(readers)} pipelines of this table read this source: {', '.join(readers)}. Say which one goes on:"
                f" --pipeline NAME.",
                kind=Kind.SEVERAL_PIPELINES,
            )
        return readers[0]

    def on(self, table: DeltaRsTable | None, pipeline: str) -> Assembly:
        """The same parts, with the source as the position of this pipeline has it: without a given pattern it goes on
        with the default that it began with, and a date that it began at stays."""
        location = self.request.source_location
        position = None if table is None else table.newest_position(pipeline)
        identity = location.identity
        if position is not None and is_meant(position.source, identity, location.by_default):
            identity = replace(identity, pattern=position.source.pattern)
        start = self.request.start_from
        if start is None and position is None and (table is None or not table.fence(pipeline)):
            start = self.request.start_key
        if position is None and start is not None and start.adopts and location.by_default:
            # The mark of the other program has passed no file that only the wider default takes.
            identity = replace(identity, pattern=FIRST_DEFAULT)
        begun_ms = start.since_ms if start is not None else None
        since_ms = begun_ms if position is None else position.begun.since_ms
        reads = location.reading(identity, since_ms)
        return replace(self, request=replace(self.request, pipeline=pipeline, reads=reads, start_from=start))

    @property
    def cleaning(self) -> Cleaning | None:
        """How ingested source files are archived or deleted; None: they stay."""
        archive = self.request.archive_root
        if self.config.after_ingest.action == "none":
            return None
        location = self.request.source_location
        kept_in = None if archive is None else open_store(archive, location.access)
        cleaner = SourceCleaner(source=location, archive=kept_in)
        return Cleaning(cleaner=cleaner, keep_ms=self.config.after_ingest.keep_s * 1000)

    def purge_expired(self, pipeline: str, table_id: str) -> None:
        """Delete records that have been in quarantine longer than the configuration allows."""
        days = self.config.quarantine.keep_days
        if days is not None:
            purge_older(self.quarantine, days, pipeline=pipeline, table_id=table_id)

    @property
    def mirror(self) -> Mirror:
        """What follows the positions of this table. Raises if the configuration names a place that cannot be used."""
        root = self.request.mirror_root
        if root is None:
            return NoMirror()
        return TableMirror(
            thread=self.mirroring,
            place=open_mirror(root, self.request.mirror_access(root)),
            table=self.request.table_shown,
            keep=self.config.checkpoint.mirror_keep,
            read_log=lambda: self.open_table().scan_back(),
            emit=self.emit,
        )

    @property
    def transform(self) -> Transform | None:
        """What becomes of the records. None: nothing, or it is not known what is read from them."""
        request, keys = self.request, self.config.transform
        if not request.transforms or request.schema is None:
            return None
        return make_transform(request.schema, sql=keys.sql, python=keys.python, function=request.transform)

    def record_schema(self, layout: TableLayout) -> DeltaSchema:
        """The schema that lines are parsed under."""
        if not self.request.transforms:
            return layout.record_schema
        return self.request.schema or given_schema(self.config) or layout.record_schema

    def task_spec(self, layout: TableLayout, *, pipeline: str, run_id: str, table: DeltaRsTable | None) -> TaskSpec:
        """What every task of a run gets."""
        config, request, routes = self.config, self.request, self.routes
        where = self.where(self.record_schema(layout), [column.name for column in layout.derived])
        is_asked = where is not None and routes is not None
        return TaskSpec(
            where=where,
            routes=routes.all() if is_asked and routes is not None else (),
            unrouted="quarantine" if routes is not None and routes.keeps_unrouted else "drop",
            source_root=request.source_location.root,
            source_access=request.source_location.access,
            table_access=request.table_access,
            quarantine_access=request.quarantine_access,
            compression=config.source.compression,
            encoding=config.source.encoding,
            table_root=request.table_root,
            layout=layout,
            pipeline=pipeline,
            run_id=run_id,
            target_file_bytes=config.table.target_file_bytes,
            codec=config.table.compression,
            max_record_bytes=config.limits.max_record_bytes,
            indexed_columns=table.indexed_columns if table is not None else DEFAULT_INDEXED_COLUMNS,
            quarantine_root=request.quarantine_root,
            parsing=parse_policy(config, self.record_schema(layout)),
            transform=self.transform,
            parser=config.parser,
            bad=config.bad_policy,
        ).with_schema(layout.schema)

    def try_out(self, spec: TaskSpec, slices: Sequence[Slice], *, max_records: int | None, rows: int = 0) -> Trial:
        """What tasks would make of these slices; nothing is written."""
        return read_without_writing(spec, slices, max_records=max_records, rows=rows)

    def replay_ingestor(self, spec: TaskSpec) -> QuarantineIngestor:
        """Records that fail again go back into quarantine, whatever the policy for a run is."""
        return QuarantineIngestor(replace(spec, bad=BadPolicy()), self.quarantine)

    def ingestor(self, spec: TaskSpec) -> Ingestor:
        from blizzard.spark.ingestor import SparkIngestor

        if self.session is None:
            raise ConfigError("a run needs a Spark session", kind=Kind.USAGE)
        return SparkIngestor(self.session, spec, slots=self.config.spark.slots, emit=self.emit)

    def reader(self, ingestors: Mapping[str, Ingestor]) -> Reader:
        """Reads for all targets at once. `ingestors` are filled in when the targets are prepared."""
        if not self.config.targets:
            return ReadsForOne(ingestors)
        from blizzard.spark.ingestor import SharedSparkReader

        return SharedSparkReader(cast("Mapping[str, SparkIngestor]", ingestors))

    def ports(
        self,
        layout: TableLayout,
        ingestor: Ingestor,
        *,
        stop: StopRequest,
        background: ThreadBackground,
        mirror: Mirror | None = None,
    ) -> Ports:
        return Ports(
            source=self.source,
            place=self.place(layout),
            quarantine=self.quarantine,
            ingestor=ingestor,
            background=background,
            clock=self.clock,
            stop=stop,
            emit=self.emit,
            remarks=self.remarks,
            mirror=mirror or NoMirror(),
        )

    def settings(self, *, pipeline: str, run_id: str, has_table: bool = False) -> RunSettings:
        config, parsing = self.config, parse_policy(self.config)
        return RunSettings(
            pipeline=pipeline,
            run_id=run_id,
            limits=config.batch_limits,
            bad=config.bad_policy,
            rename=parsing.rename,
            exact_timestamps=parsing.exact_timestamps,
            spark_adds_columns=config.table.committer == "delta-spark",
            ignores_undeclared=parsing.unknown is Unknown.IGNORE,
            settings_fingerprint=with_where(parsing.fingerprint, config.where),
            transform=None if self.transform is None else self.transform.fingerprint,
            framing=config.source.framing,
            max_quarantined=config.quarantine.max_records,
            overflow=config.quarantine.overflow,
            scan_commits=config.checkpoint.scan_commits,
            start_from=self.request.start_from,
            since_ms=self.request.source_location.since_ms,
            reads_again=self.request.reads_again,
            max_batches=self.request.max_batches,
            max_inflight=config.limits.max_inflight,
            max_held_files=config.limits.max_held_files,
            late=config.late_policy,
            cleaning=self.cleaning,
            parser=config.parser,
            native_here=native.is_available(),
            gives_schema=self.request.schema is not None,
            has_table=has_table,
        )


def _of_target(name: str, emit: Emit) -> Emit:
    return lambda event: emit(OfTarget(target=name, event=event))


def resolve_table(config: Config, session: Session) -> Config:
    """The configuration with the paths of tables that were given by their names in the session's catalog."""
    if config.targets:
        return replace(config, targets={name: resolve_table(one, session) for name, one in config.targets.items()})
    name = config.table.path
    if name is None:
        return config
    if config.table.committer != "delta-spark":
        if name.startswith("catalog:"):
            raise ConfigError("a table by its catalog name needs the committer delta-spark", kind=Kind.USAGE)
        return config
    from blizzard.delta.spark_place import is_catalog_name, resolve_name

    if not is_catalog_name(name):
        return config
    return replace(config, table=replace(config.table, path=resolve_name(session.get(), name)))


def _require(place: DeltaRsPlace) -> DeltaRsTable:
    table = place.open()
    if table is None:
        raise ConfigError(
            f"there is no Delta table at {place.root}; the first blizzard run makes it", kind=Kind.TABLE_NOT_FOUND
        )
    return table


def with_where(fingerprint: str | None, where: str | None) -> str | None:
    """The fingerprint of the settings, and of the condition that chooses the records."""
    if where is None:
        return fingerprint
    return hashlib.sha256(f"{fingerprint} {where}".encode()).hexdigest()[:8]
