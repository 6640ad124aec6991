"""A quick look at single lines: which of them are probably bad, or for the reference to read.

msgspec checks a line against the types of the schema at several times the speed of the reference, and only in the
columns that are asked for. It decides nothing: what it lets through pyarrow still reads strictly, what it points at the
reference reads.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

from blizzard.schema import DeltaSchema, DeltaType, decimal_digits
from blizzard.tasks.values import INTEGER_BITS

_SCALARS: dict[str, Any] = {"float": float, "double": float, "boolean": bool, "date": dt.date}
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

Decode = Callable[[bytes], Any]


class Screen:
    """With `undeclared_too`, a line with a field that is not declared is one to look at."""

    def __init__(self, schema: DeltaSchema, *, undeclared_too: bool) -> None:
        self._schema, self._undeclared_too = schema, undeclared_too
        # Times are mostly written as RFC 3339 wants them; where they are not, only their being text is checked.
        self._knows_times = True
        self._decoders: dict[tuple[frozenset[str] | None, bool], Decode] = {}

    def find_suspects(self, lines: Sequence[bytes], columns: frozenset[str] | None = None) -> list[int]:
        """The indexes of the suspects in order, judged by these columns or by all."""
        suspects = self._look(lines, columns)
        if self._knows_times and len(suspects) > len(lines) // 4:
            self._knows_times = False
            suspects = self._look(lines, columns)
            # If that did not help, the times were not to blame.
            self._knows_times = len(suspects) > len(lines) // 4
        return suspects

    def _look(self, lines: Sequence[bytes], columns: frozenset[str] | None) -> list[int]:
        decode = self._decoder(columns)
        suspects = []
        for index, line in enumerate(lines):
            try:
                decode(line)
            except _UNREADABLE:
                suspects.append(index)
        return suspects

    def _decoder(self, columns: frozenset[str] | None) -> Decode:
        columns = None if self._undeclared_too else columns  # a part of them says nothing about the others
        key = columns, self._knows_times
        if key not in self._decoders:
            fields = [f for f in self._schema["fields"] if columns is None or f["name"] in columns]
            self._decoders[key] = msgspec.json.Decoder(self._struct(fields)).decode
        return self._decoders[key]

    def _struct(self, fields: Sequence[dict[str, Any]]) -> Any:
        members: list[Any] = []
        names = {}
        for number, field in enumerate(fields):
            name = f"f{number}"
            names[name] = field["name"]
            kind = self._type(field["type"], field["nullable"])
            members.append((name, kind, None) if field["nullable"] else (name, kind))
        return msgspec.defstruct(
            "Record",
            members,
            rename=names,
            kw_only=True,
            gc=False,
            forbid_unknown_fields=self._undeclared_too,
        )

    def _type(self, data_type: DeltaType, nullable: bool) -> Any:
        match data_type:
            case {"type": "struct", "fields": fields}:
                kind = self._struct(fields)
            case {"type": "array", "elementType": element, "containsNull": inner}:
                kind = list[self._type(element, inner)]  # type: ignore[misc]
            case {"type": "map", "valueType": value, "valueContainsNull": inner}:
                kind = dict[str, self._type(value, inner)]  # type: ignore[misc]
            case str() if data_type in INTEGER_BITS:
                limit = 1 << (INTEGER_BITS[data_type] - 1)
                kind = Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
            case str() if decimal_digits(data_type):
                kind = int | float | str
            case "timestamp" | "timestamp_ntz":
                kind = dt.datetime if self._knows_times else str
            case _:
                kind = _SCALARS.get(str(data_type), str)
        return kind | None if nullable else kind
