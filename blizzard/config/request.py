"""A validated request to ingest a source into a table, or to look at one: where each is, and how to get there.

Every command and the Python API ask here, so that the same configuration always means the same places.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from blizzard.config.keys import SourceKeys
from blizzard.config.load import Config
from blizzard.config.places import check_apart, check_archive, check_mirror, locate_mirror
from blizzard.core.kinds import Kind
from blizzard.core.lists import some
from blizzard.core.mirror import is_sql
from blizzard.core.recover import StartFrom
from blizzard.core.types import Filters
from blizzard.errors import ConfigError
from blizzard.schema import DeltaSchema
from blizzard.schema.derived import whole_record_schema
from blizzard.schema.hints import parse_hints
from blizzard.schema.load import load_schema
from blizzard.source.chosen import chosen_by
from blizzard.source.picked import Picked, pick_files
from blizzard.source.uri import SourceLocation, locate_source
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.uri import is_local, lies_in, locate, show_uri

PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_MIRROR_TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)  # no slots: the place of the source is kept
class Request:
    """`spark_settings` are those of a session that already runs. They may say how to get to S3."""

    config: Config
    spark_settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Only for a request to ingest.
    pipeline: str | None = None  # None: the table's pipeline that reads this source, or a new one
    start_from: StartFrom | None = None
    given: Any = None  # the schema of a new table as an object, which the configuration cannot hold
    given_of: Mapping[str, Any] = field(default_factory=dict)  # the same, by target
    max_batches: int | None = None
    accepts_quarantine_loss: bool = False
    reads_again: bool = False
    reads: SourceLocation | None = None  # the source as the position of the pipeline has it, once it is known
    # Of Python callers: a pyarrow RecordBatch in, and one out. The configuration cannot hold it.
    transform: Callable[[Any], Any] | None = field(default=None, repr=False)

    @property
    def transforms(self) -> bool:
        """Whether records are transformed before they are rows. Then `schema` is what is read from them."""
        keys = self.config.transform
        return self.transform is not None or keys.sql is not None or keys.python is not None

    def access(self, place: str, root: str) -> Access:
        """How to get to a root, as a `source` or as a `table`."""
        return self.config.access(place, root, self.spark_settings)

    @property
    def table_root(self) -> str:
        path = locate(self.config.table_path, what="table")
        if re.search(r"%[0-9A-Fa-f]{2}", path):
            raise ConfigError(
                f"the table path {path} holds a percent escape, which delta-rs cannot open", kind=Kind.USAGE
            )
        return path

    @property
    def table_shown(self) -> str:
        """As a URI, for people."""
        return show_uri(self.table_root)

    @property
    def table_access(self) -> Access:
        return self.access("table", self.table_root)

    @property
    def quarantine_root(self) -> str:
        """quarantine.path, or else beside the table."""
        given, has_table = self.config.quarantine.path, self.config.table.path is not None
        if given is None and not has_table:
            raise ConfigError(
                "--table or --quarantine is missing (key table.path or quarantine.path)",
                kind=Kind.USAGE,
            )
        if given is None:
            return self.table_root + "_quarantine"
        root = locate(given, what="quarantine table")
        if has_table:
            check_apart(root, self.table_root)
        return root

    @property
    def quarantine_access(self) -> Access:
        return self.access("table", self.quarantine_root)

    @cached_property
    def schema(self) -> DeltaSchema | None:
        """Of a new table, as the user gave it."""
        return given_schema(self.config, self.given)

    @cached_property
    def source_location(self) -> SourceLocation:
        """Looked for once: whether the path is a file or a folder may take a request to a store."""
        if self.reads is not None:
            return self.reads
        path, keys = self.config.source_path, self.config.source
        access = self.access("source", locate(path, what="source"))
        location = locate_source(path, keys.pattern, access, marks_per=keys.marks_per, filters=_filters(keys))
        chosen_by(location)  # report a mistake in a glob before anything is done
        return location

    def of_targets(self) -> dict[str, Request]:
        """One request for each target. Where there is one table, this one, without a name."""
        if not self.config.targets:
            return {"": self}
        return {
            name: replace(self, config=config, given=self._given_for(name, config))
            for name, config in self.config.targets.items()
        }

    def _given_for(self, target: str, config: Config) -> Any:
        """Its own schema; else the one for all, unless its configuration says another."""
        if target in self.given_of:
            return self.given_of[target]
        keys = config.schema
        return None if keys.ddl or keys.file or keys.infer or keys.variant else self.given

    @property
    def start_key(self) -> StartFrom | None:
        """Where a target without a position begins, if the configuration says it."""
        start = parse_start_from(self.config.start_from, self.source_location, said_in="start_from")
        return None if start is None else replace(start, lasts=True)

    @property
    def archive_root(self) -> str | None:
        """Where ingested source files are moved to. None: they are not moved."""
        action, given = self.config.after_ingest.action, self.config.after_ingest.archive_path
        if (given is not None) != (action == "archive"):
            raise ConfigError("after_ingest.archive_path goes with after_ingest.action archive", kind=Kind.USAGE)
        if given is None:
            return None
        root, source = locate(given, what="archive"), self.source_location.root
        check_archive(root, source=source, table=self.table_root, quarantine=self.quarantine_root)
        return root

    @property
    def mirror_root(self) -> str | None:
        """Where positions are copied to: a root of a store, or the URI of a database. None: they are not copied."""
        given = self.config.checkpoint.mirror
        if given is None:
            return None
        root = locate_mirror(given)
        if self.config.table.path is not None:
            check_mirror(root, "table", self.table_root)
            check_mirror(root, "quarantine", self.quarantine_root)
        return root

    def mirror_access(self, root: str) -> Access:
        """A mirror that does not answer is not worth long waits: a later commit makes up for it."""
        if is_sql(root):
            return NO_ACCESS
        access = self.access("table", root)
        return replace(access, retry=replace(access.retry, attempts=1), read_timeout_s=_MIRROR_TIMEOUT_S)


@dataclass(frozen=True, kw_only=True)
class RequestForFiles(Request):
    """To look at some files, without a table. Nothing is written, so there is no place for it."""

    picked: Picked

    @cached_property
    def source_location(self) -> SourceLocation:
        return self.picked.location

    @property
    def table_root(self) -> str:
        return "/"

    @property
    def quarantine_root(self) -> str:
        return "/"

    @property
    def table_access(self) -> Access:
        return NO_ACCESS

    @property
    def quarantine_access(self) -> Access:
        return NO_ACCESS


def request_for_files(
    config: Config, uris: Sequence[str], spark_settings: Mapping[str, str] | None = None
) -> RequestForFiles:
    settings = spark_settings or {}
    keys = config.source
    picked = pick_files(
        uris, keys.pattern, lambda root: config.access("source", root, settings), filters=_filters(keys)
    )
    request = RequestForFiles(config=config, spark_settings=settings, picked=picked)
    _check_transform(request)
    _ = request.schema  # report a mistake before anything is read
    return request


def make_request(
    config: Config,
    *,
    pipeline: str | None = None,
    start_from: str | None = None,
    adopts: bool = False,
    max_batches: int | None = None,
    schema: Any = None,
    schemas: Mapping[str, Any] | None = None,
    accepts_quarantine_loss: bool = False,
    reads_again: bool = False,
    spark_settings: Mapping[str, str] | None = None,
    transform: Callable[[Any], Any] | None = None,
) -> Request:
    """A request to ingest. `schema` is any object that `load_schema` takes, and `transform` a function: the
    configuration cannot hold them. `schemas` are those of single targets."""
    request = Request(
        config=config,
        spark_settings=spark_settings or {},
        pipeline=pipeline,
        max_batches=max_batches,
        accepts_quarantine_loss=accepts_quarantine_loss,
        reads_again=reads_again,
        transform=transform,
    )
    for target in request.of_targets().values():
        _check_transform(target)
    location = request.source_location
    check_places(request)
    if pipeline is not None and not PIPELINE_NAME.fullmatch(pipeline):
        raise ConfigError(
            f"pipeline name {pipeline!r}: letters, digits, '_', '.' and '-' only, at most 100", kind=Kind.USAGE
        )
    if adopts:
        _refuse_one_mark(location)
    if adopts and start_from is not None:
        raise ConfigError("--adopt and --start-from: give one of them", kind=Kind.USAGE)
    if max_batches is not None and max_batches < 1:
        raise ConfigError("--max-batches must be at least 1", kind=Kind.USAGE)
    if start_from is not None and config.targets:
        raise ConfigError(
            "--start-from is for one table. With targets, write it below the one that is new: targets.NAME.start_from",
            kind=Kind.USAGE,
        )
    if adopts and config.targets:
        raise ConfigError(
            "--adopt takes over the position of one table: run it once with that table alone, then with all targets",
            kind=Kind.USAGE,
        )
    request = replace(
        request, start_from=StartFrom(adopts=True) if adopts else parse_start_from(start_from, location), given=schema
    )
    request = replace(request, given_of=schemas or {})
    _ = request.schema
    for target in request.of_targets().values():
        _ = target.schema, target.start_key  # report a mistake before anything is done
    return request


def check_places(request: Request) -> None:
    """Raises if a table or a quarantine cannot be where it is said to be, alone or beside those of other targets."""
    taken: dict[str, str] = {}
    for name, target in request.of_targets().items():
        for what, root in ("table", target.table_root), ("quarantine", target.quarantine_root):
            for other, place in taken.items():
                both_keep_bad = what == "quarantine" and other.endswith("quarantine")
                if (lies_in(root, place) or lies_in(place, root)) and not (both_keep_bad and root == place):
                    raise ConfigError(
                        f"the {what} of target {name}, {root}, and the {other}, {place}: neither may be in the other,"
                        f" and each target needs a table of its own",
                        kind=Kind.USAGE,
                    )
        if target.mirror_root is not None:
            check_mirror(target.mirror_root, "source", request.source_location.root)
        taken[f"table of target {name}"] = target.table_root
        taken[f"target {name}'s quarantine"] = target.quarantine_root


def _filters(keys: SourceKeys) -> Filters:
    after_ms, before_ms = keys.modified_after, keys.modified_before
    if after_ms is not None and before_ms is not None and after_ms >= before_ms:
        raise ConfigError(
            "source.modified_after is not before source.modified_before: no file could be read", kind=Kind.USAGE
        )
    return Filters(modified_after_ms=after_ms, modified_before_ms=before_ms, ignore=keys.ignore or ())


def parse_start_from(text: str | None, location: SourceLocation, *, said_in: str = "--start-from") -> StartFrom | None:
    if text is None:
        return None
    start = StartFrom.parse(text)
    if start is None:
        raise ConfigError(
            f"{said_in} takes 'beginning', 'after:NAME' or a date such as 'date:2026-01-31' or"
            f" 'date:2026-01-31T08:00Z', not {text!r}",
            kind=Kind.USAGE,
        )
    if start.after is None:
        return start
    _refuse_one_mark(location)
    name = start.after
    # People give a path or a URI; positions hold the name below the root.
    path = locate(name, what=f"{said_in} name")
    is_whole = "://" in name or name.startswith(("file:", "/"))
    if path.startswith(location.root + "/") and (is_whole or (is_local(path) and os.path.exists(path))):
        name = path.removeprefix(location.root + "/")
    return StartFrom(after=name)


def _refuse_one_mark(location: SourceLocation) -> None:
    if location.identity.marks_per is not None:
        raise ConfigError(
            "with source.marks_per a pipeline begins at the beginning, or at a date: there is no one mark to begin"
            " after",
            kind=Kind.USAGE,
        )


def given_schema(config: Config, schema: Any = None) -> DeltaSchema | None:
    """What the user says about the records: by the configuration, or as an object."""
    parse_hints(config.schema.hints)  # report a mistake before the sample is read
    text = config.schema.ddl or config.schema.file
    if schema is not None and text is not None:
        raise ConfigError("the schema is given twice, as an object and by schema.ddl or schema.file", kind=Kind.USAGE)
    given = text if schema is None else schema
    if config.schema.variant:
        _check_variant_alone(config, given)
        return whole_record_schema()
    if given is not None and (config.schema.infer or config.schema.hints is not None):
        raise ConfigError(
            "give a schema, or --infer and --hints (schema.infer, schema.hints), not both", kind=Kind.USAGE
        )
    return None if given is None else load_schema(given)


def _check_transform(request: Request) -> None:
    """What decides about the columns of the table beside the transform is refused."""
    keys, schema = request.config.transform, request.config.schema
    if request.transform is not None and (keys.sql is not None or keys.python is not None):
        raise ConfigError(
            "the transform is given twice, as an object and by transform.sql or transform.python", kind=Kind.USAGE
        )
    if not request.transforms:
        return
    if schema.infer:
        raise ConfigError(
            "--infer (schema.infer) looks at other records in each run, but a transform needs to know what it reads."
            " Write down the schema (blizzard schema infer … > schema.ddl) and give it: --schema schema.ddl",
            kind=Kind.USAGE,
        )
    if request.config.select is not None:
        raise ConfigError("select beside a transform: let the transform select the columns", kind=Kind.USAGE)
    if schema.variant:
        raise ConfigError(
            "--variant (schema.variant) takes each record whole, so a transform would have no columns to read. Give a"
            " schema: --schema",
            kind=Kind.USAGE,
        )
    if schema.evolution in ("add_columns", "widen"):
        raise ConfigError(
            f"schema.evolution {schema.evolution} adds what the records have to the table, but with a transform the"
            f" transform decides about its columns. Use rescue to keep other fields as JSON, or ignore, or strict. For"
            f" a new column: add it to the table (ALTER TABLE … ADD COLUMNS), to the schema, and to the transform.",
            kind=Kind.USAGE,
        )


def _check_variant_alone(config: Config, given: Any) -> None:
    """What decides about columns has nothing to decide where a record is one value."""
    keys = config.schema
    others = {
        "a schema": given is not None,
        "--infer": keys.infer,
        "--hints": keys.hints is not None,
        "schema.rename": keys.rename is not None,
        **{family: bool(columns) for family, columns in config.columns.items()},
    }
    if extra := [name for name, is_given in others.items() if is_given]:
        raise ConfigError(
            f"--variant (schema.variant) takes each record whole, so {some(extra, 3)} would do nothing; give one of"
            f" them. For a VARIANT column among others write it in the schema: id BIGINT, payload VARIANT",
            kind=Kind.USAGE,
        )
