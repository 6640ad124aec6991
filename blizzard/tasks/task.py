"""One task: stream its slices, write Parquet, report what was read and written.

Bad data and unusable files end the task with a failure in its report: running it again would not help. Anything
else raises, so that Spark runs the task again; what the failed attempt wrote is never named by anyone.
"""

from __future__ import annotations

import os
import time
from codecs import BOM_UTF8
from dataclasses import dataclass

import pyarrow as pa

from blizzard.core.types import Budget, Slice, SliceReport, TaskFailure, TaskPlan, TaskReport
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.source.lines import Block, ShorterThanBefore, head, read_blocks
from blizzard.tasks.parse import BadLine, RecordParser
from blizzard.tasks.stats import indexed_leaves
from blizzard.tasks.write import ParquetRoller

_BLOCK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What every task of a run needs to know. It travels to the executors; no credential is in it."""

    source_root: str
    compression: str
    table_root: str
    schema: DeltaSchema
    run_id: str
    target_file_bytes: int
    codec: str
    max_record_bytes: int
    indexed_columns: int
    block_bytes: int = _BLOCK_BYTES


class _Stop(Exception):
    """Carries the failure up to the one place that reports it."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def run_task(spec: JobSpec, plan: TaskPlan, *, sequence: int) -> TaskReport:
    attempt = os.urandom(6).hex()
    roller = ParquetRoller(
        folder=spec.table_root,
        name_prefix=f"blizzard-{spec.run_id}-{sequence:08d}-{plan.slot:04d}-{attempt}",
        schema=to_arrow(spec.schema),
        leaves=indexed_leaves(spec.schema, spec.indexed_columns),
        target_bytes=spec.target_file_bytes,
        codec=spec.codec,
    )
    task = _Task(spec, plan.budget, roller)
    try:
        for piece in plan.slices:
            if task.exhausted():
                break
            task.read(piece)
        task.parse_gathered()
        files = roller.close()
    except _Stop as stop:
        roller.abandon()
        return TaskReport(slot=plan.slot, failure=stop.failure)
    return TaskReport(
        slot=plan.slot,
        slices=task.reports(),
        files=files,
        bytes_read=task.bytes_read,
        changed=tuple(task.changed),
    )


class _Progress:
    """How far one slice has been read, and what became of its lines."""

    def __init__(self, piece: Slice) -> None:
        self.piece = piece
        self.to_record = piece.from_record
        self.finished = True  # a file with no line left is
        self.rows = self.blank = 0

    def report(self) -> SliceReport:
        return SliceReport(
            path=self.piece.path,
            size_bytes=self.piece.size_bytes,
            etag=self.piece.etag,
            from_record=self.piece.from_record,
            to_record=self.to_record,
            finished=self.finished,
            rows=self.rows,
            blank=self.blank,
        )


class _Task:
    """Reads slices block by block. Blocks are gathered up to a full one: the parser costs about 2 ms a call
    (measured), which thousands of small files would pay thousands of times."""

    def __init__(self, spec: JobSpec, budget: Budget, roller: ParquetRoller) -> None:
        self._spec, self._budget, self._roller = spec, budget, roller
        self._parser = RecordParser(spec.schema)
        self._slices: list[_Progress] = []
        self._gathered: list[tuple[_Progress, Block]] = []
        self._gathered_bytes = 0
        self._records = 0
        self._deadline: float | None = None
        self.bytes_read = 0
        self.changed: list[str] = []

    def reports(self) -> tuple[SliceReport, ...]:
        return tuple(progress.report() for progress in self._slices)

    def exhausted(self) -> bool:
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or self._records_left() == 0 or self._roller.written_bytes >= self._budget.output_bytes

    def read(self, piece: Slice) -> None:
        """Read one slice up to its end or until the budget is used up; at least one block of it is taken."""
        progress = _Progress(piece)
        self._slices.append(progress)
        try:
            with open_stream(self._spec.source_root, piece, self._spec.compression) as stream:
                blocks = read_blocks(
                    stream,
                    block_bytes=self._spec.block_bytes,
                    max_line_bytes=self._spec.max_record_bytes,
                    skip=piece.from_record,
                )
                for whole_block in blocks:
                    block = self._cut(whole_block)
                    self._gather(progress, block)
                    if not block.last and self.exhausted():
                        break
        except UnreadableSource as e:
            if e.kind == "source_changed" and progress.to_record == 0:
                self._slices.pop()  # nothing was taken of it: the others need not wait for it
                self.changed.append(piece.path)
                return
            raise _Stop(TaskFailure(kind=e.kind, path=piece.path, line=None, message=str(e))) from e
        except ShorterThanBefore as e:
            raise _Stop(TaskFailure(kind="source_changed", path=piece.path, line=None, message=str(e))) from e

    def _records_left(self) -> int | None:
        return None if self._budget.max_records is None else self._budget.max_records - self._records

    def _cut(self, block: Block) -> Block:
        left = self._records_left()
        return block if left is None or left >= block.lines else head(block, left)

    def _gather(self, progress: _Progress, block: Block) -> None:
        if self._deadline is None and self._budget.seconds is not None:
            # The box opens at the first new record: skipping what is committed must not use it up.
            self._deadline = time.monotonic() + self._budget.seconds
        if block.too_long is not None:
            message = str(block.too_long)
            raise _Stop(
                TaskFailure(kind="bad_record", path=progress.piece.path, line=block.first_line + 1, message=message)
            )
        progress.to_record, progress.finished = block.first_line + block.lines, block.last
        self._records += block.lines
        self.bytes_read += len(block.data)
        self._gathered.append((progress, block))
        self._gathered_bytes += len(block.data)
        if self._gathered_bytes >= self._spec.block_bytes // 2:
            self.parse_gathered()

    def parse_gathered(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if len(gathered) > 1:
            parsed = self._parser.parse(_join([block for _, block in gathered]), first_of_file=False)
            if not parsed.bad and not parsed.blank and parsed.lines == sum(block.lines for _, block in gathered):
                for progress, block in gathered:
                    progress.rows += block.lines
                self._write(parsed.table, sum(block.lines for _, block in gathered))
                return
        for progress, block in gathered:  # one by one: which line of which file is blank or bad has to be known
            self._parse(progress, block)

    def _parse(self, progress: _Progress, block: Block) -> None:
        parsed = self._parser.parse(block.data, first_of_file=block.first_line == 0, newlines=block.newlines)
        if parsed.bad:
            raise _Stop(_bad_record(parsed.bad[0], block, progress.piece))
        progress.rows += parsed.table.num_rows
        progress.blank += parsed.blank
        self._write(parsed.table, block.lines - parsed.blank)

    def _write(self, table: pa.Table, expected_rows: int) -> None:
        if table.num_rows != expected_rows:
            raise RuntimeError(f"{expected_rows} records became {table.num_rows} rows")
        self._roller.write(table)


def _join(blocks: list[Block]) -> bytes:
    """Blocks of different files as one block of whole lines."""
    parts = []
    for block in blocks:
        parts.append(block.data.removeprefix(BOM_UTF8) if block.first_line == 0 else block.data)
        if not block.data.endswith(b"\n"):
            parts.append(b"\n")
    return b"".join(parts)


def _bad_record(bad: BadLine, block: Block, piece: Slice) -> TaskFailure:
    return TaskFailure(
        kind="bad_record", path=piece.path, line=block.first_line + bad.index + 1, message=f"{bad.kind}: {bad.message}"
    )
