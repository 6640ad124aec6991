"""`blizzard try`: prints what files would become, without a table and without Spark."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from blizzard.cli.context import FLAGS, config_of_one
from blizzard.cli.output import output_of
from blizzard.cli.row_table import plain_value, row_table
from blizzard.cli.trial_lines import trial_lines
from blizzard.config.load import Config
from blizzard.config.request import RequestForFiles, request_for_files
from blizzard.core.events import unheard
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, cut_columns
from blizzard.core.types import SourceFile
from blizzard.errors import ConfigError
from blizzard.operate.try_out import Tried, try_files
from blizzard.schema import DeltaSchema
from blizzard.schema.ddl import column_ddls
from blizzard.service.progress import TerminalProgress
from blizzard.spark.session import settings_of
from blizzard.text.redaction import redact_argument
from blizzard.text.shell import shell_words

_DATA_ENDING = re.compile(r"(?:\.(?:ndjson|jsonl|json|log|gz|gzip|zst|zstd|bz2|xz))+$", re.IGNORECASE)
_ENDING = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,7}){1,2}$")
_GLOB = re.compile(r"[*?\[{]")
_NO_PLAIN_NAME = re.compile(r"[*?\[\]{},!\\]")
_NAMED_FILES = 20  # more would be no command to read
# Where the output is no terminal.
_WIDTH = 120


def dispatch(options: argparse.Namespace) -> int:
    if options.files and options.source is not None:
        raise ConfigError("give FILE or --source, not both", kind=Kind.USAGE)
    config = _config(options)
    named = options.files or [config.source_path]
    request = request_for_files(config, named, settings_of(None))
    emit = unheard if options.json else TerminalProgress().see
    tried = try_files(request, max_records=options.records or None, rows=options.rows, emit=emit)
    command = _next_command(options, config, named, request, tried)
    output, failure = output_of(options, verbatim=("first_rows",)), tried.failure
    output.result(_as_object(tried, command), _lines(tried, command, _width()))
    if failure is not None and not options.json:
        raise failure
    return 0 if failure is None else failure.exit_code


def _config(options: argparse.Namespace) -> Config:
    """Without a schema one is inferred, as in the first run that would follow."""
    config = config_of_one(options)
    keys = config.transform
    if keys.sql is not None or keys.python is not None:
        return config  # what it reads is inferred for the trial only: a run needs it written down
    if config.schema.ddl is None and config.schema.file is None and not config.schema.variant:
        return replace(config, schema=replace(config.schema, infer=True))
    return config


def _as_object(tried: Tried, command: str) -> dict[str, Any]:
    failure = tried.failure
    return {
        "found": [{"kind": kind, "files": files, "bytes": size} for kind, files, size in _kinds(tried.files)],
        "ddl": ", ".join(_column_ddls(tried.schema)),
        "schema": tried.schema,
        "first_rows": [{name: plain_value(row[name]) for name in tried.columns} for row in tried.first_rows],
        **tried.facts,
        "next": None if failure is not None else command,
        "exit_code": 0 if failure is None else failure.exit_code,
        "error_kind": None if failure is None else failure.kind,
        "error": None if failure is None else str(failure),
    }


def _lines(tried: Tried, command: str, width: int) -> Iterator[str]:
    for kind, files, size in _kinds(tried.files):
        yield f"{'found':<12}{count(files, 'file')} {kind}, {size:,} bytes"
    yield from ("", "schema:")
    columns = _column_ddls(tried.schema)
    yield from (f"  {column}" for column in cut_columns([f"{column}," for column in columns[:-1]] + columns[-1:]))
    if tried.first_rows:
        yield from ("", "first rows:")
        yield from row_table(tried.columns, tried.first_rows, width=width)
    yield ""
    yield from trial_lines(tried.facts)
    if tried.failure is None:
        yield from ("", "next:", f"  {command}")


def _column_ddls(schema: DeltaSchema) -> list[str]:
    """Without metadata: that a column takes whole records is no part of DDL."""
    return column_ddls({"type": "struct", "fields": [field | {"metadata": {}} for field in schema["fields"]]})


def _kinds(files: Sequence[SourceFile]) -> list[tuple[str, int, int]]:
    """What lies there, by the endings of the names: how many files, and how many bytes."""
    found: dict[str, tuple[int, int]] = {}
    for file in files:
        ending = _ENDING.search(file.path.rsplit("/", 1)[-1])
        kind = f"*{ending[0]}" if ending else "without an ending"
        number, size = found.get(kind, (0, 0))
        found[kind] = number + 1, size + file.size_bytes
    return [(kind, *found[kind]) for kind in sorted(found)]


def _next_command(
    options: argparse.Namespace, config: Config, named: Sequence[str], request: RequestForFiles, tried: Tried
) -> str:
    """The first run on the same files, to be pasted; of many names, on the folder they are in. Secrets are hidden."""
    root = request.picked.location.root
    source = named[0] if len(named) == 1 else root
    place = root if _GLOB.search(source) else _DATA_ENDING.sub("", source.rstrip("/"))
    words = ["--source", source]
    words += ["--table", f"{place}_table"] if config.table.path is None else []
    words += _schema_words(options, config)
    if request.transforms and request.schema is None:  # a run needs to know what the transform reads
        words += ["--schema", ", ".join(_column_ddls(tried.schema))]
    words += ["--config", options.config] if options.config is not None else []
    pattern = options.pattern if len(named) == 1 else _pattern_of(request.picked.files)
    assignments = [*options.assignments, *([f"source.pattern={pattern}"] if pattern else [])]
    words += [word for assignment in assignments for word in ("--set", assignment)]
    return shell_words(["blizzard", "run", *map(redact_argument, words)])


def _schema_words(options: argparse.Namespace, config: Config) -> list[str]:
    """A run takes what is about one of several targets by its key."""
    given = {"--schema": options.schema, "--hints": options.hints}
    flags = [flag for flag, is_on in (("--infer", config.schema.infer), ("--variant", options.variant)) if is_on]
    if options.target is None:
        return [*flags, *(word for flag, value in given.items() if value is not None for word in (flag, value))]
    keys = {FLAGS[flag.removeprefix("--")]: "true" for flag in flags}
    keys |= {FLAGS[flag.removeprefix("--")]: value for flag, value in given.items() if value is not None}
    return [word for key, value in keys.items() for word in ("--set", f"targets.{options.target}.{key}={value}")]


def _pattern_of(files: Sequence[SourceFile]) -> str | None:
    """A run on the whole folder would read others too, or not those with other endings."""
    paths = [file.path for file in files]
    is_short = 1 < len(paths) <= _NAMED_FILES and not any(_NO_PLAIN_NAME.search(path) for path in paths)
    return f"{{{','.join(paths)}}}" if is_short else None


def _width() -> int:
    """Of the terminal; COLUMNS decides if it is set."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
