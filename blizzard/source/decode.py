"""Reads one source file as a stream of decompressed bytes, and checks that it is the file that was listed.

Never reads a file whole into memory, and never takes a stream that ends early for a short file: that is an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Any, Protocol

import pyarrow as pa
from isal import igzip, isal_zlib

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice
from blizzard.store.files import FileChanged, FileUnavailable, Store

_GZIP_MAGIC = b"\x1f\x8b"
# A zstd file may begin with a skippable frame.
_ZSTD_MAGICS = frozenset([b"\x28\xb5\x2f\xfd", *(bytes([n, 0x2A, 0x4D, 0x18]) for n in range(0x50, 0x60))])


_DAMAGED_GZIP: Any = (zlib.error, isal_zlib.error, igzip.BadGzipFile)  # Any: isal's stubs type its error wrongly


class ByteStream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class UnreadableSource(Exception):
    """A source file that cannot be used. `kind` is stable."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def open_stream(store: Store, piece: Slice, compression: str) -> Iterator[ByteStream]:
    """The decompressed bytes of exactly the file that was listed."""
    try:
        with store.open_pinned(piece) as file:
            yield _decompress(file, piece.path, compression)
    except FileChanged as e:
        raise UnreadableSource(Kind.SOURCE_CHANGED, str(e)) from e
    except FileUnavailable as e:
        raise UnreadableSource(e.kind, str(e)) from e


def _decompress(file: BufferedReader, name: str, compression: str) -> ByteStream:
    head = file.peek(4)[:4]
    said = _by_name(name) if compression == "auto" else compression
    found = "gzip" if head.startswith(_GZIP_MAGIC) else "zstd" if head in _ZSTD_MAGICS else "none"
    if not head:
        return file  # an empty file has no records, whatever its name says
    if said != found:
        what = f"the file is {found}" if found != "none" else f"the file is not {said}"
        raise UnreadableSource(
            Kind.WRONG_COMPRESSION,
            f"{what}, though its name or source.compression says {said}; rename it or set the key",
        )
    match found:
        case "gzip":
            return _Gzip(file)
        case "zstd":
            return _Zstd(file)
        case _:
            return file


class _Gzip:
    """Reads all members of a file, and raises on a missing trailer or a wrong checksum."""

    def __init__(self, file: BufferedReader) -> None:
        self._stream = igzip.IGzipFile(fileobj=file, mode="rb")

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except EOFError as e:
            raise UnreadableSource(Kind.TRUNCATED, f"the file ends in the middle of its gzip stream: {e}") from e
        except _DAMAGED_GZIP as e:
            raise UnreadableSource(Kind.CORRUPT, f"the gzip stream is damaged: {e}") from e


class _Zstd:
    """Arrow's reader: it reads all frames and raises on a cut one. The package zstandard takes that for the end."""

    def __init__(self, file: BufferedReader) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except OSError as e:
            if e.errno is not None:
                raise  # from the disk, and worth a retry; Arrow's error about a damaged stream has no errno
            kind = Kind.TRUNCATED if "Truncated" in str(e) else Kind.CORRUPT
            raise UnreadableSource(kind, f"the zstd stream is damaged or ends too early: {e}") from e


def _by_name(name: str) -> str:
    return "gzip" if name.endswith(".gz") else "zstd" if name.endswith((".zst", ".zstd")) else "none"
