"""Every command and its options, without anything that is slow to import: `--help` must be quick."""

from __future__ import annotations

import argparse
from typing import NoReturn

from blizzard import __version__
from blizzard.cli.arguments import (
    add_committer_argument,
    add_config_arguments,
    add_hints_argument,
    add_ingest_arguments,
    add_reads_again_argument,
    add_table_arguments,
    whole_number,
)
from blizzard.cli.checkpoint_arguments import add_checkpoint_actions
from blizzard.cli.quarantine_arguments import add_dlq_parser
from blizzard.cli.trial_arguments import add_plan_parser, add_try_parser
from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError

_SHOWN_OF_A_WORD = 300  # characters of an argument that is not understood

_EXIT_CODES = """exit codes:
  0 done, or nothing to do    2 usage or configuration    3 refused: not safe
  4 fenced by another run     5 bad data stopped the run  75 temporary, worth a retry
  99 nothing new (only with --exit-99-when-idle)          1 anything else"""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:_SHOWN_OF_A_WORD]}. See: {self.prog} --help", kind=Kind.USAGE)


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="blizzard",
        description="Append NDJSON files to a Delta table, each record exactly once.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"blizzard {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="ingest what is new, then exit",
        description="Ingest what is new, then exit. The last line on stdout is one JSON object, on failure too.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_ingest_arguments(run)
    add_reads_again_argument(run)
    run.add_argument("--summary", metavar="URI", help="also write the final JSON object to this file")
    run.add_argument(
        "--attempt",
        metavar="ID",
        help="an id from the caller; the final JSON object repeats it, so that nobody takes it for another run's",
    )
    run.add_argument("--max-batches", type=whole_number(1), metavar="N", help="stop after N commits")
    run.add_argument(
        "--accept-quarantine-loss",
        action="store_true",
        help="go on without bad records whose file is gone from the quarantine table's folder",
    )
    run.add_argument(
        "--follow", action="store_true", help="do not exit: look for new files again and again, until stopped"
    )
    run.add_argument("--api-addr", metavar="HOST:PORT", help="serve health, metrics, status and controls while it runs")
    run.add_argument(
        "--log-json",
        action="store_const",
        const="json",
        dest="log_format",
        help="lines on stderr as JSON objects",
    )
    run.add_argument("--exit-99-when-idle", action="store_true", help="exit 99 instead of 0 when nothing was new")

    add_try_parser(commands)
    add_plan_parser(commands)

    status = commands.add_parser(
        "status", help="pipelines of a table, their positions and backlog, and what the next start would do"
    )
    add_table_arguments(status)
    status.add_argument("--source", metavar="URI", help="also list this source and count its backlog")
    status.add_argument("--pattern", metavar="GLOB", help="the source's pattern, if the pipeline was given one")
    status.add_argument("--explain", action="store_true", help="also say why the next start would do that")

    report = commands.add_parser(
        "report",
        help="one HTML page about a table and its pipelines, from the log alone",
        description="Write one HTML page, complete in one file: history, throughput, files in progress and held back,"
        " quarantine, and what the next start would do and why. Changes nothing.",
    )
    add_table_arguments(report)
    report.add_argument("--pipeline", metavar="NAME", help="only this pipeline")
    report.add_argument("--out", metavar="URI", help="where to write it (default: report.html; with --json: stdout)")
    report.add_argument(
        "--commits", metavar="N", type=whole_number(1), default=500, help="read the newest N commits (default: 500)"
    )

    checkpoint = commands.add_parser("checkpoint", help="show, export, import or change positions")
    add_checkpoint_actions(checkpoint.add_subparsers(dest="action", required=True, metavar="ACTION"))

    files = commands.add_parser("files", help="which source file went in at which version, from the ledgers")
    add_table_arguments(files)
    files.add_argument("--pipeline", metavar="NAME", help="only this pipeline")

    audit = commands.add_parser(
        "audit",
        help="compare the whole source with what was ingested",
        description="List the whole source and compare it with the ledgers of all pipelines in the log, with the"
        " quarantine, and with the table's rows if it has the provenance column source_file. Shows which files were"
        " ingested whole or in part, given up, skipped, held back, never ingested or ingested twice, and which have"
        " changed since or are gone. Changes nothing.",
    )
    add_ingest_arguments(audit)
    audit.add_argument("--no-rows", action="store_true", help="do not read the table's own source_file column")
    audit.add_argument("--check", action="store_true", help="exit 5 if there is anything that a person should look at")
    audit.add_argument("--json", action="store_true", help="as one JSON object, with all names")

    doctor = commands.add_parser(
        "doctor",
        help="check this machine and this table; say which committer the table needs",
        description="Check Java, packages and a table: which committer can write it and why, whether two writers can"
        " overwrite each other, what would expire. Changes nothing. Exits 3 if a run would stop.",
    )
    add_table_arguments(doctor)
    add_committer_argument(doctor)

    _add_warm_up(commands)

    orphans = commands.add_parser(
        "vacuum-orphans",
        help="find and delete files of attempts that never committed",
        description="Find Parquet files that blizzard wrote and that no version of the table ever named. Deletes"
        " nothing without --yes.",
    )
    add_table_arguments(orphans)
    orphans.add_argument("--quarantine", metavar="URI", help="the quarantine table; default: beside the table")
    orphans.add_argument(
        "--older-than", metavar="AGE", default="7d", help="such as 30d; the default, and the minimum, is 7d"
    )
    orphans.add_argument("--yes", action="store_true", help="delete them; without this, they are only listed")

    add_dlq_parser(commands)

    schema = commands.add_parser("schema", help="infer a schema from records, or compare one with a table's")
    _schema_actions(schema.add_subparsers(dest="action", required=True, metavar="ACTION"))
    return parser


def _add_warm_up(commands: argparse._SubParsersAction[Parser]) -> None:
    warm_up = commands.add_parser(
        "warm-up",
        help="make local runs start faster: keep the classes of the JVM in an archive",
        description="Make local runs start faster. Makes one small run, and keeps the classes that its JVM loaded in"
        " the cache folder: 140 MB in $XDG_CACHE_HOME/blizzard or ~/.cache/blizzard. Local runs with the same Java,"
        " Spark and Java options use them; everything else ignores them. Once is enough, until Java or Spark is"
        " updated.",
    )
    warm_up.add_argument("--remove", action="store_true", help="remove the archives of all environments")
    add_committer_argument(warm_up)
    add_config_arguments(warm_up)
    warm_up.add_argument("--json", action="store_true", help="as one JSON object")


def _schema_actions(actions: argparse._SubParsersAction[Parser]) -> None:
    infer = actions.add_parser(
        "infer",
        help="print the schema that a sample of the records suggests",
        description="Print the schema that a sample of the records suggests, as DDL. Changes nothing.",
    )
    infer.add_argument("--source", metavar="URI", help="folder, file or glob of NDJSON files")
    _sample_arguments(infer)
    add_config_arguments(infer)
    infer.add_argument("--json", action="store_true", help="as one JSON object, with the counts of the sample")

    diff = actions.add_parser(
        "diff",
        help="how a schema, given or inferred, differs from a table's",
        description="How a schema, given or inferred from records, differs from a table's: 'same', or 'N differences'"
        " and a line for each. Order and comments do not count. Exits 0 either way.",
    )
    add_table_arguments(diff)
    other = diff.add_mutually_exclusive_group()
    other.add_argument("--source", metavar="URI", help="infer the schema from this folder, file or glob")
    other.add_argument("--schema", metavar="DDL|FILE", dest="compared", help="the schema itself")
    _sample_arguments(diff)


def _sample_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pattern", metavar="GLOB", help="which files below the folder")
    add_hints_argument(parser)
    parser.add_argument("--sample-records", metavar="N", help="records to look at, at most (default: 10000)")
    parser.add_argument(
        "--sample-files",
        metavar="N",
        help="files to take them from, at most (default: 20, and more while those hold too few records)",
    )
