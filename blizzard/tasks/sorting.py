"""The lines of a block while it is decided which of them the fast path can read and which are for the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, compress
from operator import not_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import LineKind
from blizzard.source.lines import Positions
from blizzard.tasks.screen import Screen
from blizzard.tasks.syntax import WHITESPACE, LineError

_OPEN, _CLOSE = b"{}"
# So many lines tell whether a look at all of them is worth its time.
_SAMPLE_LINES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is not a record. `index` counts the lines of the block from 0, `offset` its bytes, both with the
    byte order mark; `kind` is stable."""

    index: int
    kind: LineKind
    message: str
    column: str | None
    raw: bytes
    offset: int


Piece: TypeAlias = list[tuple[int, bytes]]


@dataclass(slots=True, kw_only=True)
class Sorting:
    """The lines of a block while it is being decided which of them the fast path can read."""

    lines: list[bytes]
    blank: int = 0
    to_reference: list[int] = field(default_factory=list)
    _tables: list[Any] = field(default_factory=list)
    _indexes: list[Positions] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)

    @property
    def has_rows(self) -> bool:
        return bool(self._tables)

    def everything(self) -> Piece:
        """All lines that are not blank, stripped."""
        stripped = [(index, line.strip(WHITESPACE)) for index, line in enumerate(self.lines)]
        found = [(index, line) for index, line in stripped if line]
        self.blank = len(self.lines) - len(found)
        return found

    def records(self) -> Piece:
        """The lines from { to }; any other that is not blank is for the reference."""
        found = self.everything()
        return self._leave_out([line[0] != _OPEN or line[-1] != _CLOSE for _, line in found], found)

    def screen(self, pieces: list[Piece], screen: Screen) -> Piece:
        piece = [numbered for piece in pieces for numbered in piece]
        few = [line for _, line in piece[:: len(piece) // _SAMPLE_LINES + 1]]
        if len(screen.find_suspects(few)) == len(few):
            return self._leave_out([True] * len(piece), piece)  # no use in looking at the others
        suspects = set(screen.find_suspects([line for _, line in piece]))
        return self._leave_out([row in suspects for row in range(len(piece))], piece)

    def keep_all_but(self, suspects: list[int], read: Callable[[bytes], pa.Table]) -> None:
        """Read all lines at once but these, which are blank or for the reference."""
        good: list[bytes] = []
        start = 0
        for index in suspects:
            good += self.lines[start:index]
            start = index + 1
        good += self.lines[start:]
        if good:
            self.keep(read(b"\n".join(good)), np.delete(np.arange(len(self.lines)), suspects))
        self.to_reference = [index for index in suspects if self.lines[index].strip(WHITESPACE)]
        self.blank = len(suspects) - len(self.to_reference)

    def _leave_out(self, is_suspect: list[bool], piece: Piece) -> Piece:
        self.to_reference += [index for index, _ in compress(piece, is_suspect)]
        return list(compress(piece, map(not_, is_suspect)))

    def keep(self, table: pa.Table, indexes: list[int] | Positions) -> None:
        self._tables.append(table)
        self._indexes.append(np.array(indexes, dtype=np.int64))

    def bad_line(self, index: int, error: LineError, bom: bytes) -> BadLine:
        if not self._offsets:
            self._offsets = list(accumulate((len(line) + 1 for line in self.lines), initial=len(bom)))
        mark = bom if index == 0 else b""
        return BadLine(
            index=index,
            kind=error.kind,
            message=str(error),
            column=error.column,
            raw=mark + self.lines[index],
            offset=self._offsets[index] - len(mark),
        )

    def in_line_order(self) -> tuple[pa.Table, Positions]:
        if len(self._tables) == 1:
            return self._tables[0], self._indexes[0]
        table = pa.concat_tables(self._tables).combine_chunks()
        indexes = np.concatenate(self._indexes)
        if np.all(indexes[:-1] < indexes[1:]):
            return table, indexes
        order = np.argsort(indexes)
        return table.take(pa.array(order)), indexes[order]


def split_lines(data: bytes, starts_with_bom: bool) -> list[bytes]:
    if not data and not starts_with_bom:
        return []
    lines = data.split(b"\n")
    if data.endswith(b"\n"):
        lines.pop()
    return lines


def tidy(data: bytes) -> bytes:
    """The block without its empty lines, which are harmless and cheap to remove."""
    data = data.replace(b"\r\n", b"\n")
    while b"\n\n" in data:
        data = data.replace(b"\n\n", b"\n")
    return data.lstrip(b"\n")


def cut(piece: Piece, row: int | None) -> list[Piece]:
    """Smaller pieces. The suspect stands alone and the rest is halved, so that even if every line is bad the
    reader is called only about once for each few lines."""
    first = 0 if row is None else min(row + 1, len(piece))
    middle = (first + len(piece)) // 2
    parts = [piece[:middle], piece[middle:]]
    if row is not None:
        parts = [piece[: first - 1], piece[first - 1 : first], piece[first:middle], piece[middle:]]
    return [part for part in parts if part]
