"""A whole flow on a real folder and a real Delta log; only Spark is replaced, by calling its tasks in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.core.bad import BadPolicy
from blizzard.core.batch import RunIdentity, next_position, position_before, seal
from blizzard.core.commit import CommitRequest
from blizzard.core.events import Emit, Event, Noted, Planned, Warned, unheard
from blizzard.core.plan import Limits, plan_batch
from blizzard.core.position import Marks, Position
from blizzard.core.recover import Fresh, StartFrom
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, Cores, SharedPlan
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.assemble import Assembly
from blizzard.run.drain import drain
from blizzard.run.ports import Background, NeverStop, Pending, Ports, Reader, Result, StopRequest, TablePlace
from blizzard.run.preview import plan_run
from blizzard.run.read import ReadsForOne
from blizzard.run.settings import RunSettings
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.schema import DeltaSchema
from blizzard.schema.fit import fingerprint
from blizzard.schema.layout import TableLayout, layout_of
from blizzard.schema.load import load_schema
from blizzard.source.listed import ListedSource
from blizzard.source.uri import locate_source
from blizzard.tasks.framed import with_all_wrappers
from blizzard.tasks.policy import Unknown
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import run_shared_task, run_task
from tests.ingesting import DDL, commit_actions, write_ids

Hook = Callable[[], None]


def nothing() -> None:
    return None


# So that a batch of few files is read by several threads.
TWO_CORES = Cores(per_executor=2)


@dataclass
class InProcessIngestor:
    """Stands for Spark: the same tasks, one after the other. `while_reading` is what others do meanwhile."""

    spec: TaskSpec
    slots: int = 2
    before_reading: Hook = nothing
    while_reading: Hook = nothing
    cores: Cores = TWO_CORES

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self.spec.layout.schema)

    def prepare(self) -> None:
        return None

    def start(self, stop: StopRequest) -> int:
        del stop
        return self.slots

    def adopt(self, schema: DeltaSchema) -> None:
        self.spec = self.spec.with_schema(schema)

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult:
        del stop
        self.before_reading()
        reports = tuple(run_task(self.spec, task, ticket) for task in plan.tasks)
        self.while_reading()
        return BatchResult(reports=reports)


@dataclass
class InProcessReader:
    """Stands for Spark where several targets share a read."""

    ingestors: Mapping[str, InProcessIngestor]

    def run(
        self, plan: SharedPlan, *, tickets: Mapping[str, BatchTicket], stop: StopRequest
    ) -> Mapping[str, BatchResult]:
        del stop
        ingestors = {name: self.ingestors[name] for name in plan.wanted}
        for ingestor in ingestors.values():
            ingestor.before_reading()
        every = with_all_wrappers({name: ingestor.spec for name, ingestor in self.ingestors.items()})
        specs = {name: every[name] for name in ingestors}
        reports = [run_shared_task(specs, task, plan.wanted, tickets) for task in plan.tasks]
        for ingestor in ingestors.values():
            ingestor.while_reading()
        return {name: BatchResult(reports=tuple(report[name] for report in reports)) for name in specs}


def use_no_spark(patch: Callable[[type, str, Any], None], *, between: Hook = nothing) -> None:
    """The tasks of every run, that of the command line too, in this process. `patch` sets an attribute; `between` is
    called before and after every read."""

    def no_session(assembly: Assembly, spec: TaskSpec) -> InProcessIngestor:
        return InProcessIngestor(spec, assembly.config.spark.slots or 2, between, between)

    def no_job(assembly: Assembly, ingestors: Mapping[str, Any]) -> Reader:
        return InProcessReader(ingestors) if assembly.config.targets else ReadsForOne(ingestors)

    patch(Assembly, "ingestor", no_session)
    patch(Assembly, "reader", no_job)


class AtOnce:
    """Commits land before the next batch is planned, so that a test knows what happens when."""

    def start(self, commit: Callable[[], Result]) -> Pending[Result]:
        outcome: Future[Result] = Future()
        try:
            outcome.set_result(commit())
        except Exception as e:
            outcome.set_exception(e)
        return outcome


@dataclass
class SetClock:
    """Shows what it is set to; sleeping takes no time."""

    ms: int

    def now_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        del seconds


@dataclass
class Told:
    """Keeps what is said."""

    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plans: list[BatchPlan] = field(default_factory=list)

    def see(self, event: Event) -> None:
        match event:
            case Noted():
                self.notes.append(event.message)
            case Warned():
                self.warnings.append(event.message)
            case Planned():
                self.plans.append(event.plan)
            case _:
                pass


@dataclass(frozen=True, kw_only=True)
class LaterSource(ListedSource):
    """Its clock is ahead of that of the files."""

    later_ms: int = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.later_ms


NOW_MS = 4_000_000_000_000  # later than any commit a test makes


@dataclass
class Flow:
    """One pipeline from `folder`/src to `folder`/table."""

    folder: Path
    pipeline: str = "p"
    ddl: str = DDL
    clock: SetClock = field(default_factory=lambda: SetClock(NOW_MS))
    told: Told = field(default_factory=Told)
    runs: int = 0
    marks_per: str | None = None
    min_age_s: float = 0
    planned: dict[str, Any] = field(default_factory=dict)
    later_ms: int = 120_000  # an empty file that has just been made would be held back
    always: dict[str, Any] = field(default_factory=dict)  # settings of every run

    @property
    def src(self) -> Path:
        return self.folder / "src"

    @property
    def table(self) -> Path:
        return self.folder / "table"

    @property
    def quarantine(self) -> DeltaRsQuarantine:
        return DeltaRsQuarantine(root=str(self.folder / "table_quarantine"), clock=self.clock, emit=self.told.see)

    def quarantined(self) -> list[dict[str, Any]]:
        """Every row of the quarantine table."""
        table = self.quarantine.open()
        rows = [] if table is None else table.to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda r: (r["source_file"], r["line"] or 0))

    @property
    def place(self) -> DeltaRsPlace:
        return DeltaRsPlace(root=str(self.table), schema=load_schema(self.ddl), clock=self.clock)

    @property
    def source(self) -> ListedSource:
        location = locate_source(str(self.src), marks_per=self.marks_per)
        return LaterSource(location=location, min_age_s=self.min_age_s, later_ms=self.later_ms)

    def open(self) -> DeltaRsTable:
        table = self.place.open()
        assert table is not None
        return table

    def layout(self) -> TableLayout:
        """As the table has it, or as it will be made."""
        table = self.place.open()
        if table is None:
            return layout_of(load_schema(self.ddl), ())
        return layout_of(table.schema, table.partition_columns)

    def spec(self, **changes: Any) -> TaskSpec:
        spec = TaskSpec(
            source_root=str(self.src),
            compression="auto",
            table_root=str(self.table),
            layout=self.layout(),
            pipeline=self.pipeline,
            quarantine_root=self.quarantine.root,
            run_id=f"run{self.runs}",
            target_file_bytes=1 << 30,
            codec="snappy",
            max_record_bytes=1 << 20,
            indexed_columns=32,
        )
        changed = replace(spec, **changes)
        return changed.with_schema(changed.layout.schema)

    def run(
        self,
        *,
        before_reading: Hook = nothing,
        while_reading: Hook = nothing,
        place: TablePlace | None = None,
        slots: int = 2,
        limits: Limits | None = None,
        spec: dict[str, Any] | None = None,
        bad: BadPolicy | None = None,
        accepts_loss: bool = False,
        background: Background | None = None,
        stop: StopRequest | None = None,
        emit: Emit = unheard,
        summary: Summary | None = None,
        plans_only: bool = False,
        **settings: Any,
    ) -> Summary:
        """A run as a new process would make it; or what it would do first, in `planned`."""
        self.runs += 1
        settings = self.always | settings
        summary = summary or Summary()
        table = self.place.open()
        described: dict[str, Any] = {"indexed_columns": table.indexed_columns} if table is not None else {}
        described["bad"] = bad or BadPolicy()
        ingestor = InProcessIngestor(self.spec(**described | (spec or {})), slots, before_reading, while_reading)
        ports = Ports(
            source=self.source,
            place=place or self.place,
            quarantine=replace(self.quarantine, accepts_loss=accepts_loss),
            ingestor=ingestor,
            background=background or AtOnce(),
            clock=self.clock,
            stop=stop or NeverStop(),
            emit=Stream(summary.see, self.told.see, emit),
        )
        given = RunSettings(
            pipeline=self.pipeline,
            run_id=f"run{self.runs}",
            limits=limits or Limits(),
            bad=bad or BadPolicy(),
            rename=ingestor.spec.parsing.rename,
            ignores_undeclared=ingestor.spec.parsing.unknown is Unknown.IGNORE,
            settings_fingerprint=ingestor.spec.parsing.fingerprint,
            transform=None if ingestor.spec.transform is None else ingestor.spec.transform.fingerprint,
        )
        target = table if place is None else place.open()
        if plans_only:
            self.planned = plan_run(ports, replace(given, **settings), target).shown
            return summary
        drain(ports, replace(given, **settings), target)
        return summary

    def first_run(self, records: int = 3) -> Flow:
        """Sequence 1 is in version 1, with ids from 0 on."""
        write_ids(self.src / "a.ndjson", 0, records)
        self.run()
        return self

    def batch(self, table: DeltaRsTable, name: str = "b.ndjson", first: int = 3, **changes: Any) -> Batch:
        """The next batch, read and ready to be committed."""
        write_ids(self.src / name, first, first + 3)
        spec = self.spec(run_id="mine")
        position = Fresh(marks=Marks(last_committed_file="a.ndjson"), start_from=None)
        identity = RunIdentity(
            pipeline=self.pipeline,
            run_id="mine",
            source=self.source.identity,
            table_id=table.table_id,
            schema_fingerprint=table.schema_fingerprint,
        )
        before = position_before(position, identity, version=table.version, timestamp_ms=0)
        before = replace(before, sequence=table.fence(self.pipeline) or 0)
        plan = plan_batch(before.marks, self.source.list(), Limits(), slots=1)
        ticket = BatchTicket(sequence=before.sequence + 1, planned_ms=self.clock.now_ms(), table_id=table.table_id)
        result = InProcessIngestor(spec).run(plan, ticket=ticket, stop=NeverStop())
        state = next_position(before, plan, result, batch_id=f"batch-{name}", now_ms=self.clock.now_ms())
        return Batch(state=replace(state, **changes), result=result)


@dataclass(frozen=True)
class Batch:
    state: Position
    result: BatchResult

    @property
    def request(self) -> CommitRequest:
        sealed = seal(self.state, self.result)
        return CommitRequest.of(sealed, self.result.files)


BEGINNING = StartFrom(after=None)


def write_foreign(table: Path, *record_ids: int, mode: Any = "append") -> None:
    """Rows by somebody else, in an ordinary commit."""
    names = [f"n{i}" for i in record_ids]
    rows = pa.table({"id": pa.array(record_ids, pa.int64()), "name": pa.array(names, pa.string())})
    deltalake.write_deltalake(str(table), rows, mode=mode)


def write_raw(table: Path, *actions: dict[str, Any]) -> int:
    """A commit as some other program might have written it. Returns its version."""
    version = newest(table) + 1
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    log_file(table, version).write_text(text)
    return version


def info(operation: str, *, timestamp_ms: int = 1_700_000_000_000, **fields: Any) -> dict[str, Any]:
    return {"commitInfo": {"timestamp": timestamp_ms, "operation": operation} | fields}


def log_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def newest(table: Path) -> int:
    return max(int(p.stem) for p in (table / "_delta_log").glob("*.json") if p.stem.isdigit())


def actions_of(table: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Every action of this kind, oldest first."""
    for path in sorted((table / "_delta_log").glob("*.json")):
        for action in commit_actions(table, int(path.stem)):
            if kind in action:
                yield action[kind]


def age_txns(table: Path) -> None:
    """Make every Txn old enough to have expired."""
    for path in (table / "_delta_log").glob("*.json"):
        actions = commit_actions(table, int(path.stem))
        for action in actions:
            if "txn" in action:
                action["txn"]["lastUpdated"] = 1_000
        path.write_text("".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions))


def clean_up_log(table: Path) -> int:
    """What log cleanup does: a Delta checkpoint, and the JSON commits before it are gone."""
    deltalake.DeltaTable(str(table)).create_checkpoint()
    version = newest(table)
    for number in range(version):
        log_file(table, number).unlink(missing_ok=True)
    return version


def touch_again(path: Path, content: bytes) -> None:
    """Write a file anew so that its mtime certainly differs."""
    before = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def add_action(table: Path, first: int, last: int) -> dict[str, Any]:
    names = [f"n{i}" for i in range(first, last)]
    pq.write_table(pa.table({"id": list(range(first, last)), "name": names}), table / "foreign.parquet")
    size = (table / "foreign.parquet").stat().st_size
    return {
        "add": {
            "path": "foreign.parquet",
            "partitionValues": {},
            "size": size,
            "modificationTime": 1,
            "dataChange": True,
        }
    }


@dataclass(frozen=True)
class RacedPlace:
    """Another driver makes the table between this one's first look and its own attempt."""

    mine: DeltaRsPlace
    theirs: DeltaRsPlace

    def open(self) -> DeltaRsTable | None:
        return self.mine.open()

    def create(self, pipeline: str) -> None:
        self.theirs.create("their-pipeline")
        self.mine.create(pipeline)

    def take_back(self, pipeline: str, run_id: str) -> bool:
        return self.mine.take_back(pipeline, run_id)


def raced(flow: Flow, their_ddl: str) -> RacedPlace:
    return RacedPlace(
        flow.place, DeltaRsPlace(root=str(flow.table), schema=load_schema(their_ddl), clock=SetClock(NOW_MS))
    )
