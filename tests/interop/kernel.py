"""A third reader beside Spark and delta-rs: Delta's own Java kernel, reached through the test session's JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_longs(spark: Any, table: Path, column: str) -> list[int]:
    """One BIGINT column of every row, by the kernel's own reading of log and Parquet (tables without deletes only)."""
    jvm = spark.sparkContext._jvm
    kernel = jvm.io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(spark.sparkContext._jsc.hadoopConfiguration())
    snapshot = kernel.Table.forPath(engine, str(table)).getLatestSnapshot(engine)
    wanted = kernel.types.StructType().add(snapshot.getSchema().get(column))
    values = []
    for batch in _items(snapshot.getScanBuilder().build().getScanFiles(engine)):
        for row in _items(batch.getRows()):
            status = kernel.internal.InternalScanFileUtils.getAddFileStatus(row)
            files = kernel.internal.util.Utils.singletonCloseableIterator(status)
            for read in _items(
                engine.getParquetHandler().readParquetFiles(files, wanted, jvm.java.util.Optional.empty())
            ):
                vector = read.getData().getColumnVector(0)
                values += [vector.getLong(i) for i in range(vector.getSize())]
    return sorted(values)


def _items(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()
    iterator.close()
