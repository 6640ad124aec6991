"""Infers the schema of a source from a sample of its records, and reports what it found. Needs no Spark."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import chain
from typing import Any

from blizzard.core.events import Emit, Noted, SchemaInferred, Warned
from blizzard.core.kinds import Kind
from blizzard.core.lists import count, some
from blizzard.errors import BadData
from blizzard.run.ports import Sample
from blizzard.schema import DeltaSchema
from blizzard.schema.ddl import column_ddls, to_ddl
from blizzard.schema.hints import parse_hints
from blizzard.schema.infer import NO_SETTINGS, Inference, InferenceSettings, infer_schema
from blizzard.schema.proposals import ProposedFormat

_MAX_REMARKS = 20
_MAX_NAMES = 20
_ALL = "blizzard schema infer --json has all"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredSchema:
    schema: DeltaSchema
    records: int
    files: int
    skipped_lines: int
    skipped_files: int
    left_out: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    formats: tuple[ProposedFormat, ...] = ()

    @property
    def ddl(self) -> str:
        return to_ddl(self.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The DDL column by column. Joined by commas it is the DDL."""
        return tuple(column_ddls(self.schema))

    @property
    def sentence(self) -> str:
        skipped = _join(count(self.skipped_lines, "line"), count(self.skipped_files, "file"))
        note = f" ({skipped} skipped)" if skipped else ""
        return f"inferred schema from {count(self.records, 'record')} of {count(self.files, 'file')}{note}"

    @property
    def event(self) -> SchemaInferred:
        return SchemaInferred(message=self.sentence, columns=self.columns, ddl=self.ddl)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ddl": self.ddl,
            "schema": self.schema,
            "records": self.records,
            "files": self.files,
            "skipped_lines": self.skipped_lines,
            "skipped_files": self.skipped_files,
            "left_out": list(self.left_out),
            "remarks": list(self.remarks),
            "formats": {f.column: {"formats": list(f.formats), "type": f.data_type} for f in self.formats},
        }


def infer_from_sample(
    sample: Sample,
    hints: str | None,
    emit: Emit,
    settings: InferenceSettings = NO_SETTINGS,
    *,
    reads_maps_slowly: bool = False,
) -> InferredSchema | None:
    """The schema that a sample suggests, changed by the hints; None if no file has a line."""
    parsed = parse_hints(hints)
    if sample.listing:
        _note(emit, f"sampling {len(sample.chosen):,} of {count(len(sample.listing), 'file')} for a schema")
    records = sample.read()
    first = next(records, None)
    if first is None:
        _check_empty(sample)
        return None
    try:
        inference = infer_schema(chain([first], records), parsed, settings)
    finally:
        _warn_skipped(sample, emit)
    _tell(inference, emit, reads_maps_slowly=reads_maps_slowly)
    return InferredSchema(
        schema=inference.schema,
        records=sample.records,
        files=sample.files,
        skipped_lines=sample.bad_lines,
        skipped_files=len(sample.skipped_files),
        left_out=inference.left_out,
        remarks=inference.remarks,
        formats=inference.formats,
    )


def _tell(inference: Inference, emit: Emit, *, reads_maps_slowly: bool) -> None:
    for remark in inference.remarks[:_MAX_REMARKS]:
        _note(emit, remark)
    if len(inference.remarks) > _MAX_REMARKS:
        _note(emit, f"{len(inference.remarks) - _MAX_REMARKS:,} more remarks about columns: {_ALL}")
    if inference.has_maps and reads_maps_slowly:
        _note(emit, "lines of a table with a MAP are read slowly without the native parser")
    if inference.left_out:
        _note(emit, f"left out, as no value was seen: {some(inference.left_out, _MAX_NAMES)}")
    for proposed in inference.formats[:_MAX_NAMES]:
        setting = shlex.quote(proposed.setting)
        _note(emit, f"{proposed.sentence}; to make it a {proposed.data_type}: --set {setting}")


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
