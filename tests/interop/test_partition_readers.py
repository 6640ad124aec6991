"""Partition values as Spark reads them: it takes them from the log's text alone, whatever its time zone is."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import parse_partition_by
from blizzard.schema.layout import apply_layout
from tests.run.test_partitions import append, make

pytestmark = pytest.mark.spark

DDL = (
    "id INT, text STRING, ok BOOLEAN, i8 TINYINT, i64 BIGINT, f32 FLOAT, f64 DOUBLE, dec DECIMAL(20,4), day DATE,"
    " at TIMESTAMP, local TIMESTAMP_NTZ"
)
NAMES = ("id", "text", "ok", "i8", "i64", "f32", "f64", "dec", "day", "at", "local")
LEAP = dt.datetime(2024, 3, 31, 2, 30, 0, 1)  # no such time in some zones
LAST = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
VALUES: list[tuple[Any, ...]] = [
    (0, "a b/é=%20", True, -128, 2**63 - 1, 1e-45, 1e300, Decimal("-1.0100"), dt.date(1, 1, 1), LEAP, LEAP),
    (1, "__HIVE_DEFAULT_PARTITION__", False, 127, -(2**63), -0.0, 5e-324, Decimal("0.0001"), dt.date.max, LAST, LAST),
    (2, "plain", None, 0, 0, math.nan, -math.inf, Decimal(0), dt.date(1582, 10, 20), dt.datetime(1900, 1, 1), None),
    (3, *[None] * 10),
]
ROWS: list[dict[str, Any]] = [dict(zip(NAMES, values, strict=True)) for values in VALUES]
EPOCH = dt.datetime(1970, 1, 1)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_spark_reads_every_partition_value(spark: Any, tmp_path: Path, zone: str) -> None:
    layout = apply_layout(parse_ddl(DDL), partition_by=parse_partition_by(NAMES[1:]))
    append(make(tmp_path / "t", layout), layout, pa.Table.from_pylist(ROWS, schema=to_arrow(layout.schema)))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.read.format("delta").load(str(tmp_path / "t")).orderBy("id")
        times = ("unix_micros(at) AS at", "date_format(local, 'yyyy-MM-dd HH:mm:ss.SSSSSS') AS local")
        found = [row.asDict() for row in frame.selectExpr(*NAMES[:-2], *times).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [shown(row) for row in found] == [shown(as_selected(row)) for row in ROWS]


def as_selected(row: dict[str, Any]) -> dict[str, Any]:
    at, local = row["at"], row["local"]
    return row | {
        "f32": None if row["f32"] is None else pa.scalar(row["f32"], pa.float32()).as_py(),
        "at": None if at is None else (at - EPOCH) // dt.timedelta(microseconds=1),
        "local": None if local is None else f"{local:%Y-%m-%d %H:%M:%S.%f}",
    }


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Tells -0.0 from 0.0, and NaN is NaN."""
    return {name: repr(value) if isinstance(value, float) else value for name, value in row.items()}
