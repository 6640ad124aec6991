"""The command line. Others script against it: flags, exit codes and the JSON on the last line are a contract.

stdout carries results only; progress, warnings and errors go to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

from blizzard import __version__
from blizzard.cli.arguments import (
    add_committer_argument,
    add_config_arguments,
    add_hints_argument,
    add_job_arguments,
    add_reads_again_argument,
    add_table_arguments,
    whole_number,
)
from blizzard.cli.checkpoint_arguments import add_checkpoint_actions
from blizzard.cli.quarantine_arguments import add_dlq_parser
from blizzard.core.kinds import Kind
from blizzard.errors import BlizzardError, ConfigError
from blizzard.run.summary import Summary
from blizzard.store.failures import describe_unknown, is_traced, known_failure
from blizzard.text.printing import others_shown, say, shell_words, trace_lines
from blizzard.text.redaction import HIDDEN, learn_arguments, of_one_command, redact_argument
from blizzard.text.shown import printable
from blizzard.text.streams import carry_out, hold_standard_streams, put_out, stdout_is_lost

if TYPE_CHECKING:
    from blizzard.service.control import RunControl

EXIT_IDLE = 99
_SHOWN_CHARS = 300  # of an argument that cannot be understood

_EXIT_CODES = """exit codes:
  0 done, or nothing to do    2 usage or configuration    3 refused: unsafe state
  4 fenced by another run     5 bad data stopped the run  75 temporary, worth a retry
  99 nothing new (only with --exit-99-when-idle)          1 anything else"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:_SHOWN_CHARS]}. See: {self.prog} --help", kind=Kind.USAGE)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
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
    add_job_arguments(run)
    add_reads_again_argument(run)
    run.add_argument("--summary", metavar="URI", help="also write the final JSON object to this file")
    run.add_argument(
        "--attempt",
        metavar="ID",
        help="a word of the caller's that the final JSON object repeats, so that it is not taken for another run's",
    )
    run.add_argument("--max-batches", type=whole_number(1), metavar="N", help="stop after N commits")
    run.add_argument(
        "--accept-quarantine-loss",
        action="store_true",
        help="give up bad records whose pending file is gone from the quarantine table's folder",
    )
    run.add_argument("--follow", action="store_true", help="do not end: look again and again, until told to stop")
    run.add_argument("--api-addr", metavar="HOST:PORT", help="serve health, metrics, status and controls while it runs")
    run.add_argument(
        "--log-json",
        action="store_const",
        const="json",
        dest="log_format",
        help="lines on stderr as JSON objects",
    )
    run.add_argument("--exit-99-when-idle", action="store_true", help="exit 99 instead of 0 when nothing was new")

    plan = commands.add_parser("plan", help="show what a run would do; changes nothing")
    add_job_arguments(plan)
    add_reads_again_argument(plan)
    plan.add_argument("--json", action="store_true", help="as one JSON object")

    status = commands.add_parser("status", help="pipelines of a table, their positions and backlog")
    add_table_arguments(status)
    status.add_argument("--source", metavar="URI", help="also list this source and count its backlog")
    status.add_argument("--pattern", metavar="GLOB", help="the source's pattern, if the pipeline was given one")
    status.add_argument("--explain", action="store_true", help="what recovery would look at, decide, and why")

    report = commands.add_parser(
        "report",
        help="one HTML page about a table and its pipelines, from the log alone",
        description="Write one HTML page that needs nothing else: history, throughput, files in progress and held back,"
        " quarantine, and how a start would recover and why. Changes nothing.",
    )
    add_table_arguments(report)
    report.add_argument("--pipeline", metavar="NAME", help="only this pipeline")
    report.add_argument("--out", metavar="URI", help="where to write it (default: report.html; with --json: stdout)")
    report.add_argument(
        "--commits", metavar="N", type=whole_number(1), default=500, help="read the newest N commits (default: 500)"
    )

    checkpoint = commands.add_parser("checkpoint", help="look at positions, keep one, or change one")
    add_checkpoint_actions(checkpoint.add_subparsers(dest="action", required=True, metavar="ACTION"))

    files = commands.add_parser("files", help="which source file went in at which version, from the ledgers")
    add_table_arguments(files)
    files.add_argument("--pipeline", metavar="NAME", help="only this pipeline")

    audit = commands.add_parser(
        "audit",
        help="hold the whole source against what was ingested of it",
        description="List the whole source and hold it against every ledger in the log, those of other pipelines of the"
        " table included, against the quarantine, and against the table itself where it has the provenance column"
        " source_file: what is in whole or in part, was given up, skipped or held back, was never ingested, ingested"
        " twice, has changed since, or is gone. Changes nothing.",
    )
    add_job_arguments(audit)
    audit.add_argument("--no-rows", action="store_true", help="do not read the table's own source_file column")
    audit.add_argument("--check", action="store_true", help="exit 5 if there is anything that a person should look at")
    audit.add_argument("--json", action="store_true", help="as one JSON object, with all names")

    doctor = commands.add_parser(
        "doctor",
        help="is this machine, and this table, fit for a run; which committer does it need",
        description="Look at Java, packages and a table: which committer can write it and why, whether other writers"
        " are kept apart, what would expire. Changes nothing. Exits 3 if a run would stop.",
    )
    add_table_arguments(doctor)
    add_committer_argument(doctor)

    orphans = commands.add_parser(
        "vacuum-orphans",
        help="delete files of attempts that never committed",
        description="Find Parquet files that blizzard wrote and no version of the table ever named. Deletes nothing"
        " without --yes.",
    )
    add_table_arguments(orphans)
    orphans.add_argument("--quarantine", metavar="URI", help="the quarantine table; default: beside the table")
    orphans.add_argument("--older-than", metavar="AGE", default="7d", help="such as 30d; at least, and by default, 7d")
    orphans.add_argument("--yes", action="store_true", help="delete them; without this, they are only listed")

    add_dlq_parser(commands)

    schema = commands.add_parser("schema", help="infer a schema from records, compare one with a table's")
    _schema_actions(schema.add_subparsers(dest="action", required=True, metavar="ACTION"))
    return parser


def _schema_actions(actions: argparse._SubParsersAction[_Parser]) -> None:
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
    parser.add_argument("--sample-files", metavar="N", help="files to take them from, at most (default: 20)")


def main(argv: Sequence[str] | None = None) -> int:
    hold_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    with of_one_command(), others_shown():
        learn_arguments(arguments)
        return _main(arguments)


def _main(arguments: list[str]) -> int:
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit:  # --help or --version has been printed
        lost = put_out()
        if lost is None or isinstance(lost, BrokenPipeError):
            raise
        return _fail(stdout_is_lost(lost), None, None)
    except ConfigError as e:
        if arguments[:1] != ["run"]:
            return _fail(e, None, None)
        # Who reads the last line of `run`, or its summary, finds an object there whatever happened.
        destination = _destination_of(arguments[1:])
        return _fail(e, Summary(attempt=destination.attempt if destination else None), destination)
    if options.command == "run":
        return _run(options, arguments)
    code, error = carry_out(lambda: _dispatch(options), prints_at_the_end=_changes_something(options))
    return code if error is None else _fail(error, None, None)


def _changes_something(options: argparse.Namespace) -> bool:
    name = getattr(options, "action", options.command)
    shows_only = not getattr(options, "yes", True) or getattr(options, "dry_run", False)
    return name in ("import", "reset", "skip", "rollback", "replay", "purge", "vacuum-orphans") and not shows_only


def _destination_of(arguments: Sequence[str]) -> argparse.Namespace | None:
    """Where a run that cannot be understood is to say so, as far as that can be understood."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--summary")
    parser.add_argument("--attempt")
    add_config_arguments(parser)
    try:
        return parser.parse_known_args(arguments)[0]
    except ConfigError:
        return None


def _dispatch(options: argparse.Namespace) -> int:
    from blizzard.cli import look, quarantine  # keeps --help fast

    return quarantine.dispatch(options) if options.command == "dlq" else look.dispatch(options)


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from blizzard.service.control import RunControl

    summary, stop = Summary(attempt=options.attempt), RunControl()
    with stop.installed():  # before the slow imports: a signal then is a stop, not a traceback
        try:
            _ingest(options, arguments, summary, stop)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:  # a panic in Rust is no Exception
            return _fail(e, summary, options)
    _say(_told(summary), options, "info", status=summary.status, seconds=round(summary.seconds, 3))
    if summary.status == "idle" and options.exit_99_when_idle:
        summary.exit_code = EXIT_IDLE
    return _emit(summary, options)


def _ingest(options: argparse.Namespace, arguments: Sequence[str], summary: Summary, stop: RunControl) -> None:
    from blizzard import api
    from blizzard.cli.context import config_of, job_for, session_for
    from blizzard.run.commit import new_run_id
    from blizzard.service.operation import Operation
    from blizzard.service.progress import make_progress

    _check_destination(options.summary)
    run_id, config = new_run_id(), config_of(options)
    options.log_format = config.log.format  # for what goes wrong before there is a progress to tell it
    with ExitStack() as held:
        session = held.enter_context(session_for(config))
        job = job_for(options, config, session)
        progress = held.enter_context(make_progress(config.log.format, job.pipeline, run_id))
        options.progress, stop.grace_s = progress, config.stop_grace_s or 0.0
        progress.note(f"pipeline {job.pipeline}: {job.source.identity.root} ({job.source.location.pattern})")
        try:
            operation = Operation(job, summary, stop, progress, run_id=run_id)
            operation.run(session.get, session.begin, follows=options.follow)
        except api.SchemaMissing as e:
            raise ConfigError(str(e), kind=e.kind, further=_suggestion(arguments, e.ddl)) from e
        finally:
            summary.seconds = max(0.0, summary.seconds - session.startup_seconds)


def _suggestion(arguments: Sequence[str], ddl: str) -> list[str]:
    """The same command with the schema that is missing. To be pasted, but for the secrets in it."""
    given = [redact_argument(word) for word in arguments]
    note = "" if given == list(arguments) else f" ({HIDDEN} stands for a secret: put it in again)"
    return [f"To use it, add --infer, or{note}:", f"  {shell_words(['blizzard', *given, '--schema', ddl])}"]


def _check_destination(destination: str | None) -> None:
    """A summary that cannot be written is better known before the work than after it."""
    if destination is None:
        return
    from blizzard.store.outputs import is_writable
    from blizzard.store.uri import is_local, locate

    path = locate(destination, what="summary")
    if is_local(path) and not is_writable(path):
        raise ConfigError(f"--summary {destination}: not a file in a folder that can be written to", kind=Kind.SUMMARY)


def _write_summary(summary: Summary, options: argparse.Namespace) -> None:
    """What is wrong with the configuration matters only where it says how to get there."""
    from blizzard.cli.context import config_of
    from blizzard.store.outputs import write_output

    content = summary.to_json().encode() + b"\n"
    write_output(options.summary, content, lambda folder: config_of(options).access("table", folder), what="summary")


def _told(summary: Summary) -> str:
    if summary.status == "idle":
        text = "nothing new"
    else:
        commits = "1 commit" if summary.commits == 1 else f"{summary.commits:,} commits"
        text = f"{summary.status}: {summary.records:,} records, {summary.files:,} files finished, {commits}"
    if summary.bad_records or summary.bad_files:
        text += f"; {summary.bad_records:,} bad records, {summary.bad_files:,} bad files"
        text += " (see blizzard dlq list)" if summary.quarantined else ""
    return f"{text}; table version {summary.delta_version}, {summary.seconds:.1f} s"


def _say(
    text: str, options: argparse.Namespace | None, level: str, *, trace: Sequence[str] = (), **fields: Any
) -> None:
    """On stderr; as an object where the other lines are objects. The lines of `text` are ours, see BlizzardError."""
    from blizzard.service.progress import JsonProgress

    progress = getattr(options, "progress", None)
    if progress is None and getattr(options, "log_format", None) == "json":
        progress = JsonProgress(getattr(options, "pipeline", None))  # it failed before there was a run
    if isinstance(progress, JsonProgress):
        fields |= {"traceback": "\n".join(trace)} if trace else {}
        progress.line(level, text, **fields)
    else:
        say(*trace, *text.split("\n"))


def _fail(error: BaseException, summary: Summary | None, options: argparse.Namespace | None) -> int:
    known = known_failure(error) or BlizzardError(describe_unknown(error), kind=Kind.INTERNAL)
    kind, code = known.kind, known.exit_code
    trace = trace_lines(error) if is_traced() else ()
    first, *further = str(known).split("\n")
    _say("\n".join([f"blizzard: {first} [{kind}]", *further]), options, "error", trace=trace, kind=kind)
    if summary is None:
        return code
    summary.status, summary.exit_code, summary.error_kind, summary.error = "failed", code, kind, str(known)
    return _emit(summary, options)


def _emit(summary: Summary, options: argparse.Namespace | None) -> int:
    """The JSON object, last on stdout, and to a file if asked."""
    if options is not None and options.summary is not None and summary.error_kind != Kind.SUMMARY:
        try:
            _write_summary(summary, options)
        except (OSError, BlizzardError) as e:
            text = f"blizzard: the summary could not be written to {options.summary}: {e} [summary]"
            _say(printable(text), options, "error", kind="summary")
            if summary.exit_code == 0:
                summary.exit_code, summary.error_kind, summary.error = 1, "summary", str(e)
    lost = put_out(summary.to_json() + "\n")
    if lost is not None:  # which changes nothing about what was done
        say(f"blizzard: the summary could not be printed: {lost}")
    return summary.exit_code
