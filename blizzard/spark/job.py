"""One batch as one Spark job: `spark.range(n).mapInArrow`, one task per slot, one small row of reports each.

The work itself uses no RDD and no JVM call, so it runs the same under Spark Connect. Only the reports of successful
attempts come back, so a retried or speculative attempt never counts twice.
"""

from __future__ import annotations

import pickle
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Protocol

import pyarrow as pa

from blizzard.core.events import Emit, unheard
from blizzard.core.kinds import Kind
from blizzard.core.types import BatchResult, BatchTicket, SharedPlan, TaskPlan, TaskReport
from blizzard.errors import BlizzardError, ConfigError, Temporary, failure_to_write
from blizzard.spark.gone import spark_gone
from blizzard.spark.live import LiveReports
from blizzard.spark.shipping import ship_to_server
from blizzard.store import open_store
from blizzard.store.files import Store
from blizzard.tasks.live import LiveAddress
from blizzard.tasks.outputs import end_marker
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import run_shared_task

_ROW = pa.schema([("slot", pa.int64()), ("report", pa.binary())])
_ROW_DDL = "slot long, report binary"
_POLL_SECONDS = 0.2
# The last one: with this Python Spark cannot start its own daemon. It is too old or lacks packages.
_NO_ENVIRONMENT = re.compile(
    r"ModuleNotFoundError: No module named '([\w.]+)'|Cannot run program \"([^\"]+)\""
    r"|reading the port number from [\w.]*\.daemon"
)


# A Spark Connect server that has ended, or was restarted and does not know this session.
_CONNECT_GONE = ("StatusCode.UNAVAILABLE", "INVALID_HANDLE.SESSION_")


class StopSignal(Protocol):
    def must_cancel(self) -> bool:
        """Whether the batch must be given up now."""

    def ends_batch(self) -> bool:
        """Whether its tasks must stop at the next record boundary."""


def run_job(
    spark: Any,
    specs: Mapping[str, TaskSpec],
    plan: SharedPlan,
    tickets: Mapping[str, BatchTicket],
    *,
    stop: StopSignal,
    on_driver: bool,
    pool: str | None = None,
    emit: Emit = unheard,
) -> Mapping[str, BatchResult]:
    """By target. `on_driver`: the workers run on this machine. `pool` is of Spark's scheduler."""
    job = _Job(spark, specs, plan, tickets, pool)
    reports = LiveReports(tasks=len(plan.tasks), on_driver=on_driver, ended_tasks=job.ended_tasks)
    job.tells = reports.address
    job.start()
    with closing(reports), _EndMarker(specs, tickets) as marker:
        try:
            while job.is_alive():
                job.join(_POLL_SECONDS)
                emit(reports.look())
                if job.is_alive() and stop.must_cancel():
                    raise _cancelled()
                if job.is_alive() and stop.ends_batch():
                    marker.put()
        except BaseException:
            job.cancel()
            raise
    if job.error is not None:
        raise failure_of(job.error, on_driver=on_driver) from job.error
    return _results(job.rows, plan, specs)


def _results(rows: list[tuple[int, bytes]], plan: SharedPlan, names: Mapping[str, object]) -> Mapping[str, BatchResult]:
    reports: dict[int, Mapping[str, TaskReport]] = {slot: pickle.loads(row) for slot, row in rows}
    slots = [task.slot for task in plan.tasks]
    if len(rows) != len(slots) or reports.keys() != set(slots):
        raise Temporary(f"Spark returned {len(rows)} reports for {len(slots)} tasks", kind=Kind.SPARK_JOB)
    return {name: BatchResult(reports=tuple(reports[slot][name] for slot in slots)) for name in names}


def _cancelled() -> Temporary:
    return Temporary("the batch was cancelled; nothing of it was committed", kind=Kind.INTERRUPTED)


class _EndMarker:
    """A file in the folder of one of the tables. While it exists, the tasks of the batch stop at the next record
    boundary. They look in all of the folders, so any will do that can be written."""

    def __init__(self, specs: Mapping[str, TaskSpec], tickets: Mapping[str, BatchTicket]) -> None:
        self._places = [
            (open_store(spec.table_root, spec.table_access), end_marker(spec, tickets[name]))
            for name, spec in specs.items()
        ]
        self._put: tuple[Store, str] | None = None

    def put(self) -> None:
        if self._put is not None:
            return
        for place in self._places:
            store, name = place
            try:
                store.put(name, b"")
            except (OSError, BlizzardError):
                if place is self._places[-1]:
                    raise
            else:
                self._put = place
                return

    def __enter__(self) -> _EndMarker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._put is not None:
            store, name = self._put
            store.delete(name)


class _Job(threading.Thread):
    """Runs the blocking collect on its own thread, so that the main thread can handle signals."""

    def __init__(
        self,
        spark: Any,
        specs: Mapping[str, TaskSpec],
        plan: SharedPlan,
        tickets: Mapping[str, BatchTicket],
        pool: str | None,
    ) -> None:
        sequences = "-".join(str(tickets[name].sequence) for name in specs)
        super().__init__(name=f"blizzard-batch-{sequences}", daemon=True)
        self._spark, self._specs, self._plan = spark, specs, plan
        self._tickets = {name: tickets[name] for name in specs}
        run_id = next(iter(specs.values())).run_id
        self._tag, self._pool = f"blizzard-{run_id}-{sequences}", pool
        self.tells: LiveAddress | None = None
        self.rows: list[tuple[int, bytes]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._tag_jobs()
            if context_of(self._spark) is None:
                ship_to_server(self._spark)
            tasks = len(self._plan.tasks)
            frame = self._spark.range(0, tasks, 1, tasks).mapInArrow(self._task_function(), _ROW_DDL)
            self.rows = [(int(row["slot"]), bytes(row["report"])) for row in frame.collect()]
        except BaseException as e:
            self.error = e

    def _task_function(self) -> Any:
        # Bytes, not objects: the closure is pickled by value and must not take this module's objects along.
        specs, tickets = pickle.dumps(dict(self._specs)), pickle.dumps(self._tickets)
        tells = pickle.dumps(self.tells)
        tasks = [(task.slot, pickle.dumps((task, self._wanted(task)))) for task in self._plan.tasks]

        def ingest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    slot, packed = tasks[index]
                    plan, wanted = pickle.loads(packed)
                    reports = run_shared_task(
                        pickle.loads(specs), plan, wanted, pickle.loads(tickets), tells=pickle.loads(tells)
                    )
                    yield pa.RecordBatch.from_pydict(
                        {"slot": [slot], "report": [pickle.dumps(dict(reports))]}, schema=_ROW
                    )

        return ingest

    def _wanted(self, task: TaskPlan) -> dict[str, dict[str, int]]:
        """Of this task's files alone: a plan may have very many."""
        return {
            name: {s.path: self._plan.wanted[name][s.path] for s in task.slices if s.path in self._plan.wanted[name]}
            for name in self._specs
        }

    def _tag_jobs(self) -> None:
        # All belong to the thread that sets them. Classic sessions have tags since 4.0, but interrupting one from
        # another thread found nothing to interrupt (measured on 4.1.1). Cancelling the job group ended it at once.
        context = context_of(self._spark)
        if context is not None:
            context.setJobGroup(self._tag, "blizzard batch", interruptOnCancel=True)
            if self._pool is not None:
                context.setLocalProperty("spark.scheduler.pool", self._pool)
        else:
            self._spark.addTag(self._tag)

    def ended_tasks(self) -> int | None:
        """None: it is not known."""
        context = context_of(self._spark)
        if context is None:
            return None
        try:
            tracker = context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._tag)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            return sum(int(stage.numCompletedTasks) for stage in stages if stage is not None)
        except Exception:  # whatever is wrong with the session, the job itself says it
            return None

    def cancel(self) -> None:
        context = context_of(self._spark)
        if context is not None:
            context.cancelJobGroup(self._tag)
        else:
            self._spark.interruptTag(self._tag)
        self.join(timeout=10)


def context_of(spark: Any) -> Any:
    """The classic session's context; None under Spark Connect."""
    return getattr(spark, "_sc", None)


def failure_of(error: BaseException, *, on_driver: bool = False) -> BlizzardError:
    """A Spark job that failed may succeed the next time, unless the workers have the wrong Python. `on_driver`: they
    run on this machine."""
    text = str(error)
    way_out = (
        f"Set PYSPARK_PYTHON={sys.executable} before the session starts, and make a new session."
        if on_driver
        else "Give the executors blizzard's environment with --archives and spark.pyspark.python, see"
        " docs/deploy-cluster.md."
    )
    if "PYTHON_VERSION_MISMATCH" in text:
        return ConfigError(
            f"driver and executors run different Pythons: {_line_with(text, 'PYTHON_VERSION_MISMATCH')} {way_out}",
            kind=Kind.PYTHON_MISMATCH,
        )
    missing = _NO_ENVIRONMENT.search(text)
    if missing is not None:
        what = f"package {missing[1]}" if missing[1] else f"Python at {missing[2]}" if missing[2] else "fitting Python"
        return ConfigError(f"the executors have no {what}. {way_out}", kind=Kind.WORKER_ENVIRONMENT)
    if any(sign in text for sign in _CONNECT_GONE):
        return spark_gone()
    failure = failure_to_write(text, "what Spark keeps on this machine, or on an executor's,")
    if failure is not None and failure.kind == Kind.DISK_FULL:
        return failure
    return Temporary(f"the Spark job failed: {_first_line(error)}", kind=Kind.SPARK_JOB)


def _line_with(text: str, part: str) -> str:
    return next(line.strip() for line in text.splitlines() if part in line)


def _first_line(error: BaseException) -> str:
    """The line that says what happened: the last one of a Python worker's traceback, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next(
        (line for line in reversed(lines) if "Error: " in line or "Exception: " in line),
        lines[0] if lines else repr(error),
    )
