"""Infers the schema of a source from a sample of its records, and reports what it found. Needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Any

from blizzard.config.load import Config
from blizzard.core.events import Emit, Noted, Warned
from blizzard.core.kinds import Kind
from blizzard.core.types import SourceFile
from blizzard.errors import BadData
from blizzard.schema import DeltaSchema
from blizzard.schema.ddl import to_ddl
from blizzard.schema.hints import parse_hints
from blizzard.schema.infer import infer_schema
from blizzard.source.sample import Record, Sample
from blizzard.source.uri import SourceLocation
from blizzard.tasks.records import RecordReader
from blizzard.text.lists import count

# A line is a record here exactly if it is one for a run.
_JUDGE = RecordReader({"type": "struct", "fields": []})


def _parse_integer(text: str) -> int | float:
    # int() refuses more than 4,300 digits. No number type holds a tenth of that.
    return int(text) if len(text) <= 4300 else inf


_DECODER = json.JSONDecoder(parse_int=_parse_integer)  # orjson would round what has more than 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredSchema:
    schema: DeltaSchema
    records: int
    files: int
    skipped_lines: int
    skipped_files: int
    left_out: tuple[str, ...]

    @property
    def ddl(self) -> str:
        return to_ddl(self.schema)

    @property
    def sentence(self) -> str:
        skipped = _join(count(self.skipped_lines, "line"), count(self.skipped_files, "file"))
        told = f" ({skipped} skipped)" if skipped else ""
        return f"inferred schema from {count(self.records, 'record')} of {count(self.files, 'file')}{told}: {self.ddl}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "ddl": self.ddl,
            "schema": self.schema,
            "records": self.records,
            "files": self.files,
            "skipped_lines": self.skipped_lines,
            "skipped_files": self.skipped_files,
            "left_out": list(self.left_out),
        }


def infer_from_source(
    source: SourceLocation, listing: Sequence[SourceFile], config: Config, emit: Emit
) -> InferredSchema | None:
    """The schema that a sample suggests, changed by the hints; None if no file has a line."""
    hints = parse_hints(config.schema.hints)
    sample = Sample(
        source=source,
        listing=listing,
        compression=config.source.compression,
        max_record_bytes=config.limits.max_record_bytes,
        max_records=config.schema.sample_records,
        max_files=config.schema.sample_files,
        parse=parse_record,
    )
    if listing:
        _note(emit, f"sampling {len(sample.chosen):,} of {count(len(listing), 'file')} for a schema")
    records = sample.read()
    first = next(records, None)
    if first is None:
        _check_empty(sample)
        return None
    try:
        inference = infer_schema(chain([first], records), hints)
    finally:
        _warn_skipped(sample, emit)
    for remark in inference.remarks:
        _note(emit, remark)
    if inference.left_out:
        _note(emit, f"left out, as no value was seen: {', '.join(inference.left_out)}")
    return InferredSchema(
        schema=inference.schema,
        records=sample.records,
        files=sample.files,
        skipped_lines=sample.bad_lines,
        skipped_files=len(sample.skipped_files),
        left_out=inference.left_out,
    )


def _check_empty(sample: Sample) -> None:
    """No record was found: raises if there were lines or files that could not be read."""
    if sample.first_bad_line is None and not sample.skipped_files:
        return
    first = sample.first_bad_line or sample.skipped_files[0]
    looked = _join(count(sample.bad_lines, "line"), count(len(sample.skipped_files), "file"))
    raise BadData(
        f"no schema can be inferred: {looked} looked at, none could be used. The first: {first}."
        " Fix the source, or give a schema.",
        kind=Kind.NOTHING_TO_INFER_FROM,
    )


def _warn_skipped(sample: Sample, emit: Emit) -> None:
    if sample.first_bad_line is not None:
        _warn(emit, f"{count(sample.bad_lines, 'line')} of the sample skipped; the first: {sample.first_bad_line}")
    for skipped in sample.skipped_files:
        _warn(emit, f"the sample goes on without {skipped}")


def _note(emit: Emit, message: str) -> None:
    emit(Noted(message=message))


def _warn(emit: Emit, message: str) -> None:
    emit(Warned(message=message))


def _join(*counts: str) -> str:
    """Those that are not zero."""
    return " and ".join(count for count in counts if not count.startswith("0 "))


def parse_record(line: bytes) -> Record:
    """The object on a line; raises NotARecord for any line that is bad for a run too."""
    _JUDGE.read(line)
    record: Record = _DECODER.decode(line.decode())
    return record
