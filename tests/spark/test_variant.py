"""VARIANT columns as Spark sees them: every value reads back as Python's json does, and has the bytes of parse_json."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.ingesting import ingest, write
from tests.tasks.hostile_lines import TEXTS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark 3.5 has no VARIANT"),
]

NUMBERS = [
    *("0", "-0", "127", "-128", "128", "32767", "-32769", "2147483648", "9223372036854775807", "-9223372036854775808"),
    *("9223372036854775808", "9" * 38, "1.5", "-0.0", "1.50", "0.1", "123456789.123456789", "1e2", "-1E-7", "1e308"),
    *("0." + "0" * 37 + "1", "0." + "3" * 60, "5e-324", "12345678901234567890.123456789", "1.7976931348623157e308"),
]


def records(count: int = 400) -> Iterator[str]:
    """JSON text of objects of every shape, the same in every run of the test."""
    chance = random.Random(7)
    names = [*(f"k{number}" for number in range(300)), "", "é", "a.b", "$", "'", "\U0001f600", "x" * 200]

    def value(depth: int) -> str:
        kind = chance.randrange(7 if depth < 4 else 4)
        if kind == 0:
            return chance.choice(["null", "true", "false"])
        if kind == 1:
            return chance.choice(NUMBERS)
        if kind <= 3:
            return json.dumps(chance.choice([*TEXTS, "t" * 63, "t" * 64, "t" * 300]))
        if kind == 4:
            return "[" + ",".join(value(depth + 1) for _ in range(chance.choice([0, 1, 3]))) + "]"
        return members(depth, chance.choice([0, 1, 3]))

    def members(depth: int, size: int) -> str:
        chosen = chance.sample(names, size)
        return "{" + ",".join(f"{json.dumps(name)}:{value(depth + 1)}" for name in chosen) + "}"

    yield "{}"
    yield '{"deep":' + "[" * 200 + "]" * 200 + "}"
    yield members(4, 300)
    yield json.dumps({"large": ["t" * 70_000, list(range(300)), {f"n{number}": number for number in range(300)}]})
    for _ in range(count):
        yield members(0, chance.choice([1, 3, 10]))


def exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def is_same(found: Any, expected: Any) -> bool:
    """Numbers are equal as they are, or as the doubles that both of them round to."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(is_same(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    if isinstance(expected, Decimal):
        return isinstance(found, Decimal) and (found == expected or float(found) == float(expected))
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize("committer", ["delta-rs", "delta-spark"])
def test_spark_reads_every_record_as_it_was_and_finds_the_bytes_of_its_own_encoder(
    spark: Any, tmp_path: Path, committer: str
) -> None:
    lines = list(records())
    write(tmp_path / "src/a.ndjson", "\n".join(lines).encode())
    options = {"schema.variant": True, "table.provenance": "source_line", "table.committer": committer}
    if committer == "delta-spark":
        options["table.sole_writer"] = True
    summary = ingest(spark, tmp_path, schema=None, options=options)
    assert (summary.records, summary.bad_records) == (len(lines), 0)

    frame = spark.read.format("delta").load(str(tmp_path / "table")).orderBy("_source_line")
    texts = [row[0] for row in frame.selectExpr("to_json(record)").collect()]
    assert len(texts) == len(lines)
    wrong = [line for line, text in zip(lines, texts, strict=True) if not is_same(exact(text), exact(line))]
    assert not wrong, wrong[0]

    stored = [bytes(part) for row in frame.select("record").collect() for part in (row[0].metadata, row[0].value)]
    source = spark.read.text(str(tmp_path / "src"))
    own = {row.value: row.own for row in source.selectExpr("value", "parse_json(value) AS own").collect()}
    assert stored == [bytes(part) for line in lines for part in (own[line].metadata, own[line].value)]


def test_spark_appends_to_the_table_compacts_it_and_deletes_from_it_and_runs_go_on(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"a":{"b":[1,2.5]}}\n{"id":2}\n')
    ingest(spark, tmp_path, schema=None, options={"schema.variant": True})
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"INSERT INTO {table} SELECT parse_json('{{\"id\":3}}')")
    write(tmp_path / "src/b.ndjson", b'{"id":4}\n')
    assert ingest(spark, tmp_path, schema=None).records == 1
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"DELETE FROM {table} WHERE variant_get(record, '$.id', 'int') = 2")
    write(tmp_path / "src/c.ndjson", b'{"id":5}\n')
    assert ingest(spark, tmp_path, schema=None).records == 1
    query = (
        f"SELECT variant_get(record, '$.id', 'int') AS id, variant_get(record, '$.a.b[1]', 'double') AS b FROM {table}"
    )
    found = {(row.id, row.b) for row in spark.sql(query).collect()}
    assert found == {(1, 2.5), (3, None), (4, None), (5, None)}


def test_variants_inside_of_columns_are_read_by_spark(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", b'{"s":{"v":{"x":[1]}},"l":["a",null,2],"m":{"k":true}}\n{}\n')
    schema = "s STRUCT<v: VARIANT, n: BIGINT>, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>"
    assert ingest(spark, tmp_path, schema=schema).records == 2
    frame = spark.read.format("delta").load(str(tmp_path / "table"))
    shown = frame.selectExpr("to_json(s.v)", "transform(l, v -> to_json(v))", "to_json(m['k'])", "s is null")
    assert {tuple(map(str, row)) for row in shown.collect()} == {
        ('{"x":[1]}', "['\"a\"', None, '2']", "true", "False"),
        ("None", "None", "None", "True"),
    }
    assert frame.where("s.v is null").count() == 1
