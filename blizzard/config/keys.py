"""Every key of the configuration: its type, how it is read, its default, and what it means.

There is one class for each family of keys, and each of its fields is a key. So every use of a key is typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from blizzard.config.values import (
    LONGEST_S,
    Parser,
    choice,
    commit_policy,
    flag,
    framing,
    globs,
    moment,
    names,
    number,
    partitions,
    provenance,
    ratio,
    seconds,
    text,
    textfile,
)
from blizzard.core.compression import COMPRESSIONS, NONE
from blizzard.schema.derived import PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    parse: Parser
    default: Any
    help: str


def _key(parse: Parser, default: Any, help: str) -> Any:  # noqa: A002
    return field(default=default, metadata={"key": Key(parse=parse, default=default, help=help)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKeys:
    path: str | None = _key(text, None, "folder, file or glob to read (`--source`)")
    pattern: str | None = _key(
        text,
        None,
        "glob below the folder; default for new pipelines (`default-2`): `.json`, `.ndjson` and `.jsonl`, each also"
        " with `.gz`, `.zst`, `.zstd`, `.bz2`, `.xz` or `.lz4`, in any letter case. A pipeline that has begun keeps its"
        " own",
    )
    ignore: tuple[str, ...] | None = _key(
        globs, None, "globs of names to leave out: `*.tmp` in any folder, `staging/` a whole folder; several as a list"
    )
    modified_after: int | None = _key(
        moment,
        None,
        "leave out files whose last change was before this moment: `2026-01-31`, `2026-01-31T08:00Z`; UTC without a"
        " zone",
    )
    modified_before: int | None = _key(moment, None, "leave out files whose last change was at this moment or later")
    compression: str = _key(
        choice("auto", *COMPRESSIONS, NONE),
        "auto",
        "`auto` (what the first bytes of a file say), or one for all files: `gzip`, `zstd`, `bzip2`, `xz`, `lz4` or"
        " `none`",
    )
    encoding: str = _key(
        choice("auto", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "windows-1252"),
        "auto",
        "of all files: `auto` or `utf-8` (a file in UTF-16 is held back), `utf-16`, `utf-16-le`, `utf-16-be`,"
        " `latin-1` or `windows-1252`",
    )
    framing: str | None = _key(
        framing,
        None,
        "how records lie in a file: `lines`, `concatenated`, `array`, `array:KEY` or `auto` (decided for each file);"
        " default `auto`, for a pipeline that has begun what it began with",
    )
    min_age_s: float | None = _key(
        seconds, 0.0, "files younger than this are left to a later run: they may not be whole"
    )
    marks_per: str | None = _key(
        text,
        None,
        "each value of this folder key has its own mark, for folders whose names do not follow one order in time:"
        " `region` for `region=eu/…`",
    )
    parser: str | None = _key(
        choice("auto", "native", "pyarrow", "reference"),
        None,
        "what reads the lines: `auto` (the fastest there is), `native`, `pyarrow` or `reference`; `BLIZZARD_PARSER`"
        " does the same",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LateFilesKeys:
    policy: str = _key(
        choice("ingest", "quarantine", "fail", "ignore"),
        "ingest",
        "a file that sorts at or before the mark and was never ingested: `ingest`, `quarantine`, `fail`, `ignore`",
    )
    grace_s: int = _key(
        number(at_least=0, at_most=LONGEST_S),
        3600,
        "if names cannot be compared with ledgers: how much later than its time a file may become visible and"
        " still be found; must be below the log's retention",
    )
    relist_max_names: int = _key(number(at_least=0), 10_000, "a source with no more names is listed whole by every run")
    relist_every_s: int = _key(
        number(at_least=0, at_most=LONGEST_S),
        86_400,
        "a larger source is listed whole, and its names compared, if the last time was this long ago",
    )
    unclear: str = _key(
        choice("fail", "ingest", "ignore"),
        "fail",
        "a file that is late or rewritten, but the ledgers that would say which are gone: `fail`, `ingest`, `ignore`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFilesKeys:
    policy: str = _key(
        choice("report", "ingest", "quarantine", "fail", "ignore"),
        "report",
        "a file that changed after it was ingested: `report`, `ingest` (all of it, again), `quarantine`, `fail` or"
        " `ignore`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterIngestKeys:
    action: str = _key(
        choice("none", "archive", "delete"),
        "none",
        "what becomes of source files once they are ingested: `none`, `archive` (moved) or `delete`",
    )
    archive_path: str | None = _key(text, None, "where `archive` moves them, under the same names")
    keep_s: int = _key(
        number(at_least=0, at_most=LONGEST_S), 86_400, "how long after their commit they stay where they are"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKeys:
    path: str | None = _key(text, None, "Delta table to append to (`--table`)")
    target_file_bytes: int = _key(
        number(at_least=1, unit_bytes=True), 128 * 2**20, "Parquet files roll at about this size"
    )
    compression: str = _key(choice("snappy", "zstd", "none"), "snappy", "Parquet codec: `snappy`, `zstd` or `none`")
    partition_by: tuple[PartitionSpec, ...] | None = _key(
        partitions, None, "of a new table: `country`, `day=date(ts)`, `region=path(region)`; several with commas"
    )
    provenance: tuple[str, ...] | None = _key(
        provenance,
        None,
        "columns saying where a row is from: `source_file`, `source_line`, `ingested_at`, `sequence`,"
        " `record_key`, or `all` of these; `raw`: the record's own text",
    )
    committer: str = _key(
        choice("delta-rs", "delta-spark"),
        "delta-rs",
        "who commits: `delta-rs`, or `delta-spark`, the session's own Delta (`--committer`)",
    )
    sole_writer: bool = _key(
        flag,
        False,
        "you confirm that no other process commits to the table: `delta-spark` needs this if Spark's log store does not"
        " arbitrate (local disk, S3)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaKeys:
    ddl: str | None = _key(text, None, "Spark DDL of a new table (`--schema`)")
    file: str | None = _key(text, None, "file with Spark DDL or Spark JSON (`--schema`)")
    evolution: str | None = _key(
        choice("strict", "ignore", "rescue", "add_columns", "widen"),
        None,
        "fields the table has no column for: `strict` (bad), `ignore`, `rescue`, `add_columns`; default `ignore`,"
        " with `schema.infer` `add_columns`",
    )
    json_in_strings: str = _key(
        choice("keep", "bad"),
        "keep",
        "a number, object or array in a STRING column: `keep` its JSON text, or it is a `bad` value",
    )
    timestamps: str = _key(
        choice("cut", "exact"),
        "cut",
        "digits beyond a microsecond: `cut` (counted and reported), or `exact`: such a value is bad",
    )
    rename: str | None = _key(
        choice("snake"),
        None,
        "`snake`: `userId` goes to, and makes, the column `user_id`. Or single fields: `schema.rename.userId=user_id`",
    )
    infer: bool = _key(flag, False, "make a new table with the schema that a sample suggests (`--infer`)")
    variant: bool = _key(
        flag, False, "make a new table that takes each record whole, in one VARIANT column `record` (`--variant`)"
    )
    hints: str | None = _key(
        text, None, "columns whose type the sample does not decide: `id BIGINT, user.age INT` (`--hints`)"
    )
    sample_records: int = _key(number(at_least=1), 10_000, "records of the source looked at for a schema, at most")
    sample_files: int | None = _key(
        number(at_least=1, optional=True),
        None,
        "files that they are taken from, spread over the listing, at most; default: 20, and more while those hold too"
        " few records: up to 1,000 files, 128 MiB or 20 s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformKeys:
    sql: str | None = _key(
        text,
        None,
        "`SELECT … FROM records [WHERE …]`: what becomes of each record, by itself. `schema.ddl` then says what is read"
        " from the records. Needs `pip install 'blizzard-delta[sql]'`",
    )
    python: str | None = _key(
        text,
        None,
        "`module:function` instead: gets a pyarrow RecordBatch, returns one, and keeps its column `_blizzard_line`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecordsKeys:
    policy: str = _key(
        choice("quarantine", "rescue", "drop", "fail"),
        "quarantine",
        "`quarantine`, `rescue` (the row stays, bad values go to `_rescued_data`), `drop` (counted) or `fail`",
    )
    max_records: int | None = _key(
        number(at_least=0, optional=True), None, "more bad records in one batch stop the run"
    )
    max_ratio: float | None = _key(ratio, None, "a larger share of bad records in a batch or a file stops the run")
    first_batch_max_ratio: float | None = _key(
        ratio,
        0.5,
        "a larger share of bad records, or of bad files, in a pipeline's first batch stops the run before it commits"
        " anything, so that a schema or a framing that does not fit uses up no source and leaves no table to drop; 1:"
        " never. `bad_records.max_ratio`, if set, holds instead",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BadFilesKeys:
    policy: str = _key(
        choice("quarantine", "retry", "fail"),
        "quarantine",
        "a file that cannot be read to its end: `quarantine`, `retry` (by the next run) or `fail`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineKeys:
    path: str | None = _key(text, None, "Delta table for bad records; default: the table's path with `_quarantine`")
    max_records: int | None = _key(
        number(at_least=0, optional=True), None, "how many records of this pipeline and table it may hold"
    )
    overflow: str = _key(
        choice("block", "reject", "drop_oldest"),
        "block",
        "when it is full: `block` (the run stops), `reject` (new bad records are dropped and counted) or `drop_oldest`"
        " (the oldest batches leave, counted)",
    )
    keep_days: int | None = _key(
        number(at_least=1, optional=True, at_most=1_000_000),
        None,
        "older records of this pipeline and table are deleted from it at the end of a run",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsKeys:
    max_files: int = _key(number(at_least=1), 10_000, "files in one batch at most")
    max_bytes: int | None = _key(
        number(at_least=1, optional=True, unit_bytes=True),
        None,
        "stored (compressed) bytes planned for one batch; it always has at least one file",
    )
    max_records: int | None = _key(number(at_least=1, optional=True), None, "lines read in one batch at most")
    max_inflight: int = _key(
        number(at_least=1, at_most=1_000), 2, "batches in flight: the next is read while the last one commits"
    )
    max_record_bytes: int = _key(
        number(at_least=1, unit_bytes=True, at_most=2**31 - 1), 16 * 2**20, "a longer line is a bad record"
    )
    max_held_files: int = _key(
        number(at_least=0), 1_000, "more files held back because they cannot be read stop the run"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointKeys:
    scan_commits: int = _key(number(at_least=1), 100, "commits read before a pipeline counts as new")
    commit_files: int = _key(number(at_least=1), 10, "a batch is planned for about this many target-size files")
    interval_s: float | None = _key(
        seconds,
        60.0,
        "a task stops at a record boundary after this time, so that its batch is committed; 0 or null: no time limit",
    )
    mirror: str | None = _key(
        text,
        None,
        "where each position is copied to after its commit, for an overview of a fleet and for disaster recovery: a"
        " folder on disk or in a bucket, `sqlite:////PATH` or `postgresql://USER@HOST/DATABASE` (extra `mirror-sql`)",
    )
    mirror_keep: int = _key(
        number(at_least=1, at_most=100_000), 100, "how many positions of each pipeline and table the mirror keeps"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryKeys:
    attempts: int = _key(
        number(at_least=1, at_most=1_000_000), 3, "how often a request to a store is tried before it counts as failed"
    )
    base_ms: int = _key(
        number(at_least=0, at_most=LONGEST_S), 100, "the first pause; each is about twice the one before"
    )
    max_ms: int = _key(number(at_least=0, at_most=LONGEST_S), 10_000, "the longest pause")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowKeys:
    poll_s: float | None = _key(
        seconds, 10.0, "with `--follow` and in a fleet: the pause before the source is looked at again"
    )
    jitter_s: float | None = _key(seconds, 2.0, "and up to this much more at random, so that not all look at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetKeys:
    max_active: int | None = _key(
        number(at_least=1, optional=True, at_most=1_000),
        None,
        "with `blizzard serve`: how many pipelines read at once, the others wait for their turn; default: the cores of"
        " this machine, at least 2 and at most 8",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeys:
    address: str | None = _key(
        text,
        None,
        "`HOST:PORT` of a small HTTP API while a run goes: health, metrics, status, pause, stop (`--api-addr`)",
    )
    token: str | None = _key(text, None, "what a caller of the API must send as a bearer token; needed beyond loopback")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsKeys:
    textfile: str | None = _key(
        textfile, None, "a file for Prometheus' textfile collector, written when the run ends; its name ends in `.prom`"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKeys:
    format: str = _key(choice("text", "json"), "text", "lines on stderr: `text`, or `json` objects (`--log-json`)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkKeys:
    slots: int | None = _key(
        number(at_least=1, optional=True, at_most=1_000_000),
        None,
        "tasks per batch; default: the session's parallelism, or what its executors may become",
    )
    remote: str | None = _key(
        text, None, "a Spark Connect server, `sc://HOST:PORT`, instead of its own session; `SPARK_REMOTE` does the same"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """All keys."""

    source: SourceKeys = field(default_factory=SourceKeys)
    late_files: LateFilesKeys = field(default_factory=LateFilesKeys)
    rewritten_files: RewrittenFilesKeys = field(default_factory=RewrittenFilesKeys)
    after_ingest: AfterIngestKeys = field(default_factory=AfterIngestKeys)
    table: TableKeys = field(default_factory=TableKeys)
    schema: SchemaKeys = field(default_factory=SchemaKeys)
    transform: TransformKeys = field(default_factory=TransformKeys)
    bad_records: BadRecordsKeys = field(default_factory=BadRecordsKeys)
    bad_files: BadFilesKeys = field(default_factory=BadFilesKeys)
    quarantine: QuarantineKeys = field(default_factory=QuarantineKeys)
    limits: LimitsKeys = field(default_factory=LimitsKeys)
    checkpoint: CheckpointKeys = field(default_factory=CheckpointKeys)
    retry: RetryKeys = field(default_factory=RetryKeys)
    follow: FollowKeys = field(default_factory=FollowKeys)
    fleet: FleetKeys = field(default_factory=FleetKeys)
    api: ApiKeys = field(default_factory=ApiKeys)
    metrics: MetricsKeys = field(default_factory=MetricsKeys)
    log: LogKeys = field(default_factory=LogKeys)
    spark: SparkKeys = field(default_factory=SparkKeys)
    where: str | None = _key(
        text,
        None,
        "only records for which this SQL condition is true: `kind = 'order' AND amount > 0` (docs/routing.md)",
    )
    select: tuple[str, ...] | None = _key(
        names, None, "only these columns of the given or inferred schema, for a new table; a list"
    )
    start_from: str | None = _key(
        text,
        None,
        "where this target begins if its table has no position of the pipeline yet, as `--start-from` says it;"
        " afterwards it does nothing",
    )
    required: bool = _key(flag, True, "of a target, with `commit_policy: required`: whether its failure ends the run")
    commit_policy: str = _key(
        commit_policy,
        "required",
        "with several targets, which failure ends the run: `required` (one of a required target), `all` (any), or"
        " `quorum:N` (when fewer than N are left)",
    )
    unrouted: str | None = _key(
        choice("quarantine", "drop"),
        None,
        "a record that no `where` selects: `quarantine` (default with `targets`; that of the first one) or `drop`"
        " (default without)",
    )
    stop_grace_s: float | None = _key(
        seconds, 20.0, "after a first SIGTERM or SIGINT, the time the batch under way has to end"
    )


def _keys_of(part: Any, prefix: str) -> dict[str, Key]:
    return {f"{prefix}{f.name}": f.metadata["key"] for f in fields(part) if "key" in f.metadata}


_FAMILIES = [f.name for f in fields(Keys) if "key" not in f.metadata]
KEYS: dict[str, Key] = {
    **{name: key for family in _FAMILIES for name, key in _keys_of(getattr(Keys(), family), f"{family}.").items()},
    **_keys_of(Keys, ""),
}

# Keys whose last part is a name of yours, or of a store or of Spark.
NAMED_KEYS: dict[str, str] = {
    "schema.formats.COLUMN": "how a DATE or TIMESTAMP is written: `iso`, `epoch_ms`, `%d/%m/%Y`, a list of these"
    " (docs/record-contract.md#times)",
    "schema.coerce.COLUMN": "what a column takes beside its type: `numbers_in_strings`, `integral_floats`, …"
    " (docs/record-contract.md#more-values-for-a-column); `*` for every column",
    "schema.rename.FIELD": "the name of the column for this field",
    "storage_options.NAME": "what a store needs, if neither the environment, a profile nor a role has it:"
    " `aws_endpoint_url` and the like (docs/object-storage.md)",
    "source.storage_options.NAME": "the same, for the source only; wins over `storage_options`",
    "table.storage_options.NAME": "the same, for the table only; wins over `storage_options`",
    "spark.conf.NAME": "any Spark setting, for a session that blizzard starts itself",
    "targets.NAME.KEY": "one of several tables, and a key that holds for it alone (docs/targets.md)",
    "pipelines.NAME.KEY": "one pipeline of a fleet, and a key that holds for it alone (docs/fleet.md)",
}


def with_values(keys: Keys, values: Mapping[str, Any]) -> dict[str, Any]:
    """The changed fields of Keys, from values by the names of their keys."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        family, dot, field_name = name.rpartition(".")
        if dot:
            changed[family] = replace(changed.get(family, getattr(keys, family)), **{field_name: value})
        else:
            changed[field_name] = value
    return changed
