"""Says by its first bytes how a file is compressed, or what other kind of file it certainly is.

Only what cannot be the beginning of JSON text is recognised. Nothing is guessed: CSV, for one, looks like any text.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8

# Enough for the mark of a tar archive, which is at byte 257.
HEAD_BYTES = 512

_CODECS = {
    "gzip": re.compile(rb"\x1f\x8b"),
    # A zstd file may begin with a skippable frame.
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    # The mark of a block, or that of the end if there is no block.
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "lz4": re.compile(rb"\x04\x22\x4d\x18"),
}
_CODEC_STARTS = {
    "gzip": b"\x1f\x8b",
    "zstd": b"\x28\xb5\x2f\xfd",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "lz4": b"\x04\x22\x4d\x18",
}
_STARTS = {
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "an empty zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a rar archive",
    b"\xff\x06\x00\x00sNaPpY": "snappy data, a compression that is not read",
    b"\x02\x21\x4c\x18": "lz4 data in the legacy format, which is not read",
    b"\x5d\x00\x00": "lzma data in the legacy format, which is not read",
    b"\x89LZO\x00\r\n\x1a\n": "lzop data, a compression that is not read",
    b"\x1f\x9d": "data of the program compress, which is not read",
    b"PAR1": "a Parquet file",
    b"PARE": "an encrypted Parquet file",
    b"Obj\x01": "an Avro file",
    b"ARROW1\x00\x00": "an Arrow IPC file",
    b"SEQ\x06": "a Hadoop sequence file",
    b"SQLite format 3\x00": "an SQLite database",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"%PDF-": "a PDF document",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a Microsoft Office document",
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"-----BEGIN PGP MESSAGE-----": "a message encrypted with PGP",
}
_MARKUP = {
    "an XML document": re.compile(rb"\s*<\?xml\s", re.IGNORECASE),
    "an HTML document": re.compile(rb"\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE),
}
# Bytes that no text has.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n\x1e]*(?:[{\[]|\Z)")


def find_codec(head: bytes) -> str | None:
    return next((codec for codec, magic in _CODECS.items() if magic.match(head)), None)


def is_cut_off(head: bytes, codec: str) -> bool:
    """Whether this is the beginning of a file of this codec, and too short to be recognised."""
    start = _CODEC_STARTS[codec]
    return head.startswith(start) if len(head) >= len(start) else start.startswith(head)


def find_other_kind(head: bytes) -> str | None:
    """What the file is, if it is certainly no JSON."""
    found = next((kind for start, kind in _STARTS.items() if head.startswith(start)), None)
    if found is not None:
        return found
    if head[257:262] == b"ustar":
        return "a tar archive"
    if head.startswith(b"ORC") and _CONTROL.search(head):
        return "an ORC file"
    if head.startswith(b"\xff\xff\xff\xff") and head[7:8] == b"\x00":
        return "an Arrow IPC stream"
    text = head.removeprefix(BOM_UTF8)
    return next((kind for kind, start in _MARKUP.items() if start.match(text)), None)


def may_be_json(head: bytes) -> bool:
    """Whether it begins as JSON text does in UTF-8, or has only blank lines."""
    return _JSON.match(head) is not None
