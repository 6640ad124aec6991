"""`where`: what is understood, which type a field has, and that everything else is refused by its name at the start."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.schema.derived import whole_record_schema
from blizzard.schema.load import load_schema
from blizzard.schema.where import Where, parse_where
from blizzard.schema.where_text import value_of
from blizzard.schema.where_tree import levels_of

SCHEMA = load_schema(
    "id BIGINT, kind STRING, price DECIMAL(9,2), ratio DOUBLE, ok BOOLEAN, day DATE, ts TIMESTAMP, local TIMESTAMP_NTZ,"
    " user STRUCT<name: STRING, Age: INT>, tags MAP<STRING, BIGINT>, items ARRAY<STRING>, var VARIANT, raw BINARY"
)


def where(text: str) -> Where:
    return parse_where(text, SCHEMA, reserved=("_source_file", "date"))


def types(found: Where) -> dict[str, str]:
    def walk(fields: list[dict[str, object]], before: str) -> dict[str, str]:
        named: dict[str, str] = {}
        for field in fields:
            name, kind = f"{before}{field['name']}", field["type"]
            assert field["nullable"]
            named |= (
                walk(kind["fields"], f"{name}.") if isinstance(kind, dict) and "fields" in kind else {name: str(kind)}
            )
        return named

    return walk(found.schema["fields"], "")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("kind = 'a'", {"kind": "string"}),
        ("KIND = 'a'", {"kind": "string"}),
        ("user.age > 3 AND user.name IS NOT NULL", {"user.Age": "integer", "user.name": "string"}),
        ("`user`.\"name\" = 'a'", {"user.name": "string"}),
        ("tags.env = 3", {"tags.env": "long"}),
        ("level = 'x'", {"level": "string"}),
        ("level > 3", {"level": "double"}),
        ("level = 9007199254740993", {"level": "long"}),
        ("level IN (1, 9007199254740993)", {"level": "long"}),
        ("level > 0 AND level < -9007199254740993", {"level": "long"}),
        ("level BETWEEN 1 AND 9007199254740993", {"level": "long"}),
        ("coalesce(level, 0) = 9007199254740993", {"level": "long"}),
        ("level > 0 AND CASE level WHEN 9007199254740993 THEN true END", {"level": "long"}),
        ("level = 18446744073709551615", {"level": "decimal(38,0)"}),
        ("level IN (9007199254740993, 18446744073709551615)", {"level": "decimal(38,0)"}),
        ("CAST(level AS DOUBLE) = 9007199254740993", {"level": "double"}),
        ("level = 1.5", {"level": "double"}),
        ("_id.$oid = 'x'", {"_id.$oid": "string"}),
        ("level = id", {"level": "long", "id": "long"}),
        ("level = price", {"level": "decimal(9,2)", "price": "decimal(9,2)"}),
        ("level = ts", {"level": "timestamp", "ts": "timestamp"}),
        ("level >= DATE '2024-01-01'", {"level": "date"}),
        ("level IN ('a', 'b')", {"level": "string"}),
        ("level BETWEEN 1 AND 2", {"level": "double"}),
        ("level LIKE 'a%'", {"level": "string"}),
        ("level", {"level": "boolean"}),
        ("NOT deep.er.flag", {"deep.er.flag": "boolean"}),
        ("level IS NULL OR level = 'x'", {"level": "string"}),
        ("level IS NULL OR other = level OR other = 'x'", {"level": "string", "other": "string"}),
        ("CAST(level AS INT) = 3", {"level": "integer"}),
        ("TRY_CAST(level AS DECIMAL(9,2)) IS NULL", {"level": "decimal(9,2)"}),
        ("var.thing = 'x'", {"var.thing": "string"}),
        ("length(level) > 3", {"level": "string"}),
        ("level + 1 > 3", {"level": "double"}),
        ("coalesce(level, 'x') = 'y'", {"level": "string"}),
        ("CASE WHEN ok THEN level ELSE 'x' END = 'y'", {"ok": "boolean", "level": "string"}),
        ("ts > '2024-01-01'", {"ts": "timestamp"}),
        ("local > TIMESTAMP '2024-01-01 10:00:00'", {"local": "timestamp_ntz"}),
        ("id = '3'", {"id": "long"}),
        ("items IS NULL AND raw IS NULL", {"raw": "binary"}),
        ("id = -9223372036854775808", {"id": "long"}),
    ],
)
def test_the_fields_of_a_condition_and_their_types(text: str, fields: dict[str, str]) -> None:
    found = types(where(text))
    found.pop("items", None)
    assert found == fields


def test_fields_without_a_column_are_named() -> None:
    assert where("kind = 'a' OR level = 'x' OR user.city = 'b'").undeclared == (("level",), ("user", "city"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("kind = 'a'; ok", "without a ;"),
        ("kind = ", "it is no SQL condition: something is missing. Line 1, Col: 6"),
        ("kind ! 3", "it is no SQL condition"),
        ("SELECT 1", "SELECT is not supported. There are comparisons"),
        ("id IN (SELECT 1)", "IN with QUERY is not supported"),
        ("EXISTS (SELECT 1)", "EXISTS is not supported"),
        ("count(*) > 1", "the function count is not supported"),
        ("abs(id) = 1", "the function abs is not supported"),
        ("year(ts) = 2024", "the function year is not supported"),
        ("my_function(id) = 1", "the function my_function is not supported"),
        ("ts > now()", "is not supported"),
        ("day = current_date", "is not supported"),
        ("items[0] = 'a'", "[…] is not supported"),
        ("ts > ts - INTERVAL '1' DAY", "INTERVAL is not supported"),
        ("id & 1 = 1", "& is not supported"),
        ("(id, kind) = (1, 'a')", "a tuple is not supported"),
        ("kind LIKE ANY ('a', 'b')", "ANY is not supported"),
        ("id BETWEEN SYMMETRIC 1 AND 2", "BETWEEN with SYMMETRIC is not supported"),
        ("trim('x' FROM kind) = 'a'", "is not supported"),
        ("kind LIKE kind", "the pattern of LIKE must be a text in quotes"),
        ("kind LIKE 'a' ESCAPE '!!'", "ESCAPE takes one character"),
        ("regexp_like(kind, '(')", "is no pattern that RE2 knows"),
        ("regexp_like(kind, '(?=a)')", "is no pattern that RE2 knows"),
        ("substring(kind, 0) = 'a'", "the first character is 1"),
        ("kind", "kind is STRING, and not a condition"),
        ("id + 1", "the result of + is BIGINT, and not a condition"),
        ("ok AND id", "id is BIGINT, and not a condition"),
        ("id = kind", "id is BIGINT and kind is STRING: they cannot be compared. CAST one of them"),
        ("id = 'x'", "'x' is no BIGINT"),
        ("ts > 'yesterday'", "'yesterday' is no TIMESTAMP"),
        ("day = DATE '2024-02-30'", "'2024-02-30' is no DATE"),
        ("ok = 1", "cannot be compared"),
        ("id IN (1, 'a', 2)", "'a' is no BIGINT"),
        ("lower(id) = 'a'", "lower takes a text, and id is BIGINT. CAST it AS STRING"),
        ("price * 2 > 3", "price is DECIMAL(9,2); CAST it AS DOUBLE"),
        ("kind + 1 = 2", "kind is STRING; it takes numbers"),
        ("id * 1.1 > 3.3", "1.1 is DECIMAL(2,1); CAST it AS DOUBLE"),
        ("price = 0.1 + 0.2", "0.1 is DECIMAL(1,1); CAST it AS DOUBLE"),
        ("id + 9223372036854775808 > 1", "9223372036854775808 is DECIMAL(19,0); CAST it AS DOUBLE"),
        ("raw = 'a'", "raw is BINARY, which cannot be compared"),
        ("user = user", "user is STRUCT, which cannot be compared; only IS NULL can be asked"),
        ("CAST(ratio AS BIGINT) = 1", "ratio is DOUBLE and cannot be cast to BIGINT"),
        ("CAST(ts AS STRING) = 'a'", "ts is TIMESTAMP and cannot be cast to STRING"),
        ("CAST(price AS DECIMAL(9,1)) = 1", "price is DECIMAL(9,2) and cannot be cast to DECIMAL(9,1)"),
        ("CAST(kind AS VARCHAR(3)) = 'a'", "is no type that a field can be cast to"),
        ("CAST(kind AS BLOB) IS NULL", "is no type that a field can be cast to"),
        ("kind.part = 'a'", "kind.part: kind is STRING, which has no fields"),
        ("items.name = 'a'", "items.name: items is ARRAY<STRING>, which has no fields"),
        ("level IS NULL", "nothing says which type level has: the schema does not declare it. CAST it: CAST(level AS"),
        ("level = other", "nothing says which type level has"),
        ("level = 'a' OR level > 3", "level is STRING and 3 is BIGINT: they cannot be compared"),
        ("level = 'a' OR LEVEL = 'b'", "LEVEL and level are one field; write it in one way"),
        ("level = 'a' OR level.part = 'b'", "level is named as a whole and by its fields"),
        ("_source_file = 'a'", "_source_file is not read from the records"),
        ("Date = '2024-01-01'", "Date is not read from the records"),
        ("_rescued_data IS NULL", "_rescued_data is not read from the records"),
        ("true", "it names no field of the records"),
        ("1 = 1", "it names no field of the records"),
        ("id = 1e999", "1e999 is larger than any DOUBLE"),
        ("NULL = NULL", "NULL is compared with NULL"),
        ("id = " + "9" * 39, "has more than 38 digits"),
        ("id IN (1, 1.5, 'x')", "'x' is STRING and stands among numbers; write it without quotes"),
        ("ok = flag IS NULL", "put parentheses around what is compared"),
        ("ok = flag IS NOT TRUE", "put parentheses around what is compared"),
        ("id > 1 IS NOT TRUE", "put parentheses around what is compared"),
        ("ok = flag = other", "put parentheses around what is compared"),
        ("ok IS DISTINCT FROM id < 1", "put parentheses around what is compared"),
        ("ok <> id BETWEEN 1 AND 2", "put parentheses around what is compared"),
        ("id BETWEEN 1 AND 2 = ok", "put parentheses around what is compared"),
        ("ok IS DISTINCT FROM flag IN (true)", "put parentheses around what is compared"),
        ("ok IS NOT DISTINCT FROM flag IS NULL", "put parentheses around what is compared"),
        ("! ok IS NULL", "write NOT"),
        ("kind = $$a$$ OR ok", "put the text $$a$$ in single quotes"),
        ("kind = $t$a$t$", "put the text $t$a$t$ in single quotes"),
        ("kind IN ('order', 'refund' 'return')", "between 'refund' and 'return'"),
        ("CASE WHEN ok THEN ok = flag IS NULL END", "put parentheses around what is compared"),
        ("(" * 2000 + "ok" + ")" * 2000, "nested too deeply"),
        ("id" + " + 1" * 100 + " = 1", "nested too deeply"),
        ("kind = '\ud83d'", "half of a surrogate pair"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_name(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        where(text)
    assert refused.value.kind == Kind.WHERE
    assert str(refused.value).startswith("where: ")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "ok = (id IS NULL) AND (ok = ok) IS NOT TRUE AND NOT id = 1",
        "id BETWEEN 1 AND 2 AND id = 3 OR id IN (1, 2) AND ok IS NULL IS FALSE",
        "CASE WHEN id = 1 THEN ok ELSE id > 2 END = (CASE id WHEN 1 THEN ok END IS NULL)",
        "ratio * 1.5 > 3 AND id / 1.5 > 3 AND level * 1.1 > 3 AND -1.5 < id",
        "ok IS DISTINCT FROM true AND ok IS NULL",
        "coalesce(ok, id = 1) = ok AND lower(name) LIKE 'a = b IS NULL%'",
    ],
)
def test_comparisons_that_stand_apart_need_no_parentheses(text: str) -> None:
    assert parse_where(text, SCHEMA).text == text


def test_a_long_list_of_conditions_is_not_deep() -> None:
    """A tree with a level for each of them could be typed here and not be pickled, or not be judged in a task."""
    several = " OR ".join(f"(kind = '{n}' AND id > {n})" for n in range(1_500))
    assert levels_of(where(several).root) < 20
    nested = where("CASE WHEN ok THEN level ELSE " * 40 + "level" + " END" * 40 + " = 'a'")
    assert nested.undeclared == (("level",),)


def test_the_message_begins_with_the_key() -> None:
    with pytest.raises(ConfigError, match=r"^targets\.eu\.where: it is empty"):
        parse_where("", SCHEMA, key="targets.eu.where")


def test_a_record_that_is_one_value_has_its_fields_by_their_own_names() -> None:
    whole = whole_record_schema()
    assert types(parse_where("kind = 'a'", whole)) == {"kind": "string"}
    with pytest.raises(ConfigError, match=r"record\.kind: the records have no such field; write kind"):
        parse_where("record.kind = 'a'", whole)


def test_it_travels_to_the_tasks() -> None:
    found = where("kind = 'a' AND price IN (1, 2.5) AND ts > '2024-01-01'")
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_task_needs_no_sqlglot() -> None:
    """It gets the tree."""
    code = "import sys, blizzard.tasks.task, blizzard.schema.where_tree; assert 'sqlglot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("12", "long", 12),
        ("+12", "integer", 12),
        ("128", "byte", None),
        (" 12", "long", None),
        ("1.0", "long", None),
        ("1e3", "double", 1000.0),
        ("1e999", "double", None),
        ("1e300", "float", None),
        ("0.1", "float", 0.10000000149011612),
        ("3.4028235e38", "float", 3.4028234663852886e38),
        ("3.4028236e38", "float", None),
        ("nan", "double", None),
        ("TRUE", "boolean", True),
        ("yes", "boolean", None),
        ("1970-01-02", "date", 1),
        ("1970-13-02", "date", None),
        ("1970-01-01T00:00:01.5Z", "timestamp", 1_500_000),
        ("1970-01-01 01:00:00+01:00", "timestamp", 0),
        ("1970-01-01 01:00:00-0030", "timestamp", 5_400_000_000),
        ("1970-01-01 01:00:00Z", "timestamp_ntz", None),
        ("1970-01-01 24:00:00", "timestamp", None),
        ("0001-01-01T00:00:00+01:00", "timestamp", None),
        ("1970-01-01", "timestamp", 0),
    ],
)
def test_texts_are_read_exactly_or_not_at_all(text: str, type_name: str, value: object) -> None:
    assert value_of(text, type_name) == value
