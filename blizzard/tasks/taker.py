"""One target's part of a task: takes parsed blocks and makes rows, bad records and counts of them.

Every line that it takes is accounted for. What ends it (`TargetStopped`, a place that cannot be written) ends no other
target: `reading.py` sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import Kind, LineKind
from blizzard.core.tally import NOTHING
from blizzard.core.types import DataFile, Slice, TaskFailure, TaskReport
from blizzard.source.frames import siblings_of
from blizzard.source.lines import Block, ShorterThanBefore
from blizzard.tasks.bad_records import BadRecords
from blizzard.tasks.framed import counted_in
from blizzard.tasks.layout import RowOrigin, UnusableOrigin, check_path, complete_table
from blizzard.tasks.parsed import BadLine, Noticed, ParsedBlock
from blizzard.tasks.parsings import BlockParser, ParsedBlocks, Parsings, parsing_of
from blizzard.tasks.partitioned import RowWriter
from blizzard.tasks.progress import BrokenFile, Progress, TargetStopped
from blizzard.tasks.quarantine import BadRowWriter, broken_file
from blizzard.tasks.raw_lines import join_blocks, line_texts
from blizzard.tasks.routing import Routed, Routing, line_bytes_of
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.target import Target
from blizzard.tasks.transform import Transforming, transforming_of
from blizzard.tasks.transform_step import TransformStopped

# The bytes may be fine: it is about rights, too many open files, a setting, or a file that does not belong here. Giving
# up the file would lose it.
_LEFT_TO_THE_NEXT_RUN = (
    *(Kind.UNREADABLE, Kind.WRONG_COMPRESSION, Kind.WRONG_ENCODING, Kind.OTHER_KIND),
    *(Kind.UNAVAILABLE, Kind.ARCHIVED),
)
_STILL_ARRIVING_S = 60


class Part(NamedTuple):
    """A block of one slice, among those that are parsed together."""

    piece: Slice
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """On the way from lines to rows: the number of the parsing that makes the rows; `where`, if there is one; and the
    number of the parsing that it is judged on, if the rows are not enough."""

    parsing: int
    routing: Routing | None = None
    judged: int | None = None

    @property
    def parsings(self) -> tuple[int, ...]:
        return (self.parsing,) if self.judged is None else (self.parsing, self.judged)


def steps_of(spec: TaskSpec, parsings: Parsings) -> Steps:
    number = parsings.number(parsing_of(spec))
    if spec.where is None:
        return Steps(parsing=number)
    routing = Routing(spec.where, spec)
    judged = None if routing.parsing is None else parsings.number(routing.parsing)
    return Steps(parsing=number, routing=routing, judged=judged)


class Taker:
    """Takes the blocks in order, on one thread."""

    def __init__(
        self,
        target: Target,
        writer: RowWriter,
        quarantine: BadRowWriter,
        parser: BlockParser,
        steps: Steps,
    ) -> None:
        self.target = target
        self.failure: TaskFailure | None = None
        self._spec, self._stamp = target.spec, target.stamp
        self._writer, self._quarantine = writer, quarantine
        self._parser, self._steps = parser, steps
        self._transforming: Transforming | None = None
        self._slices: dict[str, Progress] = {}
        self._given_up: set[str] = set()
        self._bad = BadRecords(target.spec.bad, quarantine)
        self._noticed = Noticed()
        self._bytes_read = 0
        self._changed: list[str] = []
        self._retried: list[tuple[str, str]] = []
        self._siblings = NOTHING

    @property
    def is_active(self) -> bool:
        return self.failure is None

    @property
    def parsings(self) -> tuple[int, ...]:
        """Which parsings of a block it needs."""
        return self._steps.parsings

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    def wants(self, piece: Slice) -> bool:
        return self.is_active and piece.path in self.target.wanted and piece.path not in self._given_up

    def wants_block(self, piece: Slice, block: Block) -> bool:
        return self.wants(piece) and self.target.wanted[piece.path] <= block.first_line

    def fail(self, failure: TaskFailure) -> None:
        self.failure = failure
        self.abandon()

    def abandon(self) -> None:
        """No commit will name what was written."""
        self._writer.abandon()
        self._quarantine.abandon()

    # One slice.

    def begin(self, piece: Slice) -> None:
        self._slices[piece.path] = Progress(self.target.own(piece))

    def opened(self, piece: Slice, framing: str, encoding: str) -> None:
        progress = self._slices[piece.path]
        progress.framing, progress.encoding = framing, encoding

    def advance(self, piece: Slice, block: Block) -> None:
        """This block is read. Its rows are taken later, unless it is one line that is too long."""
        progress = self._slices[piece.path]
        if block.lines and not progress.has_begun:
            try:
                check_path(piece.path, self._spec.layout)
            except UnusableOrigin as e:
                self.give_up(BrokenFile(progress.piece, Kind.BAD_PATH, str(e), progress.piece.from_record))
                return
        progress.to_record, progress.finished = block.first_line + block.lines, block.last
        self._bytes_read += len(block.data)
        self._siblings = self._siblings.merge(siblings_of(block))
        if block.too_long is not None:
            self._bad.add_long_line(progress, block)

    def end(self, piece: Slice, reached: int, *, finished: bool) -> None:
        """The read has ended at this record. A target whose first record it did not reach has nothing to report."""
        progress = self._slices[piece.path]
        if progress.has_begun or progress.broken is not None:
            return
        first = progress.piece.from_record
        if not finished:
            del self._slices[piece.path]
        elif reached < first:
            said = str(ShorterThanBefore(reached, first, f"{counted_in(progress.framing)}s"))
            self.fail(TaskFailure(kind=Kind.BEYOND_END, path=piece.path, line=None, message=said))

    def cannot_read(self, broken: BrokenFile) -> bool:
        """Returns whether everything must be read again without the file: rows of it may be among those of others."""
        progress = self._slices[broken.piece.path]
        if broken.kind == Kind.SOURCE_CHANGED and progress.to_record == 0:
            del self._slices[broken.piece.path]  # nothing was read from it, so the other slices go on without it
            self._changed.append(broken.piece.path)
            return False
        if self._spec.bad.files == "fail" or broken.kind == Kind.SOURCE_CHANGED:
            self.fail(broken.failure)
            return False
        return True

    def give_up(self, broken: BrokenFile) -> None:
        """Take nothing of the file in this batch. What earlier batches took stays; the ledger says where it broke."""
        path = broken.piece.path
        piece = self.target.own(broken.piece)
        self._slices.pop(path, None)
        self._given_up.add(path)
        if self._spec.bad.files == "fail":
            self.fail(broken.failure)
        elif self._is_tried_again(broken):
            self._retried.append((path, f"{broken.kind}: {broken}"))
        else:
            line = max(broken.lines_read, piece.from_record)
            self._slices[path] = Progress(piece, broken=f"{broken.kind} after {broken.counts} {line}")
            self._quarantine.add(broken_file(piece, line=line, kind=broken.kind, message=str(broken)))

    def quarantine_whole(self, piece: Slice, kind: str) -> None:
        """No line of it is read: by policy a person decides about such files."""
        own = self.target.own(piece)
        self._slices[piece.path] = Progress(own, broken=kind)
        message = f"the file is {kind}, and such files are not read (see late_files.policy, rewritten_files.policy)"
        self._quarantine.add(broken_file(own, line=None, kind=kind, message=message))

    def _is_tried_again(self, broken: BrokenFile) -> bool:
        if self._spec.bad.files == "retry" or broken.kind in _LEFT_TO_THE_NEXT_RUN:
            return True
        # A file that is still being written ends early too.
        return broken.kind == Kind.TRUNCATED and self._spec.source.age_s(broken.piece.path) < _STILL_ARRIVING_S

    # Parsed blocks.

    def take(self, blocks: ParsedBlocks, parts: Sequence[Part]) -> None:
        """Account for every line, part by part, and write the rows."""
        starts = list(accumulate((part.block.lines for part in parts), initial=0))
        if blocks[self._steps.parsing].lines != starts[-1]:
            raise RuntimeError(f"{starts[-1]} lines became {blocks[self._steps.parsing].lines}")
        shaped = self._shape(blocks, parts)
        parsed, table = self._complete(shaped.parsed, parts, starts)
        rows = np.searchsorted(parsed.lines_of_rows, starts)
        bad_rows = np.searchsorted([bad.number for bad in parsed.bad], starts)
        filtered, unrouted = (np.searchsorted(lines, starts) for lines in (parsed.filtered, shaped.unrouted))
        for index, (piece, block) in enumerate(parts):
            progress = self._slices[piece.path]
            bad = parsed.bad[bad_rows[index] : bad_rows[index + 1]]
            if bad:
                self._bad.add_lines(progress, block, bad, starts[index])
            nobodys = shaped.unrouted[unrouted[index] : unrouted[index + 1]]
            if len(nobodys):
                keeps = self._spec.unrouted == "quarantine"
                self._bad.add_unrouted(progress, block, nobodys, starts[index], keeps=keeps)
            good, left_out = int(rows[index + 1] - rows[index]), int(filtered[index + 1] - filtered[index])
            progress.rows += good
            progress.filtered += left_out
            progress.blank += block.lines - good - len(bad) - left_out
        if parsed.table.num_rows + len(parsed.bad) + len(parsed.filtered) + parsed.blank != parsed.lines:
            raise RuntimeError(f"{parsed.lines} lines became {parsed.table.num_rows} rows")
        self._noticed.add(parsed)
        self._writer.write(table)

    def _shape(self, blocks: ParsedBlocks, parts: Sequence[Part]) -> Routed:
        """What the target makes of the parsed lines, before columns that are not read from the records are filled:
        first `where`, then the transform. A step may only turn rows into `filtered` or `bad` lines, or change their
        columns."""
        found = blocks[self._steps.parsing]
        routed = self._route(found, blocks, parts)
        if self._spec.transform is not None:
            routed = replace(routed, parsed=self._transform(routed.parsed))
        if routed.parsed.table.num_rows == found.table.num_rows:
            return routed
        return replace(routed, parsed=self._count_again(routed.parsed, parts))

    def _route(self, parsed: ParsedBlock, blocks: ParsedBlocks, parts: Sequence[Part]) -> Routed:
        steps = self._steps
        if steps.routing is None:
            return Routed(parsed=parsed)
        line = line_bytes_of(lambda: join_blocks(part.block for part in parts))
        judged = None if steps.judged is None else blocks[steps.judged]
        return steps.routing.apply(parsed, judged, line)

    def _transform(self, parsed: ParsedBlock) -> ParsedBlock:
        try:
            if self._transforming is None:
                self._transforming = transforming_of(self._spec, gives_up=self._stamp.sequence == 1)
            return self._transforming.apply(parsed)
        except TransformStopped as e:
            raise TargetStopped(e.failure) from e

    def _complete(self, parsed: ParsedBlock, parts: Sequence[Part], starts: list[int]) -> tuple[ParsedBlock, pa.Table]:
        """The rows of the table. A record with a column that cannot be filled is bad."""
        layout = self._spec.layout
        kept = join_blocks([part.block for part in parts]) if layout.keeps_raw else None
        while True:
            row_lines = parsed.lines_of_rows
            rows = np.searchsorted(row_lines, starts)
            origins = [
                RowOrigin(
                    path=piece.path,
                    etag=piece.etag,
                    line_numbers=row_lines[rows[index] : rows[index + 1]] - starts[index] + block.first_line,
                )
                for index, (piece, block) in enumerate(parts)
            ]
            try:
                texts = None if kept is None else line_texts(kept, row_lines)
                return parsed, complete_table(parsed.table, layout, origins, self._stamp, texts)
            except UnusableOrigin as e:
                if e.line is None:
                    raise RuntimeError(f"{e.path} was checked, and now: {e}") from e
                parsed = self._count_again(_without_rows(parsed, e), parts)

    def _count_again(self, parsed: ParsedBlock, parts: Sequence[Part]) -> ParsedBlock:
        """Without what was met on lines that are no rows now: it is in quarantine or filtered, and not ignored or
        cut."""
        if parsed.undeclared == parsed.cut_times == NOTHING:
            return parsed
        lines = join_blocks([part.block for part in parts]).split(b"\n")
        good = b"".join(lines[index] + b"\n" for index in parsed.lines_of_rows.tolist())
        met = self._parser.parse_again(good, self._steps.parsing)
        return replace(parsed, undeclared=met.undeclared, cut_times=met.cut_times, observed=met.observed)

    # The end.

    def close(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """The files of the rows, and those of the bad records."""
        return self._writer.close(), self._quarantine.close()

    def report(self, slot: int, files: tuple[DataFile, ...], quarantine: tuple[DataFile, ...]) -> TaskReport:
        return TaskReport(
            slot=slot,
            slices=tuple(progress.report() for progress in self._slices.values()),
            files=files,
            bytes_read=self._bytes_read,
            changed=tuple(self._changed),
            unreadable=tuple(self._retried),
            quarantine=quarantine,
            rescued=self._noticed.rescued,
            undeclared=self._noticed.undeclared,
            cut_times=self._noticed.cut_times,
            reasons=self._bad.reasons,
            siblings=self._siblings,
            parser=self._parser.name(self._steps.parsing),
            doubtful=self._noticed.doubtful,
            observed=self._noticed.observed,
        )


def _without_rows(parsed: ParsedBlock, error: UnusableOrigin) -> ParsedBlock:
    """These rows as bad lines."""
    row_lines = parsed.lines_of_rows
    # `BadRecords` takes the bytes and their place from the block.
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
