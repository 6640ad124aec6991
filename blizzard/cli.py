"""The command line. Others script against it: flags, exit codes and the JSON on the last line are a contract.

stdout carries results only; progress, warnings and errors go to stderr.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from blizzard import __version__
from blizzard.arguments import (
    add_committer_argument,
    add_config_arguments,
    add_hints_argument,
    add_job_arguments,
    add_table_arguments,
)
from blizzard.checkpoint_arguments import add_checkpoint_actions
from blizzard.dlq_arguments import add_dlq_parser
from blizzard.errors import BlizzardError, ConfigError
from blizzard.summary import Summary

if TYPE_CHECKING:
    from blizzard.control import RunControl

EXIT_IDLE = 99

_EXIT_CODES = """exit codes:
  0 done, or nothing to do    2 usage or configuration    3 refused: unsafe state
  4 fenced by another run     5 bad data stopped the run  75 temporary, worth a retry
  99 nothing new (only with --exit-99-when-idle)          1 anything else"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. See: {self.prog} --help", kind="usage")


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
    run.add_argument("--summary", metavar="URI", help="also write the final JSON object to this file")
    run.add_argument(
        "--attempt",
        metavar="ID",
        help="a word of the caller's that the final JSON object repeats, so that it is not taken for another run's",
    )
    run.add_argument("--max-batches", type=int, metavar="N", help="stop after N commits")
    run.add_argument(
        "--accept-quarantine-loss",
        action="store_true",
        help="give up bad records whose pending file is gone from the quarantine table's folder",
    )
    run.add_argument("--follow", action="store_true", help="do not end: look again and again, until told to stop")
    run.add_argument("--api-addr", metavar="HOST:PORT", help="serve health, metrics, status and controls while it runs")
    run.add_argument("--log-json", action="store_true", help="lines on stderr as JSON objects")
    run.add_argument("--exit-99-when-idle", action="store_true", help="exit 99 instead of 0 when nothing was new")

    plan = commands.add_parser("plan", help="show what a run would do; changes nothing")
    add_job_arguments(plan)
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
        "--commits", metavar="N", type=int, default=500, help="read the newest N commits (default: 500)"
    )

    checkpoint = commands.add_parser("checkpoint", help="look at positions, keep one, or change one")
    add_checkpoint_actions(checkpoint.add_subparsers(dest="action", required=True, metavar="ACTION"))

    files = commands.add_parser("files", help="which source file went in at which version, from the ledgers")
    add_table_arguments(files)
    files.add_argument("--pipeline", metavar="NAME", help="only this pipeline")

    audit = commands.add_parser(
        "audit",
        help="hold the whole source against what was ingested of it",
        description="List the whole source and hold it against every ledger in the log, and against the table itself"
        " where it has the provenance column source_file: what was never ingested, ingested twice, has changed since,"
        " or is gone. Changes nothing.",
    )
    add_job_arguments(audit)
    audit.add_argument("--no-rows", action="store_true", help="do not read the table's own source_file column")
    audit.add_argument("--check", action="store_true", help="exit 5 if anything is not as it should be")
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
    infer.add_argument("--source", metavar="URI", required=True, help="folder, file or glob of NDJSON files")
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
    other = diff.add_mutually_exclusive_group(required=True)
    other.add_argument("--source", metavar="URI", help="infer the schema from this folder, file or glob")
    other.add_argument("--schema", metavar="DDL|FILE", help="the schema itself")
    _sample_arguments(diff)


def _sample_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pattern", metavar="GLOB", help="which files below the folder")
    add_hints_argument(parser)
    parser.add_argument("--sample-records", metavar="N", help="records to look at, at most (default: 10000)")
    parser.add_argument("--sample-files", metavar="N", help="files to take them from, at most (default: 20)")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = build_parser().parse_args(arguments)
    except ConfigError as e:
        if arguments[:1] != ["run"]:
            return _fail(e, None, None)
        # Who reads the last line of `run`, or its summary, finds an object there whatever happened.
        destination = _destination_of(arguments[1:])
        return _fail(e, Summary(attempt=destination.attempt if destination else None), destination)
    if options.command == "run":
        return _run(options, arguments)
    try:
        return _dispatch(options)
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as e:
        return _fail(e, None, None)


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
    from blizzard import commands, dlq_commands  # keeps --help fast

    return dlq_commands.dispatch(options) if options.command == "dlq" else commands.dispatch(options)


def config_of(options: argparse.Namespace) -> Any:
    from blizzard.config import load_config

    return load_config(
        file=options.config,
        assignments=tuple(options.assignments),
        flags={
            "source.path": options.source,
            "table.path": options.table,
            "schema.ddl": options.schema,
            "table.committer": options.committer,
            "schema.infer": options.infer or None,
            "schema.hints": options.hints,
            "api.address": getattr(options, "api_addr", None),
            "log.format": "json" if getattr(options, "log_json", False) else None,
        },
    )


@contextmanager
def job_of(options: argparse.Namespace) -> Iterator[Any]:
    """The job that is asked for. If a session was started for it, or for its committer, it is stopped in the end."""
    from blizzard import job
    from blizzard.session import LazySession, settings_of

    config = config_of(options)
    session = LazySession(config.spark_conf, with_delta=config["table.committer"] == "delta-spark")
    options.session = session
    try:
        yield _make_job(options, job.with_table_path(config, session.get), session.get, settings_of(None))
    finally:
        session.stop()


def _make_job(options: argparse.Namespace, config: Any, session: Any, settings: dict[str, str]) -> Any:
    from blizzard import job

    return job.make_job(
        config,
        pipeline=options.pipeline,
        start_from=options.start_from,
        adopts=getattr(options, "adopt", False),
        max_batches=getattr(options, "max_batches", None),
        accepts_quarantine_loss=getattr(options, "accept_quarantine_loss", False),
        spark_settings=settings,
        session=session,
    )


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from blizzard.control import RunControl

    summary, stop = Summary(attempt=options.attempt), RunControl()
    with stop.installed():  # before the slow imports: a signal then is a stop, not a traceback
        try:
            _ingest(options, arguments, summary, stop)
        except Exception as e:
            return _fail(e, summary, options)
    _say(_told(summary), options, "info", status=summary.status, seconds=round(summary.seconds, 3))
    if summary.status == "idle" and options.exit_99_when_idle:
        summary.exit_code = EXIT_IDLE
    return _emit(summary, options)


def _ingest(options: argparse.Namespace, arguments: Sequence[str], summary: Summary, stop: RunControl) -> None:
    from blizzard import api
    from blizzard.operating import Operation
    from blizzard.progress import make_progress

    _check_destination(options.summary)
    run_id = os.urandom(6).hex()
    with job_of(options) as job, make_progress(job.config["log.format"], job.pipeline, run_id) as progress:
        options.progress = progress
        stop.grace_s = job.config["stop_grace_s"] or 0.0
        progress.note(f"pipeline {job.pipeline}: {job.source.identity.root} ({job.source.location.pattern})")
        session = options.session
        try:
            operation = Operation(job, summary, stop, progress, run_id=run_id)
            operation.run(session.get, session.begin, follows=options.follow)
        except api.SchemaMissing as e:
            command = shlex.join(["blizzard", *arguments, "--schema", e.ddl])
            raise ConfigError(f"{e}\nTo use it, add --infer, or:\n  {command}", kind=e.kind) from e
        finally:
            summary.seconds = max(0.0, summary.seconds - session.startup_seconds)


def _check_destination(destination: str | None) -> None:
    """A summary that cannot be written is better known before the work than after it."""
    if destination is None:
        return
    from blizzard.store.uri import is_local, locate

    path = locate(destination, what="summary")
    if not is_local(path):
        return
    folder = os.path.dirname(path)
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ConfigError(f"--summary {destination}: not a file in a folder that can be written to", kind="summary")


def _write_summary(summary: Summary, options: argparse.Namespace) -> None:
    """By rename, so that nobody reads half of it; an object store never shows half of one."""
    from blizzard.config import load_config
    from blizzard.store import open_store
    from blizzard.store.uri import locate

    folder, name = locate(options.summary, what="summary").rsplit("/", 1)
    config = load_config(file=options.config, assignments=tuple(options.assignments))
    open_store(folder or "/", config.access("table", folder or "/")).put(name, summary.to_json().encode() + b"\n")


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


def _say(text: str, options: argparse.Namespace | None, level: str, *, trace: str = "", **fields: Any) -> None:
    """A line on stderr; an object where the other lines are objects."""
    from blizzard.progress import JsonProgress

    progress = getattr(options, "progress", None)
    if progress is None and getattr(options, "log_json", False):
        progress = JsonProgress(getattr(options, "pipeline", None))  # it failed before there was a run
    if isinstance(progress, JsonProgress):
        fields |= {"traceback": trace} if trace else {}
        progress.line(level, text, **fields)
    else:
        sys.stderr.write(f"{trace}{text}\n".encode("utf-8", "backslashreplace").decode())


def _fail(error: Exception, summary: Summary | None, options: argparse.Namespace | None) -> int:
    known = isinstance(error, BlizzardError)
    kind, code = (error.kind, error.exit_code) if isinstance(error, BlizzardError) else ("internal", 1)
    trace = "" if known else "".join(traceback.format_exception(error))
    _say(f"blizzard: {error if known else repr(error)} [{kind}]", options, "error", trace=trace, kind=kind)
    if summary is None:
        return code
    summary.status, summary.exit_code, summary.error_kind, summary.error = "failed", code, kind, str(error)
    return _emit(summary, options)


def _emit(summary: Summary, options: argparse.Namespace | None) -> int:
    """The JSON object, last on stdout, and to a file if asked."""
    if options is not None and options.summary is not None and summary.error_kind != "summary":
        try:
            _write_summary(summary, options)
        except (OSError, BlizzardError) as e:
            text = f"blizzard: the summary could not be written to {options.summary}: {e} [summary]"
            _say(text, options, "error", kind="summary")
            if summary.exit_code == 0:
                summary.exit_code, summary.error_kind, summary.error = 1, "summary", str(e)
    try:
        sys.stdout.write(summary.to_json() + "\n")
        sys.stdout.flush()
    except (OSError, AttributeError, ValueError) as e:  # a closed or full stdout changes nothing about what was done
        sys.stderr.write(f"blizzard: the summary could not be printed: {e}\n")
        _discard_stdout()
    return summary.exit_code


def _discard_stdout() -> None:
    """Nothing more can be said there; keep the interpreter from trying again as it exits."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
