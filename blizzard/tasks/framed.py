"""The records of a slice, however they lie in the file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from blizzard.core.compression import encoding_in
from blizzard.core.framing import LINES, UTF8
from blizzard.core.kinds import Kind
from blizzard.core.lists import first_of
from blizzard.core.types import Slice
from blizzard.source.decode import ByteStream, DecodedStream, UnreadableSource, open_stream
from blizzard.source.framing import Records, open_records, wrapper_columns
from blizzard.tasks.spec import TaskSpec


@contextmanager
def open_piece(spec: TaskSpec, piece: Slice, begun: int | None = None) -> Iterator[DecodedStream]:
    """In the encoding that its first records were read in, if records of it were read before. `begun` is how many, if
    there may be more than the slice leaves out: another target has them."""
    begun = piece.from_record if begun is None else begun
    encoding = encoding_in(piece.encoding) if begun else spec.encoding
    with ExitStack() as opened:
        try:
            stream = opened.enter_context(open_stream(spec.source, piece, spec.compression, encoding))
        except UnreadableSource as e:
            if e.kind != Kind.WRONG_ENCODING or not begun or piece.encoding != UTF8:
                raise
            # The setting alone would not help: it is for files that are not begun.
            raise UnreadableSource(
                e.kind,
                f"{e}, and begin it again, because an older release read its {first_of(begun, 'record')} as"
                f" {piece.encoding}, and took them for bad: {_begin_again(piece)}",
            ) from e
        yield stream


def check_reading(stream: DecodedStream, piece: Slice, begun: int) -> None:
    """Raises if the records that are committed were counted in a text that was decoded in another way."""
    if begun and stream.reading != piece.encoding:
        raise UnreadableSource(
            Kind.WRONG_COMPRESSION,
            f"an older release read its {first_of(begun, 'record')} as {piece.encoding}, and took its bytes for bad"
            f" lines; now it is {stream.reading}. To read it from its beginning:"
            f" {_begin_again(piece)}",
        )


def _begin_again(piece: Slice) -> str:
    return f"blizzard checkpoint reset --file {shlex.quote(piece.path)} --from-record 0 --yes"


def with_all_wrappers(specs: Mapping[str, TaskSpec]) -> dict[str, TaskSpec]:
    """The specs of all targets of a run, each with the columns of the others: whoever takes part in a read, and whoever
    does not, `auto` sees the same records in a file."""
    names = tuple(sorted({name for spec in specs.values() for name in wrapper_columns(spec.record_schema)}))
    return {name: replace(spec, wrapper_columns=names) for name, spec in specs.items()}


def records_of(specs: Sequence[TaskSpec], stream: ByteStream, piece: Slice) -> Records:
    """A key that is a column of one of the targets is not unwrapped by `auto`."""
    columns = [name for spec in specs for name in (*wrapper_columns(spec.record_schema), *spec.wrapper_columns)]
    return open_records(stream, piece.framing, block_bytes=specs[0].block_bytes, columns=columns)


def counted_in(framing: str) -> str:
    """What a number in a message counts."""
    return "line" if framing == LINES else "record"
