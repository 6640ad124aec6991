"""Reads a sample of a source: some records of some files, spread evenly over all of them (`source/spread.py`).

Nothing here is fatal: a line that is not a record and a file that cannot be read are counted and skipped. Reading of a
file stops as soon as its share is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from blizzard.core.bad import NotARecord
from blizzard.core.framing import LINES
from blizzard.core.types import Slice, SourceFile
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.source.framing import open_records
from blizzard.source.lines import Block, ShorterThanBefore
from blizzard.source.spread import SampleLimits, rounds, some_of
from blizzard.source.uri import SourceLocation

Record: TypeAlias = dict[str, Any]

_BLOCK_BYTES = 256 * 1024
_BOM = b"\xef\xbb\xbf"
_WHITESPACE = b" \t\r"


@dataclass(slots=True, kw_only=True)
class Sample:
    """Reads records once, and counts as it goes."""

    source: SourceLocation
    listing: Sequence[SourceFile]
    compression: str
    max_record_bytes: int
    limits: SampleLimits
    parse: Callable[[bytes], Record]  # raises NotARecord
    encoding: str = "auto"
    framing: str = LINES  # or `auto`
    now_s: Callable[[], float] = time.monotonic

    records: int = 0
    files: int = 0
    bad_lines: int = 0
    first_bad_line: str | None = None
    skipped_files: list[str] = field(default_factory=list)  # with the reason
    _bytes: int = 0
    _looked_at: int = 0  # lines of the file that is being read
    # Files that have more records than their share: how many lines were looked at.
    _unfinished: dict[int, int] = field(default_factory=dict)

    @property
    def chosen(self) -> list[int]:
        """The files that are looked at first."""
        return next(rounds(len(self.listing), self.limits), [])

    def read(self) -> Iterator[Record]:
        """Until there are enough records. However large the first files are, there is something of every chosen one."""
        started_s, looked_at = self.now_s(), set[int]()
        for number, chosen in enumerate(rounds(len(self.listing), self.limits)):
            is_late = number > 0 and self.now_s() - started_s > self.limits.seconds
            if not self._room or is_late:
                break
            while chosen and self._room > 0:
                part, chosen = some_of(chosen, self._room)  # noqa: PLW2901
                looked_at.update(part)
                yield from self._read_files(part)
        while self._unfinished and self._room > 0:  # one that has no more leaves its share to the others
            unfinished, self._unfinished = self._unfinished, {}
            yield from self._read_files(list(unfinished), unfinished)
        if not self.records:
            # Without a record nothing can be said about the source: look at all others, one by one.
            for position in range(len(self.listing)):
                if position not in looked_at and not self.records:
                    yield from self._read_files([position])

    def _read_files(self, chosen: Sequence[int], looked_at: Mapping[int, int] | None = None) -> Iterator[Record]:
        for i, position in enumerate(chosen):
            # If a file is shorter than its share, the rest goes to the files after it.
            left = len(chosen) - i
            records, size = -(-self._room // left), (self.limits.bytes - self._bytes) // left
            if records <= 0 or (size <= 0 and self.records):
                return
            skip = (looked_at or {}).get(position, 0)
            yield from self._read_file(position, records, self._bytes + size, skip)

    @property
    def _room(self) -> int:
        # Bad lines count, so that a file full of them is not read to its end.
        return self.limits.records - self.records - self.bad_lines

    def _read_file(self, position: int, share: int, last_byte: int, skip: int) -> Iterator[Record]:
        file = self.listing[position]
        piece = Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
        stop_at = self._room - share
        try:
            with open_stream(self.source.store, piece, self.compression, self.encoding) as stream:
                records = open_records(stream, self.framing, block_bytes=_BLOCK_BYTES)
                for block in records.blocks(max_record_bytes=self.max_record_bytes, skip=skip):
                    self._bytes += len(block.data)
                    yield from self._read_block(block, file.path, stop_at)
                    if self._room <= stop_at or self._bytes >= last_byte:
                        self._unfinished[position] = self._looked_at
                        break
            self.files += not skip
        except (UnreadableSource, ShorterThanBefore, OSError) as e:
            self.skipped_files.append(f"{file.path}: {e}")

    def _read_block(self, block: Block, path: str, stop_at: int) -> Iterator[Record]:
        self._looked_at = block.first_line
        if block.too_long is not None:
            self._looked_at += 1
            self._count_bad(f"{path} line {block.first_line + 1}: {block.too_long}")
            return
        data = block.data.removeprefix(_BOM) if block.first_line == 0 else block.data
        for i, line in enumerate(data.split(b"\n")):
            if not line.strip(_WHITESPACE):
                continue
            if self._room <= stop_at:
                return
            self._looked_at = block.first_line + i + 1
            try:
                record = self.parse(line)
            except NotARecord as e:
                self._count_bad(f"{path} line {block.first_line + i + 1}: {e}")
            else:
                self.records += 1
                yield record

    def _count_bad(self, what: str) -> None:
        self.bad_lines += 1
        self.first_bad_line = self.first_bad_line or what
