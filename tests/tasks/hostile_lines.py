"""Schemas and lines made to tell a fast reader from an exact one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from blizzard.schema import ColumnPath, DeltaSchema, DeltaType
from blizzard.tasks.policy import EVERY_COLUMN, Coercion, ParsePolicy, Unknown

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
    *(
        "1709164800",
        "-1.5",
        "1709164800123",
        "1709164800.1234567",
        "0",
        "-0",
        "1e3",
        "1e9999",
        "12/31/2024",
        "1/2/2024",
    ),
    *("31/Dec/2024:23:59:59 +0100", "Tue, 31 Dec 2024 23:59:59 GMT", "tue, 31 DEC 2024 23:59:59 +0000", "31 dec 2024"),
    *(
        "2024-01-01T00:00:00.123456789Z",
        "2024-01-01T00:00:00.000000000001Z",
        '{"a":1}',
        "[1,2]",
        ' {"b" : [] } ',
        "[1,]",
    ),
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
    *("timestamp_ntz", "decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(3,3)", "variant"),
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
        maps = st.builds(
            lambda t, n: {"type": "map", "keyType": "string", "valueType": t, "valueContainsNull": n},
            inner,
            st.booleans(),
        )
        return arrays | structs(inner) | maps

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
        if isinstance(data_type, dict) and self._odd():
            return json.dumps(self._value(data_type, nullable))  # JSON text in a string
        match data_type:
            case {"type": "struct"}:
                return self._object(data_type)
            case {"type": "array", "elementType": element, "containsNull": inner}:
                items = [self._value(element, inner) for _ in range(self._pick([0, 1, 2]))]
                return "[" + ",".join(items) + "]"
            case {"type": "map", "valueType": inner_type, "valueContainsNull": inner}:
                names = [self._name(self._pick(["k", "l", "", *NAMES])) for _ in range(self._pick([0, 1, 2, 3]))]
                return "{" + ",".join(f"{name}:{self._value(inner_type, inner)}" for name in names) + "}"
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
                name = field["name"].swapcase() if self._odd() else field["name"]
                members.append(f"{self._name(name)}:{self._value(field['type'], field['nullable'])}")
        for _ in range(self._pick([0, 0, 0, 1])):
            name = self._pick(["x", "", "y", "B", "a B", *NAMES])
            members.append(f"{self._name(name)}:{self._anything()}")
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


FORMATS = {
    "timestamp": [
        ("iso",),
        ("epoch_s",),
        ("epoch_ms", "iso"),
        ("clf", "rfc1123"),
        ("%-m/%-d/%Y", "iso"),
        ("epoch_ns",),
    ],
    "timestamp_ntz": [("epoch_us",), ("%d %b %Y", "iso"), ("%Y-%m-%dT%H:%M:%S.%fZ",)],
    "date": [("%m/%d/%Y",), ("%d %B %Y", "iso")],
}


def paths(data_type: DeltaType, path: ColumnPath = ()) -> list[tuple[ColumnPath, DeltaType]]:
    """Every column of a schema, elements and values included."""
    match data_type:
        case {"type": "struct", "fields": fields}:
            inner = [found for field in fields for found in paths(field["type"], (*path, field["name"]))]
        case {"type": "array", "elementType": element}:
            inner = paths(element, (*path, "element"))
        case {"type": "map", "valueType": value}:
            inner = paths(value, (*path, "value"))
        case _:
            inner = []
    return [*([(path, data_type)] if path else []), *inner]


@st.composite
def policies(draw: st.DrawFn, schema: DeltaSchema) -> ParsePolicy:
    unknown = draw(st.sampled_from(list(Unknown)))
    columns = paths(schema)
    times = [(path, FORMATS[kind]) for path, kind in columns if isinstance(kind, str) and kind in FORMATS]
    is_plain = draw(st.booleans())
    formats = {} if is_plain else {path: draw(st.sampled_from(known)) for path, known in times if draw(st.booleans())}
    coercions = st.frozensets(st.sampled_from(list(Coercion)), min_size=1)
    named = {path: draw(coercions) for path, _ in columns if not is_plain and draw(st.integers(0, 3)) == 0}
    general = {EVERY_COLUMN: draw(coercions)} if not is_plain and draw(st.booleans()) else {}
    renamed: dict[ColumnPath, str] = {("x",): "a", ("y",): "nowhere"}
    return ParsePolicy(
        json_in_strings=draw(st.booleans()),
        unknown=unknown,
        rescue_values=draw(st.booleans()),
        keeps_rest=unknown is Unknown.REPORT and draw(st.booleans()),
        exact_timestamps=draw(st.booleans()),
        formats=formats,
        coerce={**named, **general},
        rename=None if is_plain else draw(st.sampled_from([None, "snake", renamed])),
    )
