"""A run with everything around it (metrics, the API): once, or following until it is asked to stop.

The API: GET /health /ready /metrics /status /checkpoints and / (a page); POST /pause /resume /checkpoint /stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

from blizzard.core.events import Emit, Failed, Noted, Warned
from blizzard.core.kinds import Kind
from blizzard.operate.status import checkpoints
from blizzard.report.facts import Live
from blizzard.report.live import LiveReport
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.carry_out import carry_out
from blizzard.run.commit import new_run_id
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl
from blizzard.service.follow import Following, follow
from blizzard.service.http import Answer, ApiServer
from blizzard.service.metrics import Metrics
from blizzard.spark.gone import reported_if_gone
from blizzard.store.uri import show_uri

_LISTED_CHECKPOINTS = 50
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Operation:
    """`opened` is the table for the first cycle; each later cycle opens it again."""

    def __init__(
        self,
        assembly: Assembly,
        opened: Opened,
        summary: Summary,
        control: RunControl,
        *,
        emit: Emit,
        run_id: str | None = None,
    ) -> None:
        self._metrics = Metrics(opened.pipeline)
        self._emit = Stream(self._metrics.see, emit)
        self._assembly = replace(assembly, emit=self._emit)
        self._opened: Opened | None = opened
        self._pipeline, self._control = opened.pipeline, control
        self._following = Following(total=summary)
        self._started = time.time()
        self._run_id = run_id or new_run_id()
        self._live_report = LiveReport(self._assembly)

    def run(self, *, follows: bool) -> None:
        config, summary = self._assembly.config, self._following.total
        with self._served(), self._textfile():
            if not follows:
                self._run_to_its_end(summary)
                return
            self._assembly = replace(self._assembly, emit=Stream(summary.see, self._emit))
            follow(
                self._run_once,
                self._control,
                self._following,
                poll_s=config.follow.poll_s or 0.0,
                jitter_s=config.follow.jitter_s or 0.0,
                emit=self._emit,
            )

    def _run_to_its_end(self, summary: Summary) -> None:
        """A pause ends the batch but not the run: after a resume it goes on with the same summary."""
        while True:
            self._run_once(summary)
            if summary.status != "stopped" or self._control.is_stopping:
                return
            self._control.wait_while_paused()
            if self._control.is_stopping:
                return

    def _run_once(self, summary: Summary) -> None:
        with reported_if_gone():
            opened = self._opened or Opened(table=self._assembly.place().open(), pipeline=self._pipeline)
            self._opened = None
            assembly = replace(self._assembly, emit=Stream(summary.see, self._assembly.emit))
            carry_out(assembly, opened, run_id=self._run_id, stop=self._control)

    @contextmanager
    def _served(self) -> Iterator[None]:
        api = self._assembly.config.api
        if api.address is None:
            yield
            return
        server = ApiServer(api.address, gets=self._gets(), posts=self._posts(), token=api.token)
        self._emit(Noted(message=f"the API is at {server.url}"))
        try:
            yield
        finally:
            server.close()

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

    def _gets(self) -> dict[str, Callable[[], Answer]]:
        return {
            "/": self._page,
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": lambda: Answer(body=self._metrics.text(), kind=_PROMETHEUS),
            "/status": lambda: Answer.json(self._status()),
            "/checkpoints": self._checkpoints,
        }

    def _posts(self) -> dict[str, Callable[[], Answer]]:
        return {
            "/pause": lambda: self._ask(self._control.pause),
            "/resume": lambda: self._ask(self._control.resume),
            "/checkpoint": lambda: self._ask(self._control.commit_now, sequence=self._next_sequence()),
            "/stop": lambda: self._ask(self._control.stop),
        }

    def _ask(self, action: Callable[[], None], **fields: Any) -> Answer:
        action()
        return Answer.json({"state": self._state(), **fields}, 202)

    def _next_sequence(self) -> int:
        return (self._metrics.newest_sequence or 0) + 1

    def _state(self) -> str:
        if self._control.is_stopping:
            return "stopping"
        return "paused" if self._control.is_paused else "running"

    def _health(self) -> Answer:
        """503 once several cycles in a row have failed: restart it, or look at it."""
        healthy, error = self._following.is_healthy, self._following.last_error
        return Answer.json({"healthy": healthy, "state": self._state(), "error": error}, 200 if healthy else 503)

    def _ready(self) -> Answer:
        ready = self._following.is_ready or self._metrics.newest_sequence is not None
        return Answer.json({"ready": ready}, 200 if ready else 503)

    def _status(self) -> dict[str, Any]:
        return {
            "pipeline": self._pipeline,
            "source": self._assembly.request.source_location.identity.root,
            "table": show_uri(self._assembly.request.table_root),
            "state": self._state(),
            "run_id": self._run_id,
            "uptime_seconds": round(time.time() - self._started, 1),
            "cycles": self._following.cycles,
            "failures": self._following.failures,
            "last_error": self._following.last_error,
            "sequence": self._metrics.newest_sequence,
            "checkpoint_lag_seconds": self._metrics.lag_s,
            "total": self._following.total.to_dict(),
        }

    def _checkpoints(self) -> Answer:
        rows = checkpoints(self._assembly.open_table(), self._pipeline)
        return Answer.json({"checkpoints": list(islice(rows, _LISTED_CHECKPOINTS))})

    def _page(self) -> Answer:
        live = Live(status=self._status(), needs_token=self._assembly.config.api.token is not None)
        return Answer(body=self._live_report.render(live).encode(), kind="text/html; charset=utf-8")
