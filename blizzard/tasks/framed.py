"""The records of a slice, however they lie in the file."""

from __future__ import annotations

from contextlib import AbstractContextManager

from blizzard.core.framing import LINES
from blizzard.core.types import Slice
from blizzard.source.decode import ByteStream, DecodedStream, open_stream
from blizzard.source.framing import Records, open_records
from blizzard.tasks.spec import TaskSpec


def open_piece(spec: TaskSpec, piece: Slice) -> AbstractContextManager[DecodedStream]:
    """In the encoding that its first records were read in, if records of it were read before."""
    return open_stream(spec.source, piece, spec.compression, piece.encoding if piece.from_record else spec.encoding)


def records_of(spec: TaskSpec, stream: ByteStream, piece: Slice) -> Records:
    columns = [field["name"] for field in spec.layout.record_schema["fields"]]
    return open_records(stream, piece.framing, block_bytes=spec.block_bytes, columns=columns)


def counted_in(framing: str) -> str:
    """What a number in a message counts."""
    return "line" if framing == LINES else "record"
