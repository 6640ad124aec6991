"""A whole flow between two prefixes of a bucket; only Spark is replaced, by calling its tasks in this process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from deltalake import DeltaTable

from blizzard.core.bad import BadPolicy
from blizzard.core.plan import Limits
from blizzard.core.retry import RetryPolicy
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.drain import drain
from blizzard.run.ports import Background, NeverStop, Ports
from blizzard.run.settings import RunSettings
from blizzard.run.stream import Stream
from blizzard.run.summary import Summary
from blizzard.schema.layout import layout_of
from blizzard.schema.load import load_schema
from blizzard.source.listed import ListedSource
from blizzard.source.uri import locate_source
from blizzard.store import open_store
from blizzard.store.access import Access, make_access
from blizzard.store.files import Store
from blizzard.tasks.spec import TaskSpec
from tests.flows.in_process import AtOnce, Hook, InProcessIngestor, LaterSource, SetClock, Told, nothing
from tests.ingesting import DDL, line
from tests.s3.endpoint import S3Endpoint
from tests.s3.server import Bucket

FAST = RetryPolicy(attempts=3, base_ms=5, max_ms=20)


def access_to(endpoint: S3Endpoint, *, retry: RetryPolicy = FAST, read_timeout_s: float = 5) -> Access:
    return make_access(endpoint.storage_options, retry=retry, read_timeout_s=read_timeout_s)


@dataclass
class BucketFlow:
    """One pipeline from `src/` to `table/`. `table_endpoint` is where a fault layer may stand."""

    bucket: Bucket
    endpoint: S3Endpoint
    table_endpoint: S3Endpoint | None = None
    pipeline: str = "p"
    told: Told = field(default_factory=Told)
    clock: Any = None
    runs: int = 0
    retry: RetryPolicy = FAST
    later_ms: int = 0  # how far the source's clock is ahead of its files

    @property
    def access(self) -> Access:
        return access_to(self.endpoint, retry=self.retry)

    @property
    def table_access(self) -> Access:
        return access_to(self.table_endpoint or self.endpoint, retry=self.retry)

    @property
    def src(self) -> Store:
        return open_store(self.bucket.uri("src"), self.access)

    def put(self, name: str, first: int, last: int) -> None:
        """A source file with these ids."""
        self.src.put(name, b"".join(map(line, range(first, last))))

    @property
    def source(self) -> ListedSource:
        return LaterSource(location=locate_source(self.bucket.uri("src"), None, self.access), later_ms=self.later_ms)

    @property
    def place(self) -> DeltaRsPlace:
        clock = self.clock or SetClock(4_000_000_000_000)
        return DeltaRsPlace(
            root=self.bucket.uri("table"), schema=load_schema(DDL), clock=clock, access=self.table_access
        )

    def open(self) -> DeltaRsTable:
        table = self.place.open()
        assert table is not None
        return table

    @property
    def quarantine(self) -> DeltaRsQuarantine:
        return DeltaRsQuarantine(
            root=self.bucket.uri("table_quarantine"),
            clock=self.clock or SetClock(4_000_000_000_000),
            emit=self.told.see,
            access=self.table_access,
        )

    def spec(self, **changes: Any) -> TaskSpec:
        spec = TaskSpec(
            source_root=self.bucket.uri("src"),
            source_access=self.access,
            compression="auto",
            table_root=self.bucket.uri("table"),
            table_access=self.table_access,
            layout=layout_of(load_schema(DDL), ()),
            pipeline=self.pipeline,
            quarantine_root=self.quarantine.root,
            run_id=f"run{self.runs}",
            target_file_bytes=1 << 30,
            codec="snappy",
            max_record_bytes=1 << 20,
            indexed_columns=32,
        )
        return replace(spec, **changes)

    def run(
        self,
        *,
        while_reading: Hook = nothing,
        before_reading: Hook = nothing,
        limits: Limits | None = None,
        slots: int = 2,
        background: Background | None = None,
        **settings: Any,
    ) -> Summary:
        """A run as a new process would make it."""
        self.runs += 1
        summary = Summary()
        ports = Ports(
            source=self.source,
            place=self.place,
            quarantine=self.quarantine,
            ingestor=InProcessIngestor(self.spec(bad=BadPolicy()), slots, before_reading, while_reading),
            background=background or AtOnce(),
            clock=self.clock or SetClock(4_000_000_000_000),
            stop=NeverStop(),
            emit=Stream(summary.see, self.told.see),
        )
        given = RunSettings(pipeline=self.pipeline, run_id=f"run{self.runs}", limits=limits or Limits())
        drain(ports, replace(given, **settings), self.place.open())
        return summary

    def ids(self) -> list[int]:
        """Every id in the table, duplicates included, read past any fault layer."""
        table = DeltaTable(self.bucket.uri("table"), storage_options=self.endpoint.storage_options)
        return sorted(table.to_pyarrow_table(columns=["id"])["id"].to_pylist())

    def versions(self) -> list[int]:
        keys = self.bucket.keys()
        return [int(key[-25:-5]) for key in keys if key.startswith("table/_delta_log/") and key.endswith(".json")]
