"""The configuration of a fleet: one file, many pipelines, each with a validated configuration of its own.

Decides which pipelines can be in one process. It makes no request: a store that does not answer must not keep the other
pipelines from starting. What only a store or a log can tell is found by the pipeline itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from blizzard.config.file import PROCESS, family_of, overlaid, read_fleet_file
from blizzard.config.load import Config, assigned, make_config
from blizzard.config.request import PIPELINE_NAME
from blizzard.core.kinds import Kind
from blizzard.core.overlap import may_overlap
from blizzard.core.types import SourceIdentity
from blizzard.errors import ConfigError
from blizzard.source.uri import identity_by_name
from blizzard.store.uri import is_local, locate

# Each has a thread, and its own files in memory while it reads.
MAX_PIPELINES = 200
_LEAST_ACTIVE, _MOST_ACTIVE = 2, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """A pipeline of a fleet. Its configuration has the keys of the process too."""

    name: str
    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    path: str
    process: Config  # only the keys of the process are set
    members: tuple[FleetMember, ...]

    @property
    def max_active(self) -> int:
        cores = os.cpu_count() or 1
        return self.process.fleet.max_active or min(max(cores, _LEAST_ACTIVE), _MOST_ACTIVE)

    @property
    def needs_delta_jars(self) -> bool:
        return any(member.config.commits_by_spark for member in self.members)


def load_fleet(path: str, *, assignments: tuple[str, ...] = (), flags: Mapping[str, Any] | None = None) -> FleetConfig:
    """The file; `key=value` assignments and flags set keys at its top, so a key of a pipeline itself wins."""
    file = read_fleet_file(path)
    said = {key: value for key, value in (flags or {}).items() if value is not None}
    defaults = file.defaults | assigned(assignments) | said
    _check_names(path, list(file.pipelines))
    process = make_config({key: value for key, value in defaults.items() if family_of(key) in PROCESS})
    members = tuple(_member(name, defaults, keys) for name, keys in file.pipelines.items())
    for one, other in combinations((placed for member in members for placed in _placed(member)), 2):
        if one.member is other.member:  # its targets are compared when it begins
            continue
        for refusal in _conflicts(one, other):
            names = f"{one.member.name!r} and {other.member.name!r}"
            raise ConfigError(f"the configuration {path}: pipelines {names} {refusal}", kind=Kind.FLEET)
    return FleetConfig(path=path, process=process, members=members)


def _check_names(path: str, names: list[str]) -> None:
    if not 1 <= len(names) <= MAX_PIPELINES:
        way = "Split it into several files, each with its own process." if names else "Name one below `pipelines`."
        raise ConfigError(
            f"the configuration {path} has {len(names):,} pipelines; a fleet has from 1 to {MAX_PIPELINES}. {way}",
            kind=Kind.FLEET,
        )
    for name in names:
        if not PIPELINE_NAME.fullmatch(name):
            raise ConfigError(
                f"the configuration {path}: pipeline name {name[:100]!r}: letters, digits, '_', '.' and '-' only, at"
                f" most 100",
                kind=Kind.FLEET,
            )


def _member(name: str, defaults: Mapping[str, Any], keys: Mapping[str, Any]) -> FleetMember:
    for key in keys:
        if family_of(key) in PROCESS:
            raise ConfigError(
                f"pipeline {name!r}: {key[:100]} belongs to the whole process, which has one Spark"
                f" session, one API and one log. Set it at the top of the file; pipelines that need other settings go"
                f" into another file, with a process of its own.",
                kind=Kind.FLEET,
            )
    try:
        config = make_config(overlaid(defaults, keys))
    except ConfigError as e:
        raise ConfigError(f"pipeline {name!r}: {e}", kind=e.kind) from e
    table = config.table.path if not config.targets else ""  # each target was asked for its own
    for key, value in (("source.path", config.source.path), ("table.path", table)):
        if value is None:
            raise ConfigError(f"pipeline {name!r}: the key {key} is missing", kind=Kind.USAGE)
    return FleetMember(name=name, config=config)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A pipeline, or one of its targets, with the names of its places, compared as texts."""

    member: FleetMember
    config: Config
    source: SourceIdentity
    table: str  # or its name in a catalog


def _placed(member: FleetMember) -> list[_Placed]:
    try:
        source = identity_by_name(member.config.source_path, member.config.source.pattern)
        return [
            _Placed(member=member, config=config, source=source, table=_table_of(config))
            for config in member.config.targets.values() or (member.config,)
        ]
    except ConfigError as e:
        raise ConfigError(f"pipeline {member.name!r}: {e}", kind=e.kind) from e


def _table_of(config: Config) -> str:
    table = config.table_path
    return table if table.startswith("catalog:") else locate(table, what="table")


def _conflicts(one: _Placed, other: _Placed) -> Iterator[str]:
    if _needs_other_credentials(one, other):
        yield (
            "both commit with delta-spark, but have different storage_options for their tables: the Spark session has"
            " one set of credentials (spark.conf). Use the committer delta-rs, or two files with a process each."
        )
    if not may_overlap(one.source, other.source):
        return
    if one.table == other.table:
        yield (
            "write to the same table and may read the same files, which would be in it twice. Make one pipeline of"
            " them, or give them sources or patterns without a common file."
        )
    taking = [placed.member.name for placed in (one, other) if placed.config.after_ingest.action != "none"]
    if taking:
        yield (
            f"may read the same files, and {taking[0]!r} takes them away (after_ingest.action): the other one would"
            f" miss what it has not read by then. Leave after_ingest out, or give them sources without a common file."
        )


def _needs_other_credentials(one: _Placed, other: _Placed) -> bool:
    by_session = [p for p in (one, other) if p.config.table.committer == "delta-spark" and not is_local(p.table)]
    return len(by_session) == 2 and _credentials(one.config) != _credentials(other.config)


def _credentials(config: Config) -> dict[str, str]:
    shared, own = config.families.get("storage_options", {}), config.families.get("table.storage_options", {})
    return {**shared, **own}
