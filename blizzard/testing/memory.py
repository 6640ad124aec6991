"""In-memory ports (source, table, quarantine, ingestor, background, clock) that obey the same rules as the real ones.

The real driver code runs on them. A `Fault` is called at every step, and may do there what a real network, disk or
second driver could do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from blizzard.core.codec import fence_app_id, head_number
from blizzard.core.commit import CommitRequest
from blizzard.core.kinds import Kind
from blizzard.core.late import Scope
from blizzard.core.ledger import decode_ledger
from blizzard.core.log import CommitFacts, TableFacts, Txn
from blizzard.core.look import Listed
from blizzard.core.position import Position, prefix_of
from blizzard.core.quarantine import (
    Misaligned,
    QuarantineFacts,
    Settled,
    changes_quarantine,
    judge_quarantine,
    name_quarantine,
)
from blizzard.core.types import (
    ONE_CORE,
    BatchPlan,
    BatchResult,
    BatchTicket,
    Budget,
    DataFile,
    QuarantinedBatch,
    Slice,
    SliceReport,
    SourceFile,
    SourceIdentity,
    TaskReport,
)
from blizzard.errors import OutOfStep, Temporary
from blizzard.run.ports import StopRequest
from blizzard.schema import DeltaSchema

Line = int | str | None  # a record's id, a bad record, or a blank line
BREAK = "the file breaks here"
IDENTITY = SourceIdentity(root="mem:///source", pattern="*")


class Crash(BaseException):
    """The process has died. Nothing may catch this."""


class ConflictError(Exception):
    """The store's answer to a commit that lost."""


def no_fault(_step: str) -> None:
    return None


Fault = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadBatch:
    batch_id: str
    sequence: int
    lines: tuple[str, ...]


@dataclass
class World:
    """What outlives a process: source files, Parquet, the quarantine, the log and the clock."""

    sources: dict[str, list[Line]] = field(default_factory=dict)
    parquet: dict[str, list[int]] = field(default_factory=dict)
    bad_parquet: dict[str, list[str]] = field(default_factory=dict)
    bad_batches: list[BadBatch] = field(default_factory=list)  # what the quarantine holds, in the order it came
    quarantine_txn: int = 0
    quarantine_head: int = 0
    log: list[tuple[CommitFacts, tuple[str, ...]]] = field(default_factory=list)
    names: int = 0
    clock_ms: int = 1_000
    seen_ms: dict[str, int] = field(default_factory=dict)  # of each source file, when it became visible
    table_id: str = "memory"

    @property
    def quarantine(self) -> list[str]:
        return [line for batch in self.bad_batches for line in batch.lines]

    def rows(self) -> list[int]:
        return [row for _, adds in self.log for path in adds for row in self.parquet[path]]

    def committed_slices(self) -> list[int | str]:
        """All records of the slices in the ledgers, good and bad, from the source files; and the broken files."""
        ids: list[int | str] = []
        for commit, _ in self.log:
            ledger = decode_ledger(commit.user_metadata)
            for entry in ledger.entries if ledger else ():
                lines = self.sources[entry.path][entry.from_record : entry.to_record]
                ids += [line for line in lines if line is not None]
                ids += [broken_name(entry.path)] if entry.broken is not None else []
        return ids

    def name_parquet(self) -> str:
        self.names += 1
        return f"{self.names}.parquet"

    def foreign_commit(self, operation: str = "WRITE", mode: str = "Append") -> None:
        self._append(CommitFacts(version=len(self.log), timestamp_ms=self.tick(), operation=operation, mode=mode), ())

    def tick(self) -> int:
        self.clock_ms += 1
        return self.clock_ms

    def _append(self, commit: CommitFacts, adds: tuple[str, ...]) -> None:
        self.log.append((commit, adds))


def broken_name(path: str) -> str:
    """The row in quarantine for a file that broke."""
    return f"broken {path}"


@dataclass
class MemorySource:
    world: World
    identity: SourceIdentity = IDENTITY

    def list(self) -> list[SourceFile]:
        return [
            SourceFile(path=path, size_bytes=len(lines), etag=f"{len(lines)}", seen_ms=self.world.seen_ms.get(path, 0))
            for path, lines in sorted(self.world.sources.items())
        ]

    def look(self, scope: Scope) -> Listed:
        """As an object store does: only what is asked for."""
        at_ms = self.now_ms()
        if scope.is_full:
            return Listed(files=self.list(), at_ms=at_ms)
        after = scope.after
        files = [f for f in self.list() if f.path in scope.also or f.path > after.get(self._part(f.path), "")]
        return Listed(files=files, at_ms=at_ms, is_full=False)

    def finish_asides(self, names: Sequence[str]) -> Sequence[str]:
        del names  # no file is ever taken aside here
        return ()

    def now_ms(self) -> int:
        return self.world.tick()

    def _part(self, path: str) -> str:
        return prefix_of(path, self.identity.marks_per)


class MemoryTable:
    """A handle on the log at one version. `append` conflicts exactly as delta-rs does: only on the fence."""

    root = "mem:///table"
    schema_fingerprint = "fingerprint"
    txn_retention_ms = None

    def __init__(self, world: World, fault: Fault) -> None:
        self.schema: DeltaSchema = {"type": "struct", "fields": []}
        self._world, self._fault = world, fault
        self.table_id = world.table_id
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

    def find_missing(self, files: Sequence[DataFile]) -> str | None:
        return next((file.path for file in files if file.path not in self._world.parquet), None)

    def check_writable(self) -> None:
        return None

    def add_columns(self, schema: DeltaSchema, *, pipeline: str) -> None:
        del schema, pipeline
        raise AssertionError("never asked for")

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

    def take_back(self, pipeline: str, run_id: str) -> bool:
        del pipeline, run_id
        return False


@dataclass
class MemoryQuarantine:
    """Like the real one: checks the table's own Txn before each attempt, and decides nothing by an exception."""

    world: World
    fault: Fault = no_fault

    def announce(self, position: Position, files: Sequence[DataFile] = ()) -> Position:
        del files
        return name_quarantine(position, "q") if changes_quarantine(position) else position

    def settle(self, position: Position) -> None:
        for _ in range(4):
            seen = self._facts()
            match judge_quarantine(position, seen):
                case Settled():
                    return
                case Misaligned(kind=kind, message=message):
                    raise OutOfStep(message, kind=kind)
            try:
                self.fault("before_settle")
                if self._facts() != seen:
                    raise ConflictError("Concurrent transaction failed")
                self.change(position)
                self.world.quarantine_txn, head = position.sequence, position.quarantine.head
                self.world.quarantine_head = head_number(None if head is None else head.batch_id)
                self.fault("after_settle")
            except ConflictError:
                continue
        raise Temporary("the quarantine table does not answer", kind=Kind.QUARANTINE_FAILED)

    def change(self, position: Position) -> None:
        """What this position says, in one commit: some batches leave, its own comes in."""
        named = position.quarantine
        kept = [batch for batch in self.world.bad_batches if batch.batch_id not in named.dropped]
        lines = tuple(line for name in named.pending for line in self.world.bad_parquet[name])
        new = [BadBatch(batch_id=position.batch_id, sequence=position.sequence, lines=lines)] if lines else []
        self.world.bad_batches = kept + new

    def _facts(self) -> QuarantineFacts:
        return QuarantineFacts(table_id="q", sequence=self.world.quarantine_txn, head=self.world.quarantine_head)

    def is_settled(self, position: Position) -> bool:
        return not position.quarantine.pending or self.world.quarantine_txn >= position.sequence

    def check_pending(self, position: Position) -> None:
        self.is_settled(position)

    def take_back(self, run_id: str, table_id: str) -> None:
        del run_id, table_id

    def took_in(self, position: Position, sequences: Collection[int]) -> Collection[int]:
        del position
        return {sequence for sequence in sequences if sequence <= self.world.quarantine_txn}

    def count(self, pipeline: str | None = None, table_id: str | None = None) -> int:
        del pipeline, table_id
        return len(self.world.quarantine)

    def batches(self, pipeline: str, table_id: str) -> Sequence[QuarantinedBatch]:
        del pipeline, table_id
        return [
            QuarantinedBatch(name=batch.batch_id, sequence=batch.sequence, rows=len(batch.lines))
            for batch in self.world.bad_batches
        ]


# How many lines of a slice an attempt takes, given how many are left. A task takes at least one.
Appetite = Callable[[int], int]


@dataclass
class MemoryIngestor:
    world: World
    slots: int
    appetite: Appetite
    fault: Fault = no_fault

    schema_fingerprint = "fingerprint"
    cores = ONE_CORE

    def prepare(self) -> None:
        return None

    def start(self, stop: StopRequest) -> int:
        del stop
        return self.slots

    def adopt(self, schema: DeltaSchema) -> None:
        del schema
        raise AssertionError("never asked for")

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult:
        del ticket, stop
        self.fault("before_ingest")
        reports = []
        for task in plan.tasks:
            self._attempt(task.slices, task.budget)  # a failed attempt leaves files that no commit names
            reports.append(self._attempt(task.slices, task.budget, slot=task.slot))
            self.fault("between_tasks")
        self.fault("after_ingest")
        return BatchResult(reports=tuple(reports))

    def _attempt(self, slices: tuple[Slice, ...], budget: Budget, slot: int = 0) -> TaskReport:
        left = budget.max_records if budget.max_records is not None else 1 << 30
        rows: list[int] = []
        bad: list[str] = []
        reports: list[SliceReport] = []
        for piece in slices:
            lines = self.world.sources[piece.path][piece.from_record :]
            wanted = self.appetite(len(lines))
            take = min(left, len(lines), wanted if reports else max(1, wanted))
            if take == 0 and lines:
                break  # out of budget: this slice and the rest are not started
            if piece.given_up is not None:
                bad.append(broken_name(piece.path))
                reports.append(_report(piece, [], finished=True, broken=piece.given_up))
                continue
            if BREAK in lines[:take]:
                bad.append(broken_name(piece.path))
                reports.append(_report(piece, [], finished=True, broken=BREAK))
                continue
            taken = lines[:take]
            rows += [line for line in taken if isinstance(line, int)]
            bad += [line for line in taken if isinstance(line, str)]
            left -= take
            reports.append(_report(piece, taken, finished=take == len(lines)))
        files: tuple[DataFile, ...] = ()
        quarantine: tuple[DataFile, ...] = ()
        if rows:
            path = self.world.name_parquet()
            self.world.parquet[path] = rows
            files = (_data_file(path, len(rows)),)
        if bad:
            path = self.world.name_parquet()
            self.world.bad_parquet[path] = bad
            quarantine = (_data_file(path, len(bad)),)
        return TaskReport(slot=slot, slices=tuple(reports), files=files, quarantine=quarantine)


def _report(piece: Slice, taken: list[Line], *, finished: bool, broken: str | None = None) -> SliceReport:
    return SliceReport(
        path=piece.path,
        size_bytes=piece.size_bytes,
        etag=piece.etag,
        from_record=piece.from_record,
        to_record=piece.from_record + len(taken),
        finished=finished,
        rows=sum(isinstance(line, int) for line in taken),
        bad=sum(isinstance(line, str) for line in taken),
        blank=sum(line is None for line in taken),
        broken=broken,
    )


def _data_file(path: str, rows: int) -> DataFile:
    return DataFile(path=path, size_bytes=rows, rows=rows, stats="{}", modified_ms=0)


@dataclass
class MemoryClock:
    world: World

    def now_ms(self) -> int:
        return self.world.tick()

    def sleep(self, seconds: float) -> None:
        del seconds
