"""The record contract: times in other forms, times that are cut, and values that a column takes when it is told to."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.schema.ddl import parse_ddl
from blizzard.tasks.policy import EVERY_COLUMN, Coercion, ParsePolicy
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError

BAD = "bad_value"
DAY_US = 86_400_000_000


def read(ddl: str, value: str, policy: ParsePolicy) -> Any:
    """The value of the one column, or the kind of the error."""
    reader = RecordReader(parse_ddl(f"a {ddl}"), policy)
    try:
        return reader.read(f'{{"a":{value}}}'.encode())["a"], reader.cut == [("a",)]
    except LineError as error:
        return error.kind


FORMATS: list[tuple[str, tuple[str, ...], str, Any]] = [
    ("TIMESTAMP", ("epoch_s",), "1", (1_000_000, False)),
    ("TIMESTAMP", ("epoch_s",), '"1"', (1_000_000, False)),
    ("TIMESTAMP", ("epoch_s",), "1.5e3", (1_500_000_000, False)),
    ("TIMESTAMP", ("epoch_s",), "-1.0000001", (-1_000_001, True)),
    ("TIMESTAMP", ("epoch_s",), "1e-9", (0, True)),
    ("TIMESTAMP", ("epoch_s",), "-1e-9", (-1, True)),
    ("TIMESTAMP", ("epoch_s",), "-0.0", (0, False)),
    ("TIMESTAMP", ("epoch_s",), "253402300799.999999", (253402300799999999, False)),
    ("TIMESTAMP", ("epoch_s",), "253402300799.9999999", (253402300799999999, True)),
    ("TIMESTAMP", ("epoch_s",), "253402300800", BAD),
    ("TIMESTAMP", ("epoch_s",), "-62135596800", (-62135596800000000, False)),
    ("TIMESTAMP", ("epoch_s",), "-62135596800.0000001", BAD),
    ("TIMESTAMP", ("epoch_s",), "1e0001", BAD),
    ("TIMESTAMP", ("epoch_s",), "0e9999", BAD),
    ("TIMESTAMP", ("epoch_s",), "0e999", (0, False)),
    ("TIMESTAMP", ("epoch_s",), "1" + "0" * 9000, BAD),
    ("TIMESTAMP", ("epoch_s",), '"01"', BAD),
    ("TIMESTAMP", ("epoch_s",), '" 1"', BAD),
    ("TIMESTAMP", ("epoch_s",), '"+1"', BAD),
    ("TIMESTAMP", ("epoch_s",), '"1970-01-01"', BAD),
    ("TIMESTAMP", ("epoch_s",), "true", BAD),
    ("TIMESTAMP", ("epoch_ms",), "1700000000123", (1700000000123000, False)),
    ("TIMESTAMP", ("epoch_us",), "1700000000123456", (1700000000123456, False)),
    ("TIMESTAMP", ("epoch_ns",), "1700000000123456789", (1700000000123456, True)),
    ("TIMESTAMP", ("epoch_ns",), "1700000000123456000", (1700000000123456, False)),
    ("TIMESTAMP_NTZ", ("epoch_ms",), "-1", (-1000, False)),
    ("TIMESTAMP", ("iso", "epoch_ms"), '"1970-01-02"', (DAY_US, False)),
    ("TIMESTAMP", ("iso", "epoch_ms"), "5", (5000, False)),
    ("TIMESTAMP", ("%d/%m/%Y %H:%M",), '"02/01/1970 00:01"', (DAY_US + 60_000_000, False)),
    ("TIMESTAMP", ("%d/%m/%Y %H:%M",), '"2/1/1970 00:01"', BAD),
    ("TIMESTAMP", ("%-d/%-m/%Y %-I:%M %p",), '"2/1/1970 12:00 am"', (DAY_US, False)),
    ("TIMESTAMP", ("%-d/%-m/%Y %-I:%M %p",), '"02/01/1970 12:01 pM"', (DAY_US + 43_260_000_000, False)),
    ("TIMESTAMP", ("%-d/%-m/%Y %-I:%M %p",), '"2/1/1970 0:00 AM"', BAD),
    ("TIMESTAMP", ("%Y%m%d%H%M%S",), '"19700102000001"', (DAY_US + 1_000_000, False)),
    ("TIMESTAMP", ("%Y%m%d%H%M%S",), '"19700132000001"', BAD),
    ("TIMESTAMP", ("%Y%m%d%H%M%S",), "19700102000001", BAD),
    ("TIMESTAMP", ("%Y-%m-%d %H:%M:%S.%f%z",), '"1970-01-01 00:00:00.1234567-01"', (3_600_123_456, True)),
    ("TIMESTAMP", ("%Y-%m-%d %H:%M:%S.%f%z",), '"1970-01-01 00:00:00.1+2400"', BAD),
    ("TIMESTAMP", ("%A %e %B %Y",), '"FRIDAY  2 jaNUARY 1970"', (DAY_US, False)),
    ("TIMESTAMP", ("%a %b %e %H:%M:%S %Y",), '"Mon Jan 12 00:00:00 1970"', (11 * DAY_US, False)),
    ("TIMESTAMP", ("100%% %Y.%m.%d",), '"100% 1970.01.02"', (DAY_US, False)),
    ("TIMESTAMP", ("rfc1123",), '"Fri, 02 Jan 1970 00:00:00 GMT"', (DAY_US, False)),
    ("TIMESTAMP", ("rfc1123",), '"Fri, 02 Jan 1970 00:00:00 UTC"', (DAY_US, False)),
    ("TIMESTAMP", ("rfc1123",), '"Fri, 02 Jan 1970 01:00:00 +0100"', (DAY_US, False)),
    ("TIMESTAMP", ("rfc1123",), '"Fri, 02 Jan 1970 00:00:00"', BAD),
    ("TIMESTAMP", ("clf",), '"02/Jan/1970:01:00:00 +0100"', (DAY_US, False)),
    ("DATE", ("%d.%m.%Y",), '"02.01.1970"', (1, False)),
    ("DATE", ("%d.%m.%Y",), '"30.02.1970"', BAD),
    ("DATE", ("%d.%m.%Y",), '"1970-01-02"', BAD),
    ("DATE", ("iso", "%d.%m.%Y"), '"1970-01-02"', (1, False)),
    ("DATE", ("%d.%m.%Y",), '"٠٢.01.1970"', BAD),
    ("DATE", ("%d %b %Y",), '"02 \u017fep 1970"', BAD),
]


@pytest.mark.parametrize(("ddl", "formats", "value", "expected"), FORMATS)
def test_a_time_in_a_form_of_its_own(ddl: str, formats: tuple[str, ...], value: str, expected: Any) -> None:
    assert read(ddl, value, ParsePolicy(formats={("a",): formats})) == expected


@pytest.mark.parametrize(
    ("value", "cut", "exact"),
    [
        ('"1970-01-01T00:00:00.123456789"', (123456, True), BAD),
        ('"1970-01-01T00:00:00.123456000"', (123456, False), (123456, False)),
        ('"1969-12-31T23:59:59.9999999"', (-1, True), BAD),
        ('"9999-12-31T23:59:59.9999999"', (253402300799999999, True), BAD),
    ],
)
def test_a_time_is_cut_to_microseconds_and_told_or_bad(value: str, cut: Any, exact: Any) -> None:
    assert read("TIMESTAMP", value, ParsePolicy()) == cut
    assert read("TIMESTAMP_NTZ", value, ParsePolicy()) == cut
    assert read("TIMESTAMP", value, ParsePolicy(exact_timestamps=True)) == exact


def test_each_time_that_is_cut_counts_for_its_column() -> None:
    reader = RecordReader(parse_ddl("l ARRAY<TIMESTAMP>, s STRUCT<t: TIMESTAMP_NTZ>"))
    nine = '"2024-01-01T00:00:00.123456789"'
    reader.read(f'{{"s":{{"T":{nine}}},"l":[{nine},"2024-01-01",{nine}]}}'.encode())
    assert reader.cut == [("l", "element"), ("l", "element"), ("s", "t")]


NUMBERS, INTEGRAL, BOOLEANS = Coercion.NUMBERS_IN_STRINGS, Coercion.INTEGRAL_FLOATS, Coercion.BOOLEANS_0_1
EMPTY, TEXT = Coercion.EMPTY_IS_NULL, Coercion.PARSE_JSON_TEXT

COERCIONS: list[tuple[str, set[Coercion], str, Any]] = [
    ("INT", {NUMBERS}, '"12"', 12),
    ("INT", {NUMBERS}, '"-0"', 0),
    ("INT", {NUMBERS}, '"1.0"', BAD),
    ("INT", {NUMBERS, INTEGRAL}, '"1.0"', 1),
    ("INT", {NUMBERS}, '"2147483648"', BAD),
    ("INT", {NUMBERS}, '"+1"', BAD),
    ("INT", {NUMBERS}, '" 1"', BAD),
    ("INT", {NUMBERS}, '"01"', BAD),
    ("INT", {NUMBERS}, '""', BAD),
    ("INT", {NUMBERS}, '"\u0661"', BAD),
    ("INT", {NUMBERS}, "true", BAD),
    ("DOUBLE", {NUMBERS}, '"1e2"', 100.0),
    ("DOUBLE", {NUMBERS}, '"1e999"', BAD),
    ("DOUBLE", {NUMBERS}, '"NaN"', BAD),
    ("FLOAT", {NUMBERS}, '"1.000000059604644775390626"', 1.0000001192092896),
    ("DECIMAL(10,2)", set(), '"1.50"', 1.5),
    ("TIMESTAMP", {NUMBERS}, '"1"', BAD),
    ("INT", {INTEGRAL}, "1.0", 1),
    ("INT", {INTEGRAL}, "1e2", 100),
    ("INT", {INTEGRAL}, "100e-2", 1),
    ("INT", {INTEGRAL}, "-0.0", 0),
    ("INT", {INTEGRAL}, "1.5", BAD),
    ("INT", {INTEGRAL}, "1e0002", BAD),
    ("BIGINT", {INTEGRAL}, "9223372036854775807.0", 2**63 - 1),
    ("BIGINT", {INTEGRAL}, "9223372036854775808.0", BAD),
    ("BIGINT", {INTEGRAL}, "-9.223372036854775808e18", -(2**63)),
    ("BIGINT", {INTEGRAL}, "1e999", BAD),
    ("BIGINT", {INTEGRAL}, "1." + "0" * 5000, 1),
    ("BOOLEAN", {BOOLEANS}, "0", False),
    ("BOOLEAN", {BOOLEANS}, "-0", False),
    ("BOOLEAN", {BOOLEANS}, "1", True),
    ("BOOLEAN", {BOOLEANS}, "true", True),
    ("BOOLEAN", {BOOLEANS}, "2", BAD),
    ("BOOLEAN", {BOOLEANS}, "1.0", BAD),
    ("BOOLEAN", {BOOLEANS}, '"1"', BAD),
    ("BOOLEAN", {BOOLEANS, NUMBERS}, '"1"', True),
    ("BOOLEAN", {NUMBERS}, '"1"', BAD),
    ("INT", {EMPTY}, '""', None),
    ("INT", {EMPTY}, '" "', BAD),
    ("STRING", {EMPTY}, '""', None),
    ("BINARY", {EMPTY}, '""', None),
    ("STRUCT<b: INT>", {EMPTY}, '""', None),
    ("INT NOT NULL", {EMPTY}, '""', "missing_value"),
    ("STRUCT<b: INT>", {TEXT}, '"{\\"b\\": 1}"', {"b": 1}),
    ("STRUCT<b: INT>", {TEXT}, '" \\t\\r\\n{\\"b\\":\\n1}\\n"', {"b": 1}),
    ("STRUCT<b: INT>", {TEXT}, '{"b":1}', {"b": 1}),
    ("STRUCT<b: INT>", {TEXT}, '"[]"', BAD),
    ("STRUCT<b: INT>", {TEXT}, '"null"', BAD),
    ("STRUCT<b: INT>", {TEXT}, '"{"', BAD),
    ("STRUCT<b: INT>", {TEXT}, '"{\\"b\\":NaN}"', BAD),
    ("STRUCT<b: INT>", {TEXT}, '"{\\"b\\":1,\\"c\\":\\"\\\\ud800\\"}"', BAD),
    ("STRUCT<b: INT>", {TEXT}, '"{\\"b\\":1,\\"B\\":1}"', "duplicate_key"),
    ("STRUCT<b: STRUCT<c: INT>>", {TEXT}, '"{\\"b\\":\\"{}\\"}"', BAD),
    ("ARRAY<INT>", {TEXT}, '"[1,2]"', [1, 2]),
    ("ARRAY<INT>", {TEXT}, '"\\"[1]\\""', BAD),
    ("MAP<STRING, INT>", {TEXT}, '"{\\"x\\":1}"', [("x", 1)]),
    ("STRING", {TEXT}, '"{}"', "{}"),
]


@pytest.mark.parametrize(("ddl", "coercions", "value", "expected"), COERCIONS)
def test_a_column_takes_more_when_it_is_told_to(ddl: str, coercions: set[Coercion], value: str, expected: Any) -> None:
    found = read(ddl, value, ParsePolicy(coerce={("a",): frozenset(coercions)}))
    assert found == (
        expected
        if isinstance(expected, str) and expected in (BAD, "missing_value", "duplicate_key")
        else (expected, False)
    )


def test_a_text_nested_too_deep_does_not_fit() -> None:
    policy = ParsePolicy(coerce={("a",): frozenset({TEXT})})
    assert read("ARRAY<STRING>", '"' + "[" * 500 + "]" * 500 + '"', policy)[0] == ["[" * 499 + "]" * 499]
    assert read("ARRAY<STRING>", '"' + "[" * 501 + "]" * 501 + '"', policy) == BAD


def test_every_column_means_nested_ones_too() -> None:
    policy = ParsePolicy(coerce={EVERY_COLUMN: frozenset({NUMBERS, TEXT, EMPTY})})
    schema = parse_ddl("l ARRAY<STRUCT<b: INT>>, m MAP<STRING, BIGINT>, n INT, s STRING")
    line = b'{"l":["{\\"b\\":\\"1\\"}",{"b":"2"},""],"m":{"x":"3","y":""},"n":"","s":""}'
    assert RecordReader(schema, policy).read(line) == {
        "l": [{"b": 1}, {"b": 2}, None],
        "m": [("x", 3), ("y", None)],
        "n": None,
        "s": "",
    }


def test_a_coercion_for_elements_is_named_by_their_path() -> None:
    policy = ParsePolicy(coerce={("l", "element"): frozenset({NUMBERS})})
    assert RecordReader(parse_ddl("l ARRAY<INT>"), policy).read(b'{"l":["1",2]}') == {"l": [1, 2]}


def test_a_text_that_does_not_fit_is_rescued_as_it_was() -> None:
    policy = ParsePolicy(rescue_values=True, coerce={EVERY_COLUMN: frozenset({TEXT, NUMBERS})})
    reader = RecordReader(parse_ddl("a STRUCT<b: INT>, n INT"), policy)
    assert reader.read(b'{"a":"{\\"b\\":1.5,\\"c\\":1}","n":"x"}') == {
        "a": {"b": None},
        "n": None,
        "_rescued_data": '{"a.b":1.5,"n":"x"}',
    }
    assert reader.read(b'{"a":"{"}') == {"a": None, "n": None, "_rescued_data": '{"a":"{"}'}
