"""Logs that Spark has written, checkpointed in each of its ways and cleaned up: the position is still found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingesting import ingest, write_ids

pytestmark = pytest.mark.spark

POLICIES = {
    "classic": ("'delta.checkpointInterval' = '5'", {}),
    "multipart": ("'delta.checkpointInterval' = '5'", {"spark.databricks.delta.checkpoint.partSize": "1"}),
    "v2": ("'delta.checkpointInterval' = '5', 'delta.checkpointPolicy' = 'v2'", {}),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_position_outlives_the_cleanup_of_a_log_checkpointed_by_spark(
    spark: Any, tmp_path: Path, policy: str
) -> None:
    properties, conf = POLICIES[policy]
    table = tmp_path / "table"
    spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, name STRING) USING delta TBLPROPERTIES ({properties})")
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    ingest(spark, tmp_path)
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        for number in range(6):
            spark.sql(f"INSERT INTO delta.`{table}` VALUES ({900 + number}, 'spark')")
    finally:
        for key in conf:
            spark.conf.unset(key)
    log = table / "_delta_log"
    checkpoints = [path for path in log.iterdir() if ".checkpoint." in path.name and path.suffix != ".crc"]
    assert checkpoints
    assert (len(checkpoints) > 1) == (policy == "multipart")
    assert all(len(path.name.split(".")) == 3 for path in checkpoints) == (policy == "classic")
    version = int(checkpoints[0].name[:20])
    for number in range(version):
        (log / f"{number:020d}.json").unlink()
    write_ids(tmp_path / "src/b.ndjson", 10, 20)
    summary = ingest(spark, tmp_path)
    assert (summary.recovery, summary.records) == ("delta_checkpoint", 10)
    found = spark.read.format("delta").load(str(table)).where("id < 900").select("id").collect()
    assert sorted(row.id for row in found) == list(range(20))
