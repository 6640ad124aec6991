"""Step zero: makes the concrete parts for a request. No other module of the spine names them.

Every command gets its table, quarantine, source and tasks here, so the same request always means the same parts. A
table is opened once and passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from blizzard import native
from blizzard.config.load import Config
from blizzard.config.request import Request, check_source_place
from blizzard.core.bad import BadPolicy
from blizzard.core.clock import Clock
from blizzard.core.events import Emit, unheard
from blizzard.core.framing import framing_of_pipeline
from blizzard.core.kinds import Kind
from blizzard.core.patterns import FIRST_DEFAULT
from blizzard.core.readers import is_meant, readers_of
from blizzard.core.trial import Trial
from blizzard.core.types import Slice, SourceFile
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused, SchemaError
from blizzard.quarantine.contents import purge_older
from blizzard.quarantine.ingestor import QuarantineIngestor
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.after_ingest import Cleaning
from blizzard.run.clock import SystemClock
from blizzard.run.commit_queue import ThreadBackground
from blizzard.run.infer import InferredSchema, infer_from_sample
from blizzard.run.ports import Ingestor, Ports, StopRequest
from blizzard.run.remarks import Remarks
from blizzard.run.settings import RunSettings
from blizzard.schema import DeltaSchema
from blizzard.schema.derived import whole_record_column
from blizzard.schema.evolve import with_rescued_column
from blizzard.schema.fit import schema_differences
from blizzard.schema.infer import InferenceSettings
from blizzard.schema.layout import TableLayout, apply_layout, layout_of
from blizzard.source.cleaning import SourceCleaner
from blizzard.source.listed import ListedSource
from blizzard.source.sample import Sample
from blizzard.source.spread import sample_limits
from blizzard.source.uri import default_pipeline
from blizzard.store import open_store
from blizzard.tasks.column_settings import check_settings
from blizzard.tasks.dry_run import read_without_writing
from blizzard.tasks.policy import Coercion, ParsePolicy, Unknown
from blizzard.tasks.records import read_undeclared
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.stats import DEFAULT_INDEXED_COLUMNS

if TYPE_CHECKING:
    from blizzard.spark.session import Session

_UNKNOWN = {
    "strict": Unknown.BAD,
    "ignore": Unknown.IGNORE,
    "rescue": Unknown.RESCUE,
    "add_columns": Unknown.REPORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A table, opened once (None: there is none yet), and the pipeline that will write to it."""

    table: DeltaRsTable | None
    pipeline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts of a request. `session` may be None for commands that only look, or commit with delta-rs."""

    request: Request
    session: Session | None = None
    emit: Emit = unheard
    clock: Clock = field(default_factory=SystemClock)
    remarks: Remarks = field(default_factory=Remarks)

    @property
    def config(self) -> Config:
        return self.request.config

    @property
    def source(self) -> ListedSource:
        return ListedSource(location=self.request.source_location, min_age_s=self.config.source.min_age_s or 0)

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
        root, access = self.request.table_root, self.request.table_access
        return _require(DeltaRsPlace(root=root, schema=None, clock=self.clock, access=access))

    def open(self) -> Opened:
        """The table, if there is one, as the committer opens it; and the pipeline that is meant."""
        table = self.place().open()
        return Opened(table=table, pipeline=self.pipeline_of(table))

    def check_for_writing(self, table: DeltaRsTable | None) -> None:
        """Raises if the table cannot be appended to with the given schema and layout, or cannot be made."""
        parse_policy(self.config)  # report a mistake before anything is read
        if table is None:
            check_source_place(self.request)
            return
        table.check_writable()
        _check_given_schema(self.request.schema, layout_of_table(self.config, table), self.config)

    def pipeline_of(self, table: DeltaRsTable | None) -> str:
        """The given name; else the pipeline of the table that reads this source; else the default name for a new one.
        The default comes from the folder's name: if the folder is renamed, only the table knows the old one."""
        if self.request.pipeline is not None:
            return self.request.pipeline
        location = self.request.source_location
        source, default = location.identity, default_pipeline(location.identity)
        if table is None or table.fence(default):
            return default
        standings = table.standings(scan_commits=self.config.checkpoint.scan_commits)
        readers = readers_of(standings, source, by_default=location.by_default)
        if default in readers or not readers:
            return default
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
        if position is None and start is not None and start.adopts and location.by_default:
            # The mark of the other program has passed no file that only the wider default takes.
            identity = replace(identity, pattern=FIRST_DEFAULT)
        begun_ms = start.since_ms if start is not None else None
        since_ms = begun_ms if position is None else position.begun.since_ms
        return replace(
            self, request=replace(self.request, pipeline=pipeline, reads=location.reading(identity, since_ms))
        )

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

    def task_spec(self, layout: TableLayout, *, pipeline: str, run_id: str, table: DeltaRsTable | None) -> TaskSpec:
        """What every task of a run gets."""
        config, request = self.config, self.request
        return TaskSpec(
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
            parsing=parse_policy(config, layout.record_schema),
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
        return SparkIngestor(self.session, spec, slots=self.config.spark.slots)

    def ports(
        self, layout: TableLayout, ingestor: Ingestor, *, stop: StopRequest, background: ThreadBackground
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
            settings_fingerprint=parsing.fingerprint,
            framing=config.source.framing,
            max_quarantined=config.quarantine.max_records,
            rejects_overflow=config.quarantine.overflow == "reject",
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


def resolve_table(config: Config, session: Session) -> Config:
    """The configuration with the table's path, if the table was given by its name in the session's catalog."""
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
        raise ConfigError(f"there is no Delta table at {place.root}", kind=Kind.TABLE_NOT_FOUND)
    return table


def parse_policy(config: Config, schema: DeltaSchema | None = None) -> ParsePolicy:
    """What lines become. `schema` is what is read from the records, if it is known: the settings of columns are checked
    against it."""
    if config.evolution == "widen":
        raise ConfigError(
            "schema.evolution widen needs a committer that can change the type of a column, which delta-rs cannot; use"
            " add_columns, and widen the column with Spark",
            kind=Kind.NOT_BUILT,
        )
    renamed = config.columns.get("schema.rename")
    policy = ParsePolicy(
        json_in_strings=config.schema.json_in_strings == "keep",
        unknown=_UNKNOWN[config.evolution],
        rescue_values=config.bad_records.policy == "rescue",
        exact_timestamps=config.schema.timestamps == "exact",
        formats=dict(config.columns.get("schema.formats", {})),
        coerce={path: _coercions(names) for path, names in config.columns.get("schema.coerce", {}).items()},
        rename=config.schema.rename if renamed is None else {path: _one_name(n) for path, n in renamed.items()},
    )
    if schema is not None:
        check_settings(policy, schema)
    return policy


def _coercions(names: tuple[str, ...]) -> frozenset[Coercion]:
    known = [coercion.value for coercion in Coercion]
    for name in names:
        if name not in known:
            raise ConfigError(f"schema.coerce takes {', '.join(known)}, not {name!r}")
    return frozenset(map(Coercion, names))


def _one_name(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        raise ConfigError(f"schema.rename gives a field one name, not {', '.join(names)}")
    return names[0]


def layout_of_new_table(config: Config, schema: DeltaSchema) -> TableLayout:
    policy = parse_policy(config, schema)
    layout = apply_layout(
        schema, partition_by=config.table.partition_by or (), provenance=config.table.provenance or ()
    )
    return layout.with_schema(with_rescued_column(layout.schema)) if policy.rescues else layout


def layout_of_table(config: Config, table: DeltaRsTable) -> TableLayout:
    return layout_of(
        table.schema,
        table.partition_columns,
        partition_by=config.table.partition_by,
        provenance=config.table.provenance,
    )


def _check_given_schema(given: DeltaSchema | None, layout: TableLayout, config: Config) -> None:
    """Raises if the given schema does not fit the table. Columns that the table has more are fine if columns may be
    added."""
    if given is None:
        return
    if config.schema.variant:
        if whole_record_column(layout.schema["fields"]) is None:
            raise SchemaError(
                "--variant (schema.variant) takes each record whole, but the table was made to take their fields. Leave"
                " it out to use the table's columns, or name another table.",
                kind=Kind.LAYOUT_MISMATCH,
            )
        return
    may_have_more = config.evolution == "add_columns"
    differences = schema_differences(given, layout.record_schema, may_have_more=may_have_more)
    if differences:
        raise SchemaError(
            "the given schema does not fit the table: "
            + "; ".join(differences)
            + ". Leave --schema out to use the table's.",
            kind=Kind.SCHEMA_MISMATCH,
        )
