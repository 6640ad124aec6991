"""What a trial found: what tasks made of some records, without writing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.core.compression import NONE, compression_by_name
from blizzard.core.observed import FieldPath
from blizzard.core.types import BatchResult, Slice, TaskReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`slices` could be read; how far each was is in the result. `filled` is how many rows held a value, by column; the
    fields of a struct are columns of their own."""

    slices: tuple[Slice, ...]
    result: BatchResult
    filled: Mapping[FieldPath, int]
    first_rows: tuple[Mapping[str, Any], ...]
    seconds: float
    bytes_per_s: float | None = None  # of JSON, on one core; None: too little was read to say
    growth: float | None = None  # how many bytes of JSON one stored byte is, if that is known

    @property
    def records(self) -> int:
        """Blank lines are no records."""
        return self.result.rows + self.result.bad + self.result.filtered

    @property
    def is_whole(self) -> bool:
        """Whether every file was read to its end."""
        read = {report.path for report in self.result.slices if report.finished}
        return all(piece.path in read for piece in self.slices)


def growth_of(slices: Sequence[Slice], reports: Sequence[TaskReport]) -> float | None:
    """How many bytes of JSON one stored byte is. None: the files are compressed, and none was read to its end."""
    if all(compression_by_name(piece.path) == NONE for piece in slices):
        return 1.0
    read = stored = 0
    for report in reports:
        if all(s.finished and s.from_record == 0 and s.broken is None for s in report.slices):
            read += report.bytes_read
            stored += sum(s.size_bytes for s in report.slices)
    return read / stored if read and stored else None
