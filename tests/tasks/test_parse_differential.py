"""The fast parsers against the reference, on lines made to tell them apart: same rows, same bad lines, same counts."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from blizzard.schema import ColumnPath, DeltaSchema
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.policy import EVERY_COLUMN, Coercion, ParsePolicy
from blizzard.tasks.records import RecordReader
from tests.tasks.contract import PARSERS, by_parser, by_reference
from tests.tasks.hostile_lines import FORMATS, LITERALS, NUMBERS, PRIMITIVES, TEXTS, cases, policies

quick = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=200,
)


def column(data_type: str) -> DeltaSchema:
    return {"type": "struct", "fields": [{"name": "a", "type": data_type, "nullable": True, "metadata": {}}]}


@pytest.mark.parametrize("parser", PARSERS)
@quick
@given(
    case=cases(most_lines=14),
    first_of_file=st.booleans(),
    newline=st.sampled_from([b"\n", b"\n", b"\r\n"]),
    ends=st.booleans(),
    data=st.data(),
)
def test_a_block_is_read_as_the_reference_reads_its_lines(
    *,
    parser: str,
    case: tuple[DeltaSchema, list[bytes]],
    first_of_file: bool,
    newline: bytes,
    ends: bool,
    data: st.DataObject,
) -> None:
    schema, lines = case
    policy = data.draw(policies(schema))
    reader = RecordParser(schema, policy, parser)
    if data.draw(st.booleans()):
        # What a parser has learnt from other lines must not change what it reads.
        by_parser(reader, newline.join([b"{]", *data.draw(st.permutations(lines))]))
    block = newline.join(lines) + (newline if ends else b"")
    found = by_parser(reader, block, first_of_file=first_of_file)
    assert found == by_reference(schema, block, policy, first_of_file=first_of_file)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("data_type", PRIMITIVES)
def test_every_hostile_value_means_the_same_in_every_type(data_type: str, parser: str) -> None:
    schema = column(data_type)
    texts = [json.dumps(text, ensure_ascii=False) for text in TEXTS]
    texts += ['"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"' for text in TEXTS if text != "😀"]
    values = [*NUMBERS, *LITERALS, *texts]
    lines = [line for value in values for line in (f'{{"a":{value}}}', f'{{"x":{value},"a":null}}', f'{{"A":{value}}}')]
    block = "\n".join(lines).encode()
    empty = frozenset({Coercion.EMPTY_IS_NULL, Coercion.BOOLEANS_0_1})
    everything = frozenset(Coercion)
    settings_of: list[dict[ColumnPath, frozenset[Coercion]]] = [{}, {EVERY_COLUMN: everything}, {("a",): empty}]
    for formats in [(), *FORMATS.get(data_type, [])]:
        for coerce in settings_of:
            policy = ParsePolicy(formats={("a",): formats} if formats else {}, coerce=coerce)
            assert by_parser(RecordParser(schema, policy, parser), block) == by_reference(schema, block, policy)


DIGITS = st.text("0123456789", min_size=1, max_size=40)
INEXACT = ["float", "double", "decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(38,38)"]


@pytest.mark.parametrize("parser", PARSERS)
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
    *, parser: str, sign: str, whole: str, fraction: str, exponent: int, quoted: bool, data_type: str
) -> None:
    schema = column(data_type)
    number = f"{sign}{whole if quoted else whole.lstrip('0') or '0'}.{fraction}e{exponent}"
    line = f'{{"a":"{number}"}}'.encode() if quoted else f'{{"a":{number}}}'.encode()
    parsed = RecordParser(schema, None, parser).parse(line, first_of_file=False)
    if parsed.bad or parsed.doubtful:
        return
    value, expected = parsed.table["a"][0].as_py(), RecordReader(schema).read(line)["a"]
    if isinstance(value, float):
        value, expected = struct.pack("d", value), struct.pack("d", expected)
    assert value == expected
