"""Names of columns that delta-rs makes: Spark reads the table, appends to it, compacts it and deletes from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard.schema.evolve import evolve_schema, observe

pytestmark = pytest.mark.spark

NAMES = [f"a{character}b" for character in " ,;{}()=.-$%/'\"`é"]


def test_spark_works_with_every_name_that_becomes_a_column(spark: Any, tmp_path: Path) -> None:
    evolution = evolve_schema({"type": "struct", "fields": []}, [observe([((name,), 1) for name in NAMES])])
    assert {field["name"] for field in evolution.schema["fields"]} == set(NAMES)
    nested = pa.struct([(name, pa.int64()) for name in NAMES])
    values: dict[str, Any] = {name: pa.array([1, 2], pa.int64()) for name in NAMES}
    table = pa.table(values | {"s": pa.array([dict.fromkeys(NAMES, number) for number in (1, 2)], nested)})
    deltalake.write_deltalake(str(tmp_path), table)
    deltalake.write_deltalake(str(tmp_path), table, mode="append")

    frame = spark.read.format("delta").load(str(tmp_path))
    assert frame.columns == [*NAMES, "s"]
    frame.limit(1).write.format("delta").mode("append").save(str(tmp_path))
    spark.sql(f"OPTIMIZE delta.`{tmp_path}`")
    spark.sql(f"DELETE FROM delta.`{tmp_path}` WHERE `a b` = 2 AND s.`a,b` = 2")
    quoted = ["`" + name.replace("`", "``") + "`" for name in NAMES]
    found = spark.read.format("delta").load(str(tmp_path)).selectExpr(*quoted, *(f"s.{name}" for name in quoted))
    assert {tuple(row) for row in found.collect()} == {(1,) * (2 * len(NAMES))}
    assert set(DeltaTable(str(tmp_path)).to_pyarrow_table().column_names) == {*NAMES, "s"}
