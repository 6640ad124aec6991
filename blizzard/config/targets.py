"""Takes the keys below `targets` apart: which target each belongs to, and that together they make sense.

A target has the keys of the pipeline, with its own ones in their place. Only keys about the table, what goes into it
and what a record becomes may be its own: the source, the limits and the process belong to all targets.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from blizzard.core.commit_policy import CommitPolicy
from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.errors import ConfigError

_PREFIX = "targets."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
MAX_TARGETS = 100
# What a target may have of its own.
OWN_KEYS = ("where", "select", "start_from", "required")
OWN_FAMILIES = ("table.", "schema.", "bad_records.", "bad_files.", "quarantine.", "transform.")
# What makes sense only for one table. With `targets` each names its own.
_OF_ONE_TABLE = ("table.path", "quarantine.path", *OWN_KEYS)


def split_targets(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The keys of the pipeline, and by target its own keys."""
    shared: dict[str, Any] = {}
    own: dict[str, dict[str, Any]] = {}
    for key, value in given.items():
        if not key.startswith(_PREFIX):
            shared[key] = value
            continue
        name, dot, rest = key.removeprefix(_PREFIX).partition(".")
        _check_name(name)
        if not dot and (value is None or isinstance(value, Mapping)):  # what is below it stands by itself, if anything
            own.setdefault(name, {})
            continue
        if not dot or not _may_be_own(rest):
            raise ConfigError(
                f"{key[:100]!r}: a target may have {', '.join(OWN_KEYS)} and keys that begin with"
                f" {', '.join(OWN_FAMILIES)} of its own; all others are of the pipeline",
                kind=Kind.UNKNOWN_KEY,
            )
        own.setdefault(name, {})[rest] = value
    if "targets" in shared:
        raise ConfigError("targets takes a tree: targets.NAME.table.path and so on")
    return shared, own


def is_target(key: str) -> bool:
    """Whether this key is the name of a target alone. It is kept: a target of which nothing is said is a mistake."""
    return key.startswith(_PREFIX) and "." not in key.removeprefix(_PREFIX)


def keys_of_targets(targets: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of targets as the Python API takes them: the keys of the configuration, and by target a schema that is an object.
    A target's keys may be a tree or flat; `table` alone is its path, and `schema` its DDL or such an object."""
    keys: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for name, own in targets.items():
        if not isinstance(own, Mapping):
            raise ConfigError(f"target {name!r}: its keys must be a mapping such as {{'table': PATH}}", kind=Kind.USAGE)
        keys[f"{_PREFIX}{name}"] = None
        for key, value in own.items():
            if key == "table" and isinstance(value, str):
                keys[f"{_PREFIX}{name}.table.path"] = value
            elif key == "schema" and isinstance(value, str):
                keys[f"{_PREFIX}{name}.schema.ddl"] = value
            elif key == "schema" and not (isinstance(value, Mapping) and "fields" not in value):
                schemas[name] = value
            else:
                keys |= dict(_flat(f"{_PREFIX}{name}.{key}", value))
    return keys, schemas


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield key, value
        return
    for name, of_it in value.items():
        yield from _flat(f"{key}.{name}", of_it)


def place_flags(given: Mapping[str, Any], said: Mapping[str, Any], target: str | None) -> dict[str, Any]:
    """Both together, the flags on top. With `--target`, a flag about the table is about that target's."""
    _, own = split_targets(given)
    if target is not None:
        require_target(target, own)
    if not own:
        return _overridden(given, said, "")
    if "table.path" in said:
        raise ConfigError(
            f"--table is for one table, and the configuration has targets ({', '.join(own)}), each with its own: leave"
            f" --table out. Every command but run chooses one with --target NAME",
            kind=Kind.USAGE,
        )
    about_table = {key: value for key, value in said.items() if _may_be_own(key)}
    if target is not None:
        given = _overridden(given, about_table, f"{_PREFIX}{target}.")
        return given | {key: value for key, value in said.items() if key not in about_table}
    for name, keys in own.items():
        for key in about_table:
            if key in keys or (key == "schema.ddl" and "schema.file" in keys):
                raise ConfigError(
                    f"{key} was given for all targets, and target {name} has its own: change it in the configuration",
                    kind=Kind.USAGE,
                )
    return _overridden(given, said, "")


def require_target(name: str, known: Collection[str]) -> None:
    if name not in known:
        there = f"its targets: {', '.join(known)}" if known else "it has none"
        raise ConfigError(f"the configuration has no target {name[:60]!r}; {there}", kind=Kind.USAGE)


def require_one_table(known: Collection[str]) -> None:
    """For a command that acts on one table."""
    if known:
        raise ConfigError(
            f"the configuration has several targets, and this command is for one of them: say --target NAME, with one"
            f" of {', '.join(known)}",
            kind=Kind.USAGE,
        )


def _overridden(given: Mapping[str, Any], said: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    both = dict(given)
    if "schema.ddl" in said:
        both.pop(f"{prefix}schema.file", None)  # both give the schema
    return both | {prefix + key: value for key, value in said.items()}


def check_targets(shared: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]], policy: CommitPolicy) -> None:
    if not own:
        if "required" in shared:
            raise ConfigError("required is for one of several targets: targets.NAME.required", kind=Kind.USAGE)
        return
    if len(own) > MAX_TARGETS:
        raise ConfigError(f"there are {len(own):,} targets, and at most {MAX_TARGETS} are possible")
    for key in _OF_ONE_TABLE:
        if key in shared:
            raise ConfigError(
                f"{key} stands beside targets, and says nothing about which. Write it below one: targets.NAME.{key};"
                f" or leave targets out",
                kind=Kind.USAGE,
            )
    for name, keys in own.items():
        if "table.path" not in keys:
            raise ConfigError(f"targets.{name}.table.path is missing", kind=Kind.USAGE)
        if "required" in keys and policy.kind != "required":
            raise ConfigError(
                f"targets.{name}.required says nothing with commit_policy {policy.kind}: leave one of them out",
                kind=Kind.USAGE,
            )
    if policy.kind == "quorum" and not 1 <= policy.quorum <= len(own):
        raise ConfigError(
            f"commit_policy quorum:{policy.quorum} with {count(len(own), 'target')}: take a number from 1 to that"
        )


def _may_be_own(key: str) -> bool:
    return key in OWN_KEYS or key.startswith(OWN_FAMILIES)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"target {name[:60]!r}: letters, digits, '_' and '-' only, at most 50", kind=Kind.USAGE)
