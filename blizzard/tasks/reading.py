"""Reads slices block by block, parses each block once for all targets, and hands it to those that want it.

What ends one target does not end the read. Nothing here decides what a line becomes: `taker.py` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from blizzard.core.framing import AUTO, LINES
from blizzard.core.kinds import Kind
from blizzard.core.types import Budget, Slice, TaskFailure
from blizzard.errors import BlizzardError, Temporary, failure_to_write, said
from blizzard.faults import reach
from blizzard.source.decode import DecodedStream, UnreadableSource
from blizzard.source.lines import Block, ShorterThanBefore, split_at
from blizzard.store import open_store
from blizzard.store.uri import is_local
from blizzard.tasks.ahead import Parse, ReadAhead
from blizzard.tasks.framed import check_reading, open_piece, records_of
from blizzard.tasks.live import Telling
from blizzard.tasks.parsings import BlockParser, ParsedBlocks
from blizzard.tasks.progress import BrokenFile, TargetStopped
from blizzard.tasks.raw_lines import join_blocks
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.taker import Part, Taker
from blizzard.tasks.target import Target

_T = TypeVar("_T")
NO_MARKERS: Mapping[str, str] = MappingProxyType({})
# How often a task looks for the end marker: in a store that is a request, on a disk it costs microseconds.
_LOOK_EVERY_S = 2.0
_LOOK_ON_DISK_EVERY_S = 0.1
# How far other threads may be ahead: the others must have work while a row group is encoded, and a worker stays small.
AHEAD_BYTES = 32 * 1024 * 1024


class _Place:
    """How far one slice has been read, for whichever target."""

    def __init__(self, piece: Slice, takers: Sequence[Taker]) -> None:
        self.piece, self.takers = piece, takers
        self.firsts = [taker.target.wanted[piece.path] for taker in takers]
        self.begun = max(self.firsts)  # so many records of it have been taken before, by one target at least
        self.reached, self.is_finished = piece.from_record, True  # stays so if the file has no line left
        self.framing = piece.framing if self.begun else LINES

    def broken(self, kind: Kind, message: str) -> BrokenFile:
        return BrokenFile(self.piece, kind, message, self.reached, self.framing)


class Reading:
    """Small blocks are gathered until they have half of `block_bytes`: each call of the parser costs about 2 ms
    (measured), and thousands of small files would make thousands of calls.

    With more than one thread, blocks are read and parsed ahead by others. They take effect here, one after the other,
    and so does every limit: the same lines are read, and reported, with any number of threads."""

    def __init__(
        self,
        targets: Sequence[Target],
        takers: Sequence[Taker],
        parsers: Sequence[BlockParser],
        budget: Budget,
        telling: Telling,
        end_markers: Mapping[str, str] = NO_MARKERS,
    ) -> None:
        """`targets` are all of the task, also those that have failed before and have no taker. `parsers`: one for each
        thread that parses. One thread reads, and the one that encodes parses when it has to wait. `end_markers`: by
        target, the file in its table's folder that asks to end."""
        self._targets, self._takers, self._parsers, self._budget = targets, takers, parsers, budget
        self._telling = telling
        self._specs = [target.spec for target in targets]
        self._end_markers, self._looked_at = end_markers, time.monotonic()
        on_disk = all(is_local(spec.table_root) for spec in self._specs)
        self._look_every_s = _LOOK_ON_DISK_EVERY_S if on_disk else _LOOK_EVERY_S
        self._gathered: list[Part] = []
        self._gathered_for: tuple[Taker, ...] = ()
        self._gathered_bytes = 0
        self._records = 0
        self._deadline: float | None = None

    @property
    def _source(self) -> TaskSpec:
        """Any of them: what they say about the source is the same."""
        return self._specs[0]

    @property
    def has_active(self) -> bool:
        return any(taker.is_active for taker in self._takers)

    def exhausted(self) -> bool:
        late = self._deadline is not None and time.monotonic() >= self._deadline
        written = max((taker.written_bytes for taker in self._takers if taker.is_active), default=0)
        full = self._records_left() == 0 or written >= self._budget.output_bytes
        return late or full or self._is_asked_to_end()

    def _is_asked_to_end(self) -> bool:
        """Only after something new was read: an attempt that reads nothing would be repeated for ever."""
        if not self._end_markers or not self._records or time.monotonic() - self._looked_at < self._look_every_s:
            return False
        self._looked_at = time.monotonic()
        if not any(self._sees_marker(target) for target in self._targets):
            return False
        self._deadline = self._looked_at  # so that it is not asked again
        return True

    def _sees_marker(self, target: Target) -> bool:
        """In the folder of a target that has failed too: the driver may have put it there."""
        name = self._end_markers.get(target.name)
        if name is None:
            return False
        look = partial(_is_there, target.spec, name)
        taker = next((taker for taker in self._takers if taker.target is target and taker.is_active), None)
        if taker is not None:
            return self.let(taker, look) or False
        with suppress(OSError, BlizzardError):
            return look()
        return False

    def let(self, taker: Taker, step: Callable[[], _T]) -> _T | None:
        """What ends this target ends no other. A task of one target raises what may pass, so that Spark tries again;
        with several that would take the others' work away."""
        try:
            return step()
        except TargetStopped as e:
            taker.fail(e.failure)
        except (OSError, BlizzardError) as e:
            # A source file that cannot be read raises BrokenFile, so this is about a file being written.
            failure = _failure_to_write(taker.target.spec, e, is_alone=len(self._specs) == 1)
            if failure is None:
                raise
            taker.fail(failure)
        return None

    def read(self, piece: Slice) -> None:
        """Read one slice to its end, or until the budget is used up; at least one block. Raises BrokenFile if the file
        is broken and rows of it may already be among those of others."""
        takers = tuple(taker for taker in self._takers if taker.wants(piece))
        if not takers:
            return
        place = _Place(piece, takers)
        for taker in takers:
            taker.begin(piece)
        try:
            with (
                open_piece(self._source, piece, place.begun) as stream,
                self._blocks(stream, place) as blocks,
            ):
                for whole_block, parse in blocks:
                    block = self._cut(whole_block)
                    self._gather(place, block, parse if block is whole_block else None)
                    self._telling.take(block, stream)
                    reach("task.block")
                    if not any(taker.wants(piece) for taker in takers) or (not block.last and self.exhausted()):
                        break
        except UnreadableSource as e:
            self._break(place, place.broken(e.kind, str(e)))
        except ShorterThanBefore as e:
            place.reached = e.lines
            self._end(place)
        else:
            self._end(place)

    def _end(self, place: _Place) -> None:
        self._telling.end_file(place.piece, finished=place.is_finished)
        for taker in place.takers:
            if taker.wants(place.piece):
                taker.end(place.piece, place.reached, finished=place.is_finished)

    def _break(self, place: _Place, broken: BrokenFile) -> None:
        """Each target decides for itself."""
        asking = [taker for taker in place.takers if taker.wants(place.piece)]
        must_repeat = [taker.cannot_read(broken) for taker in asking]
        if any(must_repeat):
            raise broken
        self._telling.end_file(place.piece, finished=False)

    def _blocks(
        self, stream: DecodedStream, place: _Place
    ) -> AbstractContextManager[Iterator[tuple[Block, Parse | None]]]:
        """The blocks, with the way to the rows of those that others parse. A target begins where a block begins."""
        piece = place.piece
        if place.begun and piece.framing == AUTO:
            raise RuntimeError(f"{piece.path}: {place.begun} records were read, and the plan does not say how they lie")
        check_reading(stream, piece, place.begun)
        records = records_of(self._specs, stream, piece)
        place.framing = records.framing
        for taker in place.takers:
            taker.opened(piece, records.framing, stream.reading)
        blocks = records.blocks(max_record_bytes=self._source.max_record_bytes, skip=piece.from_record)
        if place.begun > piece.from_record:
            blocks = split_at(blocks, place.firsts)
        if len(self._parsers) == 1:
            return nullcontext((block, None) for block in blocks)
        return ReadAhead(
            blocks,
            [partial(self._parse_ahead, parser, place) for parser in self._parsers],
            is_wanted=self._stands_alone,
            max_bytes=AHEAD_BYTES,
        )

    def _parse_ahead(self, parser: BlockParser, place: _Place, block: Block) -> ParsedBlocks:
        return parser.parse(block, _needed(taker for taker in place.takers if taker.wants_block(place.piece, block)))

    def finish(self, parse: Parse | None = None) -> None:
        """Parse what is still gathered. `parse` is for a block that stands alone."""
        parts, self._gathered, self._gathered_bytes = self._gathered, [], 0
        takers = [taker for taker in self._gathered_for if taker.is_active]
        if not parts or not takers:
            return
        if len(parts) > 1:
            parsed = self._parsers[0].parse_joined(join_blocks(part.block for part in parts), _needed(takers))
        else:
            parsed = parse() if parse is not None else self._parsers[0].parse(parts[0].block, _needed(takers))
        for taker in takers:
            self.let(taker, partial(taker.take, parsed, parts))

    def _stands_alone(self, block: Block) -> bool:
        return block.too_long is None and self._is_enough(len(block.data))

    def _is_enough(self, size_bytes: int) -> bool:
        return size_bytes >= self._source.block_bytes // 2

    def _records_left(self) -> int | None:
        return None if self._budget.max_records is None else self._budget.max_records - self._records

    def _cut(self, block: Block) -> Block:
        left = self._records_left()
        return block if left is None or left >= block.lines else block.head(left)

    def _gather(self, place: _Place, block: Block, parse: Parse | None) -> None:
        if self._deadline is None and self._budget.seconds is not None:
            # The time starts with the first new record: skipping committed records must not use it up.
            self._deadline = time.monotonic() + self._budget.seconds
        piece = place.piece
        place.reached, place.is_finished = block.first_line + block.lines, block.last
        self._records += block.lines
        for taker in place.takers:
            if taker.wants_block(piece, block):
                self.let(taker, partial(taker.advance, piece, block))
        if not block.lines or block.too_long is not None:
            return
        takers = tuple(taker for taker in place.takers if taker.wants_block(piece, block))
        if takers != self._gathered_for:
            self.finish()  # lines that are parsed together have the same takers
            self._gathered_for = takers
        self._gathered.append(Part(piece, block))
        self._gathered_bytes += len(block.data)
        if self._is_enough(self._gathered_bytes):
            self.finish(parse)


def _needed(takers: Iterable[Taker]) -> set[int]:
    return {number for taker in takers for number in taker.parsings}


def _is_there(spec: TaskSpec, name: str) -> bool:
    return open_store(spec.table_root, spec.table_access).stat(name) is not None


def _failure_to_write(spec: TaskSpec, error: OSError | BlizzardError, *, is_alone: bool) -> TaskFailure | None:
    """None: it is raised."""
    written = _written_to(spec, str(error))
    reason = failure_to_write(error, written) if isinstance(error, OSError) else None
    if reason is not None:
        return TaskFailure(kind=reason.kind, path=written, line=None, message=said(error))
    if is_alone:
        return None
    kind = error.kind if isinstance(error, BlizzardError) else Kind.TEMPORARY
    passes = isinstance(error, OSError | Temporary)
    return TaskFailure(kind=kind, path=written, line=None, message=str(error), passes=passes)


def _written_to(spec: TaskSpec, said: str) -> str:
    """Which of the two places an error is about. Both, if its text names neither."""
    roots = (spec.quarantine_root, spec.table_root)
    return next((root for root in roots if root in said), " or ".join(reversed(roots)))


def find_broken(targets: Sequence[Target], pieces: Sequence[Slice]) -> dict[str, BrokenFile]:
    """Which of these files cannot be read, without parsing a line of them."""
    specs = [target.spec for target in targets]
    broken = {}
    for piece in pieces:
        lines, framing = 0, LINES
        try:
            with open_piece(specs[0], piece, max(target.wanted.get(piece.path, 0) for target in targets)) as stream:
                records = records_of(specs, stream, piece)
                framing = records.framing
                for ended in records.count():
                    lines = ended
        except UnreadableSource as e:
            if e.kind != Kind.SOURCE_CHANGED:  # a changed file is not damaged
                broken[piece.path] = BrokenFile(piece, e.kind, str(e), max(lines, piece.from_record), framing)
    return broken
