"""Contenders from outside: any command that reads the data set's folder and writes a Delta table or Parquet files.

A command is split like a shell would, without a shell; placeholders are filled in afterwards, so that none of them
can become a second argument.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from benchmarks.contenders.play import Spec

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class UsageError(Exception):
    """The command line or a configuration file asks for something that cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    name: str
    command: tuple[str, ...]
    datasets: tuple[str, ...] = ()  # empty: every one

    def arguments(self, spec: Spec) -> list[str]:
        values = {
            "source": spec.source,
            "table": spec.table,
            "schema_ddl": spec.ddl,
            "rows": str(spec.rows),
            "pattern": spec.pattern,
            "cores": str(spec.cores),
            "work": spec.work,
        }
        placeholder = re.compile("{(" + "|".join(values) + ")}")
        return [placeholder.sub(lambda m: values[m.group(1)], argument) for argument in self.command]


def parse_flag(text: str) -> External:
    """`name=command with {source} {table}`"""
    name, equals, command = text.partition("=")
    if not equals or not command.strip():
        raise UsageError(f"--external takes name=command, not {text!r}")
    return _external(name.strip(), command)


def load_config(path: str) -> list[External]:
    """`contenders:` by name, each with `command` (text or list) and optionally `datasets`."""
    if not os.path.isfile(path):
        raise UsageError(f"the configuration {path} does not exist")
    with open(path, encoding="utf-8") as file:
        tree = yaml.safe_load(file) or {}
    contenders = tree.get("contenders") if isinstance(tree, Mapping) else None
    if not isinstance(contenders, Mapping):
        raise UsageError(f"{path} must have a key 'contenders' with one entry per name")
    return [_from_entry(path, str(name), entry) for name, entry in contenders.items()]


def _from_entry(path: str, name: str, entry: Any) -> External:
    if not isinstance(entry, Mapping) or "command" not in entry or entry.keys() - {"command", "datasets"}:
        raise UsageError(f"{path}: {name} takes 'command' and, if wanted, 'datasets'")
    return _external(name, entry["command"], entry.get("datasets") or ())


def _external(name: str, command: str | Sequence[Any], datasets: Sequence[Any] = ()) -> External:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a contender's name: small letters, digits, '_' and '-' only")
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    return External(name=name, command=tuple(words), datasets=tuple(map(str, datasets)))
