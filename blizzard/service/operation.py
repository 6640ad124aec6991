"""A pipeline with everything around it (metrics, state, the API): one run, or following until it is asked to stop.

What the API of one run serves is in `routes`. A fleet has many operations and one API: see `fleet_api.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

from blizzard.core.events import Emit, Event, Failed, Noted, Warned
from blizzard.core.kinds import Kind
from blizzard.core.pause_json import pause_to_json
from blizzard.errors import BlizzardError, ConfigError
from blizzard.operate.pause import PauseDone, Pausing, nothing_to_pause, pause_each
from blizzard.operate.status import checkpoints
from blizzard.report.facts import OF_ONE_RUN, HeldByRun, HeldFile, Live, LivePaths
from blizzard.report.live import LiveReport
from blizzard.report.targets import LiveTargets
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.carry_out import Cycle, carry_out
from blizzard.run.commit import new_run_id
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl, Wish
from blizzard.service.follow import Following, PauseAfter, follow, wait_out_temporary
from blizzard.service.glance import Glance
from blizzard.service.holding import Holding
from blizzard.service.http import serving
from blizzard.service.openapi import ASKED, CHECKPOINTS, METRICS, PROMETHEUS, READY, REPORT, answers, description
from blizzard.service.resting import Resting
from blizzard.service.router import HTML, Answer, Described, Route, Router
from blizzard.service.target_metrics import TargetMetrics, metrics_of
from blizzard.spark.gone import reported_if_gone

_LISTED_CHECKPOINTS = 50


class Operation:
    """`opened` is the table for the first cycle; each later cycle opens it again. None: the first one does too."""

    pause_after: PauseAfter = staticmethod(wait_out_temporary)

    def __init__(
        self,
        assembly: Assembly,
        opened: Opened | None,
        summary: Summary,
        control: RunControl,
        *,
        emit: Emit,
        run_id: str | None = None,
    ) -> None:
        self._pipeline = opened.pipeline if opened is not None else str(assembly.request.pipeline)
        self._metrics = metrics_of(assembly.config, self._pipeline)
        self._holding = Holding()
        self._emit = Stream(self._watch, emit)
        self._assembly = replace(assembly, emit=self._emit)
        self._opened, self._control = opened, control
        self._following = Following(total=summary)
        self._glance = Glance(self._pipeline)
        self._started = time.time()
        self._run_id = run_id or new_run_id()
        self._live_report = LiveReport(self._assembly)
        self._live_targets = LiveTargets(self._assembly, self._pipeline)
        self._resting: Resting | None = None  # only if it follows

    def run(self, *, follows: bool) -> None:
        with self._textfile(), self._assembly.mirroring.finished():
            with self._served():
                self._work(self._following.total, follows=follows)
            self._grant_wish(self._following.total)  # asked for after the last look, before the API was closed

    def work(self, *, follows: bool) -> None:
        with self._assembly.mirroring.finished():
            self._work(self._following.total, follows=follows)

    def _work(self, summary: Summary, *, follows: bool) -> None:
        config = self._assembly.config
        if not follows:
            self._run_to_its_end(summary)
            return
        self._assembly = replace(self._assembly, emit=Stream(summary.see, self._emit))
        self._resting = Resting(config.follow.poll_s or 0.0)
        follow(
            self._cycle,
            self._control,
            self._following,
            poll_s=config.follow.poll_s or 0.0,
            jitter_s=config.follow.jitter_s or 0.0,
            emit=self._emit,
            pause_after=self.pause_after,
        )
        self._grant_wish(summary)

    def _run_to_its_end(self, summary: Summary) -> None:
        """A pause that is asked for ends the batch. The cycle after that commits the pause, and ends as paused."""
        self._cycle(summary)
        while self._control.wish is not None and not self._control.is_stopping:
            self._cycle(summary)
        self._grant_wish(summary)

    def _watch(self, event: Event) -> None:
        self._metrics.see(event)
        self._holding.see(event)
        self._control.is_paused = self._metrics.paused is not None

    def _grant_wish(self, summary: Summary) -> None:
        """Commit the pause or the resume that was asked for. After a temporary failure the next cycle tries again, and
        nothing is read before that."""
        wish = self._control.wish
        if wish is None:
            return
        self._opened = None  # what it shows is older than this commit
        emit, is_done = Stream(summary.see, self._assembly.emit), False
        try:
            with reported_if_gone():
                act = Pausing.pause if wish is Wish.PAUSE else Pausing.resume
                done = pause_each(replace(self._assembly_to_pause(), emit=emit), self._pipeline, act)
            if wish is Wish.PAUSE and not done:
                raise nothing_to_pause(self._pipeline)
            self._tell_of_pause(done)
            is_done = True
        except ConfigError as e:
            if e.kind != Kind.USAGE:
                raise
            self._emit(Warned(message=str(e)))
            is_done = True
        finally:
            self._control.has_tried(wish, is_done=is_done)

    def _assembly_to_pause(self) -> Assembly:
        return self._assembly

    def _tell_of_pause(self, done: Mapping[str, PauseDone | BlizzardError]) -> None:
        """Raises if it was done nowhere. One of several logs that cannot be written to is only reported."""
        errors = {name: one for name, one in done.items() if isinstance(one, BlizzardError)}
        if errors and len(errors) == len(done):
            raise next(iter(errors.values()))
        for name, error in errors.items():
            self._emit(Warned(message=f"target {name} was neither paused nor resumed: {error} [{error.kind}]"))
        changed = [one for one in done.values() if isinstance(one, PauseDone) and one.changed]
        if changed and all(one.paused is None for one in changed):
            self._emit(Noted(message=f"pipeline {self._pipeline} goes on"))

    def _cycle(self, summary: Summary) -> None:
        """A run, unless a glance shows that it would find what the one before it has found: nothing."""
        self._grant_wish(summary)
        if self._glance.shows_nothing_new(self._assembly):
            summary.status = "idle"
            return
        was_idle = False
        try:
            self._run_once(summary)
            was_idle = summary.status == "idle" and not summary.backlog_files and not summary.held_files
        finally:
            self._glance.remember(was_idle=was_idle)

    def _run_once(self, summary: Summary) -> None:
        with reported_if_gone():
            opened = self._opened or self._assembly.open_for(self._pipeline)
            self._opened = None
            assembly = replace(self._assembly, emit=Stream(summary.see, self._assembly.emit))
            ran = carry_out(assembly, opened, run_id=self._run_id, stop=self._control, cycle=self._next_cycle())
        if self._resting is not None:
            self._resting.learn(ran.failed)
        if ran.is_early:
            self._control.look_again()

    def _next_cycle(self) -> Cycle | None:
        """None: it does not follow, and goes on until all is read."""
        if self._resting is None:
            return None
        return Cycle(looks_again_s=self._assembly.config.follow.poll_s or 0.0, resting=self._resting.errors())

    @contextmanager
    def _served(self) -> Iterator[None]:
        api = self._assembly.config.api
        if api.address is None:
            yield
            return
        with serving(api.address, Router(self.routes()), api.token, self._emit):
            yield

    @contextmanager
    def _textfile(self) -> Iterator[None]:
        path = self._assembly.config.metrics.textfile
        try:
            yield
        except Exception as e:
            self._emit(Failed(kind=getattr(e, "kind", Kind.INTERNAL)))
            raise
        finally:
            if path is not None:
                try:
                    self._metrics.write_textfile(path)
                except OSError as e:
                    self._emit(Warned(message=f"the metrics could not be written to {path}: {e.strerror}"))

    def routes(self) -> list[Route]:
        """Of the API of one run."""
        gets: dict[str, tuple[Callable[[], Answer], str, dict[int, Described]]] = {
            "/": (self._page, "The report, live, with buttons.", REPORT),
            "/health": (self._health, "200; 503 once three cycles in a row have failed.", answers("Health", "", 503)),
            "/ready": (self._ready, "Whether the position is known.", READY),
            "/metrics": (self._metrics_text, "Metrics, for Prometheus.", METRICS),
            "/status": (self._status, "Pipeline, state, sequence, lag, counts, the last error.", answers("Status", "")),
            "/checkpoints": (self.listed_checkpoints, "The newest 50 positions in the log.", CHECKPOINTS),
        }
        posts: dict[str, tuple[Callable[[], Answer], str]] = {
            "/pause": (self.pause, "Commit what is read, then the pause; nothing more is read until a resume."),
            "/resume": (self.resume, "Commit the end of the pause, and go on; after a failure, try again now."),
            "/checkpoint": (self.commit_now, "Commit what is read so far. The answer has the sequence to wait for."),
            "/stop": (self.stop, "Commit what is read, and end the run."),
        }
        routes = [Route(method="GET", path=p, view=v, summary=s, answers=a) for p, (v, s, a) in gets.items()]
        routes += [Route(method="POST", path=p, view=v, summary=s, answers=ASKED) for p, (v, s) in posts.items()]
        return [*routes, description(routes, title="blizzard: one run", needs_token=self._needs_token)]

    # What may be asked of it.

    def pause(self) -> Answer:
        if self.is_ready and not self._metrics.newest_sequence:
            return Answer.json({"error": str(nothing_to_pause(self._pipeline)), "state": self.state}, 409)
        return self._ask(self._control.pause)

    def resume(self) -> Answer:
        if self._resting is not None:
            self._resting.end()
        return self._ask(self._control.resume)

    def commit_now(self) -> Answer:
        return self._ask(self._control.commit_now, **self._next_sequence())

    def stop(self) -> Answer:
        return self._ask(self._control.stop_gracefully)

    def _ask(self, action: Callable[[], None], **fields: Any) -> Answer:
        action()
        return Answer.json({"state": self.state, **fields}, 202)

    # What it tells.

    def _next_sequence(self) -> dict[str, Any]:
        """To wait for. With several targets, of each one."""
        if isinstance(self._metrics, TargetMetrics):
            return {"sequences": {name: metrics.next_sequence for name, metrics in self._metrics.of.items()}}
        return {"sequence": self._metrics.next_sequence}

    @property
    def state(self) -> str:
        if self._control.is_stopping:
            return "stopping"
        wish = self._control.wish  # the run may grant it at this moment
        if wish is not None:
            return wish.value
        return "paused" if self._metrics.paused is not None else "running"

    def _health(self) -> Answer:
        """503 once several cycles in a row have failed: restart it, or look at it."""
        healthy, error = self._following.is_healthy, self._following.last_error
        return Answer.json({"healthy": healthy, "state": self.state, "error": error}, 200 if healthy else 503)

    def _ready(self) -> Answer:
        return Answer.json({"ready": self.is_ready}, 200 if self.is_ready else 503)

    @property
    def is_ready(self) -> bool:
        return self._following.is_ready or self._metrics.newest_sequence is not None

    @property
    def _source_shown(self) -> str:
        return self._assembly.request.source_location.identity.root

    @property
    def _tables_shown(self) -> dict[str, str]:
        """By target."""
        return {name: request.table_shown for name, request in self._assembly.request.of_targets().items()}

    def status(self) -> dict[str, Any]:
        return {
            "pipeline": self._pipeline,
            "source": self._source_shown,
            "table": ", ".join(self._tables_shown.values()),
            "state": self.state,
            "paused": None if self._metrics.paused is None else pause_to_json(self._metrics.paused),
            "run_id": self._run_id,
            "uptime_seconds": round(time.time() - self._started, 1),
            "cycles": self._following.cycles,
            "failures": self._following.failures,
            "last_error": self._following.last_error,
            "sequence": None if self._assembly.config.targets else self._metrics.newest_sequence,
            "checkpoint_lag_seconds": self._metrics.lag_s,
            "held_files": self._metrics.held_files if self._holding.files is None else self._holding.files,
            "total": self._following.total.to_dict(),
            **self._targets_status(),
        }

    def _status(self) -> Answer:
        return Answer.json(self.status())

    def _targets_status(self) -> dict[str, Any]:
        metrics = self._metrics
        if not isinstance(metrics, TargetMetrics):
            return {}
        targets = {}
        for name, table in self._tables_shown.items():
            files, stored_bytes = metrics.of[name].backlog or (None, None)
            targets[name] = {
                "table": table,
                "required": self._assembly.config.targets[name].required,
                "is_up": metrics.is_up(name),
                "sequence": metrics.of[name].newest_sequence,
                "checkpoint_lag_seconds": metrics.of[name].lag_s,
                "backlog_files": files,
                "backlog_bytes": stored_bytes,
                "last_error": metrics.errors.get(name),
            }
        return {"commit_policy": self._assembly.config.commit_policy, "targets": targets}

    def listed_checkpoints(self) -> Answer:
        """Read from the log. With several targets, from each one's."""
        if not self._assembly.config.targets:
            return Answer.json({"checkpoints": self._checkpoints_of(self._assembly)})
        targets = self._assembly.targets().items()
        return Answer.json({"targets": {name: {"checkpoints": self._checkpoints_of(one)} for name, one in targets}})

    def _checkpoints_of(self, assembly: Assembly) -> list[dict[str, Any]]:
        """None, where there is no table yet, or where it is taken back while it is read."""
        table = assembly.find_table()
        try:
            return [] if table is None else list(islice(checkpoints(table, self._pipeline), _LISTED_CHECKPOINTS))
        except (BlizzardError, OSError):
            if assembly.find_table() is None:
                return []
            raise

    def _metrics_text(self) -> Answer:
        return Answer(body=self._metrics.text(), kind=PROMETHEUS)

    def _page(self) -> Answer:
        return self.page(OF_ONE_RUN)

    def page(self, paths: LivePaths, *, fleet: str | None = None) -> Answer:
        held = tuple(
            HeldByRun(
                target=name or None,
                files=now.files,
                first=tuple(HeldFile(path=path, why=why) for path, why in now.first.items()),
            )
            for name, now in self._holding.by_target.items()
        )
        live = Live(status=self.status(), needs_token=self._needs_token, paths=paths, fleet=fleet, held=held)
        if isinstance(self._metrics, TargetMetrics):
            page = self._live_targets.render(live, self._metrics.errors)
        else:
            page = self._live_report.render(live)
        return Answer(body=page.encode(), kind=HTML)

    @property
    def _needs_token(self) -> bool:
        return self._assembly.config.api.token is not None
