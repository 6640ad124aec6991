"""Configuration: one tree of keys for YAML, `--set` and the Python API, validated once, here.

An unknown key is an error that names the nearest valid one: a setting must never silently do nothing. `${ENV}` is
replaced by its value here.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from blizzard.config.file import read_config_file
from blizzard.config.keys import KEYS, Keys, with_values
from blizzard.config.targets import check_targets, place_flags, require_target, split_targets
from blizzard.config.values import names, require_plain
from blizzard.core.bad import BadPolicy
from blizzard.core.commit_policy import CommitPolicy
from blizzard.core.kinds import Kind
from blizzard.core.late import LatePolicy
from blizzard.core.plan import Limits
from blizzard.core.retry import RetryPolicy
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema import ColumnPath, parse_path
from blizzard.store.access import Access, make_access, options_of_spark
from blizzard.store.uri import is_local
from blizzard.text.redaction import learn_named, learn_uri

_SPARK_CONF = "spark.conf"
# Keys below these belong to Spark and the stores. Later families win over earlier ones for the source or the table.
_STORAGE = ("storage_options", "source.storage_options", "table.storage_options")
# Keys below these are paths of columns.
COLUMN_FAMILIES = ("schema.formats", "schema.coerce", "schema.rename")
_FAMILIES = (_SPARK_CONF, *_STORAGE, *COLUMN_FAMILIES)
_PARSER = "BLIZZARD_PARSER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Keys):
    # Keys below `spark.conf`, `storage_options` and the like. Credentials may be among them.
    families: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    # Keys below `schema.formats` and the like: the names given for each column.
    columns: Mapping[str, Mapping[ColumnPath, tuple[str, ...]]] = field(default_factory=dict)

    # Several tables from one source: by name, the configuration of each. Empty: there is one table, this one's.
    targets: Mapping[str, Config] = field(default_factory=dict)

    def target(self, name: str | None) -> Config:
        """The configuration of one target. None: there is only one table."""
        if name is None:
            return self
        require_target(name, self.targets)
        return self.targets[name]

    @property
    def commits_by_spark(self) -> bool:
        """Whether a table is committed to by the Spark session's own Delta."""
        return any(one.table.committer == "delta-spark" for one in (self, *self.targets.values()))

    @property
    def policy_of_targets(self) -> CommitPolicy:
        """Which failure of a target ends the run."""
        return CommitPolicy.parse(self.commit_policy)

    @property
    def keeps_unrouted(self) -> bool:
        """Whether records that no target wants go to quarantine."""
        return (self.unrouted or ("quarantine" if self.targets else "drop")) == "quarantine"

    @property
    def parser(self) -> str:
        """Which parser reads the lines."""
        given = os.environ.get(_PARSER)
        if self.source.parser is not None or not given:
            return self.source.parser or "auto"
        return str(KEYS["source.parser"].parse(f"the environment variable {_PARSER}", given))

    @property
    def spark_conf(self) -> Mapping[str, str]:
        remote = {} if self.spark.remote is None else {"spark.remote": self.spark.remote}
        return {**self.families.get(_SPARK_CONF, {}), **remote}

    def access(self, place: str, root: str, spark_settings: Mapping[str, str] | None = None) -> Access:
        """How to get to the `source` or the `table`: the given options win over Spark's settings."""
        options: dict[str, str] = {}
        if not is_local(root):
            options = options_of_spark({**(spark_settings or {}), **self.spark_conf}, root)
            for family in ("storage_options", f"{place}.storage_options"):
                options |= dict(
                    make_access(self.families.get(family, {}), retry=self.retry_policy, what=family).options
                )
        return make_access(options, retry=self.retry_policy)

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy(attempts=self.retry.attempts, base_ms=self.retry.base_ms, max_ms=self.retry.max_ms)

    @property
    def source_path(self) -> str:
        return _given(self.source.path, "--source", "source.path")

    @property
    def table_path(self) -> str:
        return _given(self.table.path, "--table", "table.path")

    @property
    def evolution(self) -> str:
        adds = self.schema.infer and self.select is None
        return str(self.schema.evolution or ("add_columns" if adds else "ignore"))

    @property
    def bad_policy(self) -> BadPolicy:
        return BadPolicy(
            records=self.bad_records.policy,
            files=self.bad_files.policy,
            max_records=self.bad_records.max_records,
            max_ratio=self.bad_records.max_ratio,
            first_batch_max_ratio=self.bad_records.first_batch_max_ratio,
        )

    @property
    def late_policy(self) -> LatePolicy:
        return LatePolicy(
            late=self.late_files.policy,
            rewritten=self.rewritten_files.policy,
            unclear=self.late_files.unclear,
            grace_ms=self.late_files.grace_s * 1000,
            relist_max_names=self.late_files.relist_max_names,
            relist_every_ms=self.late_files.relist_every_s * 1000,
        )

    @property
    def batch_limits(self) -> Limits:
        return Limits(
            max_files=self.limits.max_files,
            max_bytes=self.limits.max_bytes,
            max_records=self.limits.max_records,
            commit_files=self.checkpoint.commit_files,
            target_file_bytes=self.table.target_file_bytes,
            interval_s=self.checkpoint.interval_s,
        )


def load_config(
    *,
    file: str | None = None,
    assignments: tuple[str, ...] = (),
    flags: Mapping[str, Any] | None = None,
    target: str | None = None,
) -> Config:
    """From the file, then `key=value` assignments, then flags: the later one wins. `target` is the one that the flags
    are about, if there are several."""
    given: dict[str, Any] = {}
    if file is not None:
        given.update(read_config_file(file))
    given.update(assigned(assignments))
    said = {key: value for key, value in (flags or {}).items() if value is not None}
    return make_config(place_flags(given, said, target))


def assigned(assignments: tuple[str, ...]) -> dict[str, str]:
    """Keys and values of `--set`."""
    given: dict[str, str] = {}
    for count, assignment in enumerate(assignments, 1):
        key, equals, value = assignment.partition("=")
        if not equals:  # the text is not shown: it may be a secret
            raise ConfigError(f"--set takes key=value; number {count} of them has no '='", kind=Kind.USAGE)
        given[key.strip()] = value
    return given


def make_config(given: Mapping[str, Any]) -> Config:
    shared, own = split_targets(given)
    if "commit_policy.quorum" in shared:  # YAML: commit_policy: {quorum: 2}
        shared["commit_policy"] = f"quorum:{shared.pop('commit_policy.quorum')}"
    config = _make_config(shared)
    check_targets(shared, own, config.policy_of_targets)
    return replace(config, targets={name: _make_target(name, shared, keys) for name, keys in own.items()})


def _make_target(name: str, shared: Mapping[str, Any], own: Mapping[str, Any]) -> Config:
    both = dict(shared)
    for pair in (("schema.ddl", "schema.file"), ("transform.sql", "transform.python")):
        if any(key in own for key in pair):  # its own takes the place of the common one, in whichever form
            for key in pair:
                both.pop(key, None)
    try:
        return _make_config({**both, **own})
    except ConfigError as e:
        raise ConfigError(f"target {name}: {e}", kind=e.kind) from None


def _make_config(given: Mapping[str, Any]) -> Config:
    values: dict[str, Any] = {}
    families: dict[str, dict[str, str]] = {}
    columns: dict[str, dict[ColumnPath, tuple[str, ...]]] = {}
    learn_named(given)
    # YAML makes a date of 2026-01-31.
    plain = {name: raw.isoformat() if isinstance(raw, date) else raw for name, raw in given.items()}
    resolved = {name: _resolve_env(name, raw) if isinstance(raw, str) else raw for name, raw in plain.items()}
    learn_named(resolved)
    for value in resolved.values():
        if isinstance(value, str):
            learn_uri(value)
    for name, value in resolved.items():
        family = next((f for f in _FAMILIES if name.startswith(f + ".")), None)
        require_plain(name, value, or_list=family is None or family in COLUMN_FAMILIES)
        if family in COLUMN_FAMILIES:
            columns.setdefault(family, {})[_column(name, family)] = names(name, value)
        elif family is not None:
            families.setdefault(family, {})[name.removeprefix(family + ".")] = _conf_value(value)
        elif name in KEYS:
            values[name] = KEYS[name].parse(name, value)
        else:
            raise _unknown_key(name)
    if values.get("schema.ddl") is not None and values.get("schema.file") is not None:
        raise ConfigError("give schema.ddl or schema.file, not both")
    if values.get("schema.rename") is not None and "schema.rename" in columns:
        raise ConfigError("give schema.rename snake, or new names for single fields (schema.rename.FIELD), not both")
    if values.get("transform.sql") is not None and values.get("transform.python") is not None:
        raise ConfigError("give transform.sql or transform.python, not both")
    for family in _STORAGE:
        make_access(families.get(family, {}), retry=RetryPolicy(), what=family)  # reports a misspelt name at once
    return Config(**with_values(Keys(), values), families=families, columns=columns)


def _given(value: str | None, flag: str, key: str) -> str:
    if value is None:
        raise ConfigError(f"{flag} is missing (key {key})", kind=Kind.USAGE)
    return value


def _column(name: str, family: str) -> ColumnPath:
    try:
        return parse_path(name.removeprefix(family + "."))
    except SchemaError as error:
        raise ConfigError(f"{family}: {error}") from None


def _conf_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown_key(name: str) -> ConfigError:
    key = re.match(r"[\w.-]*", name)
    if key is not None and key[0] != name:
        name = key[0] + "…"  # the rest is not a name and may be a value
    near = difflib.get_close_matches(name, [*KEYS, *_FAMILIES], n=1, cutoff=0.0)
    return ConfigError(f"unknown key {name!r}; did you mean {near[0]!r}?", kind=Kind.UNKNOWN_KEY)


_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _resolve_env(name: str, text: str) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = os.environ.get(match.group(1)) or match.group(2)
        if value is None:
            raise ConfigError(f"{name} needs the environment variable {match.group(1)}, which is not set")
        return value

    return _ENV.sub(value_of, text)
