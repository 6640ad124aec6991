"""Compressed files for tests, and how they are read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from blizzard.core.compression import SUFFIXES
from blizzard.core.types import Slice
from blizzard.source.decode import open_stream
from blizzard.store import open_store

RECORDS = b"".join(b'{"id":%d}\n' % i for i in range(20))
# Made by the programs zstd and lz4 from `RECORDS`: Arrow writes frames without a checksum.
_ZSTD = b64decode(
    "KLUv/QRo9QEAYsIIEMC3GF3Hvz81iezuZaCU0wN0xOFdz/HbfhFWE8+mA0aRUiYTqBCo3Q6wU2sQHIEeA42XbveAegMCIgP7Ahp6"
)
_LZ4 = b64decode(
    "BCJNGGRAp1gAAACSeyJpZCI6MH0KCQAUMQkAFDIJABQzCQAUNAkAFDUJABQ2CQAUNwkAFDgJABU5UQAGWwAFXAAVMV0AFTFeABUxXwAVMWAAFTFhABUx"
    "YgAUMWMAUDoxOX0KAAAAAO86xdM="
)
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda content: gzip.compress(content, mtime=0),
    "zstd": lambda content: bytes(pa.compress(content, codec="zstd", asbytes=True)),
    "bzip2": bz2.compress,
    "xz": lambda content: lzma.compress(content, preset=1),
    "lz4": lambda content: bytes(pa.compress(content, codec="lz4", asbytes=True)),
}
# `RECORDS`, with a checksum in every codec.
SMALL = {codec: compress(RECORDS) for codec, compress in COMPRESS.items()} | {"zstd": _ZSTD, "lz4": _LZ4}
NAMES = {codec: f"a.ndjson{suffix}" for suffix, codec in reversed(SUFFIXES.items())}


class Memory:
    """A store that has one file, in memory. `broken_at`: reading beyond this byte raises `error`."""

    def __init__(self, content: bytes, *, broken_at: int | None = None, error: Exception | None = None) -> None:
        self._content, self._broken_at, self._error = content, broken_at, error

    @contextmanager
    def open_pinned(self, piece: Slice) -> Iterator[io.BufferedReader]:
        yield io.BufferedReader(_Raw(self._content, self._broken_at, self._error), 512)


class _Raw(io.RawIOBase):
    def __init__(self, content: bytes, broken_at: int | None, error: Exception | None) -> None:
        self._content, self._broken_at, self._error, self._place = content, broken_at, error, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        end = len(self._content) if self._broken_at is None else self._broken_at
        if self._error is not None and self._place >= end:
            raise self._error
        part = self._content[self._place : min(end, self._place + len(buffer))]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)


def decoded(
    content: bytes,
    name: str = "a.ndjson",
    compression: str = "auto",
    encoding: str = "auto",
    *,
    chunk_bytes: int = 65_536,
    **broken: object,
) -> bytes:
    """The text of a file with this content and name."""
    piece = Slice(path=name, size_bytes=len(content), etag="1", from_record=0)
    store = Memory(content, **broken)  # type: ignore[arg-type]
    with open_stream(store, piece, compression, encoding) as stream:  # type: ignore[arg-type]
        parts = list(iter(lambda: stream.read(chunk_bytes), b""))
        assert all(len(part) <= chunk_bytes for part in parts)
        return b"".join(parts)


def piece_of(path: Path) -> Slice:
    info = path.stat()
    return Slice(path=path.name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0)


def read_file(path: Path, compression: str = "auto") -> bytes:
    with open_stream(open_store(str(path.parent)), piece_of(path), compression) as stream:
        return b"".join(iter(lambda: stream.read(65_536), b""))
