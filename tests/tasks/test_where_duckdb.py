"""A condition selects the rows that DuckDB selects. Where DuckDB raises (overflow, a bad cast), it is NULL here."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.schema.arrow import to_arrow
from blizzard.schema.load import load_schema
from blizzard.schema.where import parse_where
from blizzard.tasks.where import selects

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")

DDL = (
    "i BIGINT, j INT, d DOUBLE, m DECIMAL(9,2), s STRING, t STRING, b BOOLEAN, day DATE, ts TIMESTAMP,"
    " o STRUCT<i: BIGINT, s: STRING>"
)
SCHEMA = load_schema(DDL)
TEXTS = ["", "a", "b", "ab", "Ab", "a%b", "a_b", "ä", " a ", "12", "-7", "abc", "a\nb", "x" * 9, "2024-02-29", "日本"]
LARGE = [0, 1, -1, 2, 7, 10, -10, 2**31, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
REALS = [0.0, -0.0, 1.0, 1.5, -2.5, 10.0, 0.1, -4.77, 1e300, -1e300, 3.0]
DAYS = [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(2024, 3, 1)]
MOMENTS = [dt.datetime(2024, 2, 29, 23, 59, 59, 999999), dt.datetime(1969, 12, 31), dt.datetime(2024, 3, 1)]


@dataclass(frozen=True)
class Sql:
    """The same expression for blizzard and for DuckDB."""

    ours: str
    theirs: str


def same(text: str) -> Sql:
    return Sql(text, text)


def joined(template: str, *parts: Sql) -> Sql:
    return Sql(template.format(*(p.ours for p in parts)), template.format(*(p.theirs for p in parts)))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def finite(part: str) -> str:
    return f"(CASE WHEN isfinite(TRY({part})) THEN TRY({part}) END)"


PATTERNS = ["a%", "%b", "_", "a_b", "%", "", "a!%b", "%日%", "A%", "a\nb"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
DIGITS_ONLY = "(CASE WHEN regexp_full_match(s, '[+-]?[0-9]+') THEN TRY_CAST(s AS BIGINT) END)"
DAY_ONLY = "(CASE WHEN regexp_full_match(s, '[0-9]{4}-[0-9]{2}-[0-9]{2}') THEN TRY_CAST(s AS DATE) END)"


class Writer:
    """Draws expressions of each type, a few levels deep."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def sql(self, *choices: Sql) -> Sql:
        return self._draw(st.sampled_from(choices))

    def whole(self, depth: int) -> Sql:
        if depth == 0 or self.one_of(True, False):
            number = self.one_of(*LARGE[:7])
            return self.sql(
                *map(same, ("i", "o.i")), Sql("j", "CAST(j AS BIGINT)"), Sql(str(number), f"CAST({number} AS BIGINT)")
            )
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        match self.one_of("+", "-", "*", "%", "negative", "coalesce", "length", "cast text", "cast", "case"):
            case "negative":
                return Sql(f"(- {a.ours})", f"TRY(- {a.theirs})")
            case "coalesce":
                return joined("coalesce({}, {})", a, b)
            case "length":
                return joined("length({})", self.text(depth - 1))
            case "cast text":
                return Sql("CAST(s AS BIGINT)", DIGITS_ONLY)
            case "cast":
                return Sql(f"CAST({a.ours} AS SMALLINT)", f"CAST(TRY_CAST({a.theirs} AS SMALLINT) AS BIGINT)")
            case "case":
                return joined("CASE WHEN {} THEN {} ELSE {} END", self.condition(depth - 1), a, b)
            case "%":
                rest = f"CASE WHEN {b.theirs} = -1 THEN {a.theirs} * 0 ELSE TRY({a.theirs} % {b.theirs}) END"
                return Sql(f"({a.ours} % {b.ours})", f"({rest})")
            case operator:
                return Sql(f"({a.ours} {operator} {b.ours})", f"TRY({a.theirs} {operator} {b.theirs})")

    def real(self, depth: int) -> Sql:
        if depth == 0 or self.one_of(True, False):
            number = repr(self.one_of(*REALS))
            return self.sql(same("d"), Sql(number if "e" in number else f"{number}e0", f"CAST({number} AS DOUBLE)"))
        a, b = self.real(depth - 1), self.real(depth - 1)
        match self.one_of("+", "-", "*", "/", "%", "divide", "cast", "cast decimal"):
            case "cast decimal":
                return same("CAST(m AS DOUBLE)")
            case "divide":
                one, other = self.whole(depth - 1), self.whole(depth - 1)
                return Sql(f"({one.ours} / {other.ours})", finite(f"CAST({one.theirs} AS DOUBLE) / {other.theirs}"))
            case "cast":
                return joined("CAST({} AS DOUBLE)", self.whole(depth - 1))
            case operator:
                return Sql(f"({a.ours} {operator} {b.ours})", finite(f"{a.theirs} {operator} {b.theirs}"))

    def text(self, depth: int) -> Sql:
        if depth == 0 or self.one_of(True, False):
            return self.sql(*map(same, ("s", "t", "o.s", quoted(self.one_of(*TEXTS)))))
        a, b = self.text(depth - 1), self.text(depth - 1)
        match self.one_of(
            "lower", "upper", "trim", "ltrim", "rtrim", "concat", "substring", "rest", "coalesce", "cast"
        ):
            case "concat":
                return Sql(f"concat({a.ours}, {b.ours})", f"({a.theirs} || {b.theirs})")
            case "substring":
                return joined(f"substring({{}}, {self.one_of(1, 2, 4)}, {self.one_of(0, 1, 3)})", a)
            case "rest":
                return joined("substring({}, 2)", a)
            case "coalesce":
                return joined("coalesce({}, {})", a, b)
            case "cast":
                return same(f"CAST({self.one_of('i', 'day', 'm', 'b', 'o.i')} AS VARCHAR)")
            case function:
                return joined(f"{function}({{}})", a)

    def decimal(self, _: int) -> Sql:
        return same(self.one_of("m", "1.5", "0.01", "-3.25", "7", "123456789.125"))

    def time(self, _: int) -> Sql:
        day, moment = self.one_of(*DAYS), self.one_of(*MOMENTS)
        written = f"DATE '{day.year:04d}-{day.month:02d}-{day.day:02d}'", f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
        casts = "CAST(ts AS DATE)", "CAST(day AS TIMESTAMP)"
        return self.sql(*map(same, ("day", "ts", *written, *casts)), Sql("CAST(s AS DATE)", DAY_ONLY))

    def compared(self, depth: int) -> Sql:
        make = self.one_of(self.whole, self.real, self.text, self.decimal, self.time)
        a, b, c = make(depth), make(depth), make(depth)
        match self.one_of("compare", "compare", "between", "null", "mixed"):
            case "compare":
                return joined(f"({{}} {self.one_of(*OPERATORS)} {{}})", a, b)
            case "between":
                return joined("({} BETWEEN {} AND {})", a, b, c)
            case "null":
                return joined(self.one_of("({} IS NULL)", "({} IS NOT NULL)"), a)
            case _:
                other = self.one_of(self.whole(depth), same("d"))
                return joined(f"({{}} {self.one_of('<', '=', '>')} {{}})", other, self.decimal(depth))

    def in_list(self, depth: int) -> Sql:
        value, *literals = self.one_of(
            (self.whole(depth), "1", "7", "9223372036854775807"),
            (self.text(depth), "'a'", "'ab'", "''"),
            (same("m"), "1.5", "2", "0.01"),
            (same("d"), "CAST(1.5 AS DOUBLE)", "CAST(0 AS DOUBLE)"),
            (same("day"), "DATE '2024-02-29'", "DATE '1969-12-31'"),
        )
        given = [literals[0], *self._draw(st.lists(st.sampled_from([*literals, "NULL"]), max_size=3))]
        return joined(f"({{}} {self.one_of('IN', 'NOT IN')} ({', '.join(given)}))", value)

    def searched(self, depth: int) -> Sql:
        text, pattern = self.text(depth), quoted(self.one_of(*PATTERNS))
        match self.one_of("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE", "starts_with", "contains", "regexp"):
            case "starts_with" | "contains" as function:
                return joined(f"{function}({{}}, {quoted(self.one_of(*TEXTS))})", text)
            case "regexp":
                regexp = quoted(self.one_of("^a", "[0-9]+", "b$", "(?i)AB", "."))
                return Sql(f"regexp_like({text.ours}, {regexp})", f"regexp_matches({text.theirs}, {regexp})")
            case word:
                escape = self.one_of("", " ESCAPE '!'")
                return joined(f"({{}} {word} {pattern}{escape})", text)

    def condition(self, depth: int) -> Sql:
        if depth == 0 or self.one_of(True, False, False):
            kind = self.one_of("b", "true", "false", *["compared"] * 4, *["in_list", "searched"] * 2)
            if kind not in ("compared", "in_list", "searched"):
                return same(kind)
            return {"compared": self.compared, "in_list": self.in_list, "searched": self.searched}[kind](depth)
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        match self.one_of("AND", "OR", "NOT", "IS", "CASE"):
            case "NOT":
                return joined("(NOT {})", a)
            case "IS":
                return joined(f"({{}} IS {self.one_of('TRUE', 'FALSE', 'NOT TRUE', 'NULL')})", a)
            case "CASE":
                return joined("(CASE WHEN {} THEN {} WHEN b THEN {} END)", a, b, a)
            case operator:
                return joined(f"({{}} {operator} {{}})", a, b)


@st.composite
def conditions(draw: st.DrawFn) -> Sql:
    # It must name a field.
    return joined("({}) AND coalesce(i = i, true)", Writer(draw).condition(3))


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.sampled_from(LARGE),
            "j": st.none() | st.integers(-3, 3) | st.just(2**31 - 1),
            "d": st.none() | st.sampled_from(REALS),
            "m": st.none()
            | st.sampled_from(
                [Decimal(text) for text in ("1.50", "0.01", "-3.25", "7.00", "9999999.99", "-4.77", "0.10")]
            ),
            "s": st.none() | st.sampled_from(TEXTS),
            "t": st.none() | st.sampled_from(TEXTS),
            "b": st.none() | st.booleans(),
            "day": st.none() | st.sampled_from(DAYS),
            "ts": st.none() | st.sampled_from(MOMENTS).map(lambda moment: moment.replace(tzinfo=dt.timezone.utc)),
            "o": st.none()
            | st.fixed_dictionaries({"i": st.none() | st.sampled_from(LARGE), "s": st.none() | st.sampled_from(TEXTS)}),
        }
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def database() -> Any:
    with duckdb.connect(config={"threads": "1"}) as connection:
        yield connection


def by_duckdb(database: Any, condition: str, table: pa.Table) -> list[int]:
    index = table.schema.get_field_index("ts")
    naive = table.set_column(index, "ts", table["ts"].cast(pa.timestamp("us")))
    records = naive.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    database.register("records", records)
    found = database.execute(f"SELECT row FROM records WHERE {condition} ORDER BY row").fetchall()
    return [row for (row,) in found]


@settings(max_examples=400, deadline=None)
@given(condition=conditions(), rows=ROWS)
def test_the_same_rows_are_selected(database: Any, condition: Sql, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=to_arrow(SCHEMA))
    where = parse_where(condition.ours, SCHEMA)
    ours = [row for row, selected in enumerate(selects(where, table)) if selected]
    assert ours == by_duckdb(database, condition.theirs, table)
