"""A run with everything around it, the API too, on a real table; only Spark is replaced."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.core.events import Committed, Event, OfTarget, Planned, unheard
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.service.control import RunControl
from blizzard.service.operation import Operation
from tests.flows.in_process import Flow
from tests.ingesting import DDL

LONGEST_S = 120  # for what takes a moment, on a machine that is busy with other tests


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
        self.flow.run(stop=self._control, emit=Stream(self._watch, see), summary=summary, **self.settings)
        ended = "paused" if summary.paused is not None else "done" if summary.commits else "idle"
        summary.status = "stopped" if self._control.requested() else ended

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
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=LONGEST_S) as answer:
            return Answered(answer.status, answer.read().decode(), dict(answer.headers))
    except urllib.error.HTTPError as e:
        return Answered(e.code, e.read().decode(), dict(e.headers))


@contextmanager
def going(
    operation: InProcessOperation | SeveralOperation, *, follows: bool = True
) -> Iterator[tuple[str, threading.Thread]]:
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
        thread.join(LONGEST_S)
        assert not thread.is_alive()


def _says_where(note: str) -> bool:
    return "the API is at" in note


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes every connection on loopback, and never answers. Its host and port."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def wait_until(condition: Callable[[], object], seconds: float = LONGEST_S) -> None:
    until = time.monotonic() + seconds
    while True:
        is_over = time.monotonic() > until  # before the last look: the machine may have been busy elsewhere
        if condition():
            return
        assert not is_over, "it did not come about"
        time.sleep(0.02)


class SeveralOperation(Operation):
    """With several targets, each at the folder of its name; the tasks run in this process (fixture `in_process`)."""

    def __init__(self, folder: Path, targets: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]) -> None:
        given: dict[str, Any] = {"source.path": str(folder / "src"), "schema.ddl": DDL}
        given |= {"follow.poll_s": 0, "follow.jitter_s": 0, **config}
        for name, own in targets.items():
            given |= {f"targets.{name}.{key}": value for key, value in own.items()}
            given[f"targets.{name}.table.path"] = str(folder / name)
        assembly = Assembly(request=make_request(make_config(given), pipeline="p"))
        self.flow, self.control, self.summary = Flow(folder), RunControl(), Summary()
        super().__init__(assembly, assembly.open(), self.summary, self.control, emit=self._hear)
        self.planned: list[str] = []  # for which target a batch was planned
        self.landed: list[tuple[str, str]] = []  # which target has finished which file, in the order of commits
        self.on_commit: Callable[[], None] = lambda: None

    def _hear(self, event: Event) -> None:
        self.flow.told.see(event)
        match event:
            case OfTarget(target=target, event=Committed(result=result)):
                self.landed += [(target, piece.path) for piece in result.slices if piece.finished]
                self.on_commit()
            case OfTarget(target=target, event=Planned()):
                self.planned.append(target)
            case OfTarget():
                self.flow.told.see(event.event)
            case _:
                pass

    def go(self, *, follows: bool = False) -> Summary:
        self.run(follows=follows)
        return self.summary
