"""What a fuzzer tries: bytes choose a schema and a policy, the rest is a block for a fast parser and the reference."""

from __future__ import annotations

from typing import Any

from blizzard.schema import ColumnPath, DeltaSchema, DeltaType
from blizzard.schema.derived import whole_record_schema
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.policy import EVERY_COLUMN, Coercion, ParsePolicy, Unknown
from tests.tasks.contract import by_parser, by_reference


def _field(name: str, data_type: DeltaType, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def _struct(*fields: dict[str, Any]) -> DeltaSchema:
    return {"type": "struct", "fields": list(fields)}


def _array(element: DeltaType, nullable: bool = True) -> DeltaType:
    return {"type": "array", "elementType": element, "containsNull": nullable}


def _map(value: DeltaType, nullable: bool = True) -> DeltaType:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}


SCHEMAS = [
    _struct(_field("a", "long"), _field("b", "string"), _field("c", "double"), _field("d", "boolean")),
    _struct(_field("a", "timestamp"), _field("b", "timestamp_ntz"), _field("c", "date"), _field("d", "binary")),
    _struct(_field("a", "decimal(10,2)"), _field("b", "decimal(38,18)"), _field("c", "float"), _field("d", "byte")),
    _struct(_field("a", _struct(_field("a", "long", False), _field("b", "string"))), _field("b", _map("long"))),
    _struct(_field("a", _array(_struct(_field("b", "integer"))))),
    _struct(_field("a", _map(_array("string", False))), _field("b", _array(_map("short", False)))),
    _struct(_field("a", "short", False), _field("aB", "string"), _field("é", _array("timestamp"))),
]
# Chosen by a byte of their own, so that what the corpus holds keeps its meaning.
_WITH_VARIANTS = {
    250: whole_record_schema(),
    251: _struct(_field("a", "variant"), _field("b", _array("variant")), _field("aB", _map("variant", False))),
}
_FORMATS: list[dict[ColumnPath, tuple[str, ...]]] = [
    {},
    {("a",): ("epoch_ms", "iso"), ("b",): ("epoch_s",), ("c",): ("%d/%m/%Y", "iso")},
    {("a",): ("clf", "rfc1123", "%-m/%-d/%Y %-I:%M %p"), ("b",): ("%Y%m%dT%H%M%S.%f",), ("c",): ("%e %b %Y",)},
]
_RENAME: list[str | dict[ColumnPath, str] | None] = [None, "snake", {("x",): "a"}]
_COERCE = [frozenset({coercion}) for coercion in Coercion] + [frozenset(Coercion), frozenset()]


def case_of(data: bytes) -> tuple[DeltaSchema, ParsePolicy, bytes]:
    """Five bytes choose, the rest is the block."""
    which, flags, formats, coerce, rename = data[:5].ljust(5, b"\0")
    schema = _WITH_VARIANTS.get(which) or SCHEMAS[which % len(SCHEMAS)]
    unknown = list(Unknown)[flags & 3]
    coercions = _COERCE[coerce % len(_COERCE)]
    has_times = schema is SCHEMAS[1]
    policy = ParsePolicy(
        unknown=unknown,
        rescue_values=bool(flags & 4),
        json_in_strings=not flags & 8,
        keeps_rest=bool(flags & 16) and unknown is Unknown.REPORT,
        exact_timestamps=bool(flags & 32),
        formats=_FORMATS[formats % len(_FORMATS)] if has_times else {},
        coerce={EVERY_COLUMN: coercions} if coercions else {},
        rename=_RENAME[rename % len(_RENAME)],
    )
    return schema, policy, data[5:]


def check(data: bytes, parser: str = "native") -> None:
    schema, policy, block = case_of(data)
    assert by_parser(RecordParser(schema, policy, parser), block) == by_reference(schema, block, policy)
