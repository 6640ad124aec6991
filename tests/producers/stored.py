"""The records of a source file, found with Python's standard library alone: nothing of blizzard is used here.

Numbers stay as they were written, objects keep every member.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
from collections.abc import Iterator
from typing import Any

_DECOMPRESS = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ": lzma.decompress}
_BETWEEN_DOCUMENTS = " \t\r\n\x1e"  # RFC 7464 puts a record separator before each document


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """The members of a JSON object, in order."""

    __slots__ = ()

    def get(self, key: str) -> Any:
        return next((value for name, value in self if name == key), None)


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, object_pairs_hook=Members)


def parse(text: str) -> Any:
    return _DECODER.decode(text)


def text_of(content: bytes) -> str:
    """What the file holds, uncompressed and decoded by its byte order mark."""
    for magic, decompress in _DECOMPRESS.items():
        if content.startswith(magic):
            content = decompress(content)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16")
    return content.decode("utf-8-sig")


def documents_of(text: str) -> Iterator[Any]:
    """Every JSON value of the text, one after the other."""
    at = 0
    while True:
        while at < len(text) and text[at] in _BETWEEN_DOCUMENTS:
            at += 1
        if at == len(text):
            return
        document, at = _DECODER.raw_decode(text, at)
        yield document


def records_of(content: bytes, key: str | None = None) -> Iterator[Any]:
    """The records: documents, the elements of those that are arrays, and of those that hold an array at `key`."""
    for document in documents_of(text_of(content)):
        inside = document.get(key) if key is not None and isinstance(document, Members) else None
        if isinstance(inside, list) and not isinstance(inside, Members):
            yield from inside
        elif isinstance(document, list) and not isinstance(document, Members):
            yield from document
        else:
            yield document


def lines_of(content: bytes) -> Iterator[Any]:
    """The value on each line that is not blank."""
    return (parse(line) for line in text_of(content).split("\n") if line.strip())


def json_text(value: Any) -> str:
    """The value as the source wrote it, without the whitespace around its parts."""
    match value:
        case Number():
            return str(value)
        case Members():
            return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in value) + "}"
        case list():
            return "[" + ",".join(map(json_text, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
