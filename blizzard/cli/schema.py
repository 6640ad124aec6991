"""`blizzard schema …`: infers a schema from records, or compares one with a table's."""

from __future__ import annotations

import argparse
import sys

from blizzard.cli.context import looking
from blizzard.cli.output import output_of
from blizzard.core.events import unheard
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING
from blizzard.core.lists import count, cut_columns
from blizzard.errors import ConfigError, SchemaError
from blizzard.run.assemble import Assembly
from blizzard.run.discover import check_matches
from blizzard.run.infer import InferredSchema
from blizzard.schema.fit import schema_differences
from blizzard.schema.layout import layout_of
from blizzard.schema.load import load_schema
from blizzard.service.progress import TerminalProgress


def dispatch(options: argparse.Namespace) -> int:
    return _infer(options) if options.action == "infer" else _diff(options)


def _inferred(assembly: Assembly) -> InferredSchema:
    location = assembly.request.source_location
    listed = assembly.source.look(EVERYTHING)
    check_matches(assembly.emit if listed.files else unheard, listed, location.identity)
    inferred = assembly.infer(listed.files)
    if inferred is None:
        raise SchemaError(f"there is no record in {location.root} ({location.pattern})", kind=Kind.NO_RECORDS)
    return inferred


def _infer(options: argparse.Namespace) -> int:
    with looking(options, TerminalProgress().see) as assembly:
        inferred = _inferred(assembly)
    output_of(options).result(inferred.to_dict(), _ddl_lines(inferred))
    return 0


def _ddl_lines(inferred: InferredSchema) -> list[str]:
    """One column a line: all of them for a file or another program, the first for a person."""
    if sys.stdout.isatty():
        return cut_columns(inferred.columns)
    *others, last = inferred.columns
    return [*(f"{column}," for column in others), last]


def _diff(options: argparse.Namespace) -> int:
    of_a_sample = (options.pattern, options.hints, options.sample_records, options.sample_files)
    if options.compared is not None and any(option is not None for option in of_a_sample):
        raise ConfigError("--pattern, --hints and --sample-* go with --source, not with --schema", kind=Kind.USAGE)
    with looking(options, TerminalProgress().see) as assembly:
        if options.compared is None and assembly.config.source.path is None:
            raise ConfigError("--source or --schema is missing (key source.path)", kind=Kind.USAGE)
        opened = assembly.open_table()
        # Only the columns that are read from records.
        table = layout_of(opened.schema, opened.partition_columns).record_schema
        if options.compared is not None:
            differences = schema_differences(load_schema(options.compared), table)
        else:
            differences = schema_differences(_inferred(assembly).schema, table, called="inferred")
    found = count(len(differences), "difference") if differences else "same"
    output_of(options).result({"same": not differences, "differences": differences}, [found, *differences])
    return 0
