"""The ports to Spark: one ingestor a target, and one job for several of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from blizzard.core.events import Emit, unheard
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, Cores, SharedPlan
from blizzard.schema import DeltaSchema, holds_variant
from blizzard.schema.fit import fingerprint
from blizzard.spark.cores import CORE_SETTINGS, cores_of, cores_per_task, slots_to_come
from blizzard.spark.job import StopSignal, context_of, run_job
from blizzard.spark.session import Session, require_variant
from blizzard.tasks.framed import with_all_wrappers
from blizzard.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALONE = ""


class StartSignal(Protocol):
    def requested(self) -> bool:
        """Whether nothing more must be begun."""


class SparkIngestor:
    """Uses `session` only when there is work, so that an idle run starts no Spark."""

    def __init__(self, session: Session, spec: TaskSpec, *, slots: int | None = None, emit: Emit = unheard) -> None:
        self._session, self._spec, self._slots = session, spec, slots
        self.emit = emit
        self._cores: Cores | None = None  # a session's settings about cores do not change

    def prepare(self) -> None:
        self._session.begin()

    def start(self, stop: StartSignal) -> int:
        if not self._session.comes_up(stop.requested):
            return 0
        spark = self._session.get()
        if holds_variant(self._spec.layout.schema):
            require_variant(spark.version)  # under Connect the server is asked for it
        if self._slots is None and context_of(spark) is None:
            self._slots = default_slots(spark)  # it runs a Spark job on the server, so only once
        return self._slots or default_slots(spark)

    @property
    def cores(self) -> Cores:
        if self._cores is None:
            self._cores = cores_of(core_settings(self._session.get()))
        return self._cores

    @property
    def has_cores_on_driver(self) -> bool:
        """As far as it was asked: a job that failed asks no server."""
        return self._cores is not None and self._cores.on_driver

    @property
    def schema_fingerprint(self) -> str:
        return fingerprint(self._spec.layout.schema)

    def adopt(self, schema: DeltaSchema) -> None:
        self._spec = self._spec.with_schema(schema)

    @property
    def spec(self) -> TaskSpec:
        """As it is now: `adopt` changes it."""
        return self._spec

    @property
    def session(self) -> Session:
        return self._session

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopSignal) -> BatchResult:
        wanted = {piece.path: piece.from_record for piece in plan.slices}
        shared = SharedPlan(tasks=plan.tasks, wanted={_ALONE: wanted})
        reader = SharedSparkReader({_ALONE: self})
        return reader.run(shared, tickets={_ALONE: ticket}, stop=stop)[_ALONE]


class SharedSparkReader:
    """One job for several targets, each with its ingestor. They have one session and read one source."""

    def __init__(self, ingestors: Mapping[str, SparkIngestor]) -> None:
        self._ingestors = ingestors

    def run(
        self, plan: SharedPlan, *, tickets: Mapping[str, BatchTicket], stop: StopSignal
    ) -> Mapping[str, BatchResult]:
        """For the targets that the plan names, each under the schema that its ingestor has now. A result may have a
        failure that the others' do not have."""
        names = [name for name in self._ingestors if name in plan.wanted]
        first = self._ingestors[names[0]]
        every = with_all_wrappers({name: ingestor.spec for name, ingestor in self._ingestors.items()})
        specs = {name: every[name] for name in names}
        on_driver = first.has_cores_on_driver
        session = first.session
        return run_job(
            session.get(),
            specs,
            plan,
            tickets,
            stop=stop,
            on_driver=on_driver,
            pool=session.pool,
            emit=first.emit,
        )


def default_slots(spark: SparkSession) -> int:
    """How many tasks run at once."""
    context = context_of(spark)
    if context is None:
        # Spark Connect has no context to ask. But the server cuts a range into as many pieces as it has slots.
        pieces = spark.range(0, 10_000).selectExpr("spark_partition_id() AS piece")
        (row,) = pieces.selectExpr("max(piece) AS last").collect()
        return int(row["last"]) + 1
    settings = dict(context.getConf().getAll())
    return max(1, int(context.defaultParallelism) // cores_per_task(settings), slots_to_come(settings))


def core_settings(spark: SparkSession) -> dict[str, str]:
    """Those that tell how many cores a task may use. Empty if the server does not say."""
    context = context_of(spark)
    if context is not None:
        return dict(context.getConf().getAll())
    try:
        found = {name: spark.conf.get(name, None) for name in CORE_SETTINGS}
    except Exception:  # a server may refuse to name settings that are not about SQL
        return {}
    return {name: value for name, value in found.items() if value is not None}
