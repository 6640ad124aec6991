"""Reads slices block by block: good lines become rows, bad lines go to quarantine. Every line is accounted for."""

from __future__ import annotations

import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from blizzard.core.framing import LINES
from blizzard.core.kinds import Kind, LineKind
from blizzard.core.observed import Observations
from blizzard.core.reasons import NO_REASONS, Reason, bad_lines
from blizzard.core.tally import NOTHING
from blizzard.core.types import Budget, Slice, SliceReport, TaskFailure
from blizzard.faults import reach
from blizzard.source.decode import DecodedStream, UnreadableSource
from blizzard.source.frames import siblings_of
from blizzard.source.lines import Block, Positions, ShorterThanBefore
from blizzard.store import open_store
from blizzard.tasks.ahead import Parse, ReadAhead, parse_block
from blizzard.tasks.framed import check_reading, counted_in, open_piece, records_of
from blizzard.tasks.layout import BatchStamp, RowOrigin, UnusableOrigin, check_path, complete_table
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import BadLine, ParsedBlock
from blizzard.tasks.partitioned import RowWriter
from blizzard.tasks.policy import RESCUED_COLUMN
from blizzard.tasks.quarantine import BadRow, BadRows, BadRowWriter
from blizzard.tasks.raw_lines import line_texts
from blizzard.tasks.spec import TaskSpec

# How often a task looks for the end marker.
_LOOK_EVERY_S = 2.0
# How far other threads may be ahead: the others must have work while a row group is encoded, and a worker stays small.
AHEAD_BYTES = 32 * 1024 * 1024


class BrokenFile(Exception):
    """A file that cannot be read to its end."""

    def __init__(self, piece: Slice, kind: Kind, message: str, lines_read: int, framing: str = LINES) -> None:
        super().__init__(message)
        self.piece, self.kind, self.lines_read, self.counts = piece, kind, lines_read, counted_in(framing)


class BadRecordStop(Exception):
    """A bad record that stops the run: by policy, or because there are too many."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _Progress:
    """How far one slice has been read, and what its lines became."""

    def __init__(self, piece: Slice, *, broken: str | None = None) -> None:
        self.piece, self.broken = piece, broken
        self.to_record = piece.from_record
        self.finished = True  # stays so if the file has no line left
        self.rows = self.blank = self.bad = self.cut = 0
        # Until the file is open, what it is read as is known only if records of it were read before.
        self.framing, self.encoding = (piece.framing if piece.from_record else LINES), piece.encoding

    def report(self) -> SliceReport:
        return SliceReport(
            path=self.piece.path,
            size_bytes=self.piece.size_bytes,
            etag=self.piece.etag,
            from_record=self.piece.from_record,
            to_record=self.to_record,
            finished=self.finished,
            rows=self.rows,
            bad=self.bad,
            blank=self.blank,
            broken=self.broken,
            cut=self.cut,
            framing=self.framing,
            encoding=self.encoding,
        )


class Reading:
    """Reads slices block by block. Small blocks are gathered until they have half of `block_bytes`: each call of the
    parser costs about 2 ms (measured), and thousands of small files would make thousands of calls.

    With more than one thread, blocks are read and parsed ahead by others. They take effect here, one after the other,
    and so does every limit: the same lines are read, and reported, with any number of threads."""

    def __init__(
        self,
        spec: TaskSpec,
        budget: Budget,
        stamp: BatchStamp,
        writer: RowWriter,
        quarantine: BadRowWriter,
        end_marker: str | None = None,
        threads: int = 1,
    ) -> None:
        self._spec, self._budget, self._stamp = spec, budget, stamp
        self._end_marker, self._looked_at = end_marker, time.monotonic()
        self._writer, self._quarantine = writer, quarantine
        # One for each thread that parses. One thread reads, and the one that encodes parses when it has to wait.
        self._parsers = [RecordParser(spec.layout.record_schema, spec.parsing, spec.parser) for _ in range(threads)]
        self._slices: list[_Progress] = []
        self._gathered: list[tuple[_Progress, Block]] = []
        self._gathered_bytes = 0
        self._records = self._bad = 0
        self._deadline: float | None = None
        self.bytes_read = self.rescued = 0
        self.changed: list[str] = []
        self.doubtful = 0
        self.undeclared = self.cut_times = self.siblings = NOTHING
        self.reasons = NO_REASONS
        self.observed: Observations | None = None

    @property
    def parser(self) -> str:
        return self._parsers[0].name

    def reports(self) -> tuple[SliceReport, ...]:
        return tuple(progress.report() for progress in self._slices)

    def add_broken(self, piece: Slice, reason: str) -> None:
        self._slices.append(_Progress(piece, broken=reason))

    def exhausted(self) -> bool:
        late = self._deadline is not None and time.monotonic() >= self._deadline
        full = self._records_left() == 0 or self._writer.written_bytes >= self._budget.output_bytes
        return late or full or self._is_asked_to_end()

    def _is_asked_to_end(self) -> bool:
        """Only after something new was read: an attempt that reads nothing would be repeated for ever."""
        if self._end_marker is None or not self._records or time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return False
        self._looked_at = time.monotonic()
        store = open_store(self._spec.table_root, self._spec.table_access)
        if store.stat(self._end_marker) is None:
            return False
        self._deadline = self._looked_at  # so that it is not asked again
        return True

    def read(self, piece: Slice) -> None:
        """Read one slice to its end, or until the budget is used up; at least one block."""
        progress = _Progress(piece)
        self._slices.append(progress)
        try:
            with (
                open_piece(self._spec, piece) as stream,
                self._blocks(stream, progress) as blocks,
            ):
                for whole_block, parse in blocks:
                    block = self._cut(whole_block)
                    self._gather(progress, block, parse if block is whole_block else None)
                    reach("task.block")
                    if not block.last and self.exhausted():
                        break
        except UnreadableSource as e:
            if e.kind == Kind.SOURCE_CHANGED and progress.to_record == 0:
                self._slices.pop()  # nothing was read from it, so the other slices go on without it
                self.changed.append(piece.path)
                return
            raise BrokenFile(piece, e.kind, str(e), progress.to_record, progress.framing) from e
        except ShorterThanBefore as e:
            raise BrokenFile(piece, Kind.BEYOND_END, str(e), progress.to_record, progress.framing) from e

    def _blocks(
        self, stream: DecodedStream, progress: _Progress
    ) -> AbstractContextManager[Iterator[tuple[Block, Parse | None]]]:
        """The blocks, with the way to the rows of those that others parse."""
        check_reading(stream, progress.piece)
        records = records_of(self._spec, stream, progress.piece)
        progress.framing, progress.encoding = records.framing, stream.reading
        blocks = records.blocks(max_record_bytes=self._spec.max_record_bytes, skip=progress.piece.from_record)
        if len(self._parsers) == 1:
            return nullcontext((block, None) for block in blocks)
        return ReadAhead(blocks, self._parsers, is_wanted=self._stands_alone, max_bytes=AHEAD_BYTES)

    def finish(self, parse: Parse | None = None) -> None:
        """Parse what is still gathered. `parse` is for a block that stands alone."""
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if not gathered:
            return
        if len(gathered) > 1:
            parsed = self._parsers[0].parse(_join([block for _, block in gathered]), first_of_file=False)
        else:
            parsed = parse() if parse is not None else parse_block(self._parsers[0], gathered[0][1])
        self._take(parsed, gathered)

    def _stands_alone(self, block: Block) -> bool:
        return block.too_long is None and self._is_enough(len(block.data))

    def _is_enough(self, size_bytes: int) -> bool:
        return size_bytes >= self._spec.block_bytes // 2

    def _records_left(self) -> int | None:
        return None if self._budget.max_records is None else self._budget.max_records - self._records

    def _cut(self, block: Block) -> Block:
        left = self._records_left()
        return block if left is None or left >= block.lines else block.head(left)

    def _gather(self, progress: _Progress, block: Block, parse: Parse | None) -> None:
        if self._deadline is None and self._budget.seconds is not None:
            # The time starts with the first new record: skipping committed records must not use it up.
            self._deadline = time.monotonic() + self._budget.seconds
        progress.to_record, progress.finished = block.first_line + block.lines, block.last
        self._records += block.lines
        self.bytes_read += len(block.data)
        self.siblings = self.siblings.merge(siblings_of(block))
        if not block.lines:
            return
        if block.too_long is not None:
            self._add_long_line(progress, block)
            return
        self._gathered.append((progress, block))
        self._gathered_bytes += len(block.data)
        if self._is_enough(self._gathered_bytes):
            self.finish(parse)

    def _take(self, parsed: ParsedBlock, gathered: list[tuple[_Progress, Block]]) -> None:
        """Account for every line of the block, part by part, and write its rows."""
        starts = list(accumulate((block.lines for _, block in gathered), initial=0))
        if parsed.lines != starts[-1]:
            raise RuntimeError(f"{starts[-1]} lines became {parsed.lines}")
        parsed, table = self._complete(parsed, gathered, starts)
        rows = np.searchsorted(_row_lines(parsed), starts)
        bad_rows = np.searchsorted([bad.number for bad in parsed.bad], starts)
        for part, (progress, block) in enumerate(gathered):
            bad = parsed.bad[bad_rows[part] : bad_rows[part + 1]]
            if bad:
                self._add_bad_lines(progress, block, bad, starts[part])
            good = int(rows[part + 1] - rows[part])
            progress.rows += good
            progress.blank += block.lines - good - len(bad)
        if parsed.table.num_rows + len(parsed.bad) + parsed.blank != parsed.lines:
            raise RuntimeError(f"{parsed.lines} lines became {parsed.table.num_rows} rows")
        self._notice(parsed)
        self._writer.write(table)

    def _complete(
        self, parsed: ParsedBlock, gathered: list[tuple[_Progress, Block]], starts: list[int]
    ) -> tuple[ParsedBlock, pa.Table]:
        """The rows of the table. A record with a column that cannot be filled is bad."""
        kept = _join([block for _, block in gathered]) if self._spec.layout.keeps_raw else None
        while True:
            row_lines = _row_lines(parsed)
            rows = np.searchsorted(row_lines, starts)
            origins = [
                RowOrigin(
                    path=progress.piece.path,
                    etag=progress.piece.etag,
                    line_numbers=row_lines[rows[part] : rows[part + 1]] - starts[part] + block.first_line,
                )
                for part, (progress, block) in enumerate(gathered)
            ]
            try:
                texts = None if kept is None else line_texts(kept, row_lines)
                return parsed, complete_table(parsed.table, self._spec.layout, origins, self._stamp, texts)
            except UnusableOrigin as e:
                if e.line is None:
                    progress = next(progress for progress, _ in gathered if progress.piece.path == e.path)
                    raise BrokenFile(progress.piece, Kind.BAD_PATH, str(e), progress.piece.from_record) from e
                parsed = self._count_again(_without_rows(parsed, e), gathered)

    def _count_again(self, parsed: ParsedBlock, gathered: list[tuple[_Progress, Block]]) -> ParsedBlock:
        """Without what was met on the lines that are bad now: it is in quarantine, and not ignored or cut."""
        if parsed.undeclared == parsed.cut_times == NOTHING:
            return parsed
        lines = _join([block for _, block in gathered]).split(b"\n")
        good = b"".join(lines[index] + b"\n" for index in _row_lines(parsed).tolist())
        met = self._parsers[0].parse(good, first_of_file=False)
        return replace(parsed, undeclared=met.undeclared, cut_times=met.cut_times, observed=met.observed)

    def _notice(self, parsed: ParsedBlock) -> None:
        self.doubtful += parsed.doubtful
        self.undeclared = self.undeclared.merge(parsed.undeclared)
        self.cut_times = self.cut_times.merge(parsed.cut_times)
        if parsed.observed is not None:
            self.observed = parsed.observed if self.observed is None else self.observed.merge(parsed.observed)
        if RESCUED_COLUMN in parsed.table.column_names:
            column: pa.ChunkedArray = parsed.table[RESCUED_COLUMN]
            self.rescued += len(column) - column.null_count

    def _add_long_line(self, progress: _Progress, block: Block) -> None:
        assert block.too_long is not None
        row = BadRow(
            source_file=progress.piece.path,
            source_etag=progress.piece.etag,
            line=block.first_line + 1,
            byte_offset=block.first_byte,
            raw=block.too_long.head,
            raw_bytes=block.too_long.size_bytes,
            kind=LineKind.TOO_LONG,
            message=str(block.too_long),
        )
        self._count_bad(progress, 1, lambda _: (block.first_line + 1, row.kind, row.message))
        long = (block.first_line + 1, Reason(kind=LineKind.TOO_LONG), row.message)
        self.reasons = self.reasons.merge(bad_lines(progress.piece.path, [long]))
        if self._spec.bad.keeps_bad_records:
            progress.cut += not row.complete
            self._quarantine.add(row)

    def _add_bad_lines(self, progress: _Progress, block: Block, bad: Sequence[BadLine], first: int) -> None:
        """`first` is the index of the block's first line among all that were parsed together."""
        indexes = np.array([line.number for line in bad]) - first
        lines = (indexes + block.first_line + 1).tolist()
        self._count_bad(progress, len(bad), lambda i: (lines[i], bad[i].kind, bad[i].message))
        met = ((number, _reason(line), line.message) for number, line in zip(lines, bad, strict=True))
        self.reasons = self.reasons.merge(bad_lines(progress.piece.path, met))
        if not self._spec.bad.keeps_bad_records:
            return
        # The bytes as they are in the file: joined blocks have other offsets and no byte order mark.
        byte_offsets, raws = block.originals(indexes)
        self._quarantine.add_lines(
            BadRows(
                source_file=progress.piece.path,
                source_etag=progress.piece.etag,
                lines=lines,
                byte_offsets=byte_offsets,
                raws=raws,
                kinds=[line.kind for line in bad],
                messages=[line.message for line in bad],
                columns=[line.column for line in bad],
            )
        )

    def _count_bad(self, progress: _Progress, count: int, show: Callable[[int], tuple[int, str, str]]) -> None:
        """Raises if the policy allows none, or not so many. `show` gives line, kind and message of one of them."""
        policy = self._spec.bad
        if policy.records == "fail":
            line, kind, message = show(0)
            raise _stop(progress, Kind.BAD_RECORD, line, f"{kind}: {message}")
        if policy.max_records is not None and self._bad + count > policy.max_records:
            line, _, message = show(policy.max_records - self._bad)
            said = f"more than {policy.max_records:,} bad records (bad_records.max_records); this one: {message}"
            raise _stop(progress, Kind.TOO_MANY_BAD_RECORDS, line, said)
        progress.bad += count
        self._bad += count


def _reason(line: BadLine) -> Reason:
    return line.reason or Reason(kind=line.kind, column=line.column)


def _stop(progress: _Progress, kind: Kind, line: int, message: str) -> BadRecordStop:
    counts = counted_in(progress.framing)
    return BadRecordStop(TaskFailure(kind=kind, path=progress.piece.path, line=line, message=message, counts=counts))


def find_broken(spec: TaskSpec, pieces: Iterable[Slice]) -> dict[str, BrokenFile]:
    """Which of these files cannot be used, without parsing a line of them."""
    broken = {}
    for piece in pieces:
        lines, framing = 0, LINES
        try:
            check_path(piece.path, spec.layout)
            with open_piece(spec, piece) as stream:
                records = records_of(spec, stream, piece)
                framing = records.framing
                for ended in records.count():
                    lines = ended
        except UnusableOrigin as e:
            broken[piece.path] = BrokenFile(piece, Kind.BAD_PATH, str(e), piece.from_record)
        except UnreadableSource as e:
            if e.kind != Kind.SOURCE_CHANGED:  # a changed file is not damaged
                broken[piece.path] = BrokenFile(piece, e.kind, str(e), max(lines, piece.from_record), framing)
    return broken


def _row_lines(parsed: ParsedBlock) -> Positions:
    return np.arange(parsed.table.num_rows) if parsed.row_lines is None else parsed.row_lines


def _without_rows(parsed: ParsedBlock, error: UnusableOrigin) -> ParsedBlock:
    """These rows as bad lines."""
    row_lines = _row_lines(parsed)
    # `_add_bad_lines` takes the bytes and their place from the block.
    bad = [
        BadLine(number=index, kind=LineKind.MISSING_VALUE, message=str(error), column=error.column, raw=b"", offset=0)
        for index in row_lines[error.rows].tolist()
    ]
    kept = np.delete(np.arange(len(row_lines)), error.rows)
    return replace(
        parsed,
        table=parsed.table.take(pa.array(kept)),
        bad=tuple(sorted((*parsed.bad, *bad), key=lambda line: line.number)),
        row_lines=row_lines[kept],
    )


def _join(blocks: list[Block]) -> bytes:
    """Blocks of different files as one block of whole lines."""
    parts = []
    for block in blocks:
        parts.append(_without_bom(block))
        if not block.data.endswith(b"\n"):
            parts.append(b"\n")
    return b"".join(parts)


def _without_bom(block: Block) -> bytes:
    return block.data.removeprefix(BOM_UTF8) if block.first_line == 0 else block.data
