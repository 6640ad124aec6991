"""Configuration: one tree of keys for YAML, `--set` and the Python API, validated once, here.

An unknown key is an error with the nearest valid one, and so is a key of a feature this version does not have: a
setting that silently does nothing is a trap. `${ENV}` is resolved on the way in and never stored.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.core.bad import BadPolicy
from blizzard.core.plan import Limits
from blizzard.errors import ConfigError
from blizzard.schema.derived import PartitionSpec, parse_partition_by, parse_provenance
from blizzard.store.access import Access, make_access, options_of_spark
from blizzard.store.retry import RetryPolicy
from blizzard.store.uri import is_local

Parser = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    parse: Parser
    default: Any
    help: str


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be text, not {value!r}")
    return value


def _flag(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    return text == "true"


def _choice(*allowed: str) -> Parser:
    def parse(name: str, value: Any) -> str:
        if value not in allowed:
            raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    return parse


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _number(*, at_least: int, optional: bool = False, unit_bytes: bool = False) -> Parser:
    def parse(name: str, value: Any) -> int | None:
        if optional and value in (None, "", "none", "null"):
            return None
        match = re.fullmatch(r"\s*(\d[\d_]*)\s*([A-Za-z]*)\s*", str(value)) if not isinstance(value, bool) else None
        unit = match.group(2).lower() if match else "?"
        if match is None or unit not in _UNITS or (unit and not unit_bytes):
            raise ConfigError(
                f"{name} must be a whole number{' of bytes, such as 128MiB' if unit_bytes else ''}, not {value!r}"
            )
        number = int(match.group(1)) * _UNITS[unit]
        if number < at_least:
            raise ConfigError(f"{name} must be at least {at_least}, not {value!r}")
        return number

    return parse


def _seconds(name: str, value: Any) -> float | None:
    """Zero and null mean: no limit."""
    if value in (None, "", "none", "null"):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if isinstance(value, bool) or not 0 <= seconds < float("inf"):
        raise ConfigError(f"{name} must be a number of seconds, not {value!r}")
    return seconds or None


def _ratio(name: str, value: Any) -> float | None:
    if value in (None, "", "none", "null"):
        return None
    try:
        ratio = float(value)
    except (TypeError, ValueError):
        ratio = -1.0
    if isinstance(value, bool) or not 0 <= ratio <= 1:
        raise ConfigError(f"{name} must be a share from 0 to 1, such as 0.01, not {value!r}")
    return ratio


def _partitions(name: str, value: Any) -> tuple[PartitionSpec, ...] | None:
    if value in (None, "", "none", "null"):
        return None
    if not isinstance(value, str | list | tuple):
        raise ConfigError(f"{name} must be text or a list, not {value!r}")
    return parse_partition_by(value)


def _provenance(name: str, value: Any) -> tuple[str, ...] | None:
    if value in (None, ""):
        return None
    if not isinstance(value, str | list | tuple):
        raise ConfigError(f"{name} must be text or a list, not {value!r}")
    return parse_provenance(value)


KEYS: dict[str, Key] = {
    "source.path": Key(parse=_text, default=None, help="folder, file or glob to read (`--source`)"),
    "source.pattern": Key(
        parse=_text, default=None, help="glob below the folder; default `**/*.{ndjson,jsonl}{,.gz,.zst}`"
    ),
    "source.compression": Key(
        parse=_choice("auto", "gzip", "zstd", "none"), default="auto", help="`auto` (by name), `gzip`, `zstd` or `none`"
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
    "table.committer": Key(parse=_choice("delta-rs"), default="delta-rs", help="`delta-rs`"),
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
    "quarantine.max_records": Key(parse=_number(at_least=0, optional=True), default=None, help="how many it may hold"),
    "quarantine.overflow": Key(
        parse=_choice("block", "reject"),
        default="block",
        help="when it is full: `block` (the run stops) or `reject` (drop and count)",
    ),
    "quarantine.keep_days": Key(
        parse=_number(at_least=1, optional=True),
        default=None,
        help="older records are deleted from it at the end of a run",
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
        parse=_number(at_least=1), default=2, help="batches in flight: the next is read while the last one commits"
    ),
    "limits.max_record_bytes": Key(
        parse=_number(at_least=1, unit_bytes=True), default=16 * 2**20, help="a longer line is a bad record"
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
        help="a task stops at a record boundary after this time; 0 or null: never",
    ),
    "retry.attempts": Key(
        parse=_number(at_least=1), default=3, help="how often a request to a store is made before it has failed"
    ),
    "retry.base_ms": Key(
        parse=_number(at_least=0), default=100, help="the first pause; each is about twice the one before"
    ),
    "retry.max_ms": Key(parse=_number(at_least=0), default=10_000, help="the longest pause"),
    "stop_grace_s": Key(
        parse=_seconds,
        default=20.0,
        help="after a first SIGTERM or SIGINT, the time the batch under way has to end",
    ),
    "spark.slots": Key(
        parse=_number(at_least=1, optional=True),
        default=None,
        help="tasks per batch; default: the session's parallelism",
    ),
}
_SPARK_CONF = "spark.conf"
# Keys below these are not ours to name one by one. Later ones win over earlier ones for the source or the table.
_STORAGE = ("storage_options", "source.storage_options", "table.storage_options")
_FAMILIES = (_SPARK_CONF, *_STORAGE)
NOT_BUILT = ("late_files",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    values: Mapping[str, Any]
    # What is below `spark.conf`, `storage_options` and their like. Credentials may be among it.
    families: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def spark_conf(self) -> Mapping[str, str]:
        return self.families.get(_SPARK_CONF, {})

    def access(self, place: str, root: str, spark_settings: Mapping[str, str] | None = None) -> Access:
        """How to get to the `source` or the `table`: options given, else what Spark's settings say, else neither."""
        options: dict[str, str] = {}
        if not is_local(root):
            options = options_of_spark({**(spark_settings or {}), **self.spark_conf}, root)
            for family in ("storage_options", f"{place}.storage_options"):
                options |= dict(make_access(self.families.get(family, {}), retry=self.retry, what=family).options)
        return make_access(options, retry=self.retry)

    @property
    def retry(self) -> RetryPolicy:
        return RetryPolicy(attempts=self["retry.attempts"], base_ms=self["retry.base_ms"], max_ms=self["retry.max_ms"])

    def require(self, key: str, flag: str) -> str:
        value = self.values[key]
        if value is None:
            raise ConfigError(f"{flag} is missing (key {key})", kind="usage")
        return str(value)

    @property
    def evolution(self) -> str:
        return str(self["schema.evolution"] or ("add_columns" if self["schema.infer"] else "ignore"))

    @property
    def bad_policy(self) -> BadPolicy:
        return BadPolicy(
            records=self["bad_records.policy"],
            files=self["bad_files.policy"],
            max_records=self["bad_records.max_records"],
            max_ratio=self["bad_records.max_ratio"],
        )

    @property
    def limits(self) -> Limits:
        return Limits(
            max_files=self["limits.max_files"],
            max_bytes=self["limits.max_bytes"],
            max_records=self["limits.max_records"],
            commit_files=self["checkpoint.commit_files"],
            target_file_bytes=self["table.target_file_bytes"],
            interval_s=self["checkpoint.interval_s"],
        )


def load_config(
    *, file: str | None = None, assignments: tuple[str, ...] = (), flags: Mapping[str, Any] | None = None
) -> Config:
    """The file, then `key=value` assignments, then flags: the later one wins."""
    given: dict[str, Any] = {}
    if file is not None:
        given.update(_flatten(_read_yaml(file)))
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set takes key=value, not {assignment!r}", kind="usage")
        given[key.strip()] = value
    given.update({key: value for key, value in (flags or {}).items() if value is not None})
    return make_config(given)


def make_config(given: Mapping[str, Any]) -> Config:
    values = {name: key.default for name, key in KEYS.items()}
    families: dict[str, dict[str, str]] = {}
    for name, raw in given.items():
        value = _resolve_env(name, raw) if isinstance(raw, str) else raw
        family = next((f for f in _FAMILIES if name.startswith(f + ".")), None)
        if family is not None:
            families.setdefault(family, {})[name.removeprefix(family + ".")] = _conf_value(value)
        elif name in KEYS:
            values[name] = KEYS[name].parse(name, value)
        else:
            raise _unknown_key(name)
    if values["schema.ddl"] is not None and values["schema.file"] is not None:
        raise ConfigError("give schema.ddl or schema.file, not both")
    for family in _STORAGE:
        make_access(families.get(family, {}), retry=RetryPolicy(), what=family)  # a misspelt name, told at once
    return Config(values=values, families=families)


def _conf_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown_key(name: str) -> ConfigError:
    if any(name == key or name.startswith(key + ".") for key in NOT_BUILT):
        return ConfigError(f"{name} belongs to a feature this version does not have", kind="not_built")
    near = difflib.get_close_matches(name, [*KEYS, *_FAMILIES], n=1, cutoff=0.0)
    return ConfigError(f"unknown key {name!r}; did you mean {near[0]!r}?", kind="unknown_key")


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flatten(value, path + ".")
        else:
            yield path, value


def _read_yaml(path: str) -> Mapping[str, Any]:
    import yaml  # most runs have no file

    try:
        with open(path, encoding="utf-8") as file:
            tree = yaml.safe_load(file)
    except OSError as e:
        raise ConfigError(f"the configuration {path} cannot be read: {e.strerror}") from e
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise ConfigError(f"the configuration {path} is not YAML: {e}") from e
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        raise ConfigError(f"the configuration {path} must be a tree of keys")
    return tree


_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _resolve_env(name: str, text: str) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = os.environ.get(match.group(1)) or match.group(2)
        if value is None:
            raise ConfigError(f"{name} needs the environment variable {match.group(1)}, which is not set")
        return value

    return _ENV.sub(value_of, text)
