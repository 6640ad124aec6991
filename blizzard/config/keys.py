"""Every key of the configuration: how it is read, its default, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blizzard.errors import ConfigError
from blizzard.schema.derived import PartitionSpec, parse_partition_by, parse_provenance
from blizzard.text.redaction import is_secret

Parser = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    parse: Parser
    default: Any
    help: str


# No count or size that means something is larger, and no time: three hundred years.
_LARGEST = 10**15
_LONGEST_S = 10**10
_SHOWN_CHARS = 60


def shown(value: Any) -> str:
    """A value for a message. What cannot be printed, or has no end, must not make the message fail."""
    try:
        text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    except ValueError:  # more digits than Python prints
        return "a number without end"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def require_plain(name: str, value: Any, *, or_list: bool) -> None:
    """Keys take texts, numbers, and lists of them; never a tree."""
    items = value if or_list and isinstance(value, list | tuple) else (value,)
    if not all(isinstance(item, str | int | float | None) for item in items):
        raise ConfigError(f"{name} takes a text, a number{' or a list of these' if or_list else ''}, not a tree")
    if any(isinstance(item, int) and abs(item) >= 2**64 for item in items):
        raise ConfigError(f"{name}: the number is too large")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        # A short secret cannot be hidden later.
        given = "; put it in quotes" if is_secret(name) else f", not {shown(value)}"
        raise ConfigError(f"{name} must be text{given}")
    return value


def _flag(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, not {shown(value)}")
    return text == "true"


def _choice(*allowed: str) -> Parser:
    def parse(name: str, value: Any) -> str:
        if value not in allowed:
            raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {shown(value)}")
        return str(value)

    return parse


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# With an end: Python reads no number of more than 4,300 digits.
_NUMBER = re.compile(r"\s*([0-9](?:_?[0-9]){0,29})\s*([A-Za-z]*)\s*")


def _number(*, at_least: int, at_most: int = _LARGEST, optional: bool = False, unit_bytes: bool = False) -> Parser:
    def parse(name: str, value: Any) -> int | None:
        if optional and value in (None, "", "none", "null"):
            return None
        match = _NUMBER.fullmatch(str(value)) if isinstance(value, int | str) and value is not True else None
        unit = match.group(2).lower() if match else "?"
        if match is None or unit not in _UNITS or (unit and not unit_bytes):
            raise ConfigError(
                f"{name} must be a whole number{' of bytes, such as 128MiB' if unit_bytes else ''}, not {shown(value)}"
            )
        number = int(match.group(1)) * _UNITS[unit]
        if not at_least <= number <= at_most:
            raise ConfigError(f"{name} must be from {at_least} to {at_most}, not {shown(value)}")
        return number

    return parse


def _textfile(name: str, value: Any) -> str:
    text = _text(name, value)
    if not text.endswith(".prom"):
        raise ConfigError(f"{name} must end in .prom: the textfile collector reads no other file, not {shown(text)}")
    return text


def _float(value: Any) -> float:
    """A number, or one that is nowhere in range."""
    try:
        return -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return -1.0


def _seconds(name: str, value: Any) -> float | None:
    """Zero and null mean: no limit."""
    if value in (None, "", "none", "null"):
        return None
    seconds = _float(value)
    if not 0 <= seconds <= _LONGEST_S:
        raise ConfigError(f"{name} must be a number of seconds from 0 to {_LONGEST_S}, not {shown(value)}")
    return seconds or None


def _ratio(name: str, value: Any) -> float | None:
    if value in (None, "", "none", "null"):
        return None
    ratio = _float(value)
    if not 0 <= ratio <= 1:
        raise ConfigError(f"{name} must be a share from 0 to 1, such as 0.01, not {shown(value)}")
    return ratio


def _partitions(name: str, value: Any) -> tuple[PartitionSpec, ...] | None:
    if value in (None, "", "none", "null"):
        return None
    if not isinstance(value, str | list | tuple):
        raise ConfigError(f"{name} must be text or a list, not {shown(value)}")
    return parse_partition_by(value)


def _provenance(name: str, value: Any) -> tuple[str, ...] | None:
    if value in (None, ""):
        return None
    if not isinstance(value, str | list | tuple):
        raise ConfigError(f"{name} must be text or a list, not {shown(value)}")
    return parse_provenance(value)


KEYS: dict[str, Key] = {
    "source.path": Key(parse=_text, default=None, help="folder, file or glob to read (`--source`)"),
    "source.pattern": Key(
        parse=_text, default=None, help="glob below the folder; default `**/*.{ndjson,jsonl}{,.gz,.zst}`"
    ),
    "source.compression": Key(
        parse=_choice("auto", "gzip", "zstd", "none"), default="auto", help="`auto` (by name), `gzip`, `zstd` or `none`"
    ),
    "source.min_age_s": Key(
        parse=_seconds, default=0.0, help="files younger than this are left to a later run: they may not be whole"
    ),
    "source.marks_per": Key(
        parse=_text,
        default=None,
        help="a mark for each value of this folder key, where names of one value do not follow those of another in"
        " time: `region` for `region=eu/…`",
    ),
    "late_files.policy": Key(
        parse=_choice("ingest", "quarantine", "fail", "ignore"),
        default="ingest",
        help="a file that sorts at or before the mark and was never ingested: `ingest`, `quarantine`, `fail`, `ignore`",
    ),
    "late_files.grace_s": Key(
        parse=_number(at_least=0, at_most=_LONGEST_S),
        default=3600,
        help="where names cannot be compared with ledgers: how much later than its time a file may become visible and"
        " still be found; must be below the log's retention",
    ),
    "late_files.relist_max_names": Key(
        parse=_number(at_least=0), default=10_000, help="a source with no more names is listed whole by every run"
    ),
    "late_files.relist_every_s": Key(
        parse=_number(at_least=0, at_most=_LONGEST_S),
        default=86_400,
        help="a larger one is listed whole, and its names compared, when the last time is this long ago",
    ),
    "late_files.unclear": Key(
        parse=_choice("fail", "ingest", "ignore"),
        default="fail",
        help="a file that is late or rewritten, but the ledgers that would tell are gone: `fail`, `ingest`, `ignore`",
    ),
    "rewritten_files.policy": Key(
        parse=_choice("report", "ingest", "quarantine", "fail", "ignore"),
        default="report",
        help="a file that changed after it was ingested: `report`, `ingest` (all of it, again), `quarantine`, `fail` or"
        " `ignore`",
    ),
    "after_ingest.action": Key(
        parse=_choice("none", "archive", "delete"),
        default="none",
        help="what becomes of source files once they are ingested: `none`, `archive` (moved) or `delete`",
    ),
    "after_ingest.archive_path": Key(
        parse=_text, default=None, help="where `archive` moves them, under the same names"
    ),
    "after_ingest.keep_s": Key(
        parse=_number(at_least=0, at_most=_LONGEST_S),
        default=86_400,
        help="how long after their commit they stay where they are",
    ),
    "table.path": Key(parse=_text, default=None, help="Delta table to append to (`--table`)"),
    "table.target_file_bytes": Key(
        parse=_number(at_least=1, unit_bytes=True),
        default=128 * 2**20,
        help="Parquet files roll at about this size",
    ),
    "table.compression": Key(
        parse=_choice("snappy", "zstd", "none"),
        default="snappy",
        help="Parquet codec: `snappy`, `zstd` or `none`",
    ),
    "table.partition_by": Key(
        parse=_partitions,
        default=None,
        help="of a new table: `country`, `day=date(ts)`, `region=path(region)`; several with commas",
    ),
    "table.provenance": Key(
        parse=_provenance,
        default=None,
        help="columns saying where a row is from: `source_file`, `source_line`, `ingested_at`, `sequence`,"
        " `record_key`, or `all`",
    ),
    "table.committer": Key(
        parse=_choice("delta-rs", "delta-spark"),
        default="delta-rs",
        help="who commits: `delta-rs`, or `delta-spark`, the session's own Delta (`--committer`)",
    ),
    "table.sole_writer": Key(
        parse=_flag,
        default=False,
        help="no other process commits to the table: `delta-spark` needs your word where Spark's log store does not"
        " arbitrate (local disk, S3)",
    ),
    "schema.ddl": Key(parse=_text, default=None, help="Spark DDL of a new table (`--schema`)"),
    "schema.file": Key(parse=_text, default=None, help="file with Spark DDL or Spark JSON (`--schema`)"),
    "schema.evolution": Key(
        parse=_choice("strict", "ignore", "rescue", "add_columns", "widen"),
        default=None,
        help="fields the table has no column for: `strict` (bad), `ignore`, `rescue`, `add_columns`; default `ignore`,"
        " with `schema.infer` `add_columns`",
    ),
    "schema.json_in_strings": Key(
        parse=_choice("keep", "bad"),
        default="keep",
        help="a number, object or array in a STRING column: `keep` its JSON text, or it is a `bad` value",
    ),
    "schema.infer": Key(
        parse=_flag, default=False, help="make a new table with the schema that a sample suggests (`--infer`)"
    ),
    "schema.hints": Key(
        parse=_text,
        default=None,
        help="columns whose type the sample does not decide: `id BIGINT, user.age INT` (`--hints`)",
    ),
    "schema.sample_records": Key(
        parse=_number(at_least=1), default=10_000, help="records of the source looked at for a schema, at most"
    ),
    "schema.sample_files": Key(
        parse=_number(at_least=1), default=20, help="files that they are taken from, spread over the listing"
    ),
    "bad_records.policy": Key(
        parse=_choice("quarantine", "rescue", "drop", "fail"),
        default="quarantine",
        help="`quarantine`, `rescue` (the row stays, bad values go to `_rescued_data`), `drop` (counted) or `fail`",
    ),
    "bad_records.max_records": Key(
        parse=_number(at_least=0, optional=True), default=None, help="more bad records in one batch stop the run"
    ),
    "bad_records.max_ratio": Key(
        parse=_ratio, default=None, help="a larger share of bad records in a batch or a file stops the run"
    ),
    "bad_files.policy": Key(
        parse=_choice("quarantine", "retry", "fail"),
        default="quarantine",
        help="a file that cannot be read to its end: `quarantine`, `retry` (by the next run) or `fail`",
    ),
    "quarantine.path": Key(
        parse=_text, default=None, help="Delta table for bad records; default: the table's path with `_quarantine`"
    ),
    "quarantine.max_records": Key(
        parse=_number(at_least=0, optional=True),
        default=None,
        help="how many it may hold of this pipeline and table",
    ),
    "quarantine.overflow": Key(
        parse=_choice("block", "reject"),
        default="block",
        help="when it is full: `block` (the run stops) or `reject` (drop and count)",
    ),
    "quarantine.keep_days": Key(
        parse=_number(at_least=1, optional=True, at_most=1_000_000),
        default=None,
        help="older records of this pipeline and table are deleted from it at the end of a run",
    ),
    "limits.max_files": Key(parse=_number(at_least=1), default=10_000, help="files in one batch at most"),
    "limits.max_bytes": Key(
        parse=_number(at_least=1, optional=True, unit_bytes=True),
        default=None,
        help="stored (compressed) bytes planned into one batch; at least one file is",
    ),
    "limits.max_records": Key(
        parse=_number(at_least=1, optional=True), default=None, help="lines read in one batch at most"
    ),
    "limits.max_inflight": Key(
        parse=_number(at_least=1, at_most=1_000),
        default=2,
        help="batches in flight: the next is read while the last one commits",
    ),
    "limits.max_record_bytes": Key(
        parse=_number(at_least=1, unit_bytes=True, at_most=2**31 - 1),
        default=16 * 2**20,
        help="a longer line is a bad record",
    ),
    "limits.max_held_files": Key(
        parse=_number(at_least=0), default=1_000, help="more files held back because they cannot be read stop the run"
    ),
    "checkpoint.scan_commits": Key(
        parse=_number(at_least=1),
        default=100,
        help="commits looked at for a position before none is believed",
    ),
    "checkpoint.commit_files": Key(
        parse=_number(at_least=1), default=10, help="a batch is planned for about this many target-size files"
    ),
    "checkpoint.interval_s": Key(
        parse=_seconds,
        default=60.0,
        help="a task stops at a record boundary after this time, so that its batch is committed; 0 or null: only when"
        " asked",
    ),
    "retry.attempts": Key(
        parse=_number(at_least=1, at_most=1_000_000),
        default=3,
        help="how often a request to a store is made before it has failed",
    ),
    "retry.base_ms": Key(
        parse=_number(at_least=0, at_most=_LONGEST_S),
        default=100,
        help="the first pause; each is about twice the one before",
    ),
    "retry.max_ms": Key(parse=_number(at_least=0, at_most=_LONGEST_S), default=10_000, help="the longest pause"),
    "follow.poll_s": Key(
        parse=_seconds, default=10.0, help="with `--follow`: the pause before the source is looked at again"
    ),
    "follow.jitter_s": Key(
        parse=_seconds, default=2.0, help="and up to this much more, so that many do not look at once"
    ),
    "api.address": Key(
        parse=_text,
        default=None,
        help="`HOST:PORT` of a small HTTP API while a run goes: health, metrics, status, pause, stop (`--api-addr`)",
    ),
    "api.token": Key(
        parse=_text, default=None, help="what a caller of the API must send as a bearer token; needed beyond loopback"
    ),
    "metrics.textfile": Key(
        parse=_textfile,
        default=None,
        help="a file for Prometheus' textfile collector, written when the run ends; its name ends in `.prom`",
    ),
    "log.format": Key(
        parse=_choice("text", "json"), default="text", help="lines on stderr: `text`, or `json` objects (`--log-json`)"
    ),
    "stop_grace_s": Key(
        parse=_seconds,
        default=20.0,
        help="after a first SIGTERM or SIGINT, the time the batch under way has to end",
    ),
    "spark.slots": Key(
        parse=_number(at_least=1, optional=True, at_most=1_000_000),
        default=None,
        help="tasks per batch; default: the session's parallelism, or what its executors may become",
    ),
    "spark.remote": Key(
        parse=_text,
        default=None,
        help="a Spark Connect server, `sc://HOST:PORT`, instead of a session of its own; so does `SPARK_REMOTE`",
    ),
}
