"""Every codec: all members are read, a cut or damaged stream is an error, memory stays bounded."""

from __future__ import annotations

import errno
import lzma
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest

from blizzard.core.compression import COMPRESSIONS, SUFFIXES, compression_by_name
from blizzard.core.kinds import Kind
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.store import open_store
from blizzard.store.files import FileChanged, FileUnavailable
from tests.source.codecs import COMPRESS, NAMES, RECORDS, SMALL, decoded, piece_of, read_file

LARGE = b"".join(b'{"id":%d}\n' % i for i in range(20_000))
# What a skippable frame may hold is up to who wrote it.
SKIPPABLE = b"\x5a\x2a\x4d\x18\x05\x00\x00\x00hello"
PADDED = ("gzip", "bzip2", "xz")
# An `x` with a window of 1 GiB: `zstd --long=30`.
LONG_WINDOW = bytes.fromhex("28b52ffd04a00900007823110483")


def kind_of(content: bytes, name: str) -> str:
    with pytest.raises(UnreadableSource) as error:
        decoded(content, name)
    return error.value.kind


def test_every_codec_has_a_sample_and_a_name() -> None:
    assert set(COMPRESSIONS) == set(COMPRESS) == set(SMALL) == set(NAMES)
    assert all(compression_by_name(f"A.NDJSON{suffix.upper()}") in COMPRESSIONS for suffix in SUFFIXES)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 65_536])
@pytest.mark.parametrize("codec", COMPRESS)
def test_the_bytes_decide_and_not_the_name(codec: str, chunk_bytes: int) -> None:
    for name in ("a", "a.ndjson", *NAMES.values()):
        assert decoded(SMALL[codec], name, chunk_bytes=chunk_bytes) == RECORDS
    assert decoded(SMALL[codec], "a", codec, chunk_bytes=chunk_bytes) == RECORDS


@pytest.mark.parametrize("codec", COMPRESS)
def test_all_members_are_read_to_their_end(tmp_path: Path, codec: str) -> None:
    path, compress = tmp_path / NAMES[codec], COMPRESS[codec]
    path.write_bytes(compress(LARGE) + compress(b"") + compress(LARGE))
    assert read_file(path) == LARGE * 2


def test_skippable_zstd_frames_are_skipped() -> None:
    assert decoded(SKIPPABLE + SMALL["zstd"] + SKIPPABLE + SMALL["zstd"]) == RECORDS * 2


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_stream_of_nothing_is_empty(codec: str) -> None:
    assert decoded(COMPRESS[codec](b""), NAMES[codec]) == b""
    assert decoded(b"", NAMES[codec]) == b""
    assert decoded(b"", "a", codec) == b""


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_cut_stream_is_an_error_wherever_it_is_cut(codec: str) -> None:
    whole = SMALL[codec]
    for length in range(1, len(whole)):
        assert kind_of(whole[:length], NAMES[codec]) == "truncated", length
        assert kind_of(whole + whole[:length], NAMES[codec]) == "truncated", length


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_long_stream_that_is_cut_is_an_error(codec: str) -> None:
    whole = COMPRESS[codec](LARGE)
    for cut in (1, 4, 8, 9, 30, 1000):
        assert kind_of(whole + whole[:-cut], "a") == "truncated", cut


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_flipped_bit_never_changes_what_is_read(codec: str) -> None:
    """Some bits do not matter, such as those of the time in a gzip header."""
    found = set()
    for bit in range(len(SMALL[codec]) * 8):
        damaged = bytearray(SMALL[codec])
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert decoded(bytes(damaged), NAMES[codec]) == RECORDS, bit
        except UnreadableSource as e:
            found.add(e.kind)
    # A flipped bit in the first bytes makes it another kind of file, or none that is known.
    assert {"corrupt"} <= found <= {"corrupt", "truncated", "wrong_compression", "unreadable", "other_kind"}


@pytest.mark.parametrize("garbage", [b"g", b"garbage of some length", RECORDS])
@pytest.mark.parametrize("codec", COMPRESS)
def test_garbage_behind_a_stream_is_an_error(codec: str, garbage: bytes) -> None:
    expected = {"corrupt"} if len(garbage) > 20 else {"corrupt", "truncated"}  # one byte may be the next stream's
    assert kind_of(SMALL[codec] + garbage, NAMES[codec]) in expected
    assert kind_of(COMPRESS[codec](LARGE) + garbage, NAMES[codec]) in expected


@pytest.mark.parametrize("zeros", [1, 3, 4, 512, 200_000])
@pytest.mark.parametrize("codec", COMPRESS)
def test_zeros_behind_a_stream_are_padding_or_an_error(codec: str, zeros: int) -> None:
    padded = SMALL[codec] + b"\0" * zeros
    if codec in PADDED:
        assert decoded(padded, NAMES[codec]) == RECORDS
        assert decoded(padded + SMALL[codec], NAMES[codec]) == RECORDS * 2
        assert kind_of(padded + b"garbage of some length", NAMES[codec]) == "corrupt"
    else:
        assert kind_of(padded, NAMES[codec]) in ("corrupt", "truncated")


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_bomb_is_read_piece_by_piece(tmp_path: Path, codec: str) -> None:
    path = tmp_path / NAMES[codec]
    path.write_bytes(COMPRESS[codec](b"x" * 100_000_000))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with open_stream(open_store(str(tmp_path)), piece_of(path), "auto") as stream:
        for _ in range(20):
            assert 0 < len(stream.read(1 << 20)) <= 1 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def xz_with_dictionary(size_code: int) -> bytes:
    """A whole file whose header asks for a dictionary of this size: 40 is 4 GiB, 28 is 64 MiB."""
    whole = bytearray(lzma.compress(RECORDS))
    header = slice(12, 12 + (whole[12] + 1) * 4)
    block = whole[header]
    assert block[2:4] == b"\x21\x01"  # LZMA2, with one byte of properties
    block[4] = size_code
    block[-4:] = struct.pack("<I", zlib.crc32(block[:-4]))
    whole[header] = block
    return bytes(whole)


@pytest.mark.parametrize(("codec", "content"), [("zstd", LONG_WINDOW), ("xz", xz_with_dictionary(40))])
def test_a_stream_that_asks_for_gigabytes_is_held_back_and_not_given_up(codec: str, content: bytes) -> None:
    with pytest.raises(UnreadableSource, match=f"its {codec} stream needs more than 128 MiB of memory") as error:
        decoded(content)
    assert error.value.kind == "unreadable"


def test_a_dictionary_as_xz_makes_it_at_most_is_read() -> None:
    assert decoded(xz_with_dictionary(28)) == RECORDS


@pytest.mark.parametrize("codec", [*COMPRESS, "none"])
def test_trouble_with_the_disk_is_not_taken_for_damage(codec: str) -> None:
    """It passes as it is, and Spark tries the task again."""
    content = LARGE if codec == "none" else COMPRESS[codec](LARGE)
    for broken_at in (0, 1000):
        with pytest.raises(OSError, match="Input/output") as error:
            decoded(content, broken_at=broken_at, error=OSError(errno.EIO, "Input/output error"))
        assert error.value.errno == errno.EIO


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [(FileUnavailable(Kind.UNAVAILABLE, "no answer"), "unavailable"), (FileChanged("another etag"), "source_changed")],
)
@pytest.mark.parametrize("codec", [*COMPRESS, "none"])
def test_trouble_with_the_store_is_about_the_file(codec: str, trouble: Exception, kind: str) -> None:
    content = LARGE if codec == "none" else COMPRESS[codec](LARGE)
    for broken_at in (0, 1000):
        with pytest.raises(UnreadableSource, match=str(trouble)) as error:
            decoded(content, broken_at=broken_at, error=trouble)
        assert error.value.kind == kind
