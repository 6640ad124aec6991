"""Arguments that several commands share, without anything that is slow to import."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from blizzard.text.nearest import nearest


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


def one_of(*allowed: str) -> Callable[[str], str]:
    """The type of an option with few values, beside its `choices`: its error names the nearest of them."""

    def parse(text: str) -> str:
        if text not in allowed:
            shown = repr(text if len(text) <= 40 else f"{text[:40]}…")
            raise argparse.ArgumentTypeError(f"{shown} is none of {', '.join(allowed)}{nearest(text, allowed)}")
        return text

    return parse


_PIPELINE_HELP = (
    "name of the pipeline; default: the pipeline of the table that reads this source, else a name made from the source"
)


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Commands on a table need these too: its store may need `storage_options`."""
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file; flags override it. FLEET.yaml#NAME: one pipeline of a fleet's file"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="set one key, such as storage_options.AWS_REGION=eu-west-1; repeatable",
    )


def add_target_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", metavar="NAME", help="which one, if the configuration has several targets (docs/targets.md)"
    )


_COMMITTERS = ("delta-rs", "delta-spark")


def add_committer_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--committer",
        choices=_COMMITTERS,
        type=one_of(*_COMMITTERS),
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


def add_ingest_arguments(parser: argparse.ArgumentParser, *, takes_target: bool = True) -> None:
    """Of a run, and of what shows a run before it happens."""
    parser.add_argument("--source", metavar="URI", help="folder, file or glob of NDJSON files")
    parser.add_argument("--table", metavar="URI", help="Delta table to append to; made on first use")
    if takes_target:
        add_target_argument(parser)
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
    add_start_argument(
        parser,
        "where a new pipeline begins: 'beginning', 'after:NAME', or 'date:2026-01-31' (with files changed since then);"
        " needed on a table that already has data",
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="begin at the newest position that the Rust blizzard has left in this table",
    )
    add_reads_again_argument(parser)


def add_start_argument(parser: argparse.ArgumentParser, says: str) -> None:
    parser.add_argument("--start-from", metavar="WHERE", help=says)


def add_pipeline_arguments(parser: argparse.ArgumentParser) -> None:
    """Of a command on a pipeline that has begun: its table and its source are given as for its runs."""
    parser.add_argument("--source", metavar="URI", help="the pipeline's source, as for its runs")
    parser.add_argument("--table", metavar="URI", help="the Delta table")
    add_target_argument(parser)
    parser.add_argument(
        "--pipeline", metavar="NAME", help="the pipeline; default: the pipeline of the table that reads this source"
    )
    add_config_arguments(parser)
    add_json_argument(parser)


def add_json_argument(parser: argparse.ArgumentParser, says: str = "as one JSON object") -> None:
    parser.add_argument("--json", action="store_true", help=says)


def add_confirm_argument(parser: argparse.ArgumentParser, says: str = "only say what would be done") -> None:
    parser.add_argument("--yes", action="store_true", help=f"do it; without this, {says}")


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
    add_target_argument(parser)
    add_json_argument(parser, "as JSON")
    add_config_arguments(parser)
