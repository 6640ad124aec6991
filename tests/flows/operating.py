"""A run with everything around it, the API too, on a real table; only Spark is replaced."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.core.events import unheard
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl
from blizzard.service.operation import Operation
from tests.flows.in_process import Flow


class InProcessOperation(Operation):
    """`config` is by keys: {"api.address": "127.0.0.1:0"}. `settings` go to each run of the flow."""

    def __init__(self, flow: Flow, config: dict[str, Any]) -> None:
        given = {"source.path": str(flow.src), "table.path": str(flow.table)}
        quickly = {"follow.poll_s": 0.05, "follow.jitter_s": 0}
        assembly = Assembly(request=make_request(make_config(given | quickly | config), pipeline=flow.pipeline))
        self.flow, self.control, self.summary = flow, RunControl(), Summary()
        opened = Opened(table=None, pipeline=flow.pipeline)
        super().__init__(assembly, opened, self.summary, self.control, emit=flow.told.see)
        self.settings: dict[str, Any] = {}

    def _run_once(self, summary: Summary) -> None:
        # What is told is told by the flow itself: its `told` is the emit of this operation too.
        see = self._following.total.see if summary is not self._following.total else unheard
        self.flow.run(stop=self._control, emit=Stream(self._metrics.see, see), summary=summary, **self.settings)
        summary.status = "stopped" if self._control.requested() else "done" if summary.commits else "idle"

    def metrics(self) -> str:
        return self._metrics.text().decode()

    def go(self, *, follows: bool = False) -> Summary:
        self.run(follows=follows)
        return self.summary


@dataclass
class Answered:
    status: int
    body: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def ask(url: str, method: str = "GET", **headers: str) -> Answered:
    """One request; header names are written with underscores."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, method=method, headers=given, data=b"" if method == "POST" else None)
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=10) as answer:
            return Answered(answer.status, answer.read().decode(), dict(answer.headers))
    except urllib.error.HTTPError as e:
        return Answered(e.code, e.read().decode(), dict(e.headers))


@contextmanager
def going(operation: InProcessOperation, *, follows: bool = True) -> Iterator[tuple[str, threading.Thread]]:
    """The run goes in a thread of its own; its URL and that thread. It is stopped in the end."""
    notes = operation.flow.told.notes
    notes.clear()
    thread = threading.Thread(target=operation.go, kwargs={"follows": follows}, daemon=True)
    thread.start()
    wait_until(lambda: any(map(_says_where, notes)))
    try:
        yield next(filter(_says_where, notes)).rpartition(" ")[2], thread
    finally:
        operation.control.stop()
        thread.join(20)
        assert not thread.is_alive()


def _says_where(note: str) -> bool:
    return "the API is at" in note


def wait_until(condition: Callable[[], object], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
