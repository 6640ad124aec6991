"""How far a target has come in a slice, and the ends that a slice or a target can come to."""

from __future__ import annotations

from blizzard.core.framing import LINES
from blizzard.core.kinds import Kind
from blizzard.core.types import Slice, SliceReport, TaskFailure
from blizzard.tasks.framed import counted_in


class BrokenFile(Exception):
    """A file that cannot be read to its end."""

    def __init__(self, piece: Slice, kind: Kind, message: str, lines_read: int, framing: str = LINES) -> None:
        super().__init__(message)
        self.piece, self.kind, self.lines_read, self.counts = piece, kind, lines_read, counted_in(framing)

    @property
    def failure(self) -> TaskFailure:
        return TaskFailure(kind=self.kind, path=self.piece.path, line=None, message=str(self))


class TargetStopped(Exception):
    """What ends one target's part of the task, and no other's: a bad record, say, that its policy does not allow."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Progress:
    """How far one slice has been read for one target, and what its lines became."""

    def __init__(self, piece: Slice, *, broken: str | None = None) -> None:
        """`piece` begins at the first record that the target wants."""
        self.piece, self.broken = piece, broken
        self.to_record = piece.from_record
        self.finished = True  # stays so if the file has no line left
        self.rows = self.blank = self.bad = self.filtered = self.unrouted = self.cut = 0
        # Until the file is open, what it is read as is known only if records of it were read before.
        self.framing, self.encoding = (piece.framing if piece.from_record else LINES), piece.encoding

    @property
    def has_begun(self) -> bool:
        return self.to_record > self.piece.from_record

    def stop(self, kind: Kind, line: int, message: str) -> TargetStopped:
        counts = counted_in(self.framing)
        return TargetStopped(TaskFailure(kind=kind, path=self.piece.path, line=line, message=message, counts=counts))

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
            filtered=self.filtered,
            unrouted=self.unrouted,
            broken=self.broken,
            cut=self.cut,
            framing=self.framing,
            encoding=self.encoding,
        )
