"""Reads the configuration file (YAML) into flat keys. Whatever is in the file, reading ends soon or raises ConfigError.

A key that is there twice is refused: one of the two would silently do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from blizzard.errors import ConfigError

# A real tree is a few levels deep and has about a hundred keys. With aliases a small file can be endless.
_MAX_DEPTH = 20
_MAX_KEYS = 10_000
_SHOWN_CHARS = 300


def read_config_file(path: str) -> dict[str, Any]:
    """`{"source.path": "in", …}`."""
    keys: dict[str, Any] = {}
    for visited, (name, value) in enumerate(_flatten(_read_yaml(path), path)):
        if visited >= _MAX_KEYS:
            raise ConfigError(f"the configuration {path} has more than {_MAX_KEYS:,} keys. Do aliases repeat them?")
        if name in keys:
            raise ConfigError(f"the configuration {path} has the key {name[:_SHOWN_CHARS]} twice. Remove one.")
        if not isinstance(value, Mapping):
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
