"""Decompresses a stream with bounded memory. Every member and frame of a file is read.

A stream that ends early, is damaged, or has something else behind it is an error, never a short file.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from io import BufferedReader
from typing import Any, Protocol

import pyarrow as pa
from isal import igzip, isal_zlib

from blizzard.core.kinds import Kind
from blizzard.source.stream import ByteStream, UnreadableSource

# What one stream may need to be decompressed. `xz -9` needs 65 MiB, `zstd --ultra -22` 128 MiB, which is also where the
# zstd library stops by itself. Files of gigabytes are made with `zstd --long=31` or `xz --lzma2=dict=1GiB`.
_MAX_MEMORY_BYTES = 128 << 20
_INPUT_BYTES = 1 << 17
_DAMAGED_GZIP: Any = (zlib.error, isal_zlib.error, igzip.BadGzipFile)  # Any: isal's stubs type its error wrongly


def decompress(file: BufferedReader, codec: str) -> ByteStream:
    match codec:
        case "gzip":
            return _Gzip(file)
        case "zstd" | "lz4":
            return _Arrow(file, codec)
        case "bzip2":
            return _Streams(file, codec, bz2.BZ2Decompressor, OSError)
        case "xz":
            return _Streams(
                file, codec, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY_BYTES), lzma.LZMAError
            )
        case _:
            return file


class _Gzip:
    """Reads all members of a file, and raises on a missing trailer or a wrong checksum. Zeros behind it are padding."""

    def __init__(self, file: BufferedReader) -> None:
        self._stream = igzip.IGzipFile(fileobj=file, mode="rb")

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except EOFError as e:
            raise _truncated("gzip") from e
        except _DAMAGED_GZIP as e:
            raise _corrupt("gzip", e) from e


class _Arrow:
    """Reads all frames and raises on a cut one. The package zstandard takes that for the end."""

    def __init__(self, file: BufferedReader, codec: str) -> None:
        self._codec, self._stream = codec, pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec)

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except OSError as e:
            if e.errno is not None:
                raise  # from the disk, and worth a retry; Arrow's error about a damaged stream has no errno
            if "too much memory" in str(e):
                raise _too_large(self._codec) from e
            if "Truncated" in str(e):
                raise _truncated(self._codec) from e
            raise _corrupt(self._codec, e) from e


class _Decompressor(Protocol):
    """As the standard library has them."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Streams:
    """Reads streams one after the other. Python's BZ2File and LZMAFile ignore what is behind the last one."""

    def __init__(
        self, file: BufferedReader, codec: str, make: Callable[[], _Decompressor], damaged: type[Exception]
    ) -> None:
        self._file, self._codec, self._make, self._damaged = file, codec, make, damaged
        self._current, self._input = make(), b""

    def read(self, size: int, /) -> bytes:
        while self._has_more():
            data = b""
            if self._current.needs_input:
                data, self._input = self._input or self._file.read1(_INPUT_BYTES), b""
                if not data:
                    raise _truncated(self._codec)
            content = self._decompress(data, size)
            if content:
                return content
        return b""

    def _has_more(self) -> bool:
        """Begins with the next stream if this one has ended. Zeros behind a stream are padding, as for gzip."""
        if not self._current.eof:
            return True
        following = self._current.unused_data.lstrip(b"\0")
        while not following:
            data = self._file.read1(_INPUT_BYTES)
            if not data:
                return False
            following = data.lstrip(b"\0")
        self._current, self._input = self._make(), following
        return True

    def _decompress(self, data: bytes, size: int) -> bytes:
        try:
            return self._current.decompress(data, size)
        except self._damaged as e:
            if "Memory usage limit" in str(e):
                raise _too_large(self._codec) from e
            raise _corrupt(self._codec, e) from e


def _truncated(codec: str) -> UnreadableSource:
    return UnreadableSource(Kind.TRUNCATED, f"the file ends in the middle of its {codec} stream")


def _corrupt(codec: str, error: Exception) -> UnreadableSource:
    return UnreadableSource(Kind.CORRUPT, f"the {codec} stream is damaged: {error}")


def _too_large(codec: str) -> UnreadableSource:
    """The bytes are sound, so the file is held back, and never given up as damaged."""
    return UnreadableSource(
        Kind.UNREADABLE,
        f"its {codec} stream needs more than {_MAX_MEMORY_BYTES >> 20} MiB of memory; compress it again with a smaller"
        " window or dictionary",
    )
