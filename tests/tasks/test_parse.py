"""Blocks of lines: how they are counted, what stays on the fast path, and what must never fool or crash it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from blizzard.core.kinds import LineKind
from blizzard.core.reasons import Reason
from blizzard.schema import DeltaSchema, DeltaType
from blizzard.schema.arrow import to_arrow
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import BadLine, ParsedBlock
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import MAX_NESTING
from tests.tasks.contract import PARSERS, needs_native


def field(name: str, data_type: DeltaType, *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def struct_of(*fields: dict[str, Any]) -> DeltaSchema:
    return {"type": "struct", "fields": list(fields)}


TAGS: DeltaType = {"type": "array", "elementType": "string", "containsNull": False}
USER = struct_of(field("id", "long", nullable=False), field("tags", TAGS), field("born", "date"))
EVENTS = struct_of(
    field("id", "long", nullable=False),
    field("ts", "timestamp"),
    field("user", USER),
    field("amount", "double"),
    field("price", "decimal(38,18)"),
    field("local", "timestamp_ntz"),
    field("key", "binary"),
)
LONG = struct_of(field("a", "long"))


def event(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "ts": "2024-05-01T12:00:00Z",
        "user": {"id": 1, "tags": ["Info", "é"], "born": "1990-02-28"} if number % 3 else None,
        "amount": 1.5,
        "price": 1.25,
        "local": "2024-05-01 12:00",
        "key": "AAE=",
        "extra": {"id": 7, "x": "}{"},
    }


def block_of(count: int, newline: bytes = b"\n") -> bytes:
    return b"".join(json.dumps(event(i), ensure_ascii=False).encode() + newline for i in range(count))


def parse(schema: DeltaSchema, block: bytes, *, first_of_file: bool = False) -> ParsedBlock:
    return RecordParser(schema).parse(block, first_of_file=first_of_file)


def parse_fast(schema: DeltaSchema, block: bytes, *, first_of_file: bool = False) -> ParsedBlock:
    parsed = RecordParser(schema, None, "native").parse(block, first_of_file=first_of_file)
    assert parsed.doubtful == 0
    return parsed


def kinds(parsed: ParsedBlock) -> list[tuple[int, str]]:
    return [(line.number, line.kind) for line in parsed.bad]


@needs_native
def test_a_clean_block_becomes_a_table_of_exactly_the_schema() -> None:
    parsed = parse_fast(EVENTS, block_of(100))
    assert (parsed.lines, parsed.blank, parsed.bad, parsed.row_lines) == (100, 0, (), None)
    assert parsed.table.schema.equals(to_arrow(EVENTS), check_metadata=True)
    assert parsed.table["id"].to_pylist() == list(range(100))
    by_reference = [RecordReader(EVENTS).read(line) for line in block_of(100).splitlines()]
    assert parsed.table.equals(pa.Table.from_pylist(by_reference, schema=to_arrow(EVENTS)))


@needs_native
@pytest.mark.parametrize(
    ("block", "lines", "blank"),
    [
        (block_of(50, b"\r\n"), 50, 0),
        (block_of(50).rstrip(b"\n"), 50, 0),
        (b"\n\n" + block_of(50, b"\n\n\n\n"), 202, 152),
        (b"\r\n" + block_of(50, b"\r\n\r\n"), 101, 51),
        (b" \t\n" + block_of(50, b" \n\t\r\n "), 102, 52),
    ],
)
def test_line_ends_blank_lines_and_spaces_do_not_leave_the_fast_path(block: bytes, lines: int, blank: int) -> None:
    parsed = parse_fast(EVENTS, block)
    assert (parsed.table.num_rows, parsed.lines, parsed.blank, parsed.bad) == (50, lines, blank, ())
    full = [index for index, line in enumerate(block.split(b"\n")) if line.strip()]
    assert (list(range(50)) if parsed.row_lines is None else parsed.row_lines.tolist()) == full
    assert (parsed.row_lines is None) == (blank == 0)


@pytest.mark.parametrize(("block", "lines", "blank"), [(b"", 0, 0), (b"\n", 1, 1), (b"\n\r\n ", 3, 3), (b" ", 1, 1)])
def test_a_block_without_records_is_an_empty_table(block: bytes, lines: int, blank: int) -> None:
    parsed = parse(EVENTS, block)
    assert (parsed.table.num_rows, parsed.lines, parsed.blank, parsed.bad) == (0, lines, blank, ())
    assert parsed.table.schema == to_arrow(EVENTS)


@needs_native
def test_a_bom_is_allowed_at_the_start_of_a_file_only() -> None:
    block = b"\xef\xbb\xbf" + block_of(20)
    assert parse_fast(EVENTS, block, first_of_file=True).lines == 20
    assert kinds(parse(EVENTS, block)) == [(0, "not_json")]
    assert kinds(parse(EVENTS, b"\xef\xbb\xbf" + block, first_of_file=True)) == [(0, "not_json")]
    alone = parse(EVENTS, b"\xef\xbb\xbf", first_of_file=True)
    assert (alone.lines, alone.blank) == (1, 1)


def test_a_bad_line_is_reported_whole_with_its_index_and_column() -> None:
    lines = block_of(300).splitlines()
    lines[7] = b""
    lines[120] = b'{"id":1,"user":{"id":"x"}}\r'
    parsed = parse(EVENTS, b"\n".join(lines))
    assert parsed.bad == (
        BadLine(
            number=120,
            kind=LineKind.BAD_VALUE,
            message='user.id: "x" is not a valid long',
            column="user.id",
            raw=lines[120],
            offset=len(b"\n".join(lines[:120])) + 1,
            reason=Reason(kind="bad_value", column="user.id", expected="long", cause="text"),
        ),
    )
    assert parsed.table["id"].to_pylist() == [i for i in range(300) if i not in (7, 120)]
    assert (parsed.lines, parsed.blank) == (300, 1)
    bom = parse(LONG, b"\xef\xbb\xbf{\n", first_of_file=True)
    assert (bom.bad[0].raw, bom.bad[0].offset) == (b"\xef\xbb\xbf{", 0)
    after_bom = parse(LONG, b"\xef\xbb\xbf{}\n{", first_of_file=True)
    assert (after_bom.bad[0].raw, after_bom.bad[0].offset) == (b"{", 6)


HOSTILE: list[tuple[bytes, str]] = [
    (b'{"a":1}{"a":2}', "not_json"),
    (b'{"a":1}null{"a":2}', "not_json"),
    (b"null", "not_object"),
    (b'{"x":NaN}', "not_json"),
    (b'{"a":NaN}', "not_json"),
    (b'{"x":[-Infinity ]}', "not_json"),
    (b'{"x":Inf\t,"a":1}', "not_json"),
    (b'{"x":"\xff"}', "not_utf8"),
    (b'{"x":"\xed\xa0\x80"}', "not_utf8"),
    (b'{"x":"\\udc00"}', "not_json"),
    (b'{"x":"\x00"}', "not_json"),
    (b'{"a":1}\x00', "not_json"),
    (b'{"a":1,}', "not_json"),
    (b'{"a":1', "not_json"),
    (b'"a":1}', "not_json"),
    (b'{"a":1,"a":1}', "duplicate_key"),
    (b'{"a":1,"\\u0061":1}', "duplicate_key"),
    (b'{"a":1.0}', "bad_value"),
    (b'{"a":9223372036854775808}', "bad_value"),
    (b'\xef\xbb\xbf{"a":1}', "not_json"),
    (b'{"x":' + b"[" * MAX_NESTING + b"]" * MAX_NESTING + b"}", "too_deep"),
]


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(("line", "kind"), HOSTILE)
@pytest.mark.parametrize("at", [0, 20, 39])
def test_a_hostile_line_is_bad_and_its_neighbours_are_not(line: bytes, kind: str, at: int, parser: str) -> None:
    lines = [b'{"a":%d}' % i for i in range(40)]
    lines[at] = line
    parsed = RecordParser(LONG, None, parser).parse(b"\n".join(lines), first_of_file=False)
    assert kinds(parsed) == [(at, kind)]
    assert parsed.table["a"].to_pylist() == [i for i in range(40) if i != at]


def test_an_object_over_two_lines_is_two_bad_lines_even_if_a_doubled_line_makes_up_the_count() -> None:
    for first, second in ((b'{"x":{}', b'{"y":1}}'), (b'{"a":1,', b'"x":2}'), (b'{"x":"}', b'{"}')):
        lines = [b'{"a":1}'] * 20 + [first, second] + [b'{"a":1}{"a":1}'] + [b'{"a":1}'] * 20
        parsed = parse(LONG, b"\n".join(lines))
        assert kinds(parsed) == [(20, "not_json"), (21, "not_json"), (22, "not_json")]
        assert parsed.table.num_rows == 40


def test_strange_but_valid_lines_are_records() -> None:
    strange = [
        b'{"":1,"a":1}',
        b'{"x":"NaN,Infinity}","a":1}',
        b'{"x":' + b"9" * 5000 + b',"a":1}',
        b'{"x":1e999,"a":1}',
        b'{"a":1,"x":"}\\n{"}',
        b'{"x":{"a":1,"a":2},"a":1}',
        b'{"a":1,"x":' + b"[" * (MAX_NESTING - 1) + b"]" * (MAX_NESTING - 1) + b"}",
        b'{"x":[' + b",".join([b'{"y":[]}'] * 2000) + b'],"a":1}',
        b'\t{ "a" :\r1 } ',
        b'{"x":"' + b"z" * 10_000_000 + b'","a":1}',
    ]
    parsed = parse(LONG, b"\n".join(strange * 2))
    assert (parsed.bad, parsed.table["a"].to_pylist()) == ((), [1] * 20)


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("decimal(10,2)", "1e8"),
        ("decimal(38,18)", "4e20"),
        ("decimal(38,38)", "11"),
        ("decimal(10,2)", '"1e+-1"'),
        ("decimal(10,2)", '"1e0x2"'),
        ("decimal(10,2)", '"1\\u00650x2"'),
        ("decimal(10,2)", '"1\\u002ee-100"'),
        ("decimal(10,2)", "1e-100"),
        ("float", "1e39"),
        ("double", "1.7976931348623159e308"),
        ("date", '"0000-12-31"'),
        ("timestamp", '"9999-12-31T23:59:59-00:01"'),
        ("timestamp", '"0000-12-31T23:59:59"'),
        ("timestamp_ntz", '"2024-01-01T00:00Z"'),
        ("binary", '"AAF="'),
    ],
)
@pytest.mark.parametrize("parser", PARSERS)
def test_what_pyarrow_would_change_in_silence_is_a_bad_value(data_type: str, value: str, parser: str) -> None:
    lines = [b"{}"] * 20 + [f'{{"a":{value}}}'.encode()] + [b"{}"] * 20
    schema = struct_of(field("a", data_type))
    parsed = RecordParser(schema, None, parser).parse(b"\n".join(lines), first_of_file=False)
    assert kinds(parsed) == [(20, "bad_value")]
    assert parsed.table.num_rows == 40


def test_not_null_is_checked_at_every_level() -> None:
    lines = [json.dumps(event(i)).encode() for i in range(60)]
    lines[10] = b'{"id":null}'
    lines[20] = b'{"id":20,"user":{"tags":[]}}'
    lines[30] = b'{"id":30,"user":{"id":1,"tags":["a",null]}}'
    assert kinds(parse(EVENTS, b"\n".join(lines))) == [(i, "missing_value") for i in (10, 20, 30)]


def test_rows_keep_the_order_of_their_lines_however_many_are_bad() -> None:
    lines = [b'{"a":%d}' % i if i % 3 else b'{"a":"%d"}' % i for i in range(3000)]
    parsed = parse(LONG, b"\n".join(lines))
    assert [line.number for line in parsed.bad] == list(range(0, 3000, 3))
    assert parsed.table["a"].to_pylist() == [i for i in range(3000) if i % 3]
    assert parsed.row_lines is not None
    assert parsed.row_lines.dtype == np.int64
    assert parsed.row_lines.tolist() == parsed.table["a"].to_pylist()


@pytest.mark.parametrize("parser", PARSERS)
def test_maps_keep_their_entries_and_no_key_twice(parser: str) -> None:
    tags = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    block = b'{"m":{"x":1,"y":null}}\n\n{"m":{"x":1,"x":2}}\n{}\n' * 5
    parsed = RecordParser(struct_of(field("m", tags)), None, parser).parse(block, first_of_file=False)
    assert parsed.table["m"].to_pylist() == [[("x", 1), ("y", None)], None] * 5
    assert (parsed.lines, parsed.blank, len(parsed.bad)) == (20, 5, 5)
    assert parsed.table.schema == to_arrow(struct_of(field("m", tags)))


@pytest.mark.parametrize("parser", PARSERS)
def test_a_large_map_with_a_repeated_key_is_bad(parser: str) -> None:
    tags = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    members = [f'"k{i}":{i}' for i in range(1000)]
    good, twice = (f'{{"m":{{{",".join(inner)}}}}}' for inner in (members, [*members, '"k7":7']))
    block = f"{good}\n{twice}\n".encode()
    parsed = RecordParser(struct_of(field("m", tags)), None, parser).parse(block, first_of_file=False)
    assert (kinds(parsed), parsed.table.num_rows) == ([(1, "duplicate_key")], 1)


CRASHERS = """
import sys
from blizzard.tasks.parse import RecordParser
field = {"name": "a", "type": {"type": "array", "elementType": "long", "containsNull": True}, "nullable": True}
parser = RecordParser({"type": "struct", "fields": [field]}, None, sys.argv[1])
n = 1_000_000
lines = [b"null", b"null{}", b"{}null{}", b'{"x":' + b"[" * n + b"]" * n + b"}", b'{"x":' * n + b"1" + b"}" * n,
         b'{"a":' + b"[" * n + b"]" * n + b"}", b"[" * n, b"{}" + b"\\0" * 9, b'{"a":[' + b"9" * n + b"]}"]
for line in lines:
    for block in (line, b"\\n".join([line] + [b"{}"] * 20), b"\\n".join([b"{}"] * 20 + [line])):
        parsed = parser.parse(block, first_of_file=True)
        assert [bad.raw for bad in parsed.bad] == [line], line[:20]
print("alive")
"""


@pytest.mark.parametrize("parser", PARSERS)
def test_no_line_crashes_the_process(parser: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASHERS, parser], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")
