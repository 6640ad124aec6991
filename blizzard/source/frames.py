"""Cuts a stream whose records are not one a line into blocks of lines, one for each record. Memory is bounded.

Newlines in a record become spaces. In a string none may stand: there it becomes another character that may not, so the
record stays bad and stays one line. The bytes of the file are kept beside the lines for the quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from blizzard import native
from blizzard.core.framing import CONCATENATED
from blizzard.core.kinds import Kind
from blizzard.core.tally import OTHERS, Tally, tally
from blizzard.source.decode import ByteStream, UnreadableSource
from blizzard.source.frame_scan import EXPECTED, OTHER_NAMES, Scanner, make_scanner
from blizzard.source.lines import KEPT_OF_A_LONG_LINE, Block, LongLine, Positions, ShorterThanBefore
from blizzard.source.structure import newlines_in_strings

# A control character like the newline: JSON allows neither in a string.
_INSTEAD_OF_NEWLINE = ord("\v")
_NONE: Positions = np.empty(0, np.int64)
# How many records came before it, its key, how often.
Sibling: TypeAlias = tuple[int, bytes, int]
_MANY_SIBLINGS = 5_000


@dataclass(frozen=True, kw_only=True)
class FramedBlock(Block):
    """Records as lines. `raw` is the part of the file that they are in, `first_byte` its place; `starts` and `ends` are
    places in `raw`."""

    raw: bytes = b""
    starts: Positions = field(default_factory=lambda: _NONE, compare=False)
    ends: Positions = field(default_factory=lambda: _NONE, compare=False)
    siblings: Sequence[Sibling] = ()

    @property
    def held_bytes(self) -> int:
        return len(self.data) + len(self.raw)

    def head(self, count: int) -> Block:
        return replace(
            self,
            data=super().head(count).data,
            lines=count,
            last=False,
            starts=self.starts[:count],
            ends=self.ends[:count],
            siblings=[sibling for sibling in self.siblings if sibling[0] < self.first_line + count],
        )

    def tail(self, count: int) -> Block:
        return replace(
            self,
            data=super().tail(count).data,
            lines=self.lines - count,
            first_line=self.first_line + count,
            starts=self.starts[count:],
            ends=self.ends[count:],
            siblings=[sibling for sibling in self.siblings if sibling[0] >= self.first_line + count],
        )

    def originals(self, indexes: Positions) -> tuple[list[int], list[bytes]]:
        starts, ends = self.starts[indexes], self.ends[indexes]
        raws = [self.raw[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return (starts + self.first_byte).tolist(), raws


def siblings_of(block: Block) -> Tally:
    """The values beside the array of `array:KEY`, by their keys."""
    met = block.siblings if isinstance(block, FramedBlock) else ()
    return tally(
        (OTHERS if name == OTHER_NAMES else (name.decode(errors="backslashreplace"),), count) for _, name, count in met
    )


def read_frames(
    stream: ByteStream, framing: str, *, block_bytes: int, max_record_bytes: int, skip: int = 0, first_byte: int = 0
) -> Iterator[Block]:
    """Blocks of about `block_bytes`, from record `skip` on. Raises UnreadableSource where the frame is broken, after
    all blocks before that. One block is held back, so that the last knows that it is the last."""
    cutter = _Cutter(
        scanner=make_scanner(framing, first_byte), skip=skip, max_record_bytes=max_record_bytes, byte=first_byte
    )
    held: Block | None = None
    while cutter.broken is None and (chunk := stream.read(block_bytes)):
        for block in cutter.cut(chunk):
            if held is not None:
                yield held
            held = block
    broken = cutter.broken or cutter.why_not_ended(framing)
    if broken is None and cutter.records < skip:
        raise ShorterThanBefore(cutter.records, skip, "records")
    if broken is None and (held is not None or cutter.siblings):
        held = cutter.last_block(held)
    if held is not None:
        yield held
    if broken is not None:
        raise broken


def count_records(stream: ByteStream, framing: str, *, block_bytes: int, first_byte: int = 0) -> Iterator[int]:
    """How many whole records there are up to the end of each chunk. Raises like `read_frames`."""
    scanner, records = make_scanner(framing, first_byte), 0
    while chunk := stream.read(block_bytes):
        found = scanner.scan(chunk)
        records += len(found.starts)
        yield records
        if found.error is not None:
            raise _garbage(found.error, records, chunk, first_byte)
        first_byte += len(chunk)
    if not scanner.is_between:
        raise _cut_off(framing, records)


@dataclass(slots=True, kw_only=True)
class _Cutter:
    scanner: Scanner
    skip: int
    max_record_bytes: int
    byte: int  # of the file, where the next chunk begins
    records: int = 0  # that have ended
    broken: UnreadableSource | None = None
    siblings: list[Sibling] = field(default_factory=list)  # not yet given to a block
    # The record that has begun and not ended: where, its bytes so far, and the newlines in its strings.
    _open_at: int = 0
    _carry: list[bytes] = field(default_factory=list)
    _newlines: Positions = field(default_factory=lambda: _NONE)
    _long_head: bytes | None = None  # it is longer than allowed: only this is kept of it

    def cut(self, chunk: bytes) -> Iterator[Block]:
        found = self.scanner.scan(chunk)
        self._add_siblings(found.siblings)
        if len(found.string_newlines):
            self._newlines = np.concatenate([self._newlines, found.string_newlines])
        starts, ends = found.starts, found.ends
        if len(starts) and self._long_head is not None:
            yield from self._long_block(int(starts[0]), int(ends[0]), self._long_head)
            starts, ends, self._long_head = starts[1:], ends[1:], None
        if len(starts):
            is_carried = bool(self._carry)
            first = self._open_at if is_carried else self.byte
            whole = memoryview(chunk)[: max(0, int(ends[-1]) - self.byte)]
            raw = b"".join((*self._carry, whole)) if is_carried else chunk
            self._carry = []
            yield from self._blocks(raw, first, starts, ends)
        if found.error is not None:
            self.broken = _garbage(found.error, self.records, chunk, self.byte)
            return
        self._carry_on(chunk, found.open_at)
        self.byte += len(chunk)

    def _carry_on(self, chunk: bytes, open_at: int | None) -> None:
        if open_at is None:
            self._carry, self._long_head, self._newlines = [], None, _NONE
            return
        if open_at >= self.byte:
            self._open_at, self._carry = open_at, [chunk[open_at - self.byte :]]
            self._newlines = self._newlines[self._newlines >= open_at]
        elif self._long_head is None:
            self._carry.append(chunk)
        if self._long_head is None and self.byte + len(chunk) - open_at > self.max_record_bytes:
            self._long_head = b"".join(self._carry)[:KEPT_OF_A_LONG_LINE]
            self._carry = []
        if self._long_head is not None:
            self._newlines = _NONE

    def _blocks(self, raw: bytes, first: int, starts: Positions, ends: Positions) -> Iterator[Block]:
        """Records that are too long stand alone."""
        starts, ends = starts - first, ends - first
        long = np.flatnonzero(ends - starts > self.max_record_bytes)
        edges = np.unique(np.concatenate([[0, len(starts)], long, long + 1])).tolist()
        for begin, end in pairwise(edges):
            start, stop = int(starts[begin]), int(ends[begin])
            if stop - start > self.max_record_bytes:
                head = raw[start : min(stop, start + KEPT_OF_A_LONG_LINE)]
                yield from self._long_block(first + start, first + stop, head)
            else:
                yield from self._block(raw, first, starts[begin:end], ends[begin:end])

    def _block(self, raw: bytes, first: int, starts: Positions, ends: Positions) -> Iterator[Block]:
        skipped = min(len(starts), max(0, self.skip - self.records))
        self.records += skipped
        starts, ends = starts[skipped:], ends[skipped:]
        if not len(starts):
            return
        newlines = self._newlines - first
        line, self.records = self.records, self.records + len(starts)
        yield FramedBlock(
            data=join_records(raw, starts, ends, newlines),
            lines=len(starts),
            first_line=line,
            first_byte=first,
            last=False,
            raw=raw,
            starts=starts,
            ends=ends,
            siblings=self._take_siblings(),
        )

    def _long_block(self, start: int, end: int, head: bytes) -> Iterator[Block]:
        self.records += 1
        if self.records <= self.skip:
            return
        yield FramedBlock(
            data=b"",
            lines=1,
            first_line=self.records - 1,
            first_byte=start,
            last=False,
            too_long=LongLine(head=head, size_bytes=end - start, limit_bytes=self.max_record_bytes),
            siblings=self._take_siblings(),
        )

    def last_block(self, held: Block | None) -> Block:
        """`held` is the last block with records. Without one, values beside an empty array may be left to report."""
        siblings, self.siblings = self.siblings, []
        if held is None:
            return FramedBlock(
                data=b"", lines=0, first_line=self.records, first_byte=self.byte, last=True, siblings=siblings
            )
        assert isinstance(held, FramedBlock)
        return replace(held, last=True, siblings=[*held.siblings, *siblings])

    def why_not_ended(self, framing: str) -> UnreadableSource | None:
        return None if self.scanner.is_between else _cut_off(framing, self.records)

    def _add_siblings(self, siblings: Sequence[Sibling]) -> None:
        """Those before record `skip` were reported when that was read."""
        self.siblings += [sibling for sibling in siblings if sibling[0] >= self.skip]
        if len(self.siblings) > _MANY_SIBLINGS:
            merged: dict[tuple[int, bytes], int] = {}
            for index, name, count in self.siblings:
                place = (
                    (index, name) if (index, name) in merged or len(merged) < _MANY_SIBLINGS else (index, OTHER_NAMES)
                )
                merged[place] = merged.get(place, 0) + count
            self.siblings = [(index, name, count) for (index, name), count in merged.items()]

    def _take_siblings(self) -> list[Sibling]:
        """Those that stand before the last record that has ended."""
        taken = [sibling for sibling in self.siblings if sibling[0] < self.records]
        self.siblings = [sibling for sibling in self.siblings if sibling[0] >= self.records]
        return taken


def _garbage(error: tuple[int, int], records: int, chunk: bytes, first_byte: int) -> UnreadableSource:
    place, expected = error
    byte = chunk[place - first_byte]
    shown = chr(byte) if 0x20 < byte < 0x7F else f"byte 0x{byte:02x}"
    return UnreadableSource(
        Kind.CORRUPT, f"after record {records:,}, at byte {place:,}, there is {shown} instead of {EXPECTED[expected]}"
    )


def _cut_off(framing: str, records: int) -> UnreadableSource:
    what = "a record" if framing == CONCATENATED else "an array or a record"
    return UnreadableSource(Kind.TRUNCATED, f"the file ends in the middle of {what}, after record {records:,}")


def join_records(raw: bytes, starts: Positions, ends: Positions, string_newlines: Positions) -> bytes:
    """Each record as one line."""
    if native.has_frame_scanner():
        return native.join_records(raw, starts.tobytes(), ends.tobytes(), string_newlines.tobytes())
    return join_records_in_python(raw, starts, ends, string_newlines)


def join_records_in_python(raw: bytes, starts: Positions, ends: Positions, string_newlines: Positions) -> bytes:
    flat = _without_newlines(raw, string_newlines)
    return b"".join([flat[start:end] + b"\n" for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])


def as_one_line(record: bytes) -> bytes:
    """A record as it is in the file, as the line that stands for it."""
    return _without_newlines(record, newlines_in_strings(record)) if b"\n" in record else record


def _without_newlines(raw: bytes, in_strings: Positions) -> bytes:
    in_strings = in_strings[(in_strings >= 0) & (in_strings < len(raw))]
    flat = raw.replace(b"\n", b" ")
    if not len(in_strings):
        return flat
    content = np.frombuffer(flat, np.uint8).copy()
    content[in_strings] = _INSTEAD_OF_NEWLINE
    made: bytes = content.tobytes()
    return made
