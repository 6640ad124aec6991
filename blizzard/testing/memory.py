"""In-memory ports: a source, a Delta table and an ingestor that obey the same rules as the real ones.

The real driver code runs on them. A `Fault` may strike at every step; what it may do there is what a real network,
disk or second driver could do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from blizzard.core.codec import fence_app_id
from blizzard.core.ledger import decode_ledger
from blizzard.core.log import CommitFacts, TableFacts, Txn
from blizzard.core.types import (
    BatchPlan,
    BatchResult,
    Budget,
    DataFile,
    Slice,
    SliceReport,
    SourceFile,
    SourceIdentity,
    TaskReport,
)
from blizzard.ports import CommitRequest, Pending, StopRequest

Line = int | None  # a record's id, or a blank line
IDENTITY = SourceIdentity(root="mem:///source", pattern="*")


class Crash(BaseException):
    """The process is gone. Nothing may catch this."""


class ConflictError(Exception):
    """The store's answer to a commit that lost."""


def no_fault(_step: str) -> None:
    return None


Fault = Callable[[str], None]


@dataclass
class World:
    """What outlives a process: source files, uncommitted Parquet, and the log."""

    sources: dict[str, list[Line]] = field(default_factory=dict)
    parquet: dict[str, list[int]] = field(default_factory=dict)
    log: list[tuple[CommitFacts, tuple[str, ...]]] = field(default_factory=list)
    names: int = 0
    clock_ms: int = 1_000

    def rows(self) -> list[int]:
        return [row for _, adds in self.log for path in adds for row in self.parquet[path]]

    def committed_slices(self) -> list[int]:
        """The records of the ledgers' slices, straight from the source files."""
        ids = []
        for commit, _ in self.log:
            ledger = decode_ledger(commit.user_metadata)
            for entry in ledger.entries if ledger else ():
                lines = self.sources[entry.path][entry.from_record : entry.to_record]
                ids += [line for line in lines if line is not None]
        return ids

    def foreign_commit(self, operation: str = "WRITE", mode: str = "Append") -> None:
        self._append(CommitFacts(version=len(self.log), timestamp_ms=self.tick(), operation=operation, mode=mode), ())

    def tick(self) -> int:
        self.clock_ms += 1
        return self.clock_ms

    def _append(self, commit: CommitFacts, adds: tuple[str, ...]) -> None:
        self.log.append((commit, adds))


@dataclass
class MemorySource:
    world: World
    identity: SourceIdentity = IDENTITY

    def list(self) -> list[SourceFile]:
        return [
            SourceFile(path=path, size_bytes=len(lines), etag=f"{len(lines)}")
            for path, lines in sorted(self.world.sources.items())
        ]


class MemoryTable:
    """A handle on the log at one version. `append` conflicts exactly as delta-rs does: only on the fence."""

    table_id = "memory"
    schema_fingerprint = "fingerprint"

    def __init__(self, world: World, fault: Fault) -> None:
        self._world, self._fault = world, fault
        self.version = len(world.log) - 1

    def refresh(self) -> None:
        self._fault("refresh")
        self.version = len(self._world.log) - 1

    def fence(self, pipeline: str) -> int | None:
        app_id = fence_app_id(pipeline)
        found = [t.version for c, _ in self._world.log[: self.version + 1] for t in c.txns if t.app_id == app_id]
        return found[-1] if found else None

    def observe(self, pipeline: str, *, scan_commits: int) -> TableFacts:
        del scan_commits
        self._fault("observe")
        return TableFacts(
            version=self.version,
            table_id=self.table_id,
            has_data=any(adds for _, adds in self._world.log[: self.version + 1]),
            fence=self.fence(pipeline),
            commits=tuple(self.scan_back()),
        )

    def commits_after(self, version: int) -> tuple[CommitFacts, ...]:
        self._fault("look")
        return tuple(commit for commit, _ in reversed(self._world.log[version + 1 :]))

    def scan_back(self) -> Iterator[CommitFacts]:
        return (commit for commit, _ in reversed(self._world.log[: self.version + 1]))

    def append(self, request: CommitRequest) -> None:
        self._fault("before_append")
        newer = self._world.log[self.version + 1 :]
        if any(txn.app_id == request.fence_app_id for commit, _ in newer for txn in commit.txns):
            raise ConflictError("Concurrent transaction failed")
        txns = tuple(
            Txn(app_id=a, version=request.sequence, last_updated_ms=request.last_updated_ms)
            for a in (request.app_id, request.fence_app_id)
        )
        commit = CommitFacts(
            version=len(self._world.log),
            timestamp_ms=request.last_updated_ms,
            operation="WRITE",
            mode="Append",
            txns=txns,
            user_metadata=request.ledger,
        )
        self._world._append(commit, tuple(file.path for file in request.files))
        self._fault("after_append")  # an exception here is a lost answer

    def check_writable(self) -> None:
        return None

    def make_durable(self, version: int) -> None:
        del version
        self._fault("durable")


@dataclass
class MemoryPlace:
    world: World
    fault: Fault = no_fault

    def open(self) -> MemoryTable | None:
        return MemoryTable(self.world, self.fault) if self.world.log else None

    def create(self, pipeline: str) -> None:
        self.fault("before_create")
        if not self.world.log:
            fence = Txn(app_id=fence_app_id(pipeline), version=0)
            self.world._append(
                CommitFacts(version=0, timestamp_ms=self.world.tick(), operation="CREATE TABLE", txns=(fence,)), ()
            )
        self.fault("after_create")


# How many lines of a slice an attempt takes, given how many are left of it; a task takes at least one.
Appetite = Callable[[int], int]


@dataclass
class MemoryIngestor:
    world: World
    slots: int
    appetite: Appetite
    fault: Fault = no_fault

    def run(self, plan: BatchPlan, *, sequence: int, stop: StopRequest) -> BatchResult:
        del sequence, stop
        self.fault("before_ingest")
        reports = []
        for task in plan.tasks:
            self._attempt(task.slices, task.budget)  # a failed attempt leaves files that nobody names
            reports.append(self._attempt(task.slices, task.budget, slot=task.slot))
            self.fault("between_tasks")
        self.fault("after_ingest")
        return BatchResult(reports=tuple(reports))

    def _attempt(self, slices: tuple[Slice, ...], budget: Budget, slot: int = 0) -> TaskReport:
        left = budget.max_records if budget.max_records is not None else 1 << 30
        rows: list[int] = []
        reports: list[SliceReport] = []
        for piece in slices:
            lines = self.world.sources[piece.path][piece.from_record :]
            wanted = self.appetite(len(lines))
            take = min(left, len(lines), wanted if reports else max(1, wanted))
            if take == 0 and lines:
                break  # out of budget: this slice and the rest are not started
            taken = lines[:take]
            found = [line for line in taken if line is not None]
            rows += found
            left -= take
            reports.append(
                SliceReport(
                    path=piece.path,
                    size_bytes=piece.size_bytes,
                    etag=piece.etag,
                    from_record=piece.from_record,
                    to_record=piece.from_record + take,
                    finished=take == len(lines),
                    rows=len(found),
                    blank=take - len(found),
                )
            )
        files: tuple[DataFile, ...] = ()
        if rows:
            self.world.names += 1
            path = f"{self.world.names}.parquet"
            self.world.parquet[path] = rows
            files = (DataFile(path=path, size_bytes=len(rows), rows=len(rows), stats="{}", modified_ms=0),)
        return TaskReport(slot=slot, slices=tuple(reports), files=files)


class MemoryBackground:
    """Commits that run at once, or only when somebody waits for them: the two ends of what a thread may do."""

    def __init__(self, at_once: Callable[[], bool]) -> None:
        self._at_once = at_once
        self._last: MemoryPending | None = None

    def start(self, commit: Callable[[], int]) -> Pending:
        self._last = MemoryPending(commit, self._last)
        if self._at_once():
            self._last.run()
        return self._last


class MemoryPending:
    def __init__(self, commit: Callable[[], int], before: MemoryPending | None) -> None:
        self._commit, self._before = commit, before
        self._outcome: int | Exception | None = None

    def run(self) -> None:
        if self._before is not None:
            self._before.run()  # one thread: in the order they were given
        if self._outcome is None:
            try:
                self._outcome = self._commit()
            except Exception as e:  # a Crash goes through: the process is gone
                self._outcome = e

    def done(self) -> bool:
        return self._outcome is not None

    def exception(self) -> BaseException | None:
        self.run()
        return self._outcome if isinstance(self._outcome, Exception) else None

    def result(self) -> int:
        self.run()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


@dataclass
class MemoryClock:
    world: World

    def now_ms(self) -> int:
        return self.world.tick()

    def sleep(self, seconds: float) -> None:
        del seconds
