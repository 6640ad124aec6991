"""The arguments of `try` and `plan`, without anything that is slow to import."""

from __future__ import annotations

import argparse
from typing import Any

from blizzard.cli.arguments import (
    add_config_arguments,
    add_hints_argument,
    add_ingest_arguments,
    add_reads_again_argument,
    add_variant_argument,
    records_or_all,
    whole_number,
)

_TRY = """Say what files would become in a table: the schema that a sample suggests, the first rows, what would be bad
and which settings would take it, and how fast it goes. Needs no table, no Spark and no Java, and changes nothing. Exits
5 if no record becomes a row."""
_TRY_EXAMPLES = """examples:
  blizzard try events.ndjson.gz
  blizzard try /data/events --hints 'id BIGINT' --set schema.formats.ts=epoch_ms
  blizzard try 's3://raw/events/2026-*' --records all --json"""
_PLAN = """Show what a run would do first, found by its own first steps. With --validate, records of the first batch are
also parsed as its tasks would do it, without Spark: what would become rows, what would be bad and which settings would
take it, which fields have no column, and how fast it goes. Changes nothing. With --validate it exits 5 if the run would
stop over these records."""
_PLAN_EXAMPLE = """example:
  blizzard plan --source /data/events --table /lake/events --infer --validate --records 1000000"""


def add_try_parser(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "try",
        help="say what files would become, without a table and without Spark",
        description=_TRY,
        epilog=_TRY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="file, folder or glob, on this machine or in a bucket")
    parser.add_argument("--source", metavar="URI", help="the same, as a run takes it; or source.path of the file")
    parser.add_argument("--schema", metavar="DDL|FILE", help="the schema, instead of the one that a sample suggests")
    add_hints_argument(parser)
    add_variant_argument(parser)
    parser.add_argument("--pattern", metavar="GLOB", help="which files below the folder")
    _add_records_argument(parser, 10_000)
    parser.add_argument("--rows", metavar="N", type=whole_number(0), default=10, help="rows to show (default: 10)")
    add_config_arguments(parser)
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def add_plan_parser(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "plan",
        help="show what a run would do; changes nothing",
        description=_PLAN,
        epilog=_PLAN_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_ingest_arguments(parser)
    add_reads_again_argument(parser)
    parser.add_argument("--validate", action="store_true", help="also parse records of the first batch")
    _add_records_argument(parser, 100_000, only_with="--validate")
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def _add_records_argument(parser: argparse.ArgumentParser, default: int, *, only_with: str | None = None) -> None:
    condition = "" if only_with is None else f"with {only_with}: "
    parser.add_argument(
        "--records",
        metavar="N",
        type=records_or_all,
        default=default if only_with is None else None,
        help=f"{condition}records to parse at most, spread over the files; 0 or all: every one (default: {default})",
    )
