"""Every command and its options, without anything that is slow to import: `--help` must be quick."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from blizzard import __version__
from blizzard.cli.arguments import (
    add_committer_argument,
    add_config_arguments,
    add_hints_argument,
    add_ingest_arguments,
    add_json_argument,
    add_loss_argument,
    add_pipeline_arguments,
    add_table_arguments,
    add_target_argument,
    one_of,
    whole_number,
)
from blizzard.cli.checkpoint_arguments import add_checkpoint_parser
from blizzard.cli.help import EXIT_CODES, Overview, Parser, add_command, add_group
from blizzard.cli.quarantine_arguments import add_dlq_parser
from blizzard.cli.serve_arguments import add_serve_parser
from blizzard.cli.trial_arguments import add_plan_parser, add_try_parser

if TYPE_CHECKING:
    from blizzard.cli.help import Commands

GROUPS = {
    "look before you run (changes nothing)": ("try", "plan", "schema", "doctor"),
    "run": ("run", "serve", "pause", "resume", "warm-up"),
    "see what happened (changes nothing)": ("status", "files", "report", "audit"),
    "operate": ("dlq", "checkpoint", "vacuum-orphans"),
    "your shell": ("completion",),
}
SHELLS = ("bash", "zsh", "fish")

_EXAMPLES = """examples:
  blizzard try /data/events                                               # what would become of these files?
  blizzard plan --source /data/events --table /lake/events --infer        # what would a run do?
  blizzard run --source /data/events --table /lake/events --infer         # ingest what is new
  blizzard status --table /lake/events --source /data/events --explain    # where is it, what is next, and why?
  blizzard dlq list --table /lake/events                                  # which records were bad?"""
_MORE = "blizzard COMMAND --help has the options of a command, and examples."

_RUN = "Ingest what is new, then exit. The last line on stdout is one JSON object, on failure too."
_REPORT = """Write one HTML page, complete in one file: history, throughput, files in progress and held back,
quarantine, and what the next start would do and why. Changes nothing."""
_AUDIT = """List the whole source and compare it with the ledgers of all pipelines in the log, with the quarantine, and
with the table's rows if it has the provenance column source_file. Shows which files were ingested whole or in part,
given up, skipped, held back, never ingested or ingested twice, and which have changed since or are gone. Changes
nothing."""
_DOCTOR = """Check Java, packages and a table: which committer can write it and why, whether two writers can overwrite
each other, what would expire. Changes nothing. Exits 3 if a run would stop."""
_ORPHANS = """Find Parquet files that blizzard wrote and that no version of the table ever named. Deletes nothing
without --yes."""
_PAUSE = """Pause a pipeline, by a commit without data. From then on every run of it, on any machine, settles what is
pending, reads nothing and ends with status paused and exit 0; a run with --follow waits. A run that is reading now ends
the same way when it wants to commit, and what it has read is read again after the resume, each record once. Nothing is
done if the pipeline is paused already. With several targets it is paused in every log; one that says so is enough to
pause all."""
_RESUME = """Let a paused pipeline go on, by a commit without data: the next run reads on from where it stood; a run
with --follow does so by itself. Nothing is done if the pipeline is not paused."""
_PAUSED_PIPELINE = "the pipeline; may be left out if the table has only one, or if the configuration names its source"
_WARM_UP = """Make local runs start faster. Makes one small run, and keeps the classes that its JVM loaded in the cache
folder: 140 MB in $XDG_CACHE_HOME/blizzard or ~/.cache/blizzard. Local runs with the same Java, Spark and Java options
use them; everything else ignores them. Once is enough, until Java or Spark is updated."""
_DIFF = """How a schema, given or inferred from records, differs from a table's: 'same', or 'N differences' and a line
for each. Order and comments do not count. Exits 0 either way."""
_COMPLETION = """Print a script that completes commands, options and file names of blizzard in your shell. Put it where
the shell looks for such scripts, as below, and open a new shell. Do so again after an update of blizzard."""


def build_parser() -> Overview:
    parser = Overview(
        groups=GROUPS,
        prog="blizzard",
        usage="blizzard COMMAND [options]",
        description="Append NDJSON files to a Delta table, each record exactly once.",
        epilog=f"{_EXAMPLES}\n\n{_MORE}\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"blizzard {__version__}", help="print the version")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", prog="blizzard", parser_class=Parser
    )
    _add_run(commands)
    add_serve_parser(commands)
    add_try_parser(commands)
    add_plan_parser(commands)
    _add_status(commands)
    _add_report(commands)
    _add_pause(commands)
    add_checkpoint_parser(commands)
    _add_files(commands)
    _add_audit(commands)
    _add_doctor(commands)
    _add_warm_up(commands)
    _add_orphans(commands)
    add_dlq_parser(commands)
    _add_schema(commands)
    _add_completion(commands)
    return parser


def _add_run(commands: Commands) -> None:
    run = add_command(
        commands,
        "run",
        says="ingest what is new, then exit",
        description=_RUN,
        takes="--source URI --table URI",
        examples=[
            "blizzard run --source /data/events --table /lake/events --infer",
            "blizzard run --source s3://raw/events --table s3://lake/events --set storage_options.AWS_REGION=eu-west-1",
            "blizzard run --config events.yaml --follow --api-addr 127.0.0.1:8080",
        ],
        ending=EXIT_CODES,
    )
    add_ingest_arguments(run, takes_target=False)  # a run is for all targets: source files wait for every one
    run.add_argument("--summary", metavar="URI", help="also write the final JSON object to this file")
    run.add_argument(
        "--attempt",
        metavar="ID",
        help="an id from the caller; the final JSON object repeats it, so that nobody takes it for another run's",
    )
    run.add_argument("--max-batches", type=whole_number(1), metavar="N", help="stop after N commits")
    add_loss_argument(run)
    run.add_argument(
        "--follow", action="store_true", help="do not exit: look for new files again and again, until stopped"
    )
    run.add_argument("--api-addr", metavar="HOST:PORT", help="serve health, metrics, status and controls while it runs")
    run.add_argument(
        "--log-json", action="store_const", const="json", dest="log_format", help="lines on stderr as JSON objects"
    )
    run.add_argument(
        "--exit-99-when-idle", action="store_true", help="exit 99 instead of 0 when nothing was new, or while paused"
    )


def _add_status(commands: Commands) -> None:
    status = add_command(
        commands,
        "status",
        says="pipelines of a table, their positions and backlog, and what the next start would do",
        takes="--table URI",
        examples=[
            "blizzard status --table /lake/events",
            "blizzard status --table /lake/events --source /data/events --explain",
        ],
    )
    add_table_arguments(status)
    status.add_argument("--source", metavar="URI", help="also list this source and count its backlog")
    status.add_argument("--pattern", metavar="GLOB", help="the source's pattern, if the pipeline was given one")
    status.add_argument("--explain", action="store_true", help="also say why the next start would do that")


def _add_report(commands: Commands) -> None:
    report = add_command(
        commands,
        "report",
        says="one HTML page about a table and its pipelines, from the log alone",
        description=_REPORT,
        takes="--table URI",
        examples=["blizzard report --table /lake/events --out events.html"],
    )
    add_table_arguments(report)
    report.add_argument("--pipeline", metavar="NAME", help="only this pipeline")
    report.add_argument("--out", metavar="URI", help="where to write it (default: report.html; with --json: stdout)")
    report.add_argument(
        "--commits", metavar="N", type=whole_number(1), default=500, help="read the newest N commits (default: 500)"
    )


def _add_pause(commands: Commands) -> None:
    pause = add_command(
        commands,
        "pause",
        says="let a pipeline read nothing, until it is resumed",
        description=_PAUSE,
        takes="--table URI",
        examples=["blizzard pause --table /lake/events --reason 'the lake moves tonight'"],
    )
    resume = add_command(
        commands,
        "resume",
        says="let a paused pipeline go on",
        description=_RESUME,
        takes="--table URI",
        examples=["blizzard resume --table /lake/events"],
    )
    for parser in (pause, resume):
        add_table_arguments(parser)
        parser.add_argument("--pipeline", metavar="NAME", help=_PAUSED_PIPELINE)
        add_committer_argument(parser)
    pause.add_argument("--reason", metavar="TEXT", help="why, and who asked: shown wherever the pause is shown")


def _add_files(commands: Commands) -> None:
    files = add_command(
        commands,
        "files",
        says="which source file went in at which version, from the ledgers",
        takes="--table URI",
        examples=["blizzard files --table /lake/events"],
    )
    add_table_arguments(files)
    files.add_argument("--pipeline", metavar="NAME", help="only this pipeline")


def _add_audit(commands: Commands) -> None:
    audit = add_command(
        commands,
        "audit",
        says="compare the whole source with what was ingested",
        description=_AUDIT,
        takes="--source URI --table URI",
        examples=["blizzard audit --source /data/events --table /lake/events --check"],
    )
    add_pipeline_arguments(audit)
    add_committer_argument(audit)
    audit.add_argument("--no-rows", action="store_true", help="do not read the table's own source_file column")
    audit.add_argument("--check", action="store_true", help="exit 5 if there is anything that a person should look at")


def _add_doctor(commands: Commands) -> None:
    doctor = add_command(
        commands,
        "doctor",
        says="check this machine and this table; say which committer the table needs",
        description=_DOCTOR,
        takes="[--table URI]",
        examples=["blizzard doctor", "blizzard doctor --table /lake/events"],
    )
    add_table_arguments(doctor)
    add_committer_argument(doctor)


def _add_orphans(commands: Commands) -> None:
    orphans = add_command(
        commands,
        "vacuum-orphans",
        says="find and delete files of attempts that never committed",
        description=_ORPHANS,
        takes="--table URI",
        examples=[
            "blizzard vacuum-orphans --table /lake/events",
            "blizzard vacuum-orphans --table /lake/events --older-than 30d --yes",
        ],
    )
    add_table_arguments(orphans)
    orphans.add_argument("--quarantine", metavar="URI", help="the quarantine table; default: beside the table")
    orphans.add_argument(
        "--older-than", metavar="AGE", default="7d", help="such as 30d; the default, and the minimum, is 7d"
    )
    orphans.add_argument("--yes", action="store_true", help="delete them; without this, they are only listed")


def _add_warm_up(commands: Commands) -> None:
    warm_up = add_command(
        commands,
        "warm-up",
        says="make local runs start faster: keep the classes of the JVM in an archive",
        description=_WARM_UP,
        takes="",
        examples=["blizzard warm-up", "blizzard warm-up --remove"],
    )
    warm_up.add_argument("--remove", action="store_true", help="remove the archives of all environments")
    add_committer_argument(warm_up)
    add_config_arguments(warm_up)
    add_json_argument(warm_up)


def _add_schema(commands: Commands) -> None:
    actions = add_group(
        commands,
        "schema",
        says="infer a schema from records, or compare one with a table's",
        description="Infer a schema from records, or compare one with a table's. Changes nothing.",
        examples=["blizzard schema infer --source /data/events > schema.ddl"],
    )
    infer = add_command(
        actions,
        "infer",
        says="print the schema that a sample of the records suggests",
        description="Print the schema that a sample of the records suggests, as DDL. Changes nothing.",
        takes="--source URI",
        examples=["blizzard schema infer --source /data/events > schema.ddl"],
    )
    infer.add_argument("--source", metavar="URI", help="folder, file or glob of NDJSON files")
    add_target_argument(infer)
    _add_sample(infer)
    add_config_arguments(infer)
    add_json_argument(infer, "as one JSON object, with the counts of the sample")
    diff = add_command(
        actions,
        "diff",
        says="how a schema, given or inferred, differs from a table's",
        description=_DIFF,
        takes="--table URI (--source URI | --schema DDL|FILE)",
        examples=[
            "blizzard schema diff --table /lake/events --source /data/events",
            "blizzard schema diff --table /lake/events --schema schema.ddl",
        ],
    )
    add_table_arguments(diff)
    other = diff.add_mutually_exclusive_group()
    other.add_argument("--source", metavar="URI", help="infer the schema from this folder, file or glob")
    other.add_argument("--schema", metavar="DDL|FILE", dest="compared", help="the schema itself")
    _add_sample(diff)


def _add_sample(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pattern", metavar="GLOB", help="which files below the folder")
    add_hints_argument(parser)
    parser.add_argument("--sample-records", metavar="N", help="records to look at, at most (default: 10000)")
    parser.add_argument(
        "--sample-files",
        metavar="N",
        help="files to take them from, at most (default: 20, and more while those hold too few records)",
    )


def _add_completion(commands: Commands) -> None:
    completion = add_command(
        commands,
        "completion",
        says="print a script that completes commands and options in your shell",
        description=_COMPLETION,
        takes="SHELL",
        examples=[
            "blizzard completion bash > ~/.local/share/bash-completion/completions/blizzard",
            "blizzard completion zsh > /usr/local/share/zsh/site-functions/_blizzard",
            "blizzard completion fish > ~/.config/fish/completions/blizzard.fish",
        ],
    )
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, type=one_of(*SHELLS), help="bash, zsh or fish")
