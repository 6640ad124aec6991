"""The arguments of `try` and `plan`, without anything that is slow to import."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from blizzard.cli.arguments import (
    add_config_arguments,
    add_hints_argument,
    add_ingest_arguments,
    add_json_argument,
    add_target_argument,
    add_variant_argument,
    records_or_all,
    whole_number,
)
from blizzard.cli.help import add_command

if TYPE_CHECKING:
    from blizzard.cli.help import Commands

_TRY = """Say what files would become in a table: the schema that a sample suggests, the first rows, what would be bad
and which settings would take it, and how fast it goes. Needs no table, no Spark and no Java, and changes nothing. Exits
5 if no record becomes a row."""
_PLAN = """Show what a run would do first, found by its own first steps. With --validate, records of the first batch are
also parsed as its tasks would do it, without Spark: what would become rows, what would be bad and which settings would
take it, which fields have no column, and how fast it goes. Changes nothing. With --validate it exits 5 if the run would
stop over these records."""


def add_try_parser(commands: Commands) -> None:
    parser = add_command(
        commands,
        "try",
        says="say what files would become, without a table and without Spark",
        description=_TRY,
        takes="FILE…",
        examples=[
            "blizzard try events.ndjson.gz",
            "blizzard try /data/events --hints 'id BIGINT' --set schema.formats.ts=epoch_ms",
            "blizzard try 's3://raw/events/2026-*' --records all --json",
        ],
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="file, folder or glob, on this machine or in a bucket")
    parser.add_argument("--source", metavar="URI", help="the same, as a run takes it; or source.path of the file")
    parser.add_argument("--schema", metavar="DDL|FILE", help="the schema, instead of the one that a sample suggests")
    add_hints_argument(parser)
    add_variant_argument(parser)
    parser.add_argument("--pattern", metavar="GLOB", help="which files below the folder")
    _add_records_argument(parser, 10_000)
    parser.add_argument("--rows", metavar="N", type=whole_number(0), default=10, help="rows to show (default: 10)")
    add_target_argument(parser)
    add_config_arguments(parser)
    add_json_argument(parser)


def add_plan_parser(commands: Commands) -> None:
    parser = add_command(
        commands,
        "plan",
        says="show what a run would do; changes nothing",
        description=_PLAN,
        takes="--source URI --table URI",
        examples=[
            "blizzard plan --source /data/events --table /lake/events --infer",
            "blizzard plan --source /data/events --table /lake/events --infer --validate --records 1000000",
        ],
    )
    add_ingest_arguments(parser)
    parser.add_argument("--validate", action="store_true", help="also parse records of the first batch")
    _add_records_argument(parser, 100_000, only_with="--validate")
    add_json_argument(parser)


def _add_records_argument(parser: argparse.ArgumentParser, default: int, *, only_with: str | None = None) -> None:
    condition = "" if only_with is None else f"with {only_with}: "
    parser.add_argument(
        "--records",
        metavar="N",
        type=records_or_all,
        default=default if only_with is None else None,
        help=f"{condition}records to parse at most, spread over the files; 0 or all: every one (default: {default})",
    )
