"""A first look at a source nobody has described: the first records, for suggesting a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import orjson

from blizzard.core.types import Slice, SourceFile
from blizzard.errors import BadFile, BadRecord
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.source.lines import read_blocks
from blizzard.source.uri import SourceLocation

SAMPLE_RECORDS = 1000
_BLOCK_BYTES = 256 * 1024


def sample_records(
    source: SourceLocation, listing: Sequence[SourceFile], *, compression: str, max_record_bytes: int
) -> list[dict[str, Any]]:
    def records() -> Iterator[dict[str, Any]]:
        for file in listing:
            yield from _records_of(source, file, compression, max_record_bytes)

    return list(islice(records(), SAMPLE_RECORDS))


def _records_of(
    source: SourceLocation, file: SourceFile, compression: str, max_record_bytes: int
) -> Iterator[dict[str, Any]]:
    piece = Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
    try:
        with open_stream(source.root, piece, compression) as stream:
            for block in read_blocks(stream, block_bytes=_BLOCK_BYTES, max_line_bytes=max_record_bytes):
                if block.too_long is not None:
                    raise BadRecord(f"{file.path} line {block.first_line + 1}: {block.too_long}")
                for i, line in enumerate(block.data.removeprefix(b"\xef\xbb\xbf").split(b"\n")):
                    if line.strip():
                        yield _record(line, f"{file.path} line {block.first_line + i + 1}")
    except UnreadableSource as e:
        raise BadFile(f"{file.path}: {e}", kind=e.kind) from e


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as e:
        raise BadRecord(f"{where}: not JSON: {e}") from e
    if not isinstance(record, dict):
        raise BadRecord(f"{where}: not a JSON object")
    return record
