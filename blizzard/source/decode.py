"""One source file as a stream of decompressed bytes, checked against what was listed.

A file is never read whole, and a stream that ends early is an error, never a short file.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

from isal import igzip, isal_zlib

from blizzard.core.types import Slice
from blizzard.source.listing import etag_of

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


_DAMAGED: Any = (zlib.error, isal_zlib.error, igzip.BadGzipFile)  # isal's stubs call its error an instance


class ByteStream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class UnreadableSource(Exception):
    """A source file that cannot be used. `kind` is stable."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def open_stream(root: str, piece: Slice, compression: str) -> Iterator[ByteStream]:
    """The decompressed bytes of a file. Leaving the block checks that the file did not change meanwhile."""
    path = os.path.join(root, piece.path)
    try:
        file = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError as e:
        raise UnreadableSource("source_changed", "the file is gone since it was listed") from e
    except OSError as e:
        raise UnreadableSource("unreadable", f"the file cannot be opened: {e.strerror}") from e
    with file:
        _check_unchanged(file, piece)
        try:
            yield _decompress(file, piece.path, compression)
        except EOFError as e:
            raise UnreadableSource("truncated", f"the file ends in the middle of its gzip stream: {e}") from e
        except _DAMAGED as e:
            raise UnreadableSource("corrupt", f"the gzip stream is damaged: {e}") from e
        _check_unchanged(file, piece)


def _check_unchanged(file: BinaryIO, piece: Slice) -> None:
    info = os.fstat(file.fileno())
    if (info.st_size, etag_of(info)) != (piece.size_bytes, piece.etag):
        raise UnreadableSource("source_changed", "the file changed after it was listed; is it still being written?")


def _decompress(file: BinaryIO, name: str, compression: str) -> ByteStream:
    head = file.read(4)
    file.seek(0)
    gzipped = compression == "gzip" or (compression == "auto" and name.endswith(".gz"))
    if head.startswith(_ZSTD_MAGIC):
        raise UnreadableSource("wrong_compression", "the file is zstd, which this version does not read")
    if gzipped and head and not head.startswith(_GZIP_MAGIC):
        raise UnreadableSource("wrong_compression", "the file is not gzip, though its name or setting says so")
    if not gzipped and head.startswith(_GZIP_MAGIC):
        raise UnreadableSource("wrong_compression", "the file is gzip; set source.compression=gzip or name it with .gz")
    if not gzipped or not head:
        return file
    # Reads multi-member files to their end, and raises on a missing trailer or a wrong checksum.
    return igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-any-return]
