"""The reason in the message of every bad value, and that the setting it names does take the value."""

from __future__ import annotations

import pytest

from blizzard.config.load import make_config
from blizzard.core.reasons import Remedy, advice_for
from blizzard.run.layouts import parse_policy
from blizzard.schema.ddl import parse_ddl
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import BadLine
from blizzard.tasks.policy import ParsePolicy


def bad(ddl: str, json: str, policy: ParsePolicy | None = None) -> BadLine:
    parsed = RecordParser(parse_ddl(ddl), policy).parse(json.encode() + b"\n", first_of_file=True)
    (line,) = parsed.bad
    return line


def takes(remedy: Remedy, ddl: str, json: str) -> bool:
    """Whether the line becomes a row under these settings."""
    settings = dict(setting.split("=", 1) for setting in remedy.settings)
    schema = parse_ddl(settings.pop("schema.hints", ddl))
    policy = parse_policy(make_config({"source.path": "s", "table.path": "t", **settings}))
    return not RecordParser(schema, policy).parse(json.encode() + b"\n", first_of_file=True).bad


EXACT = ParsePolicy(exact_timestamps=True)
NO_JSON = ParsePolicy(json_in_strings=False)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("BIGINT", '"12"', "a number in a text; schema.coerce.x=numbers_in_strings"),
        ("DOUBLE", '"1.5e3"', "a number in a text; schema.coerce.x=numbers_in_strings"),
        ("BIGINT", '"1.0"', "a number in a text; schema.coerce.x=numbers_in_strings,integral_floats"),
        ("INT", '"1.5"', "a number in a text; schema.hints=x DOUBLE with schema.coerce.x=numbers_in_strings for a new"),
        ("BIGINT", '""', "an empty text; schema.coerce.x=empty_is_null"),
        ("BOOLEAN", '""', "an empty text; schema.coerce.x=empty_is_null"),
        ("STRUCT<a: INT>", '""', "an empty text; schema.coerce.x=empty_is_null"),
        ("BIGINT", "1.0", "a whole number written as a float; schema.coerce.x=integral_floats"),
        ("BIGINT", "12.50e1", "a whole number written as a float; schema.coerce.x=integral_floats"),
        ("BIGINT", "1.5", "a number with a fraction; schema.hints=x DOUBLE for a new table"),
        ("BIGINT", "18446744073709551615", "a number beyond its range; schema.hints=x DECIMAL(38,0) for a new table"),
        ("TINYINT", "300", "a number beyond its range; schema.hints=x BIGINT for a new table"),
        ("FLOAT", "1e39", "a number beyond its range; schema.hints=x DOUBLE for a new table"),
        ("DECIMAL(4,2)", "1.555", "a number with more digits than it holds; schema.hints=x STRING for a new table"),
        ("DECIMAL(4,2)", '"1.555"', "a number with more digits than it holds; schema.hints=x STRING for a new table"),
        ("BOOLEAN", "1", "0 or 1; schema.coerce.x=booleans_0_1"),
        ("BOOLEAN", '"0"', "0 or 1; schema.coerce.x=booleans_0_1,numbers_in_strings"),
        ("TIMESTAMP", "1591367999.305988", "a number; schema.formats.x=iso,epoch_s"),
        ("TIMESTAMP", "1591367999305", "a number; schema.formats.x=iso,epoch_ms"),
        ("TIMESTAMP_NTZ", '"1591367999305988"', "a number; schema.formats.x=iso,epoch_us"),
        ("DATE", "1591367999", "a number; schema.hints=x TIMESTAMP with schema.formats.x=epoch_s for a new table"),
        ("TIMESTAMP", '"Sun, 06 Nov 1994 08:49:37 GMT"', "a text in another form; schema.formats.x=iso,rfc1123"),
        ("TIMESTAMP", '"06/Nov/1994:08:49:37 +0000"', "a text in another form; schema.formats.x=iso,clf"),
        ("DATE", '"13/04/2024"', 'a text in another form; schema.formats.x=["iso", "%d/%m/%Y"]'),
        ("TIMESTAMP", '"now"', "a text in another form; schema.hints=x STRING for a new table"),
        ("TIMESTAMP", '"2024-02-30T00:00:00Z"', "a time that does not exist; schema.hints=x STRING for a new table"),
        ("TIMESTAMP_NTZ", '"2024-02-03T00:00:00Z"', "a time with a zone; schema.hints=x TIMESTAMP for a new table"),
        ("DATE", '"2024-02-03T00:00:00Z"', "a day with a time; schema.hints=x TIMESTAMP for a new table"),
        ("STRUCT<a: INT>", '"{\\"a\\":1}"', "JSON inside of a text; schema.coerce.x=parse_json_text"),
        ("ARRAY<INT>", '"[1]"', "JSON inside of a text; schema.coerce.x=parse_json_text"),
        ("BINARY", '"AAE"', "a text that is not base64; schema.hints=x STRING for a new table"),
    ],
)
def test_the_message_says_why_and_its_setting_takes_the_value(column: str, value: str, why: str) -> None:
    line = bad(f"x {column}", f'{{"x":{value}}}')
    assert line.message.startswith(f"x: {value} is not a valid ")
    assert f" ({why}" in line.message
    assert line.reason is not None
    for remedy in advice_for(line.reason):
        assert takes(remedy, f"x {column}", f'{{"x":{value}}}'), remedy


def test_what_the_policy_refuses() -> None:
    nine = bad("x TIMESTAMP", '{"x":"2024-01-01T00:00:00.123456789Z"}', EXACT)
    assert nine.message.endswith(" is not a valid timestamp (9 digits of fraction; schema.timestamps=cut)")
    text = bad("x STRING", '{"x":1}', NO_JSON)
    assert text.message == "x: 1 is not a valid string (a number; schema.json_in_strings=keep)"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("BIGINT", '"x"'),
        ("BIGINT", "true"),
        ("BIGINT", "[1]"),
        ("STRUCT<a: INT>", "[1]"),
        ("BOOLEAN", "2"),
        ("BOOLEAN", '"true"'),
    ],
)
def test_where_the_value_says_enough_nothing_is_added(column: str, value: str) -> None:
    line = bad(f"x {column}", f'{{"x":{value}}}')
    assert line.message.partition(" is not a valid ")[2] in ("long", "struct", "boolean")
    assert line.reason is not None
    assert str(advice_for(line.reason)[0]) == "schema.hints=x STRING for a new table"


@pytest.mark.parametrize("day", ["03/04/2024", "13/04/2024", "03/05/2024"])
def test_a_day_that_could_be_a_month_is_not_guessed(day: str) -> None:
    line = bad("x DATE", f'{{"x":"{day}"}}')
    assert ("%d/%m/%Y" in line.message) == (day == "13/04/2024")


def test_the_same_reason_is_the_same_object_for_many_lines() -> None:
    parsed = RecordParser(parse_ddl("x BIGINT")).parse(b'{"x":"1"}\n{"x":"2"}\n[]\n[]\n', first_of_file=True)
    first, second, third, fourth = parsed.bad
    assert first.reason is second.reason
    assert third.reason is fourth.reason


def test_long_and_odd_values_are_cheap_and_harmless() -> None:
    long = "9" * 100_000
    for value in (long, f'"{long}="', f'"{"x" * 100_000}="', f"1e{long}", f'"1e{long}"', f"0.{long}"):
        for column in ("BIGINT", "BOOLEAN", "TIMESTAMP", "DATE", "DECIMAL(10,2)", "BINARY"):
            assert len(bad(f"x {column}", f'{{"x":{value}}}').message) < 300
