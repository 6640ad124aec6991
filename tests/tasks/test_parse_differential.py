"""The fast path against the reference, on lines made to tell them apart: same rows, same bad lines, same kinds."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.tasks import parse as parse_module
from blizzard.tasks.convert import DoubtError
from blizzard.tasks.parse import ParsedBlock, RecordParser
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError
from tests.tasks.hostile_lines import LITERALS, NUMBERS, PRIMITIVES, TEXTS, cases

DEFAULT = ParsePolicy()
POLICIES = [
    ParsePolicy(json_in_strings=strings, unknown=unknown, rescue_values=values)
    for strings in (True, False)
    for unknown in Unknown
    for values in (False, True)
]


def arrow_schema(schema: DeltaSchema, policy: ParsePolicy) -> pa.Schema:
    declared = to_arrow(schema)
    return declared.append(pa.field(RESCUED_COLUMN, pa.string())) if policy.rescues else declared


def read_line_by_line(
    schema: DeltaSchema, block: bytes, first_of_file: bool, policy: ParsePolicy = DEFAULT
) -> dict[str, Any]:
    """What the contract says about a block, without any of the code under test but the reference."""
    bom = first_of_file and block.startswith(b"\xef\xbb\xbf")
    content = block[3:] if bom else block
    lines = content.split(b"\n") if content or bom else []
    if content.endswith(b"\n"):
        lines.pop()
    reader = RecordReader(schema, policy)
    rows, row_lines, bad, blank = [], [], [], 0
    offset = 0
    for index, line in enumerate(lines):
        raw = b"\xef\xbb\xbf" + line if bom and index == 0 else line
        if not line.strip(b" \t\r"):
            blank += 1
        else:
            try:
                rows.append(reader.read(line))
                row_lines.append(index)
            except LineError as error:
                bad.append((index, error.kind, str(error), error.column, raw, offset))
        offset += len(raw) + 1
    table = pa.Table.from_pylist(rows, schema=arrow_schema(schema, policy))
    return {"rows": show(table), "row_lines": row_lines, "lines": len(lines), "blank": blank, "bad": bad}


def parse(
    schema: DeltaSchema,
    block: bytes,
    first_of_file: bool,
    policy: ParsePolicy = DEFAULT,
    *,
    block_before: bytes | None = None,
) -> tuple[dict[str, Any], ParsedBlock]:
    parser = RecordParser(schema, policy)
    parsed = parser.parse(block, first_of_file=first_of_file)
    if block_before is not None:
        # What a parser has learnt from dirt must not change what it reads.
        parser = RecordParser(schema, policy)
        earlier = parser.parse(block_before, first_of_file=False).observed
        later = parser.parse(block, first_of_file=first_of_file)
        # A field that held only null is told of once: what a task observed is what all its blocks did.
        observed = later.observed.merge(earlier) if later.observed and earlier else later.observed or earlier
        parsed = replace(later, unknown=parsed.unknown, observed=observed)
    assert parsed.table.schema.equals(arrow_schema(schema, policy), check_metadata=True)
    parsed.table.validate(full=True)
    bad = [(line.index, line.kind, line.message, line.column, line.raw, line.offset) for line in parsed.bad]
    assert (parsed.row_lines is None) == (parsed.table.num_rows == parsed.lines)
    row_lines = list(range(parsed.lines)) if parsed.row_lines is None else parsed.row_lines.tolist()
    found = {"rows": show(parsed.table), "row_lines": row_lines, "blank": parsed.blank, "bad": bad}
    return {**found, "lines": parsed.lines}, parsed


def undeclared(
    schema: DeltaSchema, block: bytes, lines: list[int], first_of_file: bool, policy: ParsePolicy
) -> set[tuple[str, ...]]:
    """The paths of undeclared fields on these lines, as the reference meets them."""
    found: set[tuple[str, ...]] = set()
    reader = RecordReader(schema, policy, notice=found.add)
    content = block.removeprefix(b"\xef\xbb\xbf") if first_of_file else block
    for index, line in enumerate(content.split(b"\n")):
        if index in lines:
            reader.read(line)
    return found


def show(table: pa.Table) -> list[str]:
    """Rows as text, in which 0.0 and -0.0 differ, and Decimal('1.5') and Decimal('1.50') too."""
    return [repr(row) for row in table.to_pylist()]


quick = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=150,
)


@quick
@given(
    case=cases(most_lines=14),
    first_of_file=st.booleans(),
    newline=st.sampled_from([b"\n", b"\n", b"\r\n"]),
    ends=st.booleans(),
    few_lines=st.sampled_from([1, 8]),
    screen_after=st.sampled_from([2, 1000]),
    policy=st.sampled_from(POLICIES),
    is_wary=st.booleans(),
    data=st.data(),
)
def test_a_block_is_read_as_the_reference_reads_its_lines(
    *,
    case: tuple[DeltaSchema, list[bytes]],
    first_of_file: bool,
    newline: bytes,
    ends: bool,
    few_lines: int,
    screen_after: int,
    policy: ParsePolicy,
    is_wary: bool,
    data: st.DataObject,
) -> None:
    schema, lines = case
    block = newline.join(lines) + (newline if ends else b"")
    before = newline.join([b"{]", *data.draw(st.permutations(lines))]) if is_wary else None
    with (
        mock.patch.object(parse_module, "_FEW_LINES", few_lines),
        mock.patch.object(parse_module, "_DOUBTS_BEFORE_SCREEN", screen_after),
    ):
        found, parsed = parse(schema, block, first_of_file, policy, block_before=before)
    assert found == read_line_by_line(schema, block, first_of_file, policy)
    expected = undeclared(schema, block, found["row_lines"], first_of_file, policy)
    if policy.unknown is Unknown.BAD:
        assert expected == set()
    if policy.unknown is Unknown.REPORT:
        observed = set(parsed.observed.kinds) if parsed.observed is not None else set()
        # The reference stops at what it rescues; the look around does not.
        assert expected <= observed if policy.rescue_values else expected == _outermost(observed)
    else:
        assert parsed.observed is None


def _outermost(paths: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    return {path for path in paths if path[:-1] not in paths}


@settings(quick, max_examples=250)
@given(case=cases(most_lines=1), policy=st.sampled_from(POLICIES))
def test_whatever_the_fast_path_vouches_for_is_what_the_reference_reads(
    case: tuple[DeltaSchema, list[bytes]], policy: ParsePolicy
) -> None:
    schema, lines = case
    block = b"\n".join(lines)
    try:
        table = RecordParser(schema, policy)._read_fast(block)
    except DoubtError:
        return
    expected = read_line_by_line(schema, block, False, policy)
    rows = range(table.num_rows)
    assert expected == {"rows": show(table), "row_lines": list(rows), "lines": len(rows), "blank": 0, "bad": []}


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
