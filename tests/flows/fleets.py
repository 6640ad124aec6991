"""A whole fleet in this process, on real folders and real Delta logs; only Spark is replaced, by calling its tasks."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from blizzard.config.fleet import load_fleet
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket
from blizzard.run.ports import Ingestor, StopRequest
from blizzard.service.fleet import Fleet
from blizzard.service.fleet_api import FleetApi
from blizzard.service.fleet_control import FleetControl
from blizzard.service.fleet_summary import FleetSummary
from blizzard.service.http import ApiServer
from blizzard.service.progress import JsonProgress, PipelineLines, Progress, TerminalProgress
from blizzard.tasks.spec import TaskSpec
from tests.flows.in_process import InProcessIngestor
from tests.flows.operating import LONGEST_S, wait_until
from tests.ingesting import DDL, ids, is_table, write_ids

Hook = Callable[[], object]


class NoSession:
    """The tasks are called here: nobody may ask for Spark."""

    pool = None

    def begin(self) -> None:
        raise AssertionError("a session was begun")

    def comes_up(self, is_stopped: Callable[[], bool]) -> bool:
        raise AssertionError("a session was waited for")

    def get(self) -> Any:
        raise AssertionError("a session was asked for")


@dataclass
class FleetFolder:
    """Pipelines from `folder`/NAME/src to `folder`/NAME/table, in one file."""

    folder: Path
    top: dict[str, Any] = field(default_factory=dict)
    pipelines: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, *names: str, **keys: Any) -> FleetFolder:
        """`keys` are families: source={"pattern": "*.json"}."""
        for name in names:
            self.src(name).mkdir(parents=True, exist_ok=True)
            made: dict[str, Any] = {
                "source": {"path": str(self.src(name))},
                "table": {"path": str(self.table(name))},
                "schema": {"ddl": DDL},
            }
            for family, values in keys.items():
                made[family] = {**made.get(family, {}), **values} if isinstance(values, dict) else values
            self.pipelines[name] = made
        return self

    def src(self, name: str) -> Path:
        return self.folder / name / "src"

    def table(self, name: str) -> Path:
        return self.folder / name / "table"

    def put(self, name: str, first: int, last: int, file: str = "a.ndjson") -> None:
        write_ids(self.src(name) / file, first, last)

    def ids(self, name: str) -> list[int]:
        return ids(self.table(name)) if is_table(self.table(name)) else []

    @property
    def file(self) -> Path:
        quickly = {"follow": {"poll_s": 0.05, "jitter_s": 0}, "retry": {"attempts": 1}}
        path = self.folder / "fleet.yaml"
        path.write_text(yaml.safe_dump(quickly | self.top | {"pipelines": self.pipelines}, sort_keys=False))
        return path


@dataclass
class Running:
    """A fleet in this process."""

    fleet: Fleet
    control: FleetControl
    summary: FleetSummary
    url: str
    thread: threading.Thread
    out: io.StringIO

    def state(self, name: str) -> str:
        return self.fleet.members[name].state

    def row(self, name: str) -> dict[str, Any]:
        return self.fleet.members[name].row()

    def wait_for(self, name: str, state: str) -> dict[str, Any]:
        wait_until(lambda: self.state(name) == state)
        return self.row(name)

    def stop(self) -> FleetSummary:
        self.control.stop()
        self.thread.join(LONGEST_S)
        assert not self.thread.is_alive()
        return self.summary


@dataclass
class Hooked:
    """Stands for Spark, and calls a hook of its pipeline while it reads."""

    inner: InProcessIngestor
    before: Hook
    reading: Callable[[str], Any]

    @property
    def schema_fingerprint(self) -> str:
        return self.inner.schema_fingerprint

    @property
    def cores(self) -> Any:
        return self.inner.cores

    def prepare(self) -> None:
        return None

    def start(self, stop: StopRequest) -> int:
        return self.inner.start(stop)

    def adopt(self, schema: Any) -> None:
        self.inner.adopt(schema)

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult:
        with self.reading(self.inner.spec.pipeline):
            self.before()
            return self.inner.run(plan, ticket=ticket, stop=stop)


@dataclass
class Readers:
    """Who reads, when, and with whom."""

    hooks: dict[str, Hook] = field(default_factory=dict)
    batches: list[str] = field(default_factory=list)
    at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def reading(self, pipeline: str) -> Iterator[None]:
        with self._lock:
            self.batches.append(pipeline)
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1

    def ingestor(self, spec: TaskSpec) -> Ingestor:
        return Hooked(InProcessIngestor(spec), self.hooks.get(spec.pipeline, lambda: None), self.reading)


@contextmanager
def running(
    folder: FleetFolder, *, follows: bool = True, log: str = "text", address: str = "127.0.0.1:0"
) -> Iterator[Running]:
    """It goes in a thread of its own, with its API, and is stopped in the end."""
    control, summary, out = FleetControl(), FleetSummary(), io.StringIO()

    def lines(name: str | None) -> Progress:
        if log == "json":
            return JsonProgress(name, out=out)
        return TerminalProgress(out) if name is None else PipelineLines(name, out)

    fleet = Fleet(load_fleet(str(folder.file)), NoSession(), control, summary, progress_of=lines)
    server = ApiServer(address, FleetApi(fleet).router, token=fleet.config.process.api.token)
    thread = threading.Thread(target=fleet.run, kwargs={"follows": follows}, daemon=True)
    thread.start()
    made = Running(fleet, control, summary, server.url, thread, out)
    try:
        yield made
    finally:
        if thread.is_alive():
            made.stop()
        server.close()


def run_once(folder: FleetFolder) -> FleetSummary:
    with running(folder, follows=False) as fleet:
        fleet.thread.join(LONGEST_S)
        assert not fleet.thread.is_alive()
        return fleet.summary


def several_in_a_fleet(folder: Path) -> FleetFolder:
    """The pipeline `orders` with the targets good and bad, which fails and does not have to work."""
    made = FleetFolder(folder).add("orders")
    bad = {"required": False, "schema": {"ddl": "id DATE"}, "table": {"path": str(folder / "bad")}}
    del made.pipelines["orders"]["table"]
    made.pipelines["orders"]["targets"] = {"good": {"table": {"path": str(folder / "good")}}, "bad": bad}
    made.put("orders", 0, 3)
    return made
