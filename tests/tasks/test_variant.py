"""VARIANT: the bytes are those that Spark's own encoder makes, they read back as Python's json, and nothing is lost."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blizzard import native
from blizzard.core.kinds import LineKind
from blizzard.errors import SchemaError
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import whole_record_schema
from blizzard.tasks import variant
from blizzard.tasks.arrow_reader import ArrowReader
from blizzard.tasks.convert import DoubtError
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError, parse_json
from blizzard.tasks.variant import encode_variant
from tests.tasks.contract import PARSERS, by_parser, by_reference
from tests.tasks.hostile_lines import FRAGMENTS, NUMBERS, TEXTS
from tests.tasks.test_write import roller, table
from tests.tasks.variants import decode

WHOLE = whole_record_schema()
slow = settings(deadline=None, max_examples=300)

DIGITS = st.text("0123456789", max_size=45)
NUMBER_TEXTS = st.builds(
    lambda sign, whole, fraction, exponent: sign + (whole.lstrip("0") or "0") + fraction + exponent,
    st.sampled_from(["", "-"]),
    DIGITS,
    st.one_of(st.just(""), DIGITS.filter(bool).map(".{}".format)),
    st.one_of(st.just(""), st.integers(-320, 320).map("e{}".format)),
)
NAMES = st.one_of(st.sampled_from(["a", "b", "aa", "é", "\U0001f600", "\uffff", "", "a\x00", "x" * 300]), st.text())
STRINGS = st.one_of(st.text(), st.integers(60, 70).map("x".__mul__), st.sampled_from(TEXTS))


def as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


SCALARS = st.one_of(st.sampled_from(["null", "true", "false"]), NUMBER_TEXTS, STRINGS.map(as_json))


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.lists(inner, max_size=6).map(lambda items: "[" + ",".join(items) + "]")
    return arrays | objects(inner)


def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.dictionaries(NAMES, inner, max_size=6)
    return members.map(lambda pairs: "{" + ",".join(f"{as_json(k)}:{v}" for k, v in pairs.items()) + "}")


VALUES = st.recursive(SCALARS, containers, max_leaves=12)
OBJECTS = objects(VALUES)


def encode(text: str) -> dict[str, bytes]:
    return encode_variant(parse_json(text.encode()), ("record",))


def is_held(text: str) -> bool:
    try:
        encode(text)
    except variant.NotHeld:
        return False
    return True


def exactly(text: str) -> Any:
    """Python's json with every number that has no exponent as it is written."""

    def real(number: str) -> Decimal | float:
        exact = Decimal(number)
        _, digits, exponent = exact.as_tuple()
        assert isinstance(exponent, int)
        is_exact = "e" not in number.lower() and len(digits) <= 38 and -exponent <= 38
        return exact if is_exact else float(number)

    return json.loads(text, parse_float=real)


# Each needs a wider number in some header: of elements, of offsets, of names, of bytes of names.
LARGE = {
    "elements": json.dumps([0] * 256),
    "offsets": json.dumps([["x" * 250] * 2, ["x" * 70_000]]),
    "bytes": json.dumps({"z": ["y" * 17_000_000], "a": 1}),
    "members": json.dumps({f"k{n}": n for n in range(256)}),
    "names": json.dumps({f"k{n}": {f"l{n}": n} for n in range(33_000)}),
    "long names": json.dumps({"n" * 70_000: {"m" * 300: 1}}),
}


@slow
@given(text=VALUES)
def test_a_value_reads_back_as_python_reads_its_text(text: str) -> None:
    if is_held(text):
        assert decode(encode(text)) == exactly(text)


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_a_large_value_reads_back_too_and_every_parser_agrees(text: str) -> None:
    assert decode(encode(text)) == json.loads(text)
    line = f'{{"v":{text}}}'.encode()
    expected = RecordReader(WHOLE).read(line)
    for parser in ("auto", "pyarrow"):
        parsed = RecordParser(WHOLE, None, parser).parse(line + b"\n" + line, first_of_file=False)
        assert parsed.table.to_pylist() == [expected, expected]
        assert parsed.doubtful == (2 if parser == "pyarrow" or not native.is_available() else 0)


def test_the_deepest_value_that_is_a_record_is_encoded() -> None:
    value = decode(encode("[" * 450 + "1" + "]" * 450))
    for _ in range(450):
        (value,) = value
    assert value == 1
    assert encode("[" * 500 + "]" * 500)["value"].endswith(b"\x03\x00\x00")


@slow
@given(text=VALUES)
@example(text=LARGE["elements"])
@example(text=LARGE["members"])
@example(text=LARGE["long names"])
def test_the_bytes_are_those_of_sparks_own_encoder(text: str) -> None:
    spark = pytest.importorskip("pyspark.sql.variant_utils")  # Spark 3.5 has none
    if is_held(text):
        value, metadata = spark.VariantBuilder().build(text)
        assert encode(text) == {"metadata": metadata, "value": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((f"{2 ** (bits - 1) - 1}", 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)),
        *((f"-{2 ** (bits - 1)}", -(2 ** (bits - 1))) for bits in (8, 16, 32, 64)),
        ("9223372036854775808", Decimal(2**63)),
        ("9" * 38, Decimal("9" * 38)),
        ("-" + "9" * 38, Decimal("-" + "9" * 38)),
        ("1.50", Decimal("1.50")),
        ("-0.0", Decimal("0.0")),
        ("0." + "0" * 37 + "1", Decimal("1e-38")),
        ("0." + "0" * 38 + "1", 1e-39),
        ("0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827")),
        ("1e2", 100.0),
        ("-0e0", -0.0),
        ("1" + "0" * 38 + ".5", 1e38),
    ],
)
def test_numbers_stay_exact_as_far_as_the_encoding_goes(text: str, value: Any) -> None:
    found = decode(encode(text))
    assert (found, type(found), str(found)) == (value, type(value), str(value))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a":[{"b":%s}]}' % ("9" * 39), "record.a.element.b: " + "9" * 39 + " is not a valid variant: it has more"),
        ('{"a":1e400}', "record.a: 1e400 is not a valid variant: it is beyond the range of a double"),
        ('{"a":' + "9" * 400 + ".5}", "is not a valid variant: it is beyond the range of a double"),
    ],
)
def test_a_number_that_would_change_unseen_makes_the_line_bad(line: str, message: str) -> None:
    with pytest.raises(LineError) as caught:
        RecordReader(WHOLE).read(line.encode())
    assert caught.value.kind == LineKind.BAD_VALUE
    assert message in str(caught.value)


@pytest.mark.parametrize(("line", "column"), [('{"a":1,"a":1}', "record"), ('{"x":[{"a":1,"\\u0061":2}]}', None)])
def test_a_key_given_twice_makes_the_line_bad(line: str, column: str | None) -> None:
    with pytest.raises(LineError, match='the key "a" is given twice') as caught:
        RecordReader(WHOLE).read(line.encode())
    assert caught.value.kind == LineKind.DUPLICATE_KEY
    assert caught.value.column == (column or "record.x.element")


def test_a_value_larger_than_spark_reads_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "MAX_BYTES", 100)
    assert encode_variant("x" * 95)
    with pytest.raises(LineError, match=r"record: .* is not a valid variant: it would take more than 100 bytes"):
        RecordReader(WHOLE).read(b'{"a":"%s"}' % (b"x" * 95))


@pytest.mark.parametrize("parser", PARSERS)
@slow
@given(
    lines=st.lists(st.one_of(OBJECTS, VALUES), min_size=1, max_size=6),
    spoilt=st.lists(st.tuples(st.integers(0, 300), st.sampled_from(FRAGMENTS)), max_size=1),
    rescues=st.booleans(),
    data=st.data(),
)
def test_whole_records_are_read_as_the_reference_reads_them(
    parser: str, lines: list[str], spoilt: list[tuple[int, bytes]], rescues: bool, data: st.DataObject
) -> None:
    policy = ParsePolicy(rescue_values=rescues, unknown=Unknown.RESCUE if rescues else Unknown.BAD)
    reader = RecordParser(WHOLE, policy, parser)
    if data.draw(st.booleans()):
        # What a parser has learnt from other lines must not change what it reads.
        by_parser(reader, "\n".join(data.draw(st.permutations(lines))).encode())
    block = "\n".join(lines).encode()
    for at, fragment in spoilt:
        block = block[:at] + fragment + block[at:]
    assert by_parser(reader, block) == by_reference(WHOLE, block, policy)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("ddl", ["a VARIANT", "a ARRAY<VARIANT>", "a MAP<STRING, VARIANT>", "a VARIANT NOT NULL"])
def test_variants_among_other_columns(parser: str, ddl: str) -> None:
    schema = parse_ddl(ddl + ", s STRUCT<v: VARIANT, id: BIGINT>, z STRING")
    values = [*NUMBERS[:60], "null", "[]", "{}", '[1,null,{"b":2,"a":1}]', '{"metadata":"YQ==","value":"YQ=="}', '""']
    values += ['{"k":1,"k":2}', '{"k":[9,1e999]}']
    lines = [f'{{"a":{value},"z":"x","s":{{"v":{value},"id":{n}}}}}' for n, value in enumerate(values)]
    block = "\n".join([*lines, '{"z":1}', '{"s":null}']).encode()
    for policy in ParsePolicy(), ParsePolicy(rescue_values=True):
        assert by_parser(RecordParser(schema, policy, parser), block) == by_reference(schema, block, policy)


def test_pyarrow_never_takes_the_fields_of_a_record_for_the_parts_of_a_variant() -> None:
    schema = parse_ddl("a VARIANT")
    reader = ArrowReader(schema, ParsePolicy(), to_arrow(schema))
    with pytest.raises(DoubtError):
        reader.read_certain(b'{"a":{"metadata":"YQ==","value":"YQ=="}}\n')


def test_null_is_null_in_a_column_and_a_value_inside_of_a_variant() -> None:
    read = RecordReader(parse_ddl("a VARIANT, b VARIANT")).read
    assert read(b'{"a":null}') == {"a": None, "b": None}
    assert decode(read(b'{"a":[null]}')["a"]) == [None]


def test_statistics_count_null_variants_and_give_them_no_bounds(tmp_path: Path) -> None:
    ddl = "n BIGINT, v VARIANT, s STRUCT<v: VARIANT, n: BIGINT>, last BIGINT"
    one = encode('{"a":1}')
    rows: list[dict[str, Any]] = [
        {"n": 1, "v": one, "s": {"v": None, "n": 2}, "last": 3},
        {"n": 2, "v": None, "s": None, "last": 4},
        {"n": 3, "v": None, "s": {"v": one, "n": None}, "last": 5},
    ]
    writer = roller(tmp_path, ddl)
    writer.write(table(ddl, rows))
    (file,) = writer.close()
    assert json.loads(file.stats) == {
        "numRecords": 3,
        "minValues": {"n": 1, "s": {"n": 2}, "last": 3},
        "maxValues": {"n": 3, "s": {"n": 2}, "last": 5},
        "nullCount": {"n": 0, "v": 2, "s": {"v": 2, "n": 2}, "last": 0},
    }
    assert pq.read_table(tmp_path / file.path).to_pylist() == rows


def test_the_names_of_records_that_are_alike_are_written_once(tmp_path: Path) -> None:
    writer = roller(tmp_path, "record VARIANT")
    lines = [f'{{"identifier":{n},"a_rather_long_name_of_a_field":"{n}"}}' for n in range(2000)]
    records: list[dict[str, Any]] = [RecordReader(WHOLE).read(line.encode()) for line in lines]
    writer.write(table("record VARIANT", records))
    (file,) = writer.close()
    footer = pq.read_metadata(tmp_path / file.path).row_group(0)
    names = footer.column(0)
    assert (names.path_in_schema, "RLE_DICTIONARY" in names.encodings) == ("record.metadata", True)
    assert names.total_uncompressed_size < 500


def test_only_one_variant_column_takes_the_record() -> None:
    twice: DeltaSchema = {"type": "struct", "fields": [*WHOLE["fields"], WHOLE["fields"][0] | {"name": "b"}]}
    text: DeltaSchema = {"type": "struct", "fields": [WHOLE["fields"][0] | {"type": "string"}]}
    for schema in twice, text:
        with pytest.raises(SchemaError, match="only one column can be, of the type VARIANT"):
            RecordReader(schema)
