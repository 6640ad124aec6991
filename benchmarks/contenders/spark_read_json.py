"""Spark batch: `spark.read.json` into Delta, as one append. No position is kept: a second run doubles every row."""

from __future__ import annotations

from benchmarks.contenders.play import Clock, Spec, play
from benchmarks.contenders.spark_session import start_delta_session


def run(spec: Spec, clock: Clock) -> int | None:
    spark = start_delta_session(spec)
    clock.start()
    frame = spark.read.schema(spec.ddl).option("pathGlobFilter", spec.pattern).json(spec.source)
    frame.write.format("delta").mode("append").save(spec.table)
    clock.stop()
    spark.stop()
    return None


if __name__ == "__main__":
    play(run)
