"""What the policy changes: undeclared fields, rescued values, and what a caller learns about them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from blizzard.core.observed import MAX_PATHS
from blizzard.core.tally import OTHERS
from blizzard.errors import SchemaError
from blizzard.schema import DeltaSchema, DeltaType, show_path
from blizzard.schema.evolve import evolve_schema
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import ParsedBlock
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from tests.tasks.contract import PARSERS


def field(name: str, data_type: DeltaType, *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def struct_of(*fields: dict[str, Any]) -> DeltaSchema:
    return {"type": "struct", "fields": list(fields)}


def array_of(data_type: DeltaType) -> DeltaType:
    return {"type": "array", "elementType": data_type, "containsNull": True}


def map_of(data_type: DeltaType) -> DeltaType:
    return {"type": "map", "keyType": "string", "valueType": data_type, "valueContainsNull": True}


INNER = struct_of(field("b", "long"), field("must", "long", nullable=False))
SCHEMA = struct_of(
    field("a", "long"),
    field("s", INNER),
    field("l", array_of(struct_of(field("b", "long")))),
    field("n", array_of("long")),
)
WITH_MAP = struct_of(field("m", map_of(struct_of(field("b", "long")))), field("c", map_of("long")))
MANY = 40
RESCUE_UNKNOWN = ParsePolicy(unknown=Unknown.RESCUE)
RESCUE_VALUES = ParsePolicy(rescue_values=True)


@pytest.fixture(params=PARSERS, autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(RecordParser.__init__, "__defaults__", (None, request.param))
    return str(request.param)


def parse(line: str, policy: ParsePolicy, schema: DeltaSchema = SCHEMA, *, at: int = 20) -> ParsedBlock:
    """The line among others that are clean."""
    lines = [b"{}"] * MANY
    lines[at] = line.encode()
    return RecordParser(schema, policy).parse(b"\n".join(lines), first_of_file=False)


def rescued(line: str, policy: ParsePolicy, schema: DeltaSchema = SCHEMA) -> tuple[dict[str, Any], str]:
    parsed = parse(line, policy, schema)
    assert (parsed.bad, parsed.row_lines, parsed.table.num_rows) == ((), None, MANY)
    rows = parsed.table.to_pylist()
    texts = [row.pop(RESCUED_COLUMN) for row in rows]
    assert [index for index, text in enumerate(texts) if text is not None] == [20]
    return {name: value for name, value in rows[20].items() if value is not None}, texts[20]


UNDECLARED = [
    ('{"x":1}', "x"),
    ('{"x":null}', "x"),
    ('{"Á":1}', "`Á`"),
    ('{"":1}', "``"),
    ('{"s":{"must":1,"x.y":[]}}', "s.`x.y`"),
    ('{"l":[{"b":1},{"c":2}]}', "l.element.c"),
]


@pytest.mark.parametrize(("line", "path"), UNDECLARED)
def test_an_undeclared_field_makes_the_line_bad_if_the_policy_says_so(line: str, path: str) -> None:
    (bad,) = parse(line, ParsePolicy(unknown=Unknown.BAD)).bad
    assert (bad.number, bad.kind, bad.column, bad.raw) == (20, "unknown_field", path, line.encode())
    assert str(bad.message) == f"{path}: the schema does not declare this field"


@pytest.mark.parametrize(("line", "path"), UNDECLARED)
@pytest.mark.parametrize("unknown", [Unknown.IGNORE, Unknown.RESCUE, Unknown.REPORT])
def test_an_undeclared_field_is_named_and_its_record_kept(line: str, path: str, unknown: Unknown, parser: str) -> None:
    reader = RecordParser(SCHEMA, ParsePolicy(unknown=unknown), parser)
    block = b"\n".join([b"{}"] * MANY + [line.encode()] + [b"{}"] * MANY)
    for _ in range(2):
        parsed = reader.parse(block, first_of_file=False)
        assert (parsed.undeclared.total, parsed.bad, parsed.table.num_rows) == (1, (), 2 * MANY + 1)
        assert tuple(map(show_path, parsed.undeclared.paths)) == (path,)


def test_the_keys_of_a_map_are_no_fields_but_what_its_values_hold_is() -> None:
    policy = ParsePolicy(unknown=Unknown.BAD)
    assert parse('{"c":{"x":1,"y":2},"m":{"x":{"b":1}}}', policy, WITH_MAP).bad == ()
    assert parse('{"m":{"x":{"y":1}}}', policy, WITH_MAP).bad[0].column == "m.value.y"
    assert rescued('{"m":{"x":{"y":1}}}', RESCUE_UNKNOWN, WITH_MAP)[1] == '{"m.x.y":1}'


def test_every_occurrence_counts_and_only_on_good_lines(parser: str) -> None:
    lines = [b'{"a":1}'] * 5000
    lines[3777] = b'{"s":{"must":1,"y":1,"y":2},"x":null}'
    lines[4999] = b'{"x":1,"a":"bad"}'
    parsed = RecordParser(SCHEMA, None, parser).parse(b"\n".join(lines), first_of_file=True)
    assert dict(parsed.undeclared.counts) == {("s", "y"): 2, ("x",): 1}
    assert len(parsed.bad) == 1


def test_beyond_the_limit_fields_are_counted_but_not_named(parser: str) -> None:
    many = json.dumps({f"z{number:04}": 1 for number in range(250)}).encode()
    undeclared = RecordParser(SCHEMA, None, parser).parse(many, first_of_file=True).undeclared
    assert undeclared.paths == tuple((f"z{number:04}",) for number in range(200))
    assert (undeclared.total, undeclared.counts[OTHERS]) == (250, 50)


def test_more_names_than_the_native_parser_remembers_are_observed_all_the_same(parser: str) -> None:
    lines = [json.dumps({f"z{number:05}": 1, "a": 1}).encode() for number in reversed(range(11_000))]
    policy = ParsePolicy(unknown=Unknown.REPORT)
    parsed = RecordParser(SCHEMA, policy, parser).parse(b"\n".join(lines), first_of_file=True)
    assert parsed.observed is not None
    assert sorted(parsed.observed.kinds) == [(f"z{number:05}",) for number in range(MAX_PATHS)]
    assert parsed.undeclared.total == 11_000


@pytest.mark.parametrize(
    ("line", "row", "text"),
    [
        ('{"x":1.50,"a":1}', {"a": 1}, '{"x":1.50}'),
        ('{"x" : {"é": [1, "\\u00e9\\n"]} , "x":2}', {}, '{"x":{"é":[1,"é\\n"]},"x":2}'),
        ('{"\\u0001":null,"a.b":1}', {}, '{"`\\u0001`":null,"`a.b`":1}'),
        ('{"s":{"must":1,"y":1},"x":2}', {"s": {"b": None, "must": 1}}, '{"x":2,"s.y":1}'),
        ('{"l":[{"b":1},{"c":2,"b":3}]}', {"l": [{"b": 1}, {"b": 3}]}, '{"l[1].c":2}'),
    ],
)
def test_undeclared_fields_are_rescued_as_they_were_written(line: str, row: dict[str, Any], text: str) -> None:
    assert rescued(line, RESCUE_UNKNOWN) == (row, text)


@pytest.mark.parametrize(
    ("line", "row", "text"),
    [
        ('{"a":1.50,"n":[1]}', {"n": [1]}, '{"a":1.50}'),
        ('{"s":{"must":1,"b":"x"}}', {"s": {"b": None, "must": 1}}, '{"s.b":"x"}'),
        ('{"s":[ ]}', {}, '{"s":[]}'),
        ('{"n":[1,"2",3]}', {}, '{"n":[1,"2",3]}'),
        ('{"l":[{"b":1},{"b":{"c":1}}]}', {"l": [{"b": 1}, {"b": None}]}, '{"l[1].b":{"c":1}}'),
        ('{"l":[{"b":"x"},7],"a":"y"}', {}, '{"a":"y","l":[{"b":"x"},7]}'),
    ],
)
def test_a_value_that_does_not_fit_is_rescued_and_null(line: str, row: dict[str, Any], text: str) -> None:
    assert rescued(line, RESCUE_VALUES) == (row, text)


def test_a_bad_value_in_a_map_rescues_the_map() -> None:
    assert rescued('{"c":{"x":1,"y":"z"}}', RESCUE_VALUES, WITH_MAP) == ({}, '{"c":{"x":1,"y":"z"}}')
    assert rescued('{"m":{"x":{"b":"z"}}}', RESCUE_VALUES, WITH_MAP) == ({"m": [("x", {"b": None})]}, '{"m.x.b":"z"}')


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"s":{"must":"x"}}', "bad_value"),
        ('{"s":{}}', "missing_value"),
        ('{"a":1,"a":2}', "duplicate_key"),
        ("[]", "not_object"),
        ('{"a":', "not_json"),
    ],
)
def test_what_cannot_be_null_or_is_no_record_stays_bad(line: str, kind: str) -> None:
    everything = ParsePolicy(unknown=Unknown.RESCUE, rescue_values=True)
    parsed = parse(line, everything)
    assert [(bad.kind, bad.raw) for bad in parsed.bad] == [(kind, line.encode())]
    assert parsed.table[RESCUED_COLUMN].null_count == MANY - 1


def test_without_rescue_of_values_a_bad_value_is_a_bad_line() -> None:
    assert parse('{"a":"x","y":1}', RESCUE_UNKNOWN).bad[0].kind == "bad_value"
    assert parse('{"a":"x"}', ParsePolicy(unknown=Unknown.REPORT)).bad[0].kind == "bad_value"


def test_both_kinds_of_rescue_share_the_column() -> None:
    both = ParsePolicy(unknown=Unknown.RESCUE, rescue_values=True)
    assert rescued('{"n":"x","y":1,"s":{"z":2,"must":1,"b":[]}}', both)[1] == '{"y":1,"s.z":2,"s.b":[],"n":"x"}'


def test_the_rescued_column_is_last_and_null_on_clean_lines() -> None:
    parsed = RecordParser(SCHEMA, RESCUE_VALUES).parse(b'{"a":1}\n' * MANY, first_of_file=True)
    assert parsed.table.schema.names == ["a", "s", "l", "n", RESCUED_COLUMN]
    assert parsed.table[RESCUED_COLUMN].null_count == MANY
    for name in (RESCUED_COLUMN, RESCUED_COLUMN.upper()):
        with pytest.raises(SchemaError, match="the policy fills a column of this name"):
            RecordParser(struct_of(field(name, "string")), RESCUE_VALUES)
        RecordParser(struct_of(field(name, "string")))


def test_a_report_tells_of_every_good_line_and_of_its_own_block_only() -> None:
    parser = RecordParser(SCHEMA, pickle.loads(pickle.dumps(ParsePolicy(unknown=Unknown.REPORT))))
    lines = [b'{"a":1}'] * 500
    lines[7] = b'{"x":1}'
    lines[400] = b'{"x":12345678901234567890123,"s":{"must":1,"y":true}}'
    lines[499] = b'{"x":"text","a":"bad"}'
    parsed = parser.parse(b"\n".join(lines), first_of_file=True)
    assert [bad.number for bad in parsed.bad] == [499]
    assert parsed.observed is not None
    assert pickle.loads(pickle.dumps(parsed.observed)) == parsed.observed
    evolution = evolve_schema(SCHEMA, [parsed.observed])
    assert (evolution.added, evolution.refused) == (("s.y", "x"), ())
    assert evolution.schema["fields"][-1] == field("x", "decimal(38,0)")
    assert parser.parse(b'{"a":1}\n' * 500, first_of_file=False).observed is None
    assert parser.parse(b"\n".join(lines), first_of_file=False).observed == parsed.observed
    for _ in range(2):
        assert parser.parse(b'{"x":1}\n' * 500, first_of_file=False).observed is not None
    again = RecordParser(evolution.schema, ParsePolicy(unknown=Unknown.REPORT)).parse(
        b"\n".join(lines), first_of_file=True
    )
    assert again.observed is None
    assert again.table["x"][400].as_py() == 12345678901234567890123
