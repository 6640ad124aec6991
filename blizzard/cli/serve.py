"""`blizzard serve`. Its last line on stdout is one JSON object, on failure too."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from blizzard.cli.ending import check_destination, end_with
from blizzard.cli.failures import failure_of, failure_text, trace_of
from blizzard.cli.run import EXIT_IDLE
from blizzard.cli.stopping import told_of_stops
from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.errors import ConfigError
from blizzard.service.fleet_control import FleetControl
from blizzard.service.fleet_summary import FleetSummary
from blizzard.service.progress import Progress, progress_of_pipeline

if TYPE_CHECKING:
    from blizzard.config.load import Config

_FLAGS = {"api_addr": "api.address", "log_format": "log.format"}


class ServeCommand:
    """`options` is None if the arguments could not be understood at all."""

    def __init__(self, options: argparse.Namespace | None) -> None:
        self._options = options
        self._summary = FleetSummary(attempt=getattr(options, "attempt", None))
        self._format = getattr(options, "log_format", None) or "text"
        self._lines: dict[str | None, Progress] = {}
        self._all_ended = True

    def run(self) -> int:
        assert self._options is not None
        control = FleetControl()
        told = told_of_stops(control, lambda text: self._say("info", text), self._is_reading)
        with control.installed():  # as for a run: from before the slow imports until the last line is out
            try:
                with told:
                    self._serve(self._options, control)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as e:  # a panic in Rust is not an Exception
                return self.fail(e)
            summary = self._summary
            if summary.status == "idle" and self._options.exit_99_when_idle:
                summary.exit_code = EXIT_IDLE
            self._say("info" if not summary.exit_code else "error", _ending(summary), status=summary.status)
            return self._end()

    def fail(self, error: BaseException) -> int:
        known = failure_of(error)
        self._say("error", failure_text(known), trace=trace_of(error), kind=known.kind)
        self._summary.fail(known)
        return self._end()

    def _serve(self, options: argparse.Namespace, control: FleetControl) -> None:
        from blizzard.config.fleet import load_fleet
        from blizzard.service.fleet import Fleet
        from blizzard.service.fleet_api import FleetApi
        from blizzard.service.http import serving
        from blizzard.service.logs import logged_by_pipeline
        from blizzard.spark.session import LazySession, fair_settings

        check_destination(options.summary)
        if options.exit_99_when_idle and not options.once:
            raise ConfigError("--exit-99-when-idle goes with --once", kind=Kind.USAGE)
        flags = {key: getattr(options, name) for name, key in _FLAGS.items()}
        config = load_fleet(options.config, assignments=tuple(options.assignments), flags=flags)
        self._format, api = config.process.log.format, config.process.api
        session = LazySession(fair_settings(config.process.spark_conf), with_delta=config.needs_delta_jars)
        with ExitStack() as held:
            held.callback(lambda: session.stop() if self._all_ended else None)
            held.enter_context(logged_by_pipeline(lambda name: self._progress(name).see))
            fleet = Fleet(config, session, control, self._summary, progress_of=self._progress)
            if api.address is not None:
                router = FleetApi(fleet).router
                held.enter_context(serving(api.address, router, api.token, self._progress(None).see))
            self._all_ended = fleet.run(follows=not options.once)

    def _progress(self, pipeline: str | None) -> Progress:
        """The lines of a pipeline, or those of the process."""
        if pipeline not in self._lines:
            self._lines[pipeline] = progress_of_pipeline(self._format, pipeline)
        return self._lines[pipeline]

    def _is_reading(self) -> bool:
        return any(lines.is_reading for lines in list(self._lines.values()))

    def _say(self, level: str, text: str, *, trace: Sequence[str] = (), **fields: Any) -> None:
        traced = {"traceback": "\n".join(trace)} if trace else {}
        self._progress(None).line(level, text, **fields, **traced)

    def _end(self) -> int:
        code = end_with(
            self._summary,
            getattr(self._options, "summary", None),
            config=self._config,
            tell=lambda text: self._say("error", text, kind=Kind.SUMMARY),
        )
        if not self._all_ended:
            # A thread that hangs in a store would keep the process. What it does is in no commit, or is found there.
            sys.stderr.flush()
            os._exit(code)
        return code

    def _config(self) -> Config:
        """Where the summary file is opened with credentials, those at the top of the file."""
        from blizzard.config.file import read_fleet_file
        from blizzard.config.load import make_config

        assert self._options is not None
        return make_config(read_fleet_file(self._options.config).defaults)


def _ending(summary: FleetSummary) -> str:
    each = summary.pipelines.values()
    failed = [name for name, of in summary.pipelines.items() if of.exit_code]
    text = (
        f"{summary.status}: {count(len(each), 'pipeline')}, {count(sum(s.records for s in each), 'record')},"
        f" {count(sum(s.commits for s in each), 'commit')}, {summary.seconds:.1f} s"
    )
    if failed:
        text += f"; {count(len(failed), 'pipeline')} failed: {', '.join(failed[:10])}"
    return text
