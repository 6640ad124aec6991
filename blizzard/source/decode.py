"""Reads one source file as a stream of UTF-8 text, and checks that it is the file that was listed.

What a file is, its bytes say: how it is compressed, in which encoding it is, and that it is no JSON at all. Never reads
a file whole into memory, and never takes a stream that ends early for a short file: that is an error.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader

from blizzard.core.compression import NONE, compression_by_name, name_reading
from blizzard.core.kinds import Kind
from blizzard.core.types import Slice
from blizzard.source.decompress import decompress
from blizzard.source.encodings import UTF8, Transcoded, find_encoding, settle_encoding
from blizzard.source.recognise import HEAD_BYTES, find_codec, find_other_kind, is_cut_off, may_be_json
from blizzard.source.stream import ByteStream, Peekable, UnreadableSource
from blizzard.store.files import FileChanged, FileUnavailable, Store

__all__ = ["ByteStream", "DecodedStream", "UnreadableSource", "open_stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedStream:
    """The text of a file, and what it was read with: `encoding` is never `auto` or `utf-16` if the file has a byte."""

    file: BufferedReader
    stream: ByteStream
    compression: str
    encoding: str

    @property
    def reading(self) -> str:
        """For the position: a count of records means nothing if the file is decoded in another way."""
        return name_reading(self.encoding, self.compression)

    @property
    def stored_bytes(self) -> int:
        """How many bytes of the file were read, as it is stored. Another thread may be reading it: that of the buffer
        around it would have to be waited for."""
        return self.file.raw.tell()

    def read(self, size: int, /) -> bytes:
        with _as_unreadable():
            return self.stream.read(size)


@contextmanager
def open_stream(store: Store, piece: Slice, compression: str, encoding: str = "auto") -> Iterator[DecodedStream]:
    """The text of exactly the file that was listed. An error of the caller passes as it is: only opening, reading and
    closing the file can make it an unreadable one."""
    with ExitStack() as opened:
        with _as_unreadable():
            file = opened.enter_context(store.open_pinned(piece))
            stream = _decode(file, piece.path, compression, encoding)
        yield stream
        with _as_unreadable():
            opened.close()


@contextmanager
def _as_unreadable() -> Iterator[None]:
    try:
        yield
    except FileChanged as e:
        raise UnreadableSource(Kind.SOURCE_CHANGED, str(e)) from e
    except FileUnavailable as e:
        raise UnreadableSource(e.kind, str(e)) from e


def _decode(file: BufferedReader, name: str, compression: str, encoding: str) -> DecodedStream:
    codec = _codec_of(file.peek(HEAD_BYTES)[:HEAD_BYTES], name, compression)
    stream = Peekable(decompress(file, codec))
    _check_kind(stream.peek(HEAD_BYTES), name, codec)
    found = settle_encoding(stream.peek(HEAD_BYTES), encoding)
    if found != UTF8:
        stream = Peekable(Transcoded(stream, found))
        _check_kind(stream.peek(HEAD_BYTES), name, codec)
    return DecodedStream(file=file, stream=stream, compression=codec, encoding=found)


def _codec_of(head: bytes, name: str, compression: str) -> str:
    """How the file is compressed. A name that says otherwise does not matter, unless the file is no JSON either."""
    found, said = find_codec(head), compression if compression != "auto" else compression_by_name(name)
    if not head:
        return NONE  # an empty file has no records, whatever its name says
    if found is None and said != NONE and is_cut_off(head, said):
        return said
    if compression not in ("auto", found or NONE):
        _check_kind(head, name, NONE)
        what = f"the file is {found}" if found is not None else f"the file is not {said}"
        raise UnreadableSource(
            Kind.WRONG_COMPRESSION, f"{what}, though source.compression says {said}; to read it leave the key out"
        )
    if found is None and said != NONE:
        _check_kind(head, name, NONE)
        if not may_be_json(head) and find_encoding(head) is None:
            raise UnreadableSource(
                Kind.WRONG_COMPRESSION, f"the file is neither {said}, as its name says, nor JSON text; replace it"
            )
    return found or NONE


def _check_kind(head: bytes, name: str, codec: str) -> None:
    """Raises if this is certainly no JSON. What it is must not be read line by line into quarantine."""
    twice = find_codec(head) if codec != NONE else None
    what = f"{twice} inside of {codec}: it was compressed twice" if twice is not None else find_other_kind(head)
    if what is None:
        return
    if twice is None and codec != NONE:
        what += f" inside of {codec}"
    raise UnreadableSource(
        Kind.OTHER_KIND,
        f"{what}, not lines of JSON; move it away, narrow source.pattern, or leave it out for good: blizzard checkpoint"
        f" skip --file {shlex.quote(name)} --yes",
    )
