"""`blizzard run`. Its last line on stdout is one JSON object, on failure too."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from blizzard.cli.ending import check_destination, end_with
from blizzard.cli.failures import failure_of, failure_text, trace_of
from blizzard.cli.stopping import told_of_stops
from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.run.summary import Summary, describe_ending
from blizzard.service.control import RunControl
from blizzard.service.live import make_progress
from blizzard.service.progress import Progress
from blizzard.text.redaction import HIDDEN, redact_argument
from blizzard.text.shell import shell_words

if TYPE_CHECKING:
    from blizzard.config.load import Config

if TYPE_CHECKING:
    from blizzard.run.carry_out import SchemaMissing

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
        self._progress.begin("starting Spark, if there is something new…")
        told = told_of_stops(stop, lambda text: self._say("info", text), lambda: self._progress.is_reading)
        # From before the slow imports until the last line is out: a signal leaves no traceback, and takes no line away.
        with stop.installed():
            try:
                with told:
                    self._ingest(self._options, stop)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as e:  # a panic in Rust is not an Exception
                return self.fail(e)
            return self._succeed(self._summary, exit_99_when_idle=self._options.exit_99_when_idle)

    def _succeed(self, summary: Summary, *, exit_99_when_idle: bool) -> int:
        self._progress.close()
        self._tell_of_targets(summary)
        self._say("info", describe_ending(summary), status=summary.status, seconds=round(summary.seconds, 3))
        if summary.status in ("idle", "paused") and not summary.commits and exit_99_when_idle:
            summary.exit_code = EXIT_IDLE
        return self._end()

    def fail(self, error: BaseException) -> int:
        known, trace, summary = failure_of(error), trace_of(error), self._summary
        self._progress.close()
        self._tell_of_targets(summary, ended_by=str(known))
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

        check_destination(options.summary)
        config, run_id = config_of(options), new_run_id()
        self._use_format(config.log.format)
        stop.grace_s = config.stop_grace_s or 0.0
        with ExitStack() as held:
            session = held.enter_context(session_for(config))
            session.before_start = lambda: self._progress.begin("starting Spark…")
            request = request_to_ingest(options, config, session)
            self._use_format(config.log.format, run_id)
            held.enter_context(logged_as_events(self._progress.see))
            assembly = Assembly(request=request, session=session, emit=self._progress.see)
            operation = Operation(
                assembly, assembly.open(), self._summary, stop, emit=self._progress.see, run_id=run_id
            )
            try:
                operation.run(follows=options.follow)
            except SchemaMissing as e:
                raise ConfigError(str(e), kind=e.kind, further=_suggestion(self._arguments, e)) from e
            finally:
                self._summary.seconds = max(0.0, self._summary.seconds - session.startup_seconds)
            if session.is_cold and config.log.format == "text":
                self._tell_of_warm_up()

    def _use_format(self, log_format: str, run_id: str | None = None) -> None:
        """A configuration file may ask for JSON where the command line does not."""
        if log_format == "json":
            self._progress.close()
            self._progress = make_progress(log_format, getattr(self._options, "pipeline", None), run_id)

    def _tell_of_targets(self, summary: Summary, *, ended_by: str | None = None) -> None:
        """A line for each of several targets, before the line for all of them. `ended_by` is said there."""
        for name, target in summary.targets.items():
            if target.status == "failed" and target.error == ended_by:
                self._say("warning", f"warning: target {name} failed, and ended the run", target=name, status="failed")
            elif target.status == "failed":
                text = f"warning: target {name} failed: {target.error} [{target.error_kind}]"
                self._say("warning", text, target=name, status=target.status, kind=target.error_kind)
            else:
                text = f"target {name}: {describe_ending(target, has_seconds=False)}"
                self._say("info", text, target=name, status=target.status)

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
        return end_with(
            self._summary,
            getattr(self._options, "summary", None),
            config=self._config,
            tell=lambda text: self._say("error", text, kind=Kind.SUMMARY),
        )

    def _config(self) -> Config:
        from blizzard.cli.context import config_of

        assert self._options is not None
        return config_of(self._options)


def _suggestion(arguments: Sequence[str], missing: SchemaMissing) -> list[str]:
    """The same command with the missing schema, to be pasted; secrets in it are hidden."""
    from blizzard.run.carry_out import LONGEST_DDL

    ddl, infer = missing.ddl, "" if missing.for_transform else ", add --infer"
    if len(ddl) > LONGEST_DDL:
        in_file = "write it to a file (blizzard schema infer … > schema.ddl) and give --schema."
        return [f"To use it{infer}. Or {in_file}" if infer else f"To use it, {in_file}"]
    given = [redact_argument(word) for word in arguments]
    note = "" if given == list(arguments) else f" ({HIDDEN} stands for a secret: put it in again)"
    return [
        f"To use it{infer}{', or' if infer else ''}{note}:",
        f"  {shell_words(['blizzard', *given, '--schema', ddl])}",
    ]
