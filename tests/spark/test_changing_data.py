"""Dirty and drifting data through real Spark tasks."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blizzard.errors import ConfigError, SchemaError
from tests.failing import ends_with
from tests.ingesting import DDL, ingest, line, rows, write, write_ids

pytestmark = pytest.mark.spark


def test_a_first_run_infers_its_schema_and_later_ones_add_what_is_new(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"user":{"name":"x"}}\n{"id":2,"user":{"name":"y"},"tags":["t"]}\n')
    first = ingest(spark, tmp_path, schema=None, infer=True)
    assert first.records == 2
    write(tmp_path / "src/b.ndjson.gz", b'{"id":3,"user":{"name":"z","age":4},"score":1.5}\n')
    second = ingest(spark, tmp_path, schema=None, infer=True)
    assert sorted(second.added_columns) == ["score", "user.age"]
    assert rows(tmp_path / "table")[2] == {"id": 3, "user": {"name": "z", "age": 4}, "tags": None, "score": 1.5}


def test_partitions_by_value_by_date_and_by_folder(spark: Any, tmp_path: Path) -> None:
    for region, first in (("eu", 0), ("us%20east", 2)):
        content = "".join(
            json.dumps({"id": i, "kind": None if i == 3 else f"k{i % 2}", "ts": f"2024-05-0{i + 1}T23:30:00+02:00"})
            + "\n"
            for i in range(first, first + 2)
        )
        write(tmp_path / f"src/region={region}/part.ndjson.gz", content.encode())
    options = {"table.partition_by": "kind, day=date(ts), region=path(region)", "table.provenance": "all"}
    ingest(spark, tmp_path, schema="id BIGINT, kind STRING, ts TIMESTAMP", pipeline="p", options=options)
    write(tmp_path / "src/region=zz/part.ndjson.gz", b'{"id":4,"kind":"k0","ts":"2024-06-01T00:00:00Z"}\n')
    ingest(spark, tmp_path, schema=None, pipeline="p")  # the table itself knows how its columns are filled
    found = rows(tmp_path / "table")
    assert [(r["id"], r["kind"], r["day"], r["region"]) for r in found] == [
        (0, "k0", dt.date(2024, 5, 1), "eu"),
        (1, "k1", dt.date(2024, 5, 2), "eu"),
        (2, "k0", dt.date(2024, 5, 3), "us east"),
        (3, None, dt.date(2024, 5, 4), "us east"),
        (4, "k0", dt.date(2024, 6, 1), "zz"),
    ]
    assert found[1]["_source_file"] == "region=eu/part.ndjson.gz"
    assert (found[1]["_source_line"], found[1]["_sequence"], found[4]["_sequence"]) == (2, 1, 2)
    etag = (tmp_path / "src/region=eu/part.ndjson.gz").stat().st_mtime_ns
    assert found[1]["_record_key"] == f"p|region=eu/part.ndjson.gz|{etag}|1"
    with pytest.raises(SchemaError) as error:
        ingest(spark, tmp_path, schema=None, pipeline="p", options={"table.partition_by": "kind"})
    assert error.value.kind == "layout_mismatch"


def test_quarantine_rescue_and_broken_files_in_one_run(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", line(0) + b"oops\n" + line(1))
    broken = gzip.compress(b"".join(map(line, range(10, 5000))))[:-20]
    (tmp_path / "src/b.ndjson.gz").write_bytes(broken)
    os.utime(tmp_path / "src/b.ndjson.gz", (1_700_000_000, 1_700_000_000))  # younger, it might still be arriving
    write_ids(tmp_path / "src/c.ndjson", 2, 4)
    summary = ingest(spark, tmp_path, options={"spark.slots": 2})
    assert [row["id"] for row in rows(tmp_path / "table")] == [0, 1, 2, 3]
    assert (summary.bad_records, summary.bad_files, summary.quarantined) == (1, 1, 2)
    write(tmp_path / "src/d.ndjson", b'{"id":"four","name":"n4"}\n')
    rescued = ingest(spark, tmp_path, schema=None, options={"bad_records.policy": "rescue"})
    assert rescued.rescued_records == 1
    assert ingest(spark, tmp_path, schema=None).status == "idle"
    write_ids(tmp_path / "src/e.ndjson", 5, 6)
    assert ingest(spark, tmp_path, schema=None).records == 1  # and the rescued column stays empty


@pytest.mark.parametrize("schema", ["arrow", "spark", "dict"])
def test_a_schema_may_be_an_object(spark: Any, tmp_path: Path, schema: str) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    given: dict[str, Any] = {
        "arrow": pa.schema([("id", pa.int64()), ("name", pa.large_string())]),
        "spark": StructType().add("id", LongType()).add("name", StringType()),
        "dict": {
            "type": "struct",
            "fields": [
                {"name": "id", "type": "long", "nullable": True, "metadata": {}},
                {"name": "name", "type": "string", "nullable": True, "metadata": {}},
            ],
        },
    }
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    ingest(spark, tmp_path, schema=given[schema])
    assert len(rows(tmp_path / "table")) == 3


def test_widening_is_refused_with_what_can(spark: Any, tmp_path: Path) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    with pytest.raises(ConfigError, match="widen") as error:
        ingest(spark, tmp_path, options={"schema.evolution": "widen"})
    assert error.value.kind == "not_built"


def test_a_given_schema_still_fits_after_columns_were_added(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"name":"n","more":true}\n')
    options = {"schema.evolution": "add_columns"}
    ingest(spark, tmp_path, schema=DDL, options=options)
    write_ids(tmp_path / "src/b.ndjson", 2, 3)
    assert ingest(spark, tmp_path, schema=DDL, options=options).records == 1
    with ends_with("schema_mismatch"):
        ingest(spark, tmp_path, schema="id BIGINT, name STRING, more STRING", options=options)


AWKWARD = [
    "with space",
    "50%",
    "per%41cent",
    "quote'\"s",
    "ünï",
    "😀",
    "new\nline",
    "semi;colon",
    "a=b",
    "+plus",
    "#hash",
]


@pytest.mark.parametrize("name", AWKWARD)
def test_any_file_name_survives(spark: Any, tmp_path: Path, name: str) -> None:
    write(tmp_path / "src" / f"{name}.ndjson", line(1) + b"bad\n")
    ingest(spark, tmp_path, options={"table.provenance": "source_file,record_key"})
    assert rows(tmp_path / "table")[0]["_source_file"] == f"{name}.ndjson"
    (quarantined,) = blizzard_quarantine(tmp_path)
    assert quarantined["source_file"] == f"{name}.ndjson"
    assert ingest(spark, tmp_path).status == "idle"


def blizzard_quarantine(folder: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    rows_of_it: list[dict[str, Any]] = DeltaTable(str(folder / "table_quarantine")).to_pyarrow_table().to_pylist()
    return rows_of_it
