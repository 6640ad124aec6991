"""The bytes of a file say how it is read. A setting that they contradict holds it back; a name hardly ever does."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice
from blizzard.errors import Temporary
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.store import open_store
from blizzard.store.files import FileChanged
from tests.source.codecs import COMPRESS, NAMES, RECORDS, SMALL, Memory, decoded, piece_of


def refusal(content: bytes, name: str = "a.ndjson", compression: str = "auto", encoding: str = "auto") -> str:
    with pytest.raises(UnreadableSource) as error:
        decoded(content, name, compression, encoding)
    return f"{error.value.kind}: {error.value}"


@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize("text", [RECORDS, b"\xef\xbb\xbf" + RECORDS, b" \r\n" + RECORDS, b"[1]", b"\x1e{}", b"\n\n"])
def test_plain_json_is_read_whatever_the_name_says(name: str, text: bytes) -> None:
    assert decoded(text, name) == text


@pytest.mark.parametrize("text", [b"id,name\n1,a\n", b"\0" * 600, b"7fb59a6535629383", b"2024 started\n"])
def test_what_is_neither_compressed_nor_json_is_held_back_if_the_name_says_compressed(text: bytes) -> None:
    assert refusal(text, "a.json.gz").startswith(
        "wrong_compression: the file is neither gzip, as its name says, nor JSON text"
    )
    assert decoded(text, "a.json") == text  # its lines are bad, one by one


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_setting_that_the_bytes_contradict_is_an_error(codec: str) -> None:
    assert refusal(RECORDS, "a", codec) == (
        f"wrong_compression: the file is not {codec}, though source.compression says {codec}; to read it leave the key"
        " out"
    )
    assert refusal(SMALL[codec], NAMES[codec], "none").startswith(f"wrong_compression: the file is {codec}, though")
    for other in set(COMPRESS) - {codec}:
        assert refusal(SMALL[codec], "a", other).startswith(f"wrong_compression: the file is {codec}, though")
    assert decoded(SMALL[codec], "a", codec) == RECORDS


def test_what_is_compressed_twice_is_said() -> None:
    assert refusal(gzip.compress(SMALL["gzip"]), "a.json.gz").startswith(
        "other_kind: gzip inside of gzip: it was compressed twice, not lines of JSON; move it away"
    )
    assert refusal(gzip.compress(SMALL["zstd"]), "a.json", "gzip").startswith("other_kind: zstd inside of gzip")


def test_what_a_stream_was_read_with_is_told() -> None:
    def read_with(content: bytes, encoding: str = "auto") -> tuple[str, str]:
        piece = Slice(path="a", size_bytes=len(content), etag="1", from_record=0)
        with open_stream(Memory(content), piece, "auto", encoding) as stream:  # type: ignore[arg-type]
            return stream.compression, stream.encoding

    assert read_with(RECORDS) == read_with(b"") == ("none", "utf-8")
    assert read_with(SMALL["xz"]) == ("xz", "utf-8")
    assert read_with(gzip.compress("{}".encode("utf-16")), "utf-16") == ("gzip", "utf-16-le")
    assert read_with("{}".encode("utf-16-be"), "utf-16") == ("none", "utf-16-be")
    assert read_with(RECORDS, "latin-1") == ("none", "latin-1")


def test_a_file_that_changes_while_it_is_read_is_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(RECORDS)
    listed = piece_of(path)
    with pytest.raises(UnreadableSource) as error, open_stream(open_store(str(tmp_path)), listed, "auto") as stream:
        stream.read(100)
        with open(path, "ab") as more:
            more.write(b"x")
    assert error.value.kind == "source_changed"
    os.unlink(path)
    with pytest.raises(UnreadableSource, match="gone"), open_stream(open_store(str(tmp_path)), listed, "auto"):
        pass


@pytest.mark.parametrize(
    "error", [Temporary("upload", kind=Kind.STORE_UNAVAILABLE), FileChanged("another file"), OSError("disk full")]
)
def test_an_error_of_who_reads_is_not_about_the_file(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(RECORDS)
    with pytest.raises(type(error)) as raised, open_stream(open_store(str(tmp_path)), piece_of(path), "auto") as stream:
        stream.read(10)
        raise error
    assert raised.value is error
