"""Decompression: every member and frame is read, a cut or damaged stream is an error, memory stays bounded."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from blizzard.core.types import Slice
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.store import open_store

CONTENT = b"".join(b'{"id":%d}\n' % i for i in range(20_000))
SKIPPABLE = b"\x5a\x2a\x4d\x18\x05\x00\x00\x00hello"


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def piece(path: Path) -> Slice:
    info = path.stat()
    return Slice(path=path.name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0)


def read(path: Path, compression: str = "auto") -> bytes:
    with open_stream(open_store(str(path.parent)), piece(path), compression) as stream:
        return b"".join(iter(lambda: stream.read(65_536), b""))


COMPRESS = [("a.ndjson.gz", gzip.compress), ("a.ndjson.zst", zstd)]


@pytest.mark.parametrize(("name", "compress"), COMPRESS)
def test_all_members_are_read_to_their_end(tmp_path: Path, name: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(compress(CONTENT) + compress(b"") + compress(CONTENT))
    assert read(path) == CONTENT * 2


def test_skippable_zstd_frames_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson.zst"
    path.write_bytes(SKIPPABLE + zstd(CONTENT) + SKIPPABLE + zstd(CONTENT))
    assert read(path) == CONTENT * 2


@pytest.mark.parametrize("cut", [1, 4, 8, 9, 30, 1000])
@pytest.mark.parametrize(("name", "compress"), COMPRESS)
def test_a_cut_stream_is_an_error_wherever_it_is_cut(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes], cut: int
) -> None:
    path = tmp_path / name
    path.write_bytes(compress(CONTENT) + compress(CONTENT)[:-cut])
    with pytest.raises(UnreadableSource) as error:
        read(path)
    assert error.value.kind == "truncated"


@pytest.mark.parametrize(("name", "compress"), COMPRESS)
def test_garbage_behind_a_stream_is_an_error(tmp_path: Path, name: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(compress(CONTENT) + b"garbage of some length")
    with pytest.raises(UnreadableSource) as error:
        read(path)
    assert error.value.kind == "corrupt"


def test_a_wrong_checksum_is_an_error(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(CONTENT))
    content[-6] ^= 1
    path = tmp_path / "a.ndjson.gz"
    path.write_bytes(content)
    with pytest.raises(UnreadableSource) as error:
        read(path)
    assert error.value.kind == "corrupt"


@pytest.mark.parametrize("name", ["a.ndjson", "a.ndjson.gz", "a.ndjson.zst"])
def test_a_file_of_no_bytes_is_empty_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert read(tmp_path / name) == b""


def test_the_setting_overrides_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_bytes(zstd(CONTENT))
    assert read(path, "zstd") == CONTENT
    with pytest.raises(UnreadableSource) as error:
        read(path)
    assert error.value.kind == "wrong_compression"


def test_a_file_that_changes_while_it_is_read_is_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(CONTENT)
    listed = piece(path)
    with pytest.raises(UnreadableSource) as error, open_stream(open_store(str(tmp_path)), listed, "auto") as stream:
        stream.read(100)
        with open(path, "ab") as more:
            more.write(b"x")
    assert error.value.kind == "source_changed"
    os.unlink(path)
    with pytest.raises(UnreadableSource, match="gone"), open_stream(open_store(str(tmp_path)), listed, "auto"):
        pass


@pytest.mark.parametrize(("name", "compress"), COMPRESS)
def test_a_bomb_is_read_piece_by_piece(tmp_path: Path, name: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(compress(b"x" * 200_000_000))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with open_stream(open_store(str(tmp_path)), piece(path), "auto") as stream:
        for _ in range(20):
            assert len(stream.read(1 << 20)) <= 1 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20
