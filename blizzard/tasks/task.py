"""One task: stream its slices, write Parquet, report what was read and written.

Bad data and unusable files end the task with a failure in its report: running it again would not help. Anything
else raises, so that Spark runs the task again; what the failed attempt wrote is never named by anyone.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from blizzard.core.types import Budget, Slice, SliceReport, TaskFailure, TaskPlan, TaskReport
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.source.lines import Block, LineTooLong, ShorterThanBefore, head, read_blocks, skip_lines
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
    slices = []
    try:
        for piece in plan.slices:
            if task.exhausted():
                break
            slices.append(task.read(piece))
        files = roller.close()
    except _Stop as stop:
        roller.abandon()
        return TaskReport(slot=plan.slot, failure=stop.failure)
    return TaskReport(slot=plan.slot, slices=tuple(slices), files=files, bytes_read=task.bytes_read)


class _Task:
    def __init__(self, spec: JobSpec, budget: Budget, roller: ParquetRoller) -> None:
        self._spec, self._budget, self._roller = spec, budget, roller
        self._parser = RecordParser(spec.schema)
        self._records = 0
        self._deadline: float | None = None
        self.bytes_read = 0

    def exhausted(self) -> bool:
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or self._records_left() == 0 or self._roller.written_bytes >= self._budget.output_bytes

    def read(self, piece: Slice) -> SliceReport:
        """Read one slice up to its end or until the budget is used up; at least one block of it is taken."""
        try:
            with open_stream(self._spec.source_root, piece, self._spec.compression) as stream:
                blocks = read_blocks(
                    stream, block_bytes=self._spec.block_bytes, max_line_bytes=self._spec.max_record_bytes
                )
                to, rows, blank, finished = piece.from_record, 0, 0, True
                for whole_block in skip_lines(blocks, piece.from_record):
                    block = self._cut(whole_block)
                    taken, blanks = self._take(block, piece)
                    to, rows, blank = block.first_line + block.lines, rows + taken, blank + blanks
                    finished = block.last
                    if not finished and self.exhausted():
                        break
        except UnreadableSource as e:
            raise _Stop(TaskFailure(kind=e.kind, path=piece.path, line=None, message=str(e))) from e
        except ShorterThanBefore as e:
            raise _Stop(TaskFailure(kind="source_changed", path=piece.path, line=None, message=str(e))) from e
        except LineTooLong as e:
            failure = TaskFailure(kind="bad_record", path=piece.path, line=e.line + 1, message=str(e))
            raise _Stop(failure) from e
        return SliceReport(
            path=piece.path,
            size_bytes=piece.size_bytes,
            etag=piece.etag,
            from_record=piece.from_record,
            to_record=to,
            finished=finished,
            rows=rows,
            blank=blank,
        )

    def _records_left(self) -> int | None:
        return None if self._budget.max_records is None else self._budget.max_records - self._records

    def _cut(self, block: Block) -> Block:
        left = self._records_left()
        return block if left is None or left >= block.lines else head(block, left)

    def _take(self, block: Block, piece: Slice) -> tuple[int, int]:
        if self._deadline is None and self._budget.seconds is not None:
            # The box opens at the first new record: skipping what is committed must not use it up.
            self._deadline = time.monotonic() + self._budget.seconds
        parsed = self._parser.parse(block.data, first_of_file=block.first_line == 0)
        if parsed.bad:
            raise _Stop(_bad_record(parsed.bad[0], block, piece))
        if parsed.lines != block.lines or parsed.table.num_rows + parsed.blank != block.lines:
            raise RuntimeError(f"{piece.path}: {block.lines} lines became {parsed.table.num_rows} rows")
        self._roller.write(parsed.table)
        self._records += block.lines
        self.bytes_read += len(block.data)
        return parsed.table.num_rows, parsed.blank


def _bad_record(bad: BadLine, block: Block, piece: Slice) -> TaskFailure:
    return TaskFailure(
        kind="bad_record",
        path=piece.path,
        line=block.first_line + bad.index + 1,
        message=f"{bad.kind}: {bad.message}",
    )
