"""`blizzard run`. Its last line on stdout is one JSON object, on failure too."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from blizzard.cli.failures import failure_of, failure_text, trace_of
from blizzard.cli.output import say
from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.core.reasons import explain
from blizzard.errors import BlizzardError, ConfigError
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl
from blizzard.service.progress import Progress, make_progress
from blizzard.text.redaction import HIDDEN, redact_argument
from blizzard.text.shell import shell_words
from blizzard.text.shown import printable
from blizzard.text.streams import put_out

EXIT_IDLE = 99


class RunCommand:
    """`options` is None if the arguments could not be understood at all."""

    def __init__(self, options: argparse.Namespace | None, arguments: Sequence[str]) -> None:
        self._options, self._arguments = options, arguments
        self._summary = Summary(attempt=getattr(options, "attempt", None))
        # For errors before the configuration is read.
        self._progress: Progress = make_progress(
            getattr(options, "log_format", None) or "text", getattr(options, "pipeline", None)
        )

    def run(self) -> int:
        assert self._options is not None
        stop = RunControl()
        with stop.installed():  # before the slow imports: a signal during them stops the run, without a traceback
            try:
                self._ingest(self._options, stop)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as e:  # a panic in Rust is not an Exception
                return self.fail(e)
        summary = self._summary
        self._say("info", _ending(summary), status=summary.status, seconds=round(summary.seconds, 3))
        if summary.status == "idle" and self._options.exit_99_when_idle:
            summary.exit_code = EXIT_IDLE
        return self._end()

    def fail(self, error: BaseException) -> int:
        known, trace, summary = failure_of(error), trace_of(error), self._summary
        self._say("error", failure_text(known), trace=trace, kind=known.kind)
        summary.status, summary.exit_code = "failed", known.exit_code
        summary.error_kind, summary.error = known.kind, str(known)
        return self._end()

    def _ingest(self, options: argparse.Namespace, stop: RunControl) -> None:
        from blizzard.cli.context import config_of, request_to_ingest, session_for
        from blizzard.run.assemble import Assembly
        from blizzard.run.carry_out import SchemaMissing
        from blizzard.run.commit import new_run_id
        from blizzard.service.logs import logged_as_events
        from blizzard.service.operation import Operation

        _check_destination(options.summary)
        config, run_id = config_of(options), new_run_id()
        self._progress = make_progress(config.log.format, options.pipeline)
        stop.grace_s = config.stop_grace_s or 0.0
        with ExitStack() as held:
            session = held.enter_context(session_for(config))
            request = request_to_ingest(options, config, session)
            self._progress = make_progress(config.log.format, options.pipeline, run_id)
            held.callback(self._progress.close)
            held.enter_context(logged_as_events(self._progress.see))
            assembly = Assembly(request=request, session=session, emit=self._progress.see)
            operation = Operation(
                assembly, assembly.open(), self._summary, stop, emit=self._progress.see, run_id=run_id
            )
            try:
                operation.run(follows=options.follow)
            except SchemaMissing as e:
                raise ConfigError(str(e), kind=e.kind, further=_suggestion(self._arguments, e.ddl)) from e
            finally:
                self._summary.seconds = max(0.0, self._summary.seconds - session.startup_seconds)
            if session.is_cold and config.log.format == "text":
                self._tell_of_warm_up()

    def _tell_of_warm_up(self) -> None:
        from blizzard.spark.archive import is_first_cold_start

        if is_first_cold_start():
            self._say("info", "Spark took its time to start: run blizzard warm-up once, and local runs start faster")

    def _say(self, level: str, text: str, *, trace: Sequence[str] = (), **fields: Any) -> None:
        """On stderr, as a JSON object if the other lines are. Line ends in `text` are our own: see BlizzardError."""
        traced = {"traceback": "\n".join(trace)} if trace else {}
        self._progress.line(level, text, **fields, **traced)

    def _end(self) -> int:
        """The JSON object, last on stdout, and to a file if asked."""
        summary, destination = self._summary, getattr(self._options, "summary", None)
        if destination is not None and summary.error_kind != Kind.SUMMARY:
            try:
                self._write_summary(destination)
            except (OSError, BlizzardError) as e:
                text = f"blizzard: the summary could not be written to {destination}: {e} [{Kind.SUMMARY}]"
                self._say("error", printable(text), kind=Kind.SUMMARY)
                if summary.exit_code == 0:
                    summary.exit_code, summary.error_kind, summary.error = 1, Kind.SUMMARY, str(e)
        lost = put_out(summary.to_json() + "\n")
        if lost is not None:  # the work itself is done
            say(f"blizzard: the summary could not be printed: {lost}")
        return summary.exit_code

    def _write_summary(self, destination: str) -> None:
        """The configuration is read only if it has to say how to open the destination."""
        from blizzard.cli.context import config_of
        from blizzard.store.outputs import write_output

        options = self._options
        assert options is not None
        content = self._summary.to_json().encode() + b"\n"
        write_output(destination, content, lambda folder: config_of(options).access("table", folder), what="summary")


def _suggestion(arguments: Sequence[str], ddl: str) -> list[str]:
    """The same command with the missing schema, to be pasted; secrets in it are hidden."""
    from blizzard.run.carry_out import LONGEST_DDL

    if len(ddl) > LONGEST_DDL:
        return [
            "To use it, add --infer. Or write it to a file (blizzard schema infer … > schema.ddl) and give --schema."
        ]
    given = [redact_argument(word) for word in arguments]
    note = "" if given == list(arguments) else f" ({HIDDEN} stands for a secret: put it in again)"
    return [f"To use it, add --infer, or{note}:", f"  {shell_words(['blizzard', *given, '--schema', ddl])}"]


def _check_destination(destination: str | None) -> None:
    """If the summary cannot be written, say so before the work and not after it."""
    if destination is None:
        return
    from blizzard.store.outputs import is_writable
    from blizzard.store.uri import is_local, locate

    path = locate(destination, what="summary")
    if is_local(path) and not is_writable(path):
        raise ConfigError(f"--summary {destination}: not a file in a folder that can be written to", kind=Kind.SUMMARY)


def _ending(summary: Summary) -> str:
    if summary.status == "idle":
        text = "nothing new"
    else:
        text = (
            f"{summary.status}: {count(summary.records, 'record')}, {count(summary.files, 'file')} finished,"
            f" {count(summary.commits, 'commit')}"
        )
    if summary.bad_records or summary.bad_files:
        text += f"; {count(summary.bad_records, 'bad record')}, {count(summary.bad_files, 'bad file')}"
        text += "".join(f"; most: {explain(reason)}" for reason, _ in summary.reasons.commonest(1))
        text += " (see blizzard dlq list)" if summary.quarantined else ""
    if summary.ignored_values:
        text += f"; {count(summary.ignored_values, 'value')} without a column ignored"
    if summary.sibling_values:
        text += f"; {count(summary.sibling_values, 'value')} beside arrays of records not read"
    if summary.cut_timestamps:
        text += f"; {count(sum(summary.cut_timestamps.values()), 'timestamp')} cut to microseconds"
    if summary.parser is not None:
        text += f"; read by {summary.parser}"
    return f"{text}; table version {summary.delta_version}, {summary.seconds:.1f} s"
