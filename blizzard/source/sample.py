"""Reads a sample of a source: some records of some files, spread evenly over all of them.

Nothing here is fatal: a line that is not a record and a file that cannot be read are counted and skipped. Reading of a
file stops as soon as its share is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from blizzard.core.bad import NotARecord
from blizzard.core.framing import LINES
from blizzard.core.types import Slice, SourceFile
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.source.framing import open_records
from blizzard.source.lines import Block
from blizzard.source.uri import SourceLocation

Record: TypeAlias = dict[str, Any]

_BLOCK_BYTES = 256 * 1024
_BOM = b"\xef\xbb\xbf"
_WHITESPACE = b" \t\r"


def spread(total: int, count: int) -> list[int]:
    """`count` indexes below `total` at even distances, with the first and the last."""
    if count >= total:
        return list(range(total))
    return [i * (total - 1) // max(count - 1, 1) for i in range(count)]


@dataclass(slots=True, kw_only=True)
class Sample:
    """Reads records once, and counts as it goes."""

    source: SourceLocation
    listing: Sequence[SourceFile]
    compression: str
    max_record_bytes: int
    max_records: int
    max_files: int
    parse: Callable[[bytes], Record]  # raises NotARecord
    framing: str = LINES  # or `auto`

    records: int = 0
    files: int = 0
    bad_lines: int = 0
    first_bad_line: str | None = None
    skipped_files: list[str] = field(default_factory=list)  # with the reason

    @property
    def chosen(self) -> list[int]:
        return spread(len(self.listing), min(self.max_files, self.max_records))

    def read(self) -> Iterator[Record]:
        chosen = self.chosen
        for i, position in enumerate(chosen):
            # If a file is shorter than its share, the rest goes to the files after it.
            share = -(-self._room // (len(chosen) - i))
            yield from self._read_file(self.listing[position], share)
        looked_at = set(chosen)
        for position, file in enumerate(self.listing):
            if self.records or not self._room:
                return
            # The chosen files gave no record: try the others.
            if position not in looked_at:
                yield from self._read_file(file, self._room)

    @property
    def _room(self) -> int:
        # Bad lines count, so that a file full of them is not read to its end.
        return self.max_records - self.records - self.bad_lines

    def _read_file(self, file: SourceFile, share: int) -> Iterator[Record]:
        piece = Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
        stop_at = self._room - share
        try:
            with open_stream(self.source.store, piece, self.compression) as stream:
                records = open_records(stream, self.framing, block_bytes=_BLOCK_BYTES)
                for block in records.blocks(max_record_bytes=self.max_record_bytes):
                    yield from self._read_block(block, file.path, stop_at)
                    if self._room <= stop_at:
                        break
            self.files += 1
        except (UnreadableSource, OSError) as e:
            self.skipped_files.append(f"{file.path}: {e}")

    def _read_block(self, block: Block, path: str, stop_at: int) -> Iterator[Record]:
        if block.too_long is not None:
            self._count_bad(f"{path} line {block.first_line + 1}: {block.too_long}")
            return
        data = block.data.removeprefix(_BOM) if block.first_line == 0 else block.data
        for i, line in enumerate(data.split(b"\n")):
            if not line.strip(_WHITESPACE):
                continue
            if self._room <= stop_at:
                return
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
