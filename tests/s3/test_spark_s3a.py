"""Spark reads and writes Delta tables on the test server, and delta-rs reads the same."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from tests.s3.fault_proxy import FaultProxy
from tests.s3.server import Bucket
from tests.s3.spark import point_bucket_at

pytestmark = [pytest.mark.s3, pytest.mark.spark]


def test_spark_writes_and_reads_a_delta_table(spark: Any, fault_proxy: FaultProxy, bucket: Bucket) -> None:
    point_bucket_at(spark, bucket.name, fault_proxy)
    table = bucket.uri("table", scheme="s3a")
    spark.range(0, 100, numPartitions=1).write.format("delta").save(table)
    spark.range(100, 150, numPartitions=1).write.format("delta").mode("append").save(table)
    assert spark.read.format("delta").load(table).count() == 150
    read = DeltaTable(bucket.uri("table"), storage_options=fault_proxy.storage_options)
    assert (read.version(), read.to_pyarrow_table().num_rows) == (1, 150)
    assert {request.status for request in fault_proxy.requests("PUT")} == {200}
