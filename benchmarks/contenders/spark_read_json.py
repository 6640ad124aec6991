"""Spark batch: `spark.read.json` into Delta, as one append. No position is kept: a second run doubles every row."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders.play import Clock, Said, Spec, play, tiny
from benchmarks.contenders.spark_session import start_delta_session


def run(spec: Spec, clock: Clock) -> Said:
    spark = start_delta_session(spec)
    ingest(spark, tiny(spec))
    clock.start()
    ingest(spark, spec)
    clock.stop()
    spark.stop()
    return Said()


def ingest(spark: Any, spec: Spec) -> None:
    frame = spark.read.schema(spec.ddl).option("pathGlobFilter", spec.pattern).json(spec.source)
    frame.write.format("delta").mode("append").save(spec.table)


if __name__ == "__main__":
    play(run)
