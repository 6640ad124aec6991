"""A local Spark session with Delta's JARs, for the contenders that write through Spark itself.

It has the settings a careful user would choose: room in the heap, the JVM's own compiler and collector, and no more
partitions for Delta's log than there are cores.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from benchmarks.contenders.play import Spec


def start_delta_session(spec: Spec) -> Any:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    cores = str(spec.cores)
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("benchmark")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.local.dir", spec.work)
        .config("spark.sql.warehouse.dir", os.path.join(spec.work, "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.databricks.delta.snapshotPartitions", cores)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    return configure_spark_with_delta_pip(builder).getOrCreate()
