"""Records through DuckDB: every value stays what it is, and how the records are cut into blocks changes nothing."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import to_ddl
from blizzard.schema.load import load_schema
from blizzard.tasks.duck import _of_threads, this_duck
from blizzard.tasks.parsed import ParsedBlock
from blizzard.tasks.transform import Transforming
from blizzard.tasks.transform_code import make_transform
from blizzard.tasks.transform_sql import SqlStep
from blizzard.tasks.transform_step import RecordsRefused

UTC = dt.timezone.utc
NOON = dt.datetime(2026, 1, 31, 12, 34, 56, 789012)
# A type of the record contract, and values at its edges.
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127, 0],
    "SMALLINT": [-32768, 32767],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1, 2**53 + 1],
    "FLOAT": [0.1, -0.0, 3.4028234663852886e38, 1e-45],
    "DOUBLE": [0.1, -0.0, 1.7976931348623157e308, 5e-324],
    "DECIMAL(1,0)": [Decimal(9), Decimal(-9)],
    "DECIMAL(9,4)": [Decimal("99999.9999"), Decimal("-0.0001")],
    "DECIMAL(18,18)": [Decimal("0.999999999999999999")],
    "DECIMAL(38,0)": [Decimal("9" * 38), Decimal("-" + "9" * 38)],
    "DECIMAL(38,38)": [Decimal("0." + "9" * 38)],
    "STRING": ["", "a", "nul \0 inside", "ü😀\ufffd\U0010ffff", "x" * 5000, "a\nb"],
    "BINARY": [b"", b"\x00\xff\x80", b"x" * 5000],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
    "TIMESTAMP": [NOON.replace(tzinfo=UTC), dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime.max.replace(tzinfo=UTC)],
    "TIMESTAMP_NTZ": [NOON, dt.datetime(1, 1, 1), dt.datetime.max],
    "ARRAY<BIGINT>": [[], [1, None, 2**63 - 1], list(range(3000))],
    "ARRAY<ARRAY<STRING>>": [[[], None, ["a", None]], []],
    "STRUCT<a: INT, b: STRUCT<c: DECIMAL(38,10), d: BINARY>>": [
        {"a": 1, "b": {"c": Decimal("1.0000000001"), "d": b"\0"}},
        {"a": None, "b": None},
        {"a": 2, "b": {"c": None, "d": None}},
    ],
    "ARRAY<STRUCT<t: TIMESTAMP, n: TIMESTAMP_NTZ>>": [[{"t": NOON.replace(tzinfo=UTC), "n": NOON}, None]],
    "MAP<STRING, BIGINT>": [[], [("a", 1), ("", None)]],
    "MAP<STRING, ARRAY<DECIMAL(5,2)>>": [[("a", [Decimal("999.99"), None]), ("b", None)]],
    "MAP<STRING, STRUCT<x: DATE>>": [[("k", {"x": dt.date(2026, 1, 31)})]],
}


def shown(table: pa.Table) -> list[str]:
    """In which 0.0 and -0.0 differ."""
    return [repr(row) for row in table.to_pylist()]


@pytest.mark.parametrize("sql_type", VALUES)
@pytest.mark.parametrize("expression", ["c", "CASE WHEN true THEN c END", "COALESCE(c, NULL)"])
def test_a_value_of_every_type_stays_what_it_is(sql_type: str, expression: str) -> None:
    """As it is, it does not even go through DuckDB."""
    reads = load_schema(f"c {sql_type}")
    values = [None, *VALUES[sql_type], None, *VALUES[sql_type]]
    records = pa.table([pa.array(values, to_arrow(reads).field(0).type)], schema=to_arrow(reads))
    step = SqlStep(f"SELECT {expression} AS c FROM records", reads)
    made = step.run(records)
    assert made.records.tolist() == list(range(len(values)))
    assert shown(made.table) == shown(records)
    assert to_ddl(step.result) == to_ddl(reads), "a new table has the same type"
    (fitted, misfits) = fit(step, made, reads)
    assert not misfits
    assert fitted.schema == to_arrow(reads)
    assert shown(fitted) == shown(records)


def fit(step: SqlStep, made: Any, table: Any) -> Any:
    from blizzard.tasks.fit_rows import RowFit

    return RowFit(step.result, table).take(made)


def test_a_variant_is_only_passed_on() -> None:
    reads = load_schema("id BIGINT, v VARIANT")
    variant = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}
    records = pa.Table.from_pylist([{"id": 1, "v": variant}, {"id": 2, "v": None}], schema=to_arrow(reads))
    step = SqlStep("SELECT v AS w, id + 1 AS id FROM records WHERE id > 0", reads)
    assert to_ddl(step.result) == "w VARIANT, id BIGINT"
    assert step.run(records).table.to_pylist() == [{"w": variant, "id": 2}, {"w": None, "id": 3}]


READS = load_schema("id BIGINT, name STRING, x DOUBLE, tags ARRAY<BIGINT>, user STRUCT<age: INT, city: STRING>")
ARROW = to_arrow(READS)


def table_of(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in ARROW.names} for row in rows], schema=ARROW)


def made_by(sql: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    made = SqlStep(sql, READS).run(table_of(*rows))
    return list(made.table.to_pylist())


def test_columns_come_in_the_order_of_the_statement() -> None:
    rows = made_by("SELECT upper(name) AS n, *, id * 2 AS twice FROM records", {"id": 1, "name": "a"})
    assert list(rows[0]) == ["n", "id", "name", "x", "tags", "user", "twice"]
    assert (rows[0]["n"], rows[0]["id"], rows[0]["name"], rows[0]["twice"]) == ("A", 1, "a", 2)


def test_stars_leave_out_replace_and_rename() -> None:
    sql = "SELECT * EXCLUDE (tags, user) REPLACE (id + 1 AS id, x / 2 AS x) RENAME (name AS label) FROM records"
    assert made_by(sql, {"id": 1, "name": "a", "x": 3.0}) == [{"id": 2, "label": "a", "x": 1.5}]


def test_a_name_in_another_case_is_the_same_column() -> None:
    assert made_by('SELECT ID, "NAME", Records.X AS y FROM Records', {"id": 1, "name": "a", "x": 2.0}) == [
        {"id": 1, "name": "a", "y": 2.0}
    ]


def test_an_alias_is_used_by_later_items_and_by_the_condition() -> None:
    """`name AS a` is only passed on, and `a || '!'` looks at it."""
    sql = "SELECT name AS a, a || '!' AS b, id AS name FROM records WHERE b = 'x!'"
    assert made_by(sql, {"id": 1, "name": "x"}, {"id": 2, "name": "y"}) == [{"a": "x", "b": "x!", "name": 1}]


def test_a_parameter_of_a_lambda_hides_a_column() -> None:
    sql = "SELECT list_transform(tags, lambda name: name + id) AS l FROM records"
    assert made_by(sql, {"id": 10, "name": "a", "tags": [1, 2]}) == [{"l": [11, 12]}]


def test_an_arrow_that_reads_json_is_no_lambda() -> None:
    """`name` is passed on as well, so DuckDB could have got a placeholder for it."""
    sql = "SELECT name, name -> '$.a' AS a, name -> 'b' ->> 'c' AS c, name AS same, same -> 'a' AS d FROM records"
    text = '{"a":5,"b":{"c":"x"}}'
    assert made_by(sql, {"name": text}) == [{"name": text, "a": "5", "c": "x", "same": text, "d": "5"}]


def test_null_does_not_match() -> None:
    assert made_by("SELECT id FROM records WHERE x > 1", {"id": 1, "x": 2.0}, {"id": 2, "x": None}, {"id": 3}) == [
        {"id": 1}
    ]


def test_a_failing_condition_behind_one_that_does_not_hold_is_not_looked_at() -> None:
    sql = "SELECT id FROM records WHERE id > 1 AND CAST(name AS INTEGER) > 0"
    assert made_by(sql, {"id": 1, "name": "x"}, {"id": 2, "name": "5"}) == [{"id": 2}]


def test_what_duckdb_cannot_convert_fails_for_the_block() -> None:
    with pytest.raises(RecordsRefused, match="Could not convert string 'x' to INT32"):
        made_by("SELECT CAST(name AS INTEGER) AS n FROM records", {"name": "1"}, {"name": "x"})


def test_an_error_of_any_kind_over_a_record_is_that_records_own() -> None:
    transform = make_transform(READS, sql="SELECT id, list_reduce(tags, lambda a, t: a + t) AS s FROM records")
    found = transformed(
        Transforming(transform, transform.result), [{"id": 1, "tags": []}, {"id": 2, "tags": [1, 2]}], 0
    )
    assert [entry[:2] for entry in found] == [(0, "bad"), (1, "row")]
    assert "empty input list" in found[0][2]


def test_times_are_read_in_utc_wherever_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    sql = "SELECT CAST('2026-01-31 12:00:00' AS TIMESTAMPTZ) AS t, strftime(t, '%H') AS h FROM records"
    (row,) = made_by(sql, {"id": 1})
    assert (row["t"], row["h"]) == (dt.datetime(2026, 1, 31, 12, tzinfo=UTC), "12")


# With every column of the records given to DuckDB, and nothing passed by it, the result is the same.
_EXPRESSIONS = """
id + 1 ;; -id ;; id - -1 ;; id::DOUBLE ;; CAST(x AS DECIMAL(10,2)) ;; TRY_CAST(name AS INTEGER)
CASE WHEN id > 1 THEN name ELSE 'b' END ;; CASE name WHEN 'a' THEN 1 END ;; id BETWEEN 0 AND 2
id NOT BETWEEN 0 AND 2 ;; id IS NULL ;; id IN (1, 2) ;; id NOT IN (1, 2) ;; NOT (id = 1)
id > 0 AND x > 0 OR name = 'a' ;; tags[1] ;; tags[1:2] ;; user.age ;; user['city'] ;; records.user.city
[id, 2] ;; {'a': id, 'b c': name} ;; struct_pack(x := id, y := name) ;; COALESCE(name, user.city, 'z')
name COLLATE NOCASE = 'A' ;; TRY(CAST(name AS INTEGER)) ;; [t + 1 for t in tags if t > 0]
list_transform(tags, lambda t: t + id) ;; list_transform(tags, lambda t, i: t + i)
list_filter(tags, lambda t: t > id) ;; list_reduce(tags, lambda a, t: a + t) ;; MAP {'a': id} ;; name LIKE 'a%'
name NOT LIKE 'a%' ;; name ILIKE 'A%' ESCAPE '$' ;; name SIMILAR TO 'a.*' ;; id // 2 ;; id % 2 ;; id ** 2
id IS DISTINCT FROM 2 ;; name || 'x' ;; nullif(name, 'a') ;; ifnull(id, 2) ;; substring(name FROM 1 FOR 2)
trim(BOTH 'a' FROM name) ;; position('a' IN name) ;; id::VARCHAR::INTEGER ;; ~id ;; id & 1 ;; greatest(id, 2)
length(name) ;; list_contains(tags, id) ;; len(tags) ;; to_json(user) ;; '{}' -> 'a'
format('{} {}', id, name) ;; id = 1 ;; concat(name, user.city) ;; md5(name) ;; CAST(id AS VARCHAR) || name
list_sort(tags) ;; abs(id)
"""
_ALL = [text for line in _EXPRESSIONS.split("\n") for text in line.split(" ;; ") if text]


@pytest.mark.parametrize("expression", _ALL)
def test_duckdb_gets_every_column_that_an_expression_looks_at(expression: str) -> None:
    rows = [
        {"id": 1, "name": "abc", "x": 1.5, "tags": [1, -2, 3], "user": {"age": 5, "city": "A"}},
        {"id": 2, "name": "a", "x": -0.5, "tags": [7], "user": {"age": None, "city": None}},
        {},
    ]
    records = table_of(*rows)
    made = SqlStep(f"SELECT *, {expression} AS o, * EXCLUDE (id) RENAME (name AS n2, x AS x2) FROM records", READS).run(
        records
    )
    expected = this_duck().run(f"SELECT {expression} AS o FROM records", records)
    assert made.table.column(len(ARROW.names)).to_pylist() == expected["o"].to_pylist()


# Any row-wise statement gives the same rows, wherever the blocks are cut.
_TEXTS = st.sampled_from(["", "1", "12", "x", "-7", "9999999999999", " 5 ", "ü"])
_RECORDS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
        "name": st.none() | _TEXTS,
        "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, 1e308]),
        "tags": st.none() | st.lists(st.none() | st.integers(-2, 2), max_size=3),
        "user": st.none() | st.fixed_dictionaries({"age": st.none() | st.integers(-5, 5), "city": st.none() | _TEXTS}),
    }
)
_STATEMENTS = st.sampled_from(
    [
        "SELECT * FROM records",
        "SELECT id, name FROM records WHERE id > 0",
        "SELECT CAST(name AS INTEGER) AS n, id FROM records",
        "SELECT id + 9223372036854775800 AS big FROM records WHERE name IS NOT NULL",
        "SELECT * EXCLUDE (tags) REPLACE (CAST(name AS SMALLINT) AS name) FROM records WHERE x < 2 OR x IS NULL",
        "SELECT x * 10 AS x, user.age AS age FROM records WHERE CAST(name AS INTEGER) <> 1",
        "SELECT list_transform(tags, lambda t: 2 // t) AS t, tags[1] AS first FROM records",
        "SELECT CASE WHEN id > 0 THEN CAST(user.city AS INTEGER) END AS c FROM records WHERE TRY(id + 1) IS NOT NULL",
        "SELECT DATE '2026-01-01' + CAST(id AS INTEGER) AS d FROM records WHERE id < 100000000",
        "SELECT name AS a, a || '!' AS b FROM records WHERE length(b) > 2 AND CAST(a AS INTEGER) > 0",
    ]
)


@settings(max_examples=150, deadline=None)
@given(sql=_STATEMENTS, rows=st.lists(_RECORDS, max_size=24), cuts=st.lists(st.integers(0, 24), max_size=6))
@example(sql="SELECT CAST(name AS INTEGER) AS n FROM records", rows=[{"name": "x"}, {"name": "1"}], cuts=[])
def test_blocks_may_be_cut_anywhere(sql: str, rows: list[dict[str, Any]], cuts: list[int]) -> None:
    transform = make_transform(READS, sql=sql)
    transforming = Transforming(transform, transform.result)
    whole = transformed(transforming, rows, 0)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    in_parts = [transformed(transforming, rows[a:b], a) for a, b in pairwise(edges)]
    assert whole == [entry for part in in_parts for entry in part]


def transformed(transforming: Transforming, rows: list[dict[str, Any]], first: int) -> list[tuple[Any, ...]]:
    """What became of each record, by its number: a row, bad with its message, or filtered."""
    table = table_of(*rows)
    parsed = transforming.apply(ParsedBlock(table=table, lines=len(rows), blank=0, bad=()))
    assert parsed.table.num_rows + len(parsed.bad) + len(parsed.filtered) == len(rows)
    found = [
        *(
            (int(line) + first, "row", repr(row))
            for line, row in zip(parsed.lines_of_rows, parsed.table.to_pylist(), strict=True)
        ),
        *((bad.number + first, "bad", bad.message) for bad in parsed.bad),
        *((int(line) + first, "filtered", "") for line in parsed.filtered),
    ]
    assert np.all(np.diff(parsed.lines_of_rows) > 0)
    return sorted(found)


_FORK = """
import subprocess, sys, threading
from blizzard.tasks.duck import _of_threads, this_duck
this_duck().parse("SELECT 1")
def fork():
    print(subprocess.Popen([sys.executable, "-c", ""], preexec_fn=lambda: None).wait())
thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""


@pytest.mark.process
def test_a_process_that_another_thread_forks_does_not_crash() -> None:
    """So Spark's JVM is started: with Python code between fork and exec, and from a thread of its own."""
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_threads_that_have_ended_leave_no_connection() -> None:
    for _ in range(20):
        thread = threading.Thread(target=this_duck)
        thread.start()
        thread.join()
    this_duck()
    assert len(_of_threads) <= threading.active_count() + 1  # the last one that has ended
