"""What is certainly no JSON is named, and no JSON text is ever taken for something else."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.source.decode import UnreadableSource
from blizzard.source.encodings import find_encoding
from blizzard.source.recognise import find_codec, find_other_kind, may_be_json
from tests.source.codecs import COMPRESS, RECORDS, decoded

TABLE = pa.table({"id": [1, 2, 3]})


def written(write: object) -> bytes:
    sink = io.BytesIO()
    write(sink)  # type: ignore[operator]
    return sink.getvalue()


def a_zip(sink: io.BytesIO) -> None:
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a.json", RECORDS)


def a_tar(sink: io.BytesIO) -> None:
    with tarfile.open(fileobj=sink, mode="w") as archive:
        entry = tarfile.TarInfo("{}.json")
        entry.size = len(RECORDS)
        archive.addfile(entry, io.BytesIO(RECORDS))


def an_arrow_file(sink: io.BytesIO) -> None:
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)


def an_arrow_stream(sink: io.BytesIO) -> None:
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)


KINDS = {
    "a zip archive": written(a_zip),
    "an empty zip archive": written(lambda sink: zipfile.ZipFile(sink, "w").close()),
    "a tar archive": written(a_tar),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\x00\x04",
    "a rar archive": b"Rar!\x1a\x07\x01\x00",
    "snappy data, a compression that is not read": b"\xff\x06\x00\x00sNaPpY\x00",
    "lz4 data in the legacy format, which is not read": b"\x02\x21\x4c\x18....",
    "lzma data in the legacy format, which is not read": b"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff",
    "lzop data, a compression that is not read": b"\x89LZO\x00\r\n\x1a\n\x10",
    "data of the program compress, which is not read": b"\x1f\x9d\x90",
    "a Parquet file": written(lambda sink: pq.write_table(TABLE, sink)),
    "an encrypted Parquet file": b"PARE\x00",
    "an ORC file": written(lambda sink: pyarrow.orc.write_table(TABLE, sink)),
    "an Avro file": b"Obj\x01\x04\x16avro.schema",
    "an Arrow IPC file": written(an_arrow_file),
    "an Arrow IPC stream": written(an_arrow_stream),
    "a Hadoop sequence file": b"SEQ\x06\x19org.apache.hadoop.io.Text",
    "an HDF5 file": b"\x89HDF\r\n\x1a\n\x00",
    "a PDF document": b"%PDF-1.7\n",
    "a Microsoft Office document": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00",
    "a PNG image": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "a JPEG image": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "a GIF image": b"GIF89a\x01\x00",
    "a message encrypted with PGP": b"-----BEGIN PGP MESSAGE-----\n\nhQEMA",
    "an XML document": b'\xef\xbb\xbf\n<?xml version="1.0"?>\n<Event/>\n',
    "an HTML document": b"<!DOCTYPE html>\n<html><body>404</body></html>\n",
}


def refusal(content: bytes, name: str = "a.ndjson", encoding: str = "auto") -> str:
    with pytest.raises(UnreadableSource) as error:
        decoded(content, name, encoding=encoding)
    return f"{error.value.kind}: {error.value}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_named_under_any_name_and_setting(kind: str) -> None:
    for name in ("a", "a.ndjson", "a.json.gz", "b c.json"):
        assert refusal(KINDS[kind], name).startswith(f"other_kind: {kind}, not lines of JSON; move it away")
    assert refusal(KINDS[kind], encoding="latin-1").startswith(f"other_kind: {kind}, ")
    with pytest.raises(UnreadableSource, match=kind):
        decoded(KINDS[kind], "a", "gzip")


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.parametrize("kind", ["a tar archive", "a Parquet file", "an XML document"])
def test_a_file_of_another_kind_is_named_inside_of_a_compression(kind: str, codec: str) -> None:
    content = COMPRESS[codec](KINDS[kind])
    assert refusal(content, "a.json.gz").startswith(f"other_kind: {kind} inside of {codec}, not lines of JSON")


def test_the_command_that_leaves_it_out_is_given_with_its_name() -> None:
    assert refusal(KINDS["a PNG image"], "b c.json").endswith("blizzard checkpoint skip --file 'b c.json' --yes")


def test_a_database_is_named(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("create table t (a)")
    database.commit()
    database.close()
    assert "an SQLite database" in refusal((tmp_path / "a.db").read_bytes())


def test_a_document_in_utf_16_is_named_after_it_is_decoded() -> None:
    xml = '<?xml version="1.0" encoding="utf-16"?>\n<Event/>\n'.encode("utf-16")
    assert refusal(xml).startswith("wrong_encoding: text in UTF-16")
    assert refusal(xml, encoding="utf-16").startswith("other_kind: an XML document")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.text(), JSON_VALUES, max_size=4) | st.lists(JSON_VALUES, max_size=4),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.text(" \t\r\n", max_size=3),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_no_json_text_is_taken_for_something_else(
    value: object, is_ascii: bool, indent: int | None, blank: str, mark: bytes
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    content = mark + (blank + text).encode("utf-8", "replace")
    assert (find_codec(content), find_other_kind(content)) == (None, None)
    assert find_encoding(content) in (None, "utf-8")
    assert may_be_json(content)


@pytest.mark.parametrize(
    "text",
    [
        b"id,name\n1,a\n",
        b"ORCHARD,1\n",
        b"PK,1\n",
        b"BZh9 is a text\n",
        b"<14>Oct 11 22:14:15 mymachine su: failed\n",
        b"\0" * 20 + RECORDS,  # what a rotated log may begin with
        b"\0" + RECORDS,
        b"\0\0\0" + RECORDS,
        "é".encode("latin-1"),
        b"\n",
        b"",
    ],
)
def test_text_is_never_guessed_to_be_something(text: bytes) -> None:
    assert (find_codec(text), find_other_kind(text), find_encoding(text)) == (None, None, None)
