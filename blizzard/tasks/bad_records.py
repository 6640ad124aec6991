"""The bad records of one target in a task: counted against its policy, told by reason, kept in its quarantine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blizzard.core.bad import BadPolicy
from blizzard.core.kinds import Kind, LineKind
from blizzard.core.reasons import NO_REASONS, Reason, bad_lines
from blizzard.source.lines import Block, Positions
from blizzard.tasks.parsed import BadLine
from blizzard.tasks.progress import Progress
from blizzard.tasks.quarantine import BadRow, BadRows, BadRowWriter

_UNROUTED = "the where of no target selects it"


class BadRecords:
    def __init__(self, policy: BadPolicy, quarantine: BadRowWriter) -> None:
        self._policy, self._quarantine = policy, quarantine
        self._count = 0
        self.reasons = NO_REASONS

    def add_long_line(self, progress: Progress, block: Block) -> None:
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
        if self._policy.keeps_bad_records:
            progress.cut += not row.complete
            self._quarantine.add(row)

    def add_lines(self, progress: Progress, block: Block, bad: Sequence[BadLine], first: int) -> None:
        """`first` is the index of the block's first line among all that were parsed together."""
        indexes = np.array([line.number for line in bad]) - first
        lines = (indexes + block.first_line + 1).tolist()
        self._count_bad(progress, len(bad), lambda i: (lines[i], bad[i].kind, bad[i].message))
        met = ((number, _reason(line), line.message) for number, line in zip(lines, bad, strict=True))
        self.reasons = self.reasons.merge(bad_lines(progress.piece.path, met))
        if self._policy.keeps_bad_records:
            self._keep(progress, block, indexes, bad)

    def add_unrouted(self, progress: Progress, block: Block, unrouted: Positions, first: int, *, keeps: bool) -> None:
        """Records that no target takes. They are not bad, so no policy about bad records is asked."""
        progress.unrouted += len(unrouted)
        if keeps:
            lines = [
                BadLine(number=int(number), kind=LineKind.UNROUTED, message=_UNROUTED, column=None, raw=b"", offset=0)
                for number in unrouted
            ]
            self._keep(progress, block, unrouted - first, lines)

    def _keep(self, progress: Progress, block: Block, indexes: Positions, bad: Sequence[BadLine]) -> None:
        lines = (indexes + block.first_line + 1).tolist()
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

    def _count_bad(self, progress: Progress, count: int, show: Callable[[int], tuple[int, str, str]]) -> None:
        """Raises if the policy allows none, or not so many. `show` gives line, kind and message of one of them."""
        policy = self._policy
        if policy.records == "fail":
            line, kind, message = show(0)
            raise progress.stop(Kind.BAD_RECORD, line, f"{kind}: {message}")
        if policy.max_records is not None and self._count + count > policy.max_records:
            line, _, message = show(policy.max_records - self._count)
            said = f"more than {policy.max_records:,} bad records (bad_records.max_records); this one: {message}"
            raise progress.stop(Kind.TOO_MANY_BAD_RECORDS, line, said)
        progress.bad += count
        self._count += count


def _reason(line: BadLine) -> Reason:
    return line.reason or Reason(kind=line.kind, column=line.column)
