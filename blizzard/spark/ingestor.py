"""One batch as one Spark job: `spark.range(n).mapInArrow`, one task per slot, one small report row each.

The work itself uses no RDD and no JVM call, so it runs the same under Spark Connect. Only the reports of successful
attempts come back, so a retried or speculative attempt never counts twice.
"""

from __future__ import annotations

import pickle
import re
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from blizzard.core.kinds import Kind
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, Cores, TaskReport
from blizzard.errors import BlizzardError, ConfigError, Temporary, failure_to_write
from blizzard.schema import DeltaSchema, holds_variant
from blizzard.schema.fit import fingerprint
from blizzard.spark.cores import CORE_SETTINGS, cores_of, cores_per_task, slots_to_come
from blizzard.spark.gone import spark_gone
from blizzard.spark.session import Session, require_variant
from blizzard.spark.shipping import ship_to_server
from blizzard.store import open_store
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import end_marker, run_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


class SparkIngestor:
    """Uses `session` only when there is work, so that an idle run starts no Spark."""

    def __init__(self, session: Session, spec: TaskSpec, *, slots: int | None = None) -> None:
        self._session, self._spec, self._slots = session, spec, slots
        self._cores: Cores | None = None  # a session's settings about cores do not change

    def prepare(self) -> None:
        self._session.begin()

    def start(self) -> int:
        spark = self._session.get()
        if holds_variant(self._spec.layout.schema):
            require_variant(spark.version)  # under Connect the server is asked for it
        if self._slots is None and _context(spark) is None:
            self._slots = default_slots(spark)  # it runs a Spark job on the server, so only once
        return self._slots or default_slots(spark)

    @property
    def cores(self) -> Cores:
        if self._cores is None:
            self._cores = cores_of(core_settings(self._session.get()))
        return self._cores

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self._spec.layout.schema)

    def adopt(self, schema: DeltaSchema) -> None:
        self._spec = self._spec.with_schema(schema)

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopSignal) -> BatchResult:
        job = _Job(self._session.get(), self._spec, plan, ticket)
        job.start()
        with _EndMarker(self._spec, ticket) as marker:
            try:
                while job.is_alive():
                    job.join(_POLL_SECONDS)
                    if job.is_alive() and stop.must_cancel():
                        raise _cancelled()
                    if job.is_alive() and stop.ends_batch():
                        marker.put()
            except BaseException:
                job.cancel()
                raise
        if job.error is not None:
            on_driver = self._cores is not None and self._cores.on_driver
            raise failure_of(job.error, on_driver=on_driver) from job.error
        reports = tuple(sorted((pickle.loads(row) for row in job.rows), key=lambda r: r.slot))
        if [r.slot for r in reports] != [t.slot for t in plan.tasks]:
            raise Temporary(f"Spark returned {len(reports)} reports for {len(plan.tasks)} tasks", kind=Kind.SPARK_JOB)
        return BatchResult(reports=reports)


def _cancelled() -> Temporary:
    return Temporary("the batch was cancelled; nothing of it was committed", kind=Kind.INTERRUPTED)


class _EndMarker:
    """A file in the table's folder. While it exists, the tasks of the batch stop at the next record boundary."""

    def __init__(self, spec: TaskSpec, ticket: BatchTicket) -> None:
        self._store, self._name = open_store(spec.table_root, spec.table_access), end_marker(spec, ticket)
        self._is_put = False

    def put(self) -> None:
        if not self._is_put:
            self._is_put = True
            self._store.put(self._name, b"")

    def __enter__(self) -> _EndMarker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_put:
            self._store.delete(self._name)


def default_slots(spark: SparkSession) -> int:
    """How many tasks run at once."""
    context = _context(spark)
    if context is None:
        # Spark Connect has no context to ask. But the server cuts a range into as many pieces as it has slots.
        pieces = spark.range(0, 10_000).selectExpr("spark_partition_id() AS piece")
        (row,) = pieces.selectExpr("max(piece) AS last").collect()
        return int(row["last"]) + 1
    settings = dict(context.getConf().getAll())
    return max(1, int(context.defaultParallelism) // cores_per_task(settings), slots_to_come(settings))


def core_settings(spark: SparkSession) -> dict[str, str]:
    """Those that tell how many cores a task may use. Empty if the server does not say."""
    context = _context(spark)
    if context is not None:
        return dict(context.getConf().getAll())
    try:
        found = {name: spark.conf.get(name, None) for name in CORE_SETTINGS}
    except Exception:  # a server may refuse to name settings that are not about SQL
        return {}
    return {name: value for name, value in found.items() if value is not None}


class _Job(threading.Thread):
    """Runs the blocking collect on its own thread, so that the main thread can handle signals."""

    def __init__(self, spark: Any, spec: TaskSpec, plan: BatchPlan, ticket: BatchTicket) -> None:
        super().__init__(name=f"blizzard-batch-{ticket.sequence}", daemon=True)
        self._spark, self._spec, self._plan, self._ticket = spark, spec, plan, ticket
        self._tag = f"blizzard-{spec.run_id}-{ticket.sequence}"
        self.rows: list[bytes] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._tag_jobs()
            if _context(self._spark) is None:
                ship_to_server(self._spark)
            tasks = len(self._plan.tasks)
            frame = self._spark.range(0, tasks, 1, tasks).mapInArrow(self._task_function(), _ROW_DDL)
            self.rows = [bytes(row["report"]) for row in frame.collect()]
        except BaseException as e:
            self.error = e

    def _task_function(self) -> Any:
        # Bytes, not objects: the closure is pickled by value and must not take this module's objects along.
        spec, plans = pickle.dumps(self._spec), {task.slot: pickle.dumps(task) for task in self._plan.tasks}
        slots = list(plans)
        ticket = self._ticket

        def ingest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    slot = slots[index]
                    report: TaskReport = run_task(pickle.loads(spec), pickle.loads(plans[slot]), ticket)
                    yield pa.RecordBatch.from_pydict({"slot": [slot], "report": [pickle.dumps(report)]}, schema=_ROW)

        return ingest

    def _tag_jobs(self) -> None:
        # Both belong to the thread that sets them. Classic sessions have tags since 4.0, but interrupting one from
        # another thread found nothing to interrupt (measured on 4.1.1). Cancelling the job group ended it at once.
        context = _context(self._spark)
        if context is not None:
            context.setJobGroup(self._tag, "blizzard batch", interruptOnCancel=True)
        else:
            self._spark.addTag(self._tag)

    def cancel(self) -> None:
        context = _context(self._spark)
        if context is not None:
            context.cancelJobGroup(self._tag)
        else:
            self._spark.interruptTag(self._tag)
        self.join(timeout=10)


def _context(spark: Any) -> Any:
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
