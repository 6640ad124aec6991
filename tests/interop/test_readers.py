"""The table as others read it: Spark, delta-rs and the Java kernel agree, statistics skip files and never rows."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from blizzard.testing.samples import EVENT_DDL, write_events
from tests.ingesting import commit_actions, ids, ingest, rows, write, write_ids
from tests.interop.kernel import read_longs

pytestmark = pytest.mark.spark

ALL_TYPES = (
    "id BIGINT, i8 TINYINT, i16 SMALLINT, i32 INT, f32 FLOAT, f64 DOUBLE, dec DECIMAL(20,4), ok BOOLEAN, text STRING,"
    " day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, list ARRAY<INT>, map MAP<STRING, DOUBLE>,"
    " s STRUCT<a: INT, deep: STRUCT<b: STRING, l: ARRAY<STRING>>>"
)
FULL = {
    "id": 1,
    "i8": -128,
    "i16": 32767,
    "i32": -(2**31),
    "f32": 0.5,
    "f64": 1e300,
    "dec": "1234567890123456.7891",
    "ok": True,
    "text": "ünï→🎉",
    "day": "2024-02-29",
    "at": "2024-02-29T12:00:00.123456+02:00",
    "local": "1969-12-31T23:59:59.999999",
    "raw": base64.b64encode(b"\x00\xff").decode(),
    "list": [1, None, 3],
    "map": {"k": 1.5, "": None},
    "s": {"a": 1, "deep": {"b": "x", "l": ["y"]}},
}


def spark_rows(spark: Any, table: Path) -> list[dict[str, Any]]:
    found = [row.asDict(recursive=True) for row in spark.read.format("delta").load(str(table)).collect()]
    return sorted(found, key=lambda r: r["id"])


def test_a_commit_holds_exactly_the_adds_both_txns_and_the_ledger(spark: Any, tmp_path: Path) -> None:
    for i in range(3):
        write_ids(tmp_path / f"src/{i}.ndjson.gz", 10 * i, 10 * i + 10)
    summary = ingest(spark, tmp_path, pipeline="p", options={"spark.slots": 2, "limits.max_records": 25})
    assert summary.commits == 2
    actions = commit_actions(tmp_path / "table", 1)
    kinds = [next(iter(a)) for a in actions]
    assert sorted(kinds) == ["add", "add", "commitInfo", "txn", "txn"]
    txns = {a["txn"]["appId"].split(":")[0]: a["txn"] for a in actions if "txn" in a}
    assert txns.keys() == {"blizzard", "blizzard-fence"}
    assert txns["blizzard-fence"]["appId"] == "blizzard-fence:p"
    assert {t["version"] for t in txns.values()} == {1}
    info = actions[kinds.index("commitInfo")]["commitInfo"]
    assert all(t["lastUpdated"] > 1_600_000_000_000 for t in txns.values())
    state = json.loads(base64.b64decode(txns["blizzard"]["appId"].removeprefix("blizzard:")))
    adds = [a["add"] for a in actions if "add" in a]
    assert state["add_path"] in [a["path"] for a in adds]
    assert (state["pipeline"], state["sequence"], state["delta_version"]) == ("p", 1, 0)
    ledger = json.loads(info["userMetadata"])
    assert ledger["base_version"] == 0
    assert sum(f["to"] - f["from"] for f in ledger["files"]) == ledger["records"] == 23  # 13 + 10 of 12
    assert sum(json.loads(a["stats"])["numRecords"] for a in adds) == 23
    assert set(ledger["files"][0]) == {"path", "size", "etag", "from", "to", "finished", "bad"}


def test_spark_delta_rs_and_the_java_kernel_read_the_same(spark: Any, tmp_path: Path) -> None:
    total = write_events(str(tmp_path / "src"), files=5, records=400)
    ingest(spark, tmp_path, schema=EVENT_DDL, options={"limits.max_records": 700})
    expected = list(range(total))
    assert ids(tmp_path / "table") == expected
    assert [r["id"] for r in spark_rows(spark, tmp_path / "table")] == expected
    assert read_longs(spark, tmp_path / "table", "id") == expected


def test_every_type_reads_back_as_it_was_written(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", json.dumps(FULL).encode() + b'\n{"id":2}\n')
    ingest(spark, tmp_path, schema=ALL_TYPES)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    full, empty = spark_rows(spark, tmp_path / "table")
    assert {k for k, v in empty.items() if v is not None} == {"id"}
    assert full["dec"] == Decimal("1234567890123456.7891")
    assert full["day"] == dt.date(2024, 2, 29)
    assert full["at"].astimezone(dt.timezone.utc) == dt.datetime(2024, 2, 29, 10, 0, 0, 123456, dt.timezone.utc)
    assert full["local"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert bytes(full["raw"]) == b"\x00\xff"
    assert full["map"] == {"k": 1.5, "": None}
    plain = ("i8", "i16", "i32", "f32", "f64", "ok", "text", "list", "s")
    assert {k: full[k] for k in plain} == {k: FULL[k] for k in plain}
    by_rust = rows(tmp_path / "table")[0]
    assert {k: by_rust[k] for k in (*plain, "dec", "day", "local")} == {
        k: full[k] for k in (*plain, "dec", "day", "local")
    }


def test_statistics_are_complete(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", json.dumps(FULL).encode() + b'\n{"id":2}\n')
    ingest(spark, tmp_path, schema=ALL_TYPES)
    (add,) = [a["add"] for a in commit_actions(tmp_path / "table", 1) if "add" in a]
    stats = json.loads(add["stats"], parse_float=Decimal)
    assert stats["numRecords"] == 2
    low = stats["minValues"]
    assert low["id"] == 1
    assert stats["maxValues"]["id"] == 2
    assert low["dec"] == Decimal("1234567890123456.7891")
    assert low["at"] == "2024-02-29T10:00:00.123456Z"
    assert low["local"] == "1969-12-31T23:59:59.999999"
    assert low["day"] == "2024-02-29"
    assert low["s"] == {"a": 1, "deep": {"b": "x"}}
    bounded = set(FULL) - {"raw", "list", "map"}
    assert set(low) == bounded
    assert stats["nullCount"] == {k: (0 if k == "id" else 1) for k in FULL if k != "s"} | {
        "s": {"a": 1, "deep": {"b": 1, "l": 1}}
    }


def test_a_row_is_found_through_the_statistics(spark: Any, tmp_path: Path) -> None:
    """Readers skip files by the bounds: a bound too tight would lose the row."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    write(tmp_path / "src/a.ndjson", json.dumps(FULL | {"id": 3}).encode() + b"\n")
    write(tmp_path / "src/b.ndjson", b'{"id":9}\n')
    ingest(spark, tmp_path, schema=ALL_TYPES, options={"limits.max_files": 1})
    literals = {
        "id": "3",
        "dec": "1234567890123456.7891",
        "day": "DATE'2024-02-29'",
        "at": "TIMESTAMP'2024-02-29T10:00:00.123456Z'",
        "local": "TIMESTAMP_NTZ'1969-12-31T23:59:59.999999'",
        "text": "'ünï→🎉'",
        "s.deep.b": "'x'",
    }
    frame = spark.read.format("delta").load(str(tmp_path / "table"))
    for column, literal in literals.items():
        for operator in ("=", ">=", "<="):
            found = frame.where(f"{column} {operator} {literal}").select("id").collect()
            assert 3 in [row["id"] for row in found], (column, operator)


def test_long_strings_have_short_bounds_that_still_hold(spark: Any, tmp_path: Path) -> None:
    texts = ["x" * 32, "x" * 33, "ü" * 40, "x" * 32 + "\U0010ffff", "x" * 5000, "🎉" * 64]
    for i, text in enumerate(texts):
        write(tmp_path / f"src/{i}.ndjson", json.dumps({"id": i, "name": text}).encode() + b"\n")
    ingest(spark, tmp_path, options={"limits.max_files": 1})
    frame = spark.read.format("delta").load(str(tmp_path / "table"))
    for i, text in enumerate(texts):
        (add,) = [a["add"] for a in commit_actions(tmp_path / "table", i + 1) if "add" in a]
        stats = json.loads(add["stats"])
        if "name" in stats["minValues"]:
            assert len(stats["maxValues"]["name"]) <= 33
            assert stats["minValues"]["name"] <= text <= stats["maxValues"]["name"]
        assert [row["id"] for row in frame.where(f"name = '{text}'").collect()] == [i]


def test_a_log_with_checkpoints_and_compaction_by_spark_is_resumed(spark: Any, tmp_path: Path) -> None:
    """Spark commits, and writes a Delta checkpoint, between two runs."""
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    table = f"delta.`{tmp_path}/table`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for i in range(5):
        spark.sql(f"INSERT INTO {table} VALUES ({100 + i}, 'foreign')")
    assert list((tmp_path / "table/_delta_log").glob("*.checkpoint*.parquet"))
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    summary = ingest(spark, tmp_path)
    assert (summary.recovery, summary.records) == ("log", 10)
    assert ids(tmp_path / "table") == [*range(20), *range(100, 105)]


def test_a_position_whose_commit_was_cleaned_up_is_found_in_sparks_checkpoint(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    table = f"delta.`{tmp_path}/table`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for i in range(4):
        spark.sql(f"INSERT INTO {table} VALUES ({100 + i}, 'foreign')")
    for version in range(3):
        (tmp_path / "table/_delta_log" / f"{version:020d}.json").unlink()
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    assert ingest(spark, tmp_path).recovery == "delta_checkpoint"
    assert ids(tmp_path / "table") == [*range(20), *range(100, 104)]
