"""The fast path against the reference, on lines made to tell them apart: same rows, same bad lines, same kinds."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from blizzard.schema import DeltaSchema, DeltaType
from blizzard.schema.arrow import to_arrow
from blizzard.tasks import parse as parse_module
from blizzard.tasks.convert import DoubtError
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError

T = TypeVar("T")

NUMBERS = [
    *("0", "-0", "1", "-1", "127", "128", "-129", "32768", "2147483648", "9223372036854775807", "-9223372036854775808"),
    *("9223372036854775808", "1.0", "1.5", "1e2", "1E+2", "1.500", "1.555", "-0.0", "0e50", "0e-50", "1e999", "-1e999"),
    *(
        "1e-999",
        "1e39",
        "3.4028235677973366e38",
        "3.4028235677973365e38",
        "1.7976931348623159e308",
        "1e8",
        "99999999.99",
    ),
    *("1.000000059604644775390625", "1.000000059604644775390626", "1.000000178813934326171874", "16777217", "1e-45"),
    *("7.006492321624085e-46", "123456789.12", "9" * 38, "9" * 39, "9" * 400, "0." + "3" * 60, "1" + "0" * 50 + "e-50"),
    *("01", "-", "+1", "1.", ".5", "1e", "1e+", "0x10", "1_0", "NaN", "-NaN", "Infinity", "-Infinity", "Inf", "nan"),
    *("1e2147483648", "1e-2147483648", "1e99999999999999999999", "0e99999999999999999999", "1e05", "1e-05"),
]
TEXTS = [
    *(
        "",
        "a",
        " ",
        "1",
        "true",
        "null",
        "NaN",
        "Inf",
        "Info}",
        "NaN,",
        "Infinity ]",
        "{",
        "}",
        "}{",
        "{}",
        "[]",
        "\u00e9",
    ),
    *("😀", "\u2028", "\x7f", "\x00", "\n", "}\n{", "\\", '"', "\ufeff", "1.5", "+1", ".5", "1.", "01", "1e2", "1e+-1"),
    *(
        "1e0x2",
        "1E+0X2",
        "1e-0x2",
        "-1e0xFFFFFFFE",
        "1e+-0x1",
        "1e5",
        "1e37",
        "1.555",
        "1 ",
        " 1",
        "1e",
        "-",
        "e5",
        "１",
    ),
    *("YQ==", "YWI=", "YWJj", "YR==", "YQ=", "YQ", "Y Q==", "YWJj\n", "-_==", "YWJj====", "=", "////", "++++"),
    *("2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2024-1-1", "20240101", "12024-01-01"),
    *("2024-01-01T00:00:00Z", "2024-01-01 23:59:59.999999", "2024-01-01T24:00:00", "2024-01-01T00:00:60Z"),
    *("2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00.1234560Z", "2024-01-01T00:00:00.", "2024-01-01T12"),
    *("2024-01-01T12:30+02", "2024-01-01T12:30+0230", "2024-01-01T12:30-02:30", "2024-01-01T12:30+24:00"),
    *("2024-01-01T12:30+23:60", "2024-01-01T12:30 Z", "2024-01-01Z", "2024-01-01t12:30z", "2024-01-01T1230"),
    *("9999-12-31T23:59:59.999999-00:01", "0001-01-01T00:00+00:01", "٢٠٢٤-01-01", "2024-01-01T12:30:00,5"),
]
LITERALS = [
    "true",
    "false",
    "null",
    "True",
    "nul",
    "",
    "{}",
    "[]",
    "[[1]]",
    '{"a":1}',
    '"\\ud800"',
    '"\\udc00"',
    '"\\ud83d\\ude00"',
]
FRAGMENTS = [
    *(
        b"NaN",
        b"Infinity",
        b"-Inf",
        b"}{",
        b"}\n{",
        b"null",
        b"\xef\xbb\xbf",
        b"\x00",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
    ),
    *(b'"\\ud800"', b"\\ud83d", b"\\u0000", b"9" * 30, b",", b":", b'"', b"\\", b"[", b"]", b"{", b"}", b"\n", b"\r\n"),
    *(
        b"\r",
        b"\t",
        b" ",
        b"\n\n",
        b"{}",
        b"[]",
        b"//",
        b"'",
        b"\x0b",
        b"\x1f",
        b"\xe2\x80\xa8",
        b"\\u0061",
        b"e+-",
        b"0x",
    ),
]
PRIMITIVES = [
    *("byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary", "date", "timestamp"),
    *("timestamp_ntz", "decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(3,3)"),
]
GOOD: dict[str, list[str]] = {
    "boolean": ["true", "false"],
    "string": ['"a"', '""', '"\\u0041\\n"', '"😀"', '"Info"', '"}{"'],
    "binary": ['"YQ=="', '""', '"YWJj"'],
    "date": ['"2024-02-29"', '"1969-12-31"', '"2024\\u002d01-01"'],
    "timestamp": ['"2024-01-01T00:00:00Z"', '"1969-12-31 23:59:59.5+01:00"', '"2024-01-01"', '"2024-01-01T05"'],
    "timestamp_ntz": ['"2024-01-01T00:00:00"', '"1969-12-31 23:59:59.5"', '"2024-01-01"'],
    "decimal(10,2)": ["1.5", '"1.50"', "-0.01", "100", "1e2"],
}
NAMES = ["a", "b", "A", "NaN", "é", "a.b"]


def types() -> SearchStrategy[DeltaType]:
    def nest(inner: SearchStrategy[DeltaType]) -> SearchStrategy[DeltaType]:
        arrays = st.builds(lambda t, n: {"type": "array", "elementType": t, "containsNull": n}, inner, st.booleans())
        return arrays | structs(inner)

    return st.recursive(st.sampled_from(PRIMITIVES), nest, max_leaves=4)


def structs(inner: SearchStrategy[DeltaType]) -> SearchStrategy[DeltaSchema]:
    field = st.builds(
        lambda n, t, nullable: {"name": n, "type": t, "nullable": nullable, "metadata": {}},
        st.sampled_from(NAMES),
        inner,
        st.sampled_from([True, True, False]),
    )
    fields = st.lists(field, min_size=1, max_size=3, unique_by=lambda f: str(f["name"]).lower())
    return fields.map(lambda f: {"type": "struct", "fields": f})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Draws JSON text for a schema: mostly right, sometimes of another type, sometimes hostile."""

    draw: st.DrawFn
    hostility: int

    def record(self, schema: DeltaSchema) -> bytes:
        text = self._object(schema).encode("utf-8")
        for _ in range(self._pick([0] * 12 + [1, 2][: self.hostility])):
            at = self.draw(st.integers(0, len(text)))
            cut = self._pick([0, 0, 1, 3])
            text = text[:at] + self._pick(FRAGMENTS) + text[at + cut :]
        return self._pick([b""] * 9 + [b" ", b"\t", b"\r"]) + text + self._pick([b""] * 9 + [b" ", b"\r"])

    def _pick(self, values: list[T]) -> T:
        return self.draw(st.sampled_from(values))

    def _odd(self) -> bool:
        return bool(self.hostility) and self.draw(st.integers(0, 11)) == 0

    def _value(self, data_type: DeltaType, nullable: bool) -> str:
        if self._odd() or (nullable and self.draw(st.integers(0, 9)) == 0):
            return self._anything() if self._odd() else "null"
        match data_type:
            case {"type": "struct"}:
                return self._object(data_type)
            case {"type": "array", "elementType": element, "containsNull": inner}:
                items = [self._value(element, inner) for _ in range(self._pick([0, 1, 2]))]
                return "[" + ",".join(items) + "]"
            case str() if self._odd():
                return self._anything()
            case str():
                return str(self._pick(GOOD.get(data_type, ["0", "1", "-1"] if "3,3" not in data_type else ["0.5"])))
            case _:
                raise AssertionError(data_type)

    def _anything(self) -> str:
        kind = self._pick(["number", "text", "escaped", "literal"])
        if kind == "number":
            return str(self._pick(NUMBERS))
        if kind == "literal":
            return str(self._pick(LITERALS))
        text = self._pick(TEXTS)
        if kind == "escaped":
            return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text) + '"'
        return json.dumps(text, ensure_ascii=self.draw(st.booleans()))

    def _object(self, data_type: Any) -> str:
        members = []
        for field in data_type["fields"]:
            if self._pick([True] * 9 + [False]) or not field["nullable"]:
                members.append(f"{self._name(field['name'])}:{self._value(field['type'], field['nullable'])}")
        for _ in range(self._pick([0, 0, 0, 1])):
            members.append(f"{self._name(self._pick(['x', '', 'y', *NAMES]))}:{self._anything()}")
        if self.draw(st.booleans()):
            members.reverse()
        return "{" + self._pick([",", ", ", " ,\t"]).join(members) + "}"

    def _name(self, name: str) -> str:
        return (
            json.dumps(name)
            if self._pick([True] * 9 + [False])
            else f'"\\u{ord(name[0]):04X}{name[1:]}"'
            if name
            else '""'
        )


@st.composite
def cases(draw: st.DrawFn, *, most_lines: int) -> tuple[DeltaSchema, list[bytes]]:
    schema = draw(structs(types()))
    source = Lines(draw=draw, hostility=draw(st.sampled_from([0, 1, 2])))
    lines = [source.record(schema) for _ in range(draw(st.integers(1, most_lines)))]
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from([b"", b" ", b"\t\r", *FRAGMENTS])))
    return schema, lines


def read_line_by_line(schema: DeltaSchema, block: bytes, first_of_file: bool) -> dict[str, Any]:
    """What the contract says about a block, without any of the code under test but the reference."""
    bom = first_of_file and block.startswith(b"\xef\xbb\xbf")
    content = block[3:] if bom else block
    lines = content.split(b"\n") if content or bom else []
    if content.endswith(b"\n"):
        lines.pop()
    reader = RecordReader(schema)
    rows, bad, blank = [], [], 0
    for index, line in enumerate(lines):
        if not line.strip(b" \t\r"):
            blank += 1
            continue
        try:
            rows.append(reader.read(line))
        except LineError as error:
            bad.append((index, error.kind, str(error), error.column))
    table = pa.Table.from_pylist(rows, schema=to_arrow(schema))
    return {"rows": show(table), "lines": len(lines), "blank": blank, "bad": bad}


def parse(schema: DeltaSchema, block: bytes, first_of_file: bool) -> dict[str, Any]:
    parsed = RecordParser(schema).parse(block, first_of_file=first_of_file)
    assert parsed.table.schema.equals(to_arrow(schema), check_metadata=True)
    parsed.table.validate(full=True)
    bad = [(line.index, line.kind, line.message, line.column) for line in parsed.bad]
    return {"rows": show(parsed.table), "lines": parsed.lines, "blank": parsed.blank, "bad": bad}


def show(table: pa.Table) -> list[str]:
    """Rows as text, in which 0.0 and -0.0 differ, and Decimal('1.5') and Decimal('1.50') too."""
    return [repr(row) for row in table.to_pylist()]


quick = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=150
)


@quick
@given(
    case=cases(most_lines=14),
    first_of_file=st.booleans(),
    newline=st.sampled_from([b"\n", b"\n", b"\r\n"]),
    ends=st.booleans(),
    few_lines=st.sampled_from([1, 8]),
    screen_after=st.sampled_from([2, 1000]),
)
def test_a_block_is_read_as_the_reference_reads_its_lines(
    case: tuple[DeltaSchema, list[bytes]],
    first_of_file: bool,
    newline: bytes,
    ends: bool,
    few_lines: int,
    screen_after: int,
) -> None:
    schema, lines = case
    block = newline.join(lines) + (newline if ends else b"")
    with (
        mock.patch.object(parse_module, "_FEW_LINES", few_lines),
        mock.patch.object(parse_module, "_DOUBTS_BEFORE_SCREEN", screen_after),
    ):
        assert parse(schema, block, first_of_file) == read_line_by_line(schema, block, first_of_file)


@settings(quick, max_examples=250)
@given(case=cases(most_lines=1))
def test_whatever_the_fast_path_vouches_for_is_what_the_reference_reads(
    case: tuple[DeltaSchema, list[bytes]],
) -> None:
    schema, lines = case
    block = b"\n".join(lines)
    try:
        table = RecordParser(schema)._read_fast(block)
    except DoubtError:
        return
    expected = read_line_by_line(schema, block, False)
    assert expected == {"rows": show(table), "lines": table.num_rows, "blank": 0, "bad": []}


@pytest.mark.parametrize("data_type", PRIMITIVES)
def test_every_hostile_value_means_the_same_in_every_type(data_type: str) -> None:
    field = {"name": "a", "type": data_type, "nullable": True, "metadata": {}}
    schema = {"type": "struct", "fields": [field]}
    texts = [json.dumps(text, ensure_ascii=False) for text in TEXTS]
    texts += ['"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"' for text in TEXTS if text != "😀"]
    values = [*NUMBERS, *LITERALS, *texts]
    parser, reader = RecordParser(schema), RecordReader(schema)
    for value in values:
        for line in (f'{{"a":{value}}}'.encode(), f'{{"x":{value},"a":null}}'.encode()):
            try:
                table = parser._read_fast(line)
            except DoubtError:
                continue
            assert show(table) == show(pa.Table.from_pylist([reader.read(line)], schema=to_arrow(schema))), line


DIGITS = st.text("0123456789", min_size=1, max_size=40)
INEXACT = ["float", "double", "decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(38,38)"]


@settings(quick, max_examples=250)
@given(
    sign=st.sampled_from(["", "-"]),
    whole=DIGITS,
    fraction=DIGITS,
    exponent=st.integers(-60, 45),
    quoted=st.booleans(),
    data_type=st.sampled_from(INEXACT),
)
@example(sign="", whole="3", fraction="4028235677973366", exponent=38, quoted=False, data_type="float")
def test_numbers_come_out_the_same_to_the_last_bit(
    sign: str, whole: str, fraction: str, exponent: int, quoted: bool, data_type: str
) -> None:
    field = {"name": "a", "type": data_type, "nullable": True, "metadata": {}}
    schema = {"type": "struct", "fields": [field]}
    number = f"{sign}{whole if quoted else whole.lstrip('0') or '0'}.{fraction}e{exponent}"
    line = f'{{"a":"{number}"}}'.encode() if quoted else f'{{"a":{number}}}'.encode()
    try:
        table = RecordParser(schema)._read_fast(line)
    except DoubtError:
        return
    value, expected = table["a"][0].as_py(), RecordReader(schema).read(line)["a"]
    if isinstance(value, float):
        value, expected = struct.pack("d", value), struct.pack("d", expected)
    assert value == expected
