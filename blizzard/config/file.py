"""Reads the configuration file (YAML) into flat keys. Whatever is in the file, reading ends soon or raises ConfigError.

A key that is there twice is refused: one of the two would silently do nothing. A file with `pipelines` is that of a
fleet (`blizzard serve`); commands on one pipeline name it: `FILE#NAME`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.config.targets import is_target
from blizzard.core.kinds import Kind
from blizzard.core.lists import some
from blizzard.errors import ConfigError

# A real tree is a few levels deep and has about a hundred keys. With aliases a small file can be endless.
_MAX_DEPTH = 20
_MAX_KEYS = 10_000
_SHOWN_CHARS = 300


PIPELINES = "pipelines"
# These belong to the process of a fleet, whatever pipeline is meant.
PROCESS = ("spark", "api", "log", "metrics", "fleet", "stop_grace_s")
_OF_THE_FLEET_ONLY = ("api", "metrics", "fleet")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """Flat keys: those for all pipelines, and those of each."""

    defaults: dict[str, Any]
    pipelines: dict[str, dict[str, Any]]


def read_config_file(path: str) -> dict[str, Any]:
    """`{"source.path": "in", …}`. Of a fleet's file the keys of the pipeline that `path` names."""
    file, name = split_name(path)
    tree = _read_yaml(file)
    if PIPELINES not in tree:
        if name is not None:
            raise ConfigError(f"the configuration {file} has no pipelines, so #{name} names none", kind=Kind.FLEET)
        return _keys_of(tree, file)
    fleet = _fleet_of(tree, file)
    if name not in fleet.pipelines:
        raise ConfigError(
            f"the configuration {file} is that of a fleet, for blizzard serve. Name the pipeline that is meant:"
            f" --config {file}#NAME with one of {some(sorted(fleet.pipelines), 10) or 'none'}.",
            kind=Kind.FLEET,
        )
    # The address and the metrics are those of the fleet, which may be running.
    shared = {key: value for key, value in fleet.defaults.items() if family_of(key) not in _OF_THE_FLEET_ONLY}
    return overlaid(shared, fleet.pipelines[name])


def split_name(path: str) -> tuple[str, str | None]:
    """`FILE#NAME` as file and pipeline. A file that has such a name itself is meant whole."""
    file, found, name = path.rpartition("#")
    return (path, None) if not found or os.path.exists(path) else (file, name)


def read_fleet_file(path: str) -> FleetFile:
    tree = _read_yaml(path)
    if PIPELINES not in tree:
        raise ConfigError(
            f"the configuration {path} has no pipelines. A fleet has a key `{PIPELINES}`, with the keys of each below"
            f" its name. For one pipeline: blizzard run --follow --config {path}.",
            kind=Kind.FLEET,
        )
    return _fleet_of(tree, path)


def overlaid(defaults: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a pipeline over those for all."""
    given = dict(defaults)
    if {"schema.ddl", "schema.file"} & keys.keys():  # both give the schema
        given.pop("schema.ddl", None)
        given.pop("schema.file", None)
    return given | dict(keys)


def family_of(key: str) -> str:
    return key.split(".", 1)[0]


def _fleet_of(tree: Mapping[Any, Any], path: str) -> FleetFile:
    named = tree[PIPELINES]
    if not isinstance(named, Mapping) or not all(isinstance(keys, Mapping | None) for keys in named.values()):
        raise ConfigError(
            f"the configuration {path}: `{PIPELINES}` takes names, and below each name the keys of that pipeline",
            kind=Kind.FLEET,
        )
    for name in named:
        if not isinstance(name, str):  # two of them could have one text
            raise ConfigError(
                f"the configuration {path}: YAML takes a pipeline name for {str(name)[:100]}, which is no text. Write"
                f" it in quotes.",
                kind=Kind.FLEET,
            )
    return FleetFile(
        defaults=_keys_of({name: value for name, value in tree.items() if name != PIPELINES}, path),
        pipelines={name: _keys_of(keys or {}, f"{path} ({name})") for name, keys in named.items()},
    )


def _keys_of(tree: Mapping[Any, Any], path: str) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for visited, (name, value) in enumerate(_flatten(tree, path)):
        if visited >= _MAX_KEYS:
            raise ConfigError(f"the configuration {path} has more than {_MAX_KEYS:,} keys. Do aliases repeat them?")
        if name in keys:
            raise ConfigError(f"the configuration {path} has the key {name[:_SHOWN_CHARS]} twice. Remove one.")
        if not isinstance(value, Mapping) or is_target(name):
            keys[name] = value
    return keys


def _flatten(tree: Mapping[Any, Any], path: str, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Every key, also those that hold other keys: each counts towards the limit."""
    if depth > _MAX_DEPTH:
        raise ConfigError(f"the configuration {path} is more than {_MAX_DEPTH} levels deep")
    for name, value in tree.items():
        if not isinstance(name, str):
            raise ConfigError(f"the configuration {path} has a key that is no text, below {prefix or 'the top'!r}")
        yield f"{prefix}{name}", value
        if isinstance(value, Mapping):
            yield from _flatten(value, path, f"{prefix}{name}.", depth + 1)


def _read_yaml(path: str) -> Mapping[Any, Any]:
    import yaml  # most runs have no file

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            for name in names:
                if names.count(name) > 1:
                    raise ConfigError(f"the configuration {path} has the key {name[:_SHOWN_CHARS]} twice. Remove one.")
            return super().construct_mapping(node, deep)

    try:
        with open(path, encoding="utf-8") as file:
            tree = yaml.load(file, Loader)
    except OSError as e:
        raise ConfigError(f"the configuration {path} cannot be read: {e.strerror}") from e
    except RecursionError as e:
        raise ConfigError(f"the configuration {path} is more than {_MAX_DEPTH} levels deep") from e
    except (yaml.YAMLError, ValueError, OverflowError) as e:  # also a number or date that Python cannot hold
        raise ConfigError(f"the configuration {path} is not YAML: {_problem(e)}") from None
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        raise ConfigError(f"the configuration {path} must be a tree of keys")
    return tree


def _problem(error: Exception) -> str:
    """What is wrong, and where. The error's own text shows the line, which may have a secret in it."""
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 ({error.reason} at byte {error.start})"
    problem = str(getattr(error, "problem", None) or type(error).__name__)
    return re.sub(r"'[^<'][^']+'", "…", problem) + where  # hides an alias or a tag: it may be a password
