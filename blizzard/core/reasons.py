"""Why records are bad: how often each cause was met, the first record that has it, and the settings that would take it.

Pure. The order of merging must never change the result. The tally stays small however many records, columns and names
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from blizzard.core.kinds import LineKind, Word

# How many columns are kept apart for one cause. Of more, the smallest are kept, in whatever order they came.
MAX_COLUMNS = 50
# Stands for all other columns.
OTHER_COLUMNS = "…"
_MAX_NAME_CHARS = 200
_MAX_MESSAGE_CHARS = 500


class Cause(Word):
    """Why a type cannot hold a value. Stable words for scripts."""

    EMPTY_TEXT = "empty_text"
    NUMBER_IN_TEXT = "number_in_text"  # detail: what else is odd about the number
    INTEGRAL_FLOAT = "integral_float"
    FRACTION = "fraction"
    OUT_OF_RANGE = "out_of_range"
    TOO_MANY_DIGITS = "too_many_digits"
    ZERO_OR_ONE = "zero_or_one"  # detail: number_in_text
    EPOCH = "epoch"  # detail: the unit that gives a time of our days
    FRACTION_DIGITS = "fraction_digits"  # detail: how many
    OTHER_TIME = "other_time"  # detail: the format that reads it, if one of the common ones does
    NO_SUCH_TIME = "no_such_time"
    ZONE = "zone"
    TIME_OF_DAY = "time_of_day"
    JSON_TEXT = "json_text"
    NOT_BASE64 = "not_base64"
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    OBJECT = "object"
    ARRAY = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """`expected` is the type of the column, `cause` what the value is instead, `detail` more about it. They are empty
    where the line is bad for another cause than a value."""

    kind: str
    column: str | None = None  # as messages and configuration keys write it: items.element.sku
    expected: str = ""
    cause: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """How many records were bad for a reason, and the first of them by file and line."""

    records: int
    path: str
    line: int  # 1-based
    message: str

    def merge(self, other: Met) -> Met:
        first = min(self, other, key=lambda met: (met.path, met.line, met.message))
        return replace(first, records=self.records + other.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    met: Mapping[Reason, Met] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return sum(met.records for met in self.met.values())

    def commonest(self, count: int) -> list[tuple[Reason, Met]]:
        def by_count(item: tuple[Reason, Met]) -> tuple[int, str, int, str]:
            return -item[1].records, item[1].path, item[1].line, item[1].message

        return sorted(self.met.items(), key=by_count)[:count]

    def merge(self, other: Reasons) -> Reasons:
        if not self.met or not other.met:
            return self if self.met else other
        return tally_reasons([*self.met.items(), *other.met.items()])


NO_REASONS = Reasons()


def tally_reasons(found: Iterable[tuple[Reason, Met]]) -> Reasons:
    met: dict[Reason, Met] = {}
    for reason, more in found:
        _put(met, _short(reason), more)
    groups: dict[tuple[str, str], list[Reason]] = {}
    for reason in met:
        groups.setdefault((reason.kind, reason.cause), []).append(reason)
    for (kind, cause), reasons in groups.items():
        if len(reasons) > MAX_COLUMNS:
            # Those among the smallest of all are among the smallest of every part: no order of merging loses them.
            rest = Reason(kind=kind, cause=cause, column=OTHER_COLUMNS)
            named = (reason for reason in reasons if reason != rest)
            kept = {rest, *nsmallest(MAX_COLUMNS, named, key=_order)}
            for reason in reasons:
                if reason not in kept:
                    _put(met, rest, met.pop(reason))
    return Reasons(met=met)


def bad_lines(path: str, lines: Iterable[tuple[int, Reason, str]]) -> Reasons:
    """The tally of bad lines of one file: number, reason and message of each, in order."""
    # Readers give the same object for the same reason: comparing objects is much cheaper than comparing their texts.
    counts: dict[int, int] = {}
    first: dict[int, tuple[Reason, Met]] = {}
    for number, reason, message in lines:
        key = id(reason)
        if key in counts:
            counts[key] += 1
        else:
            counts[key] = 1
            first[key] = reason, Met(records=1, path=path, line=number, message=message[:_MAX_MESSAGE_CHARS])
    return tally_reasons((reason, replace(met, records=counts[key])) for key, (reason, met) in first.items())


def _put(met: dict[Reason, Met], reason: Reason, more: Met) -> None:
    before = met.get(reason)
    met[reason] = more if before is None else before.merge(more)


def _order(reason: Reason) -> tuple[str, str, str]:
    return reason.column or "", reason.expected, reason.detail


def _short(reason: Reason) -> Reason:
    column = reason.column
    if column is None or len(column) <= _MAX_NAME_CHARS:
        return reason
    return replace(reason, column=column[:_MAX_NAME_CHARS] + "…")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Settings, as `key=value`, that together would take such records. `for_new_table`: a table that exists keeps its
    types, so they help only if it is made again."""

    settings: tuple[str, ...]
    for_new_table: bool = False

    def __str__(self) -> str:
        return " with ".join(self.settings) + (" for a new table" if self.for_new_table else "")


RESCUE = Remedy(settings=("bad_records.policy=rescue",))

_WORDS = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
_LARGER = {"byte": "BIGINT", "short": "BIGINT", "integer": "BIGINT", "long": "DECIMAL(38,0)", "float": "DOUBLE"}
_WIDER: Mapping[str, str] = {
    Cause.FRACTION: "DOUBLE",
    Cause.ZONE: "TIMESTAMP",
    Cause.TIME_OF_DAY: "TIMESTAMP",
}
_COERCED: Mapping[str, str] = {
    Cause.EMPTY_TEXT: "empty_is_null",
    Cause.NUMBER_IN_TEXT: "numbers_in_strings",
    Cause.INTEGRAL_FLOAT: "integral_floats",
    Cause.ZERO_OR_ONE: "booleans_0_1",
    Cause.JSON_TEXT: "parse_json_text",
}
# What a value needs beside that, by its detail.
_ALSO: Mapping[tuple[str, str], str] = {
    (Cause.NUMBER_IN_TEXT, Cause.INTEGRAL_FLOAT): ",integral_floats",
    (Cause.ZERO_OR_ONE, Cause.NUMBER_IN_TEXT): ",numbers_in_strings",
}
_PHRASES = {
    Cause.EMPTY_TEXT: "an empty text",
    Cause.NUMBER_IN_TEXT: "a number in a text",
    Cause.INTEGRAL_FLOAT: "a whole number written as a float",
    Cause.FRACTION: "a number with a fraction",
    Cause.OUT_OF_RANGE: "a number beyond its range",
    Cause.TOO_MANY_DIGITS: "a number with more digits than it holds",
    Cause.ZERO_OR_ONE: "0 or 1",
    Cause.EPOCH: "a number",
    Cause.OTHER_TIME: "a text in another form",
    Cause.NO_SUCH_TIME: "a time that does not exist",
    Cause.ZONE: "a time with a zone",
    Cause.TIME_OF_DAY: "a day with a time",
    Cause.JSON_TEXT: "JSON inside of a text",
    Cause.NOT_BASE64: "a text that is not base64",
    Cause.TEXT: "a text",
    Cause.NUMBER: "a number",
    Cause.BOOLEAN: "true or false",
    Cause.OBJECT: "an object",
    Cause.ARRAY: "an array",
}
_KIND_PHRASES: Mapping[str, str] = {
    LineKind.NOT_UTF8: "not UTF-8",
    LineKind.NOT_JSON: "not JSON",
    LineKind.NOT_OBJECT: "not an object",
    LineKind.TOO_LONG: "longer than limits.max_record_bytes",
    LineKind.TOO_DEEP: "nested too deep",
    LineKind.DUPLICATE_KEY: "given twice on one line",
    LineKind.UNKNOWN_FIELD: "a field that the schema does not declare",
    LineKind.MISSING_VALUE: "null or missing, but the column is NOT NULL",
    LineKind.TRANSFORM: "the transform cannot make a row of it",
    LineKind.UNROUTED: "no target takes it",
}


def type_word(expected: str) -> str:
    """The type as DDL writes it."""
    return _WORDS.get(expected, expected.upper())


def phrase(reason: Reason) -> str:
    """What the value is: `a number with a fraction`."""
    if reason.cause == Cause.FRACTION_DIGITS:
        return f"{reason.detail} digits of fraction"
    if reason.cause:
        return _PHRASES[Cause(reason.cause)]
    return _KIND_PHRASES[reason.kind] + (f": {reason.detail}" if reason.detail else "")


def explain(reason: Reason) -> str:
    """The reason in a few words, without an example: `amount BIGINT holds a number with a fraction`."""
    if reason.column is None:
        return phrase(reason)
    column = "other columns" if reason.column == OTHER_COLUMNS else reason.column
    if not reason.cause:
        return f"{column}: {phrase(reason)}"
    return f"{column}{' ' + type_word(reason.expected) if reason.expected else ''} holds {phrase(reason)}"


def told(reason: Reason, met: Met, *, of: int, became: str, remedies: Sequence[object]) -> str:
    """A sentence for a person: how many records, the cause, the first of them, and what would take them. `became` says
    where they go, `of` is how many records there were."""
    way_out = f". To take them: {', or '.join(map(str, remedies))}" if remedies else ""
    value = _value_in(met.message, reason)
    first = f" (the first: {met.path} line {met.line}{', ' if value else ''}{value})"
    return f"{share(met.records, of)} {became}: {explain(reason)}{first}{way_out}"


def _value_in(message: str, reason: Reason) -> str:
    """The value as the message shows it; empty if the line is bad for another cause."""
    return message.removeprefix(f"{reason.column}: ").rpartition(" is not a valid ")[0] if reason.cause else ""


def share(records: int, of: int) -> str:
    """`1,204 of 80,000 records (1.5%)`."""
    percent = 100 * records / max(of, 1)
    return f"{records:,} of {of:,} records ({percent:.1f}%)" if percent >= 0.1 else f"{records:,} of {of:,} records"


def advice_for(reason: Reason, *, rescues: bool = False) -> tuple[Remedy, ...]:
    """What would take such records, the best first; none if only the source can change it. `rescues`: the policy for
    bad records is rescue already."""
    if reason.column == OTHER_COLUMNS:
        return ()
    match reason.kind:
        case LineKind.BAD_VALUE:
            return (*_for_value(reason), *(() if rescues else (RESCUE,)))
        case LineKind.UNKNOWN_FIELD:
            return (
                _one("schema.evolution=add_columns"),
                _one("schema.evolution=rescue"),
                _one("schema.evolution=ignore"),
            )
        case LineKind.TOO_LONG:
            return (_one("limits.max_record_bytes=…"),)
        case _:
            return ()


def _for_value(reason: Reason) -> tuple[Remedy, ...]:
    column, expected, cause = reason.column, reason.expected, reason.cause
    if expected == "string":
        return (_one("schema.json_in_strings=keep"),)
    if cause == Cause.FRACTION_DIGITS:
        return (_one("schema.timestamps=cut"),)
    if cause in (Cause.EPOCH, Cause.OTHER_TIME) and reason.detail:
        return _formats(reason), _hint(column, "STRING")
    if cause == Cause.NUMBER_IN_TEXT and reason.detail == Cause.FRACTION:
        return _hint(column, "DOUBLE", f"schema.coerce.{column}=numbers_in_strings"), _hint(column, "STRING")
    if cause in _COERCED:
        return (_one(f"schema.coerce.{column}={_COERCED[cause]}{_ALSO.get((cause, reason.detail), '')}"),)
    wider = _WIDER.get(cause) or (_LARGER.get(expected) if cause == Cause.OUT_OF_RANGE else None)
    return (_hint(column, wider or "STRING"),)


def _one(setting: str) -> Remedy:
    return Remedy(settings=(setting,))


def _hint(column: str | None, data_type: str, *more: str) -> Remedy:
    return Remedy(settings=(f"schema.hints={column} {data_type}", *more), for_new_table=True)


def _formats(reason: Reason) -> Remedy:
    """The new form beside the one that the other values of the column have."""
    column, form = reason.column, reason.detail
    if reason.expected == "date" and reason.cause == Cause.EPOCH:
        return _hint(column, "TIMESTAMP", f"schema.formats.{column}={form}")
    both = f'["iso", "{form}"]' if "%" in form else f"iso,{form}"
    return _one(f"schema.formats.{column}={both}")
