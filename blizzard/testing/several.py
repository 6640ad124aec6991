"""One read in memory for several targets, as a real task makes it: it begins at the smallest record that one of them
wants, ends at one record for all, and each takes what is its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from blizzard.core.kinds import Kind
from blizzard.core.types import (
    BatchResult,
    BatchTicket,
    DataFile,
    SharedPlan,
    Slice,
    SliceReport,
    TaskFailure,
    TaskPlan,
    TaskReport,
)
from blizzard.run.ports import StopRequest
from blizzard.testing.memory import BREAK, Appetite, Fault, Line, World, broken_name, no_fault

Row = TypeVar("Row", int, str)


@dataclass
class MemoryReader:
    """`worlds`: one for each target, over the same source files. `failing`: targets whose part of a read fails."""

    worlds: Mapping[str, World]
    appetite: Appetite
    fault: Fault = no_fault
    failing: Callable[[str], bool] = field(default=lambda _: False)

    def run(
        self, plan: SharedPlan, *, tickets: Mapping[str, BatchTicket], stop: StopRequest
    ) -> Mapping[str, BatchResult]:
        del tickets, stop
        self.fault("before_ingest")
        reports: dict[str, list[TaskReport]] = {name: [] for name in plan.wanted}
        for task in plan.tasks:
            self._attempt(task, plan)  # a failed attempt leaves files that no commit names
            for name, report in self._attempt(task, plan).items():
                reports[name].append(report)
            self.fault("between_tasks")
        self.fault("after_ingest")
        failure = TaskFailure(kind=Kind.BAD_RECORD, path="", line=None, message="this target fails")
        return {
            name: BatchResult(
                reports=(TaskReport(slot=0, failure=failure),) if self.failing(name) else tuple(reports[name])
            )
            for name in plan.wanted
        }

    def _attempt(self, task: TaskPlan, plan: SharedPlan) -> dict[str, TaskReport]:
        left = task.budget.max_records if task.budget.max_records is not None else 1 << 30
        takers = {name: _Taker(world, plan.wanted[name]) for name, world in self.worlds.items() if name in plan.wanted}
        for number, piece in enumerate(task.slices):
            source = next(iter(self.worlds.values())).sources[piece.path]
            lines = source[piece.from_record :]
            wanted = self.appetite(len(lines))
            take = min(left, len(lines), wanted if number else max(1, wanted))
            if take == 0 and lines:
                break  # out of budget: this slice and the rest are not started
            left -= take
            for taker in takers.values():
                taker.take(piece, source, piece.from_record + take)
        return {name: taker.report(task.slot) for name, taker in takers.items()}


class _Taker:
    def __init__(self, world: World, wanted: Mapping[str, int]) -> None:
        self._world, self._wanted = world, wanted
        self._rows: list[int] = []
        self._bad: list[str] = []
        self._slices: list[SliceReport] = []

    def take(self, piece: Slice, source: list[Line], end: int) -> None:
        if piece.path not in self._wanted:
            return
        start = self._wanted[piece.path]
        assert start >= piece.from_record, "a record that is wanted is not read"
        is_broken = piece.given_up is not None or BREAK in source[piece.from_record : end]
        if is_broken:
            self._bad.append(broken_name(piece.path))
            self._add(piece, start, start, [], finished=True, broken=piece.given_up or BREAK)
        elif end > start or (end == start and end == len(source)):
            taken = source[start:end]
            self._rows += [line for line in taken if isinstance(line, int)]
            self._bad += [line for line in taken if isinstance(line, str)]
            self._add(piece, start, end, taken, finished=end == len(source))

    def _add(
        self, piece: Slice, start: int, end: int, taken: list[Line], *, finished: bool, broken: str | None = None
    ) -> None:
        self._slices.append(
            SliceReport(
                path=piece.path,
                size_bytes=piece.size_bytes,
                etag=piece.etag,
                from_record=start,
                to_record=end,
                finished=finished,
                rows=sum(isinstance(line, int) for line in taken),
                bad=sum(isinstance(line, str) for line in taken),
                blank=sum(line is None for line in taken),
                broken=broken,
            )
        )

    def report(self, slot: int) -> TaskReport:
        files: tuple[DataFile, ...] = ()
        quarantine: tuple[DataFile, ...] = ()
        if self._rows:
            files = (self._file(self._world.parquet, self._rows),)
        if self._bad:
            quarantine = (self._file(self._world.bad_parquet, self._bad),)
        return TaskReport(slot=slot, slices=tuple(self._slices), files=files, quarantine=quarantine)

    def _file(self, folder: dict[str, list[Row]], rows: list[Row]) -> DataFile:
        path = self._world.name_parquet()
        folder[path] = rows
        return DataFile(path=path, size_bytes=len(rows), rows=len(rows), stats="{}", modified_ms=0)
