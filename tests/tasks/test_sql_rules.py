"""Only a SELECT that takes each record by itself is run. What is refused is refused before anything is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from blizzard.schema.load import load_schema
from blizzard.tasks import duck as duck_module
from blizzard.tasks.duck import Duck
from blizzard.tasks.sql_rules import NotRowWise
from blizzard.tasks.transform_sql import SqlStep

READS = load_schema(
    "id BIGINT, name STRING, tags ARRAY<BIGINT>, user STRUCT<age: INT, city: STRING>, ts TIMESTAMP, day DATE,"
    " props MAP<STRING, STRING>, payload VARIANT"
)

# The statement, and a part of what is said about it.
REFUSED = [
    ("SELECT count(*) FROM records", "count_star(), which takes several records"),
    ("SELECT sum(id) FROM records", "sum(), which takes several records"),
    ("SELECT max(id) + 1 FROM records", "max(), which takes several records"),
    ("SELECT first(id) FROM records", "first(), which takes several records"),
    ("SELECT list(id) FROM records", "list(), which takes several records"),
    ("SELECT id FROM records WHERE id > avg(id)", "avg(), which takes several records"),
    ("SELECT upper(DISTINCT name) FROM records", "upper() as an aggregate"),
    ("SELECT upper(name) FILTER (WHERE id > 1) FROM records", "upper() as an aggregate"),
    ("SELECT sum(id) OVER () FROM records", "a window function"),
    ("SELECT row_number() OVER (ORDER BY id) FROM records", "a window function"),
    ("SELECT row_number() FROM records", "row_number(), which takes several records"),
    ("SELECT id FROM records QUALIFY row_number() OVER () = 1", "QUALIFY"),
    ("SELECT DISTINCT id FROM records", "DISTINCT"),
    ("SELECT DISTINCT ON (id) id FROM records", "DISTINCT"),
    ("SELECT id FROM records ORDER BY id", "ORDER BY"),
    ("SELECT id FROM records LIMIT 10", "LIMIT or OFFSET"),
    ("SELECT id FROM records LIMIT 10%", "LIMIT or OFFSET"),
    ("SELECT id FROM records OFFSET 2", "LIMIT or OFFSET"),
    ("SELECT id FROM records USING SAMPLE 10%", "SAMPLE"),
    ("SELECT id FROM records TABLESAMPLE 10%", "SAMPLE"),
    ("SELECT id FROM records GROUP BY id", "GROUP BY"),
    ("SELECT id FROM records GROUP BY ALL", "GROUP BY"),
    ("SELECT id FROM records GROUP BY CUBE (id)", "GROUP BY"),
    ("SELECT 1 AS one FROM records HAVING true", "HAVING"),
    ("SELECT grouping(id) FROM records", "GROUPING_FUNCTION"),
    ("SELECT a.id FROM records a JOIN records b ON a.id = b.id", "a join"),
    ("SELECT id FROM records, range(3)", "a join"),
    ("SELECT id FROM records a POSITIONAL JOIN records b", "a join"),
    ("SELECT (SELECT 1) FROM records", "a subquery"),
    ("SELECT id FROM records WHERE EXISTS (SELECT 1)", "a subquery"),
    ("SELECT id FROM records WHERE id IN (SELECT 1)", "a subquery"),
    ("SELECT id FROM records WHERE id = ANY (tags)", "a subquery"),
    ("SELECT id FROM (SELECT * FROM records)", "FROM records, and from nothing else"),
    ("WITH r AS (SELECT 1) SELECT id FROM records", "WITH"),
    ("SELECT id FROM records UNION ALL SELECT id FROM records", "UNION"),
    ("SELECT id FROM records EXCEPT SELECT 1", "EXCEPT"),
    ("SELECT unnest(tags) FROM records", "unnest(), which makes several rows"),
    ("SELECT id, [unnest(tags)] FROM records", "unnest(), which makes several rows"),
    ("SELECT generate_subscripts(tags, 1) FROM records", "generate_subscripts()"),
    ("SELECT regexp_split_to_table(name, 'x') FROM records", "regexp_split_to_table()"),
    ("SELECT geomean(id) FROM records", "geomean()"),
    ("SELECT * FROM range(3)", "FROM records, and from nothing else"),
    ("SELECT * FROM read_csv('x.csv')", "FROM records, and from nothing else"),
    ("SELECT * FROM 'x.parquet'", "FROM records, and from nothing else"),
    ("SELECT * FROM other", "FROM records, and from nothing else"),
    ("SELECT * FROM main.records", "schema name"),
    ("SELECT x FROM records AS r(x)", "column name alias"),
    ("SELECT 1", "FROM records, and from nothing else"),
    ("VALUES (1)", "FROM records, and from nothing else"),
    ("FROM records", "begin with SELECT"),
    ("SELECT ALL id FROM records", "remove ALL"),
    ("SELECT id FROM records; SELECT id FROM records", "2 statements"),
    ("", "0 statements"),
    ("DELETE FROM records", "Only SELECT"),
    ("COPY records TO 'x'", "Only SELECT"),
    ("SELECT id FROM", "syntax error"),
    ("SELECT random() FROM records", "random(), which does not always give the same"),
    ("SELECT setseed(0.1) FROM records", "setseed(), which does not always give the same"),
    ("SELECT uuid()::VARCHAR AS u FROM records", "uuid(), which does not always give the same"),
    ("SELECT now() FROM records", "now(), which does not always give the same"),
    ("SELECT today() - day FROM records", "today(), which does not always give the same"),
    ("SELECT current_date FROM records", "current_date, which does not always give the same"),
    ("SELECT current_timestamp FROM records", "current_timestamp, which does not always give the same"),
    ("SELECT localtimestamp FROM records", "localtimestamp, which does not always give the same"),
    ("SELECT current_localtimestamp() FROM records", "which does not always give the same"),
    ("SELECT age(ts) FROM records", "age(), which does not always give the same"),
    ("SELECT ago(INTERVAL 1 DAY) FROM records", "ago()"),
    ("SELECT nextval('s') FROM records", "nextval(), which does not always give the same"),
    ("SELECT current_setting('threads') FROM records", "which does not always give the same"),
    ("SELECT getvariable('x') FROM records", "which does not always give the same"),
    ("SELECT json_serialize_plan('SELECT 1') AS p FROM records", "which does not always give the same"),
    ("SELECT list_transform(tags, lambda x: random()) FROM records", "random()"),
    ("SELECT random()::VARCHAR -> 'a' AS j FROM records", "random(), which does not always give the same"),
    ("SELECT (SELECT 'x') -> 'a' AS j FROM records", "a subquery"),
    ("SELECT max(name) -> 'a' AS j FROM records", "max(), which takes several records"),
    ("SELECT _blizzard_line -> '$' AS j FROM records", "_blizzard_line is no column of the records"),
    ("SELECT current_date -> '$' AS j FROM records", "current_date, which does not always give the same"),
    ("SELECT upper(to_json(current_date) -> '$') AS j FROM records", "current_date, which does not always give"),
    ("SELECT list_reduce(['{}'], lambda a, b: a, rowid -> '$') AS j FROM records", "rowid is no column"),
    ("SELECT list_transform(tags, lambda x: nobody -> '$') AS j FROM records", "nobody is no column of the records"),
    ("SELECT error('no') FROM records", "error(), which does not always give the same"),
    ("SELECT ? FROM records", "a parameter"),
    ("SELECT $x FROM records", "a parameter"),
    ("SELECT #1 FROM records", "a column by its number"),
    ("SELECT COLUMNS('i.*') FROM records", "COLUMNS"),
    ("SELECT COLUMNS(* EXCLUDE (id)) FROM records", "COLUMNS"),
    ("SELECT COLUMNS(lambda c: c LIKE 'i%') FROM records", "COLUMNS"),
    ("SELECT greatest(*COLUMNS('i.*')) FROM records", "COLUMNS"),
    ("SELECT * LIKE 'i%' FROM records", "COLUMNS"),
    ("SELECT user.* FROM records", "user.* takes a struct apart"),
    ("SELECT records FROM records", "uses records as a value"),
    ("SELECT to_json(r) FROM records r", "uses r as a value"),
    ("SELECT rowid FROM records", "rowid is no column of the records"),
    ("SELECT _blizzard_line FROM records", "_blizzard_line is no column of the records"),
    ("SELECT nobody FROM records", "nobody is no column of the records; they have id, name, tags"),
    ("SELECT * EXCLUDE (nobody) FROM records", "nobody is no column of the records"),
    ("SELECT * REPLACE (1 AS nobody) FROM records", "nobody is no column of the records"),
    ("SELECT id, upper(name) FROM records", "has no name; write … AS name"),
    ("SELECT nosuch(id) FROM records", "DuckDB has no function nosuch()"),
    ("SELECT id" + " + 1" * 110 + " AS x FROM records", "it is nested too deeply; make it shorter"),
    ("SELECT '\ud83d' AS x FROM records", "half of a surrogate pair"),
    ("SELECT name.upper() FROM records", "write upper(name, …)"),
    ("SELECT id + name AS x FROM records", "DuckDB refuses it: Binder Error"),
    ("SELECT payload::VARCHAR AS p FROM records", "payload holds a VARIANT"),
    ("SELECT id FROM records WHERE payload IS NULL", "payload holds a VARIANT"),
    ("SELECT id::HUGEINT AS h FROM records", "no HUGEINT; cast it, to DECIMAL(38,0)"),
    ("SELECT hash(name) AS h FROM records", "no UBIGINT; cast it, to DECIMAL(20,0)"),
    ("SELECT [id::UTINYINT] AS l FROM records", "no UTINYINT; cast it, to SMALLINT"),
    ("SELECT {'t': TIME '01:00:00'} AS s FROM records", "no TIME; cast it, to VARCHAR"),
    ("SELECT INTERVAL 1 DAY AS i FROM records", "no INTERVAL; cast it, to VARCHAR"),
    ("SELECT list_sum(tags) AS s FROM records", "no HUGEINT; cast it, to DECIMAL(38,0)"),
]

ALLOWED = [
    "SELECT * FROM records",
    "  -- a comment\n/* another */ select id from records;",
    "SELECT r.* FROM records AS r",
    'SELECT ID, "Name" FROM Records',
    "SELECT * EXCLUDE (id, r.tags) REPLACE (upper(name) AS name) RENAME (day AS the_day) FROM records r",
    "SELECT id + 1 AS a, a * 2 AS b FROM records WHERE b > 4",
    "SELECT user.age, r.user.city AS city, user['city'] AS same FROM records r",
    "SELECT CASE WHEN id > 1 THEN 'a' ELSE 'b' END AS c, id BETWEEN 1 AND 2 AS b, id IN (1, 2) AS i FROM records",
    "SELECT NOT (id IS NULL) AS n, COALESCE(name, '') AS c, name IS DISTINCT FROM 'x' AS d FROM records",
    "SELECT TRY_CAST(name AS BIGINT) AS t, CAST(id AS DECIMAL(20,2)) AS d, name COLLATE NOCASE = 'x' AS s FROM records",
    "SELECT TRY(CAST(name AS INTEGER)) AS t FROM records",
    "SELECT list_transform(tags, lambda x, i: x + i + id) AS l, [x * 2 for x in tags if x > 0] AS m FROM records",
    "SELECT list_sum(tags)::BIGINT AS s, list_aggregate(tags, 'max') AS x, len(tags) AS n, tags[1:2] AS p FROM records",
    "SELECT nullif(name, '') AS n, split_part(name, '-', 1) AS p, array_to_string(tags, ',') AS a FROM records",
    "SELECT date_trunc('day', ts) AS d, ts AT TIME ZONE 'Europe/Berlin' AS b, ts + INTERVAL 1 DAY AS t FROM records",
    "SELECT age(ts, ts)::VARCHAR AS a, strftime(ts, '%Y') AS y, EXTRACT(year FROM ts) AS e FROM records",
    "SELECT regexp_extract(name, '(a)', 1) AS r, name LIKE 'x%' AS l, name ~ 'x' AS m FROM records",
    "SELECT {'a': id, 'b': [name]} AS s, MAP {'k': id} AS m FROM records",
    "SELECT json_extract_string(name, '$.a') AS j, name ->> 'b' AS k, to_json(user) AS u FROM records",
    "SELECT name -> '$.a' AS j, name -> 'a' -> 'b' ->> 'c' AS k FROM records WHERE (name -> 'a') IS NOT NULL",
    "SELECT upper(name -> 'a') AS j, list_transform([name], lambda x: x -> name) AS k, [x -> 'a' for x in [name]] AS l"
    " FROM records",
    "SELECT props['a'] AS a, map_keys(props) AS k FROM records",
    "SELECT payload, id FROM records",
    "SELECT NULL AS n, 1 AS one, 'x' AS x FROM records WHERE false",
    "SELECT range(id) AS r FROM records",
    "SELECT id" + " + 1" * 90 + " AS x FROM records",
    "SELECT id FROM records WHERE " + " OR ".join(f"id = {n}" for n in range(1_000)),
]


@pytest.mark.parametrize(("sql", "said"), REFUSED, ids=[ascii(sql) for sql, _ in REFUSED])
def test_what_does_not_take_each_record_by_itself_is_refused_by_its_name(sql: str, said: str) -> None:
    with pytest.raises(NotRowWise) as refused:
        SqlStep(sql, READS)
    assert said in str(refused.value)


@pytest.mark.parametrize("sql", ALLOWED)
def test_what_takes_each_record_by_itself_is_taken(sql: str) -> None:
    assert SqlStep(sql, READS).result["fields"]


def test_duckdb_still_calls_functions_consistent_that_look_at_the_clock() -> None:
    """If it does not any more, their names can go from the rules."""
    duck = Duck()
    for name in ("age", "current_localtime", "current_localtimestamp"):
        assert {function.stability for function in duck.functions(name)} == {"CONSISTENT"}, name


def test_who_asks_while_another_thread_lists_the_functions_finds_every_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pipelines of a fleet do when they start."""
    monkeypatch.setattr(duck_module, "_listed", {})
    first, second = Duck(), Duck()
    rows = second._connection.execute(duck_module._FUNCTIONS).fetchall()
    found: list[int] = []

    class Slow:
        """The connection of a thread that loses its turn in the middle of its list."""

        def execute(self, _: str) -> Slow:
            return self

        def fetchall(self) -> Iterator[Any]:
            yield from rows[:10]
            found.append(len(second.functions("upper")))
            yield from rows[10:]

    monkeypatch.setattr(first, "_connection", Slow())
    assert [len(first.functions("upper")), *found] == [len(second.functions("upper"))] * 2 != [0, 0]


def test_duckdb_cannot_reach_files_or_change_its_settings() -> None:
    duck = Duck()
    connection = duck._connection
    for sql in (
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/blizzard-must-not-write.csv'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET threads = 2",
    ):
        with pytest.raises(duck._errors.Error) as refused:
            connection.execute(sql)
        assert "disabled" in str(refused.value) or "locked" in str(refused.value), sql
    assert connection.execute("SELECT current_setting('threads'), current_setting('TimeZone')").fetchall() == [
        (1, "UTC")
    ]
