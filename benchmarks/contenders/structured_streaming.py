"""Spark Structured Streaming: `readStream.json` into Delta, everything there is in one go (`availableNow`)."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.contenders.play import Clock, Said, Spec, play, tiny
from benchmarks.contenders.spark_session import start_delta_session


def run(spec: Spec, clock: Clock) -> Said:
    spark = start_delta_session(spec)
    ingest(spark, tiny(spec))
    clock.start()
    rows = ingest(spark, spec)
    clock.stop()
    spark.stop()
    return Said(rows=rows)


def ingest(spark: Any, spec: Spec) -> int:
    query = (
        spark.readStream.schema(spec.ddl)
        .option("pathGlobFilter", spec.pattern)
        .json(spec.source)
        .writeStream.format("delta")
        .option("checkpointLocation", os.path.join(spec.work, "checkpoint"))
        .trigger(availableNow=True)
        .start(spec.table)
    )
    query.awaitTermination()
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


if __name__ == "__main__":
    play(run)
