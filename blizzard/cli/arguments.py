"""Arguments that several commands share, without anything that is slow to import."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable


def whole_number(at_least: int) -> Callable[[str], int]:
    """The type of an option that takes a number of at most 18 digits. Python itself refuses more than 4,300 digits."""

    def parse(text: str) -> int:
        number = int(text) if re.fullmatch(r"[0-9]{1,18}", text) else -1
        if number < at_least:
            shown = repr(text if len(text) <= 20 else f"{text[:20]}…")
            raise argparse.ArgumentTypeError(f"{shown} is not a whole number of {at_least} or more")
        return number

    return parse


def records_or_all(text: str) -> int:
    """The type of an option that takes a number of records. 0: all of them."""
    return 0 if text == "all" else whole_number(0)(text)


_PIPELINE_HELP = (
    "name of the pipeline; default: the pipeline of the table that reads this source, else a name made from the source"
)


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Commands on a table need these too: its store may need `storage_options`."""
    parser.add_argument("--config", metavar="FILE", help="YAML file; flags override it")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="set one key, such as storage_options.AWS_REGION=eu-west-1; repeatable",
    )


def add_committer_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--committer",
        choices=("delta-rs", "delta-spark"),
        help="who commits: delta-rs (default), or the Spark session's own Delta; see blizzard doctor",
    )


def add_hints_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hints",
        metavar="DDL",
        help="columns whose type you decide, not the sample, such as 'id BIGINT, user.age INT'",
    )


def add_variant_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--variant",
        action="store_const",
        const=True,
        help="make a new table that takes each record whole, in one VARIANT column named record",
    )


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", metavar="URI", help="folder, file or glob of NDJSON files")
    parser.add_argument("--table", metavar="URI", help="Delta table to append to; made on first use")
    parser.add_argument("--schema", metavar="DDL|FILE", help="schema of a new table; leave out when the table exists")
    parser.add_argument(
        "--infer",
        action="store_const",
        const=True,
        help="make a new table with the schema that a sample of the records suggests",
    )
    add_hints_argument(parser)
    add_variant_argument(parser)
    parser.add_argument("--pipeline", metavar="NAME", help=_PIPELINE_HELP)
    add_committer_argument(parser)
    add_config_arguments(parser)
    parser.add_argument(
        "--start-from",
        metavar="WHERE",
        help="where a new pipeline begins: 'beginning', 'after:NAME', or 'date:2026-01-31' (with files changed since"
        " then); needed on a table that already has data",
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="begin at the newest position that the Rust blizzard has left in this table",
    )


def add_reads_again_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reads-again",
        action="store_true",
        help="let a new pipeline read files that another pipeline of this table reads too: their records are then in"
        " the table twice",
    )


def add_loss_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept-quarantine-loss",
        action="store_true",
        help="go on without bad records whose file is gone from the quarantine table's folder",
    )


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", metavar="URI", help="the Delta table")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_config_arguments(parser)
