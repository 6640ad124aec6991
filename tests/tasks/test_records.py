"""The record contract, line by line: what each type takes, what it refuses, and how a bad line is named."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import orjson
import pytest

from blizzard.errors import SchemaError
from blizzard.schema import DeltaSchema, DeltaType
from blizzard.tasks.policy import ParsePolicy
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import MAX_NESTING, LineError, parse_json


def schema_of(data_type: DeltaType, *, nullable: bool = True) -> DeltaSchema:
    return {"type": "struct", "fields": [field("a", data_type, nullable=nullable)]}


def field(name: str, data_type: DeltaType, *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def array_of(data_type: DeltaType, *, nullable: bool = True) -> DeltaType:
    return {"type": "array", "elementType": data_type, "containsNull": nullable}


def map_of(data_type: DeltaType, *, key: str = "string") -> DeltaType:
    return {"type": "map", "keyType": key, "valueType": data_type, "valueContainsNull": False}


def read(data_type: DeltaType, value: str, *, nullable: bool = True) -> Any:
    return RecordReader(schema_of(data_type, nullable=nullable)).read(f'{{"a":{value}}}'.encode())["a"]


def fault(data_type: DeltaType, line: str | bytes, *, nullable: bool = True) -> LineError:
    content = line.encode() if isinstance(line, str) else line
    with pytest.raises(LineError) as caught:
        RecordReader(schema_of(data_type, nullable=nullable)).read(content)
    return caught.value


GOOD: list[tuple[DeltaType, str, object]] = [
    ("byte", "-128", -128),
    ("byte", "127", 127),
    ("short", "-32768", -32768),
    ("integer", "2147483647", 2147483647),
    ("long", "9223372036854775807", 2**63 - 1),
    ("long", "-9223372036854775808", -(2**63)),
    ("long", "-0", 0),
    ("double", "1", 1.0),
    ("double", "1.7976931348623157e308", 1.7976931348623157e308),
    ("double", "1e-999", 0.0),
    ("double", "0.1", 0.1),
    ("float", "0.1", 0.10000000149011612),
    ("float", "3.4028235e38", 3.4028234663852886e38),
    ("decimal(10,2)", "1.500", Decimal("1.5")),
    ("decimal(10,2)", "1e2", Decimal(100)),
    ("decimal(10,2)", "100e-2", Decimal(1)),
    ("decimal(10,2)", '"-12345678.90"', Decimal("-12345678.9")),
    ("decimal(10,2)", '"+.5"', Decimal("0.5")),
    ("decimal(10,2)", "0e99999999999999999999", Decimal(0)),
    ("decimal(10,2)", "1" + "0" * 5000 + "e-5000", Decimal(1)),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(38,18)", "9" * 20 + "." + "9" * 18, Decimal("9" * 20 + "." + "9" * 18)),
    ("boolean", "true", True),
    ("string", '"\\u0000\\ud83d\\ude00"', "\x00😀"),
    ("string", '"1"', "1"),
    ("string", "1.50", "1.50"),
    ("string", "9" * 5000, "9" * 5000),
    ("string", "-0E+05", "-0E+05"),
    ("string", "true", "true"),
    ("string", "false", "false"),
    ("string", "[]", "[]"),
    ("string", "{ }", "{}"),
    (
        "string",
        '{ "b" : [1.0 ,null],\t"a":{"b":"\\u00e9\\n/"} , "b":1e2}',
        '{"b":[1.0,null],"a":{"b":"é\\n/"},"b":1e2}',
    ),
    (array_of("string"), '["a",1,null,{"x":[]}]', ["a", "1", None, '{"x":[]}']),
    (map_of("string"), '{"x":1,"y":[ true ]}', [("x", "1"), ("y", "[true]")]),
    ({"type": "struct", "fields": [field("b", "string")]}, '{"b":1}', {"b": "1"}),
    ("binary", '"AAE="', b"\x00\x01"),
    ("binary", '""', b""),
    ("date", '"1970-01-02"', 1),
    ("date", '"0001-01-01"', -719162),
    ("timestamp", '"1970-01-01"', 0),
    ("timestamp", '"1970-01-01T01"', 3_600_000_000),
    ("timestamp", '"1970-01-01 00:01"', 60_000_000),
    ("timestamp", '"1970-01-01T00:00:01.000001Z"', 1_000_001),
    ("timestamp", '"1970-01-01T00:00:00.100000000Z"', 100_000),
    ("timestamp", '"1970-01-01T01:30:00+01:30"', 0),
    ("timestamp", '"1970-01-01T00:00:00-0130"', 5_400_000_000),
    ("timestamp", '"1970-01-01T01:00+01"', 0),
    ("timestamp_ntz", '"1970-01-01T00:00:01"', 1_000_000),
    (array_of("long"), "[1,null]", [1, None]),
    (array_of(array_of("long")), "[[],[1]]", [[], [1]]),
    (map_of("long"), '{"x":1,"y":2}', [("x", 1), ("y", 2)]),
    ({"type": "struct", "fields": [field("b", "long")]}, '{"c":1}', {"b": None}),
]

BAD: list[tuple[DeltaType, str]] = [
    *(("long", value) for value in ("1.0", "1e2", '"1"', "true", "9223372036854775808", "9" * 5000, "[1]", "{}")),
    *(("byte", value) for value in ("128", "-129")),
    *(("double", value) for value in ("1e999", "1.7976931348623159e308", '"1.5"', "false", "9" * 400)),
    *(("float", value) for value in ("1e39", "3.4028235677973367e38", '"1"')),
    *(("decimal(10,2)", value) for value in ("1.555", "1e8", "123456789", '"x"', '"1e+-1"', '"1e0x2"', '" 1"')),
    *(("decimal(10,2)", value) for value in ('"１"', '"."', '""', "true", "1e99999999999999999999", "1e-3")),
    *(("decimal(38,18)", value) for value in ("4e20", "1e-19")),
    *(("boolean", value) for value in ("0", '"true"')),
    *(("binary", value) for value in ('"AAE"', '"AAF="', '"AA E="', '"-_-_"', '"AAE=\\n"', '"é"', "1")),
    *(
        ("date", value)
        for value in ('"2023-02-29"', '"0000-01-01"', '"2024-1-1"', '"20240101"', '"2024-01-01T00"', "1")
    ),
    *(
        ("timestamp", f'"2024-01-01{value}"')
        for value in ("Z", "T", "T24:00", "T00:60", "T00:00:60", "T00:00:00.", "T0000")
    ),
    *(("timestamp", f'"2024-01-01T00:00:00{value}"') for value in (",5", " Z", "z", "+24:00", "+00:60", "+1")),
    *(("timestamp", value) for value in ('"2023-02-29T00:00"', '"9999-12-31T23:59-00:01"', '"0001-01-01T00:00+00:01"')),
    *(("timestamp", value) for value in ('"٢٠٢٤-01-01"', '" 2024-01-01"', "0", '""')),
    *(("timestamp_ntz", value) for value in ('"2024-01-01T00:00Z"', '"2024-01-01T00:00+00:00"')),
    *((array_of("long"), value) for value in ("1", "{}", "[1.5]", '"[]"')),
    *((map_of("long"), value) for value in ("1", "[]", '{"x":"1"}')),
    ({"type": "struct", "fields": [field("b", "long")]}, "[]"),
]


@pytest.mark.parametrize(("data_type", "value", "expected"), GOOD)
def test_a_value_that_fits_is_read_exactly(data_type: DeltaType, value: str, expected: object) -> None:
    found = read(data_type, value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(("data_type", "value"), BAD)
def test_a_value_that_does_not_fit_is_bad_and_never_changed(data_type: DeltaType, value: str) -> None:
    assert fault(data_type, f'{{"a":{value}}}').kind == "bad_value"


@pytest.mark.parametrize("value", ["1", "1.5", "true", "[]", "{}"])
def test_json_in_a_string_is_a_bad_value_if_the_policy_says_so(value: str) -> None:
    strict = ParsePolicy(json_in_strings=False)
    for data_type, text in (
        ("string", value),
        (array_of("string"), f"[{value}]"),
        (map_of("string"), f'{{"x":{value}}}'),
    ):
        with pytest.raises(LineError, match="is not a valid string"):
            RecordReader(schema_of(data_type), strict).read(f'{{"a":{text}}}'.encode())


def test_json_text_may_be_as_deep_as_a_line_whatever_the_call_stack() -> None:
    text = "[" * (MAX_NESTING - 1) + "]" * (MAX_NESTING - 1)

    def down(levels: int) -> object:
        return down(levels - 1) if levels else read("string", text)

    assert down(300) == text


NOT_JSON = [
    *(b'{"a":NaN}', b'{"x":Infinity}', b'{"x":-Infinity}', b'{"a":1,}', b'{"x":[1,]}', b'{"a":1}{"a":2}', b'{"a":1'),
    *(b'{"a":1}\x00', b'{"x":"\x00"}', b'{"x":"\t"}', b'{"a":01}', b'{"a":1.}', b'{"a":+1}', b"{'a':1}", b"{a:1}"),
    *(b'{"x":"\\ud800"}', b'{"x":"\\udc00"}', b'{"\\ud800":1}', b'{"x":"\\ud800\\ud800"}', b'{"x":"\\x"}', b"garbage"),
    *(
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1} x',
        b'{"x":"\\u00g0"}',
        b'{"x":tru}',
        b'/**/{"a":1}',
        b'{"a":\xc2\xa01}',
        b"}{",
    ),
]


@pytest.mark.parametrize("line", NOT_JSON)
def test_what_is_not_strict_json_is_bad_even_in_undeclared_fields(line: bytes) -> None:
    assert fault("long", line).kind == "not_json"


@pytest.mark.parametrize("line", NOT_JSON)
def test_orjson_agrees_about_what_is_not_json(line: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(line)


@pytest.mark.parametrize("content", [b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_invalid_utf8_is_bad_in_declared_and_undeclared_fields(content: bytes) -> None:
    assert fault("string", b'{"a":"' + content + b'"}').kind == "not_utf8"
    assert fault("string", b'{"x":"' + content + b'"}').kind == "not_utf8"


@pytest.mark.parametrize("line", ["null", "1", '"a"', "[]", '[{"a":1}]', "true"])
def test_a_value_that_is_not_an_object_is_bad(line: str) -> None:
    assert fault("long", line).kind == "not_object"


@pytest.mark.parametrize("value", ["1e999", "9" * 10_000, "1.5", '"\\\\ud800"', '{"a":1,"a":2}', '"\x7f"'])
def test_an_undeclared_field_is_ignored_whatever_valid_json_it_holds(value: str) -> None:
    assert RecordReader(schema_of("long")).read(f'{{"x":{value},"b":true,"a":7}}'.encode()) == {"a": 7}


@pytest.mark.parametrize("line", ['{"a":1,"a":1}', '{"a":null,"a":1}', '{"a":1,"\\u0061":2}'])
def test_a_declared_key_given_twice_is_bad(line: str) -> None:
    error = fault("long", line)
    assert (error.kind, error.column) == ("duplicate_key", "a")


def test_a_key_given_twice_in_a_map_is_bad() -> None:
    assert fault(map_of("long"), '{"a":{"x":1,"x":1}}').kind == "duplicate_key"


def test_null_and_missing_are_null_unless_the_column_is_not_null() -> None:
    assert read("long", "null") is None
    assert RecordReader(schema_of("long")).read(b"{}") == {"a": None}
    for line in ("{}", '{"a":null}', '{"b":1}'):
        assert fault("long", line, nullable=False).kind == "missing_value"


def test_not_null_counts_inside_present_structs_and_arrays_only() -> None:
    inner: DeltaType = {"type": "struct", "fields": [field("b", "long", nullable=False)]}
    assert read(inner, "null") is None
    assert fault(inner, '{"a":{}}').column == "a.b"
    assert fault(array_of("long", nullable=False), '{"a":[1,null]}').column == "a.element"
    assert fault(map_of("long"), '{"a":{"x":null}}').column == "a.value"


def nested(levels: int) -> bytes:
    """A record so many levels deep, itself included."""
    return b'{"x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_nesting_is_allowed_up_to_the_limit_and_no_further() -> None:
    assert RecordReader(schema_of("long")).read(nested(MAX_NESTING)) == {"a": None}
    assert fault("long", nested(MAX_NESTING + 1)).kind == "too_deep"
    assert fault("long", b'{"x":' * 1_000_000).kind == "too_deep"


def test_brackets_inside_strings_are_no_nesting() -> None:
    line = b'{"x":"\\"' + b"[" * 5000 + b'","y":[' + b",".join([b'{"z":[]}'] * 1000) + b"]}"
    assert RecordReader(schema_of("long")).read(line) == {"a": None}


def test_a_line_too_deep_for_the_call_stack_is_bad_and_no_crash() -> None:
    def down(levels: int) -> None:
        if levels:
            down(levels - 1)
        else:
            parse_json(nested(MAX_NESTING))

    with pytest.raises(LineError, match="too deep"):
        down(700)


def test_a_bad_value_is_named_with_its_path_and_cut_short() -> None:
    inner: DeltaType = {"type": "struct", "fields": [field("tags", array_of("long"))]}
    error = fault(inner, '{"a":{"tags":[1,{"k":["v",1.50,null,true]}]}}')
    assert error.column == "a.tags.element"
    assert str(error) == 'a.tags.element: {"k":["v",1.50,null,true]} is not a valid long'
    for long_text in ('"' + "x" * 500 + '"', "[" * 400 + "]" * 400, "[" + "1," * 500 + "1]"):
        shown = str(fault("long", f'{{"a":{long_text}}}')).removeprefix("a: ").removesuffix(" is not a valid long")
        assert shown == long_text[:79] + "…"


HARD_FLOATS = [
    *("1.000000059604644775390625", "1.000000059604644775390626", "1.000000178813934326171874", "16777217", "7.1e-46"),
    *("3.4028235677973362e38", "3.40282356779733661637e38", "1.1754943157898259e-38", "0.30000001192092896"),
]


@pytest.mark.parametrize("text", HARD_FLOATS)
def test_a_float_is_the_nearest_one_to_the_text_and_not_to_a_double(text: str) -> None:
    found = read("float", text)
    assert found == struct.unpack("f", struct.pack("f", found))[0]
    step = Fraction(1, 2**149) if found < 2**-126 else Fraction(2) ** (_exponent(found) - 23)
    assert abs(Fraction(found) - Fraction(text)) <= step / 2


def _exponent(value: float) -> int:
    return len(bin(int(Fraction(value) * 2**149))) - 3 - 149


def test_a_schema_that_json_cannot_hold_is_refused_at_once() -> None:
    with pytest.raises(SchemaError, match="keys of a JSON object are strings"):
        RecordReader(schema_of(map_of("long", key="integer")))
    with pytest.raises(SchemaError, match="void cannot be read"):
        RecordReader(schema_of("void"))
