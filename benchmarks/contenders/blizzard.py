"""blizzard itself, in a session started the way its command line starts one."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.contenders.play import Clock, Spec, play, tiny


def run(spec: Spec, clock: Clock) -> int | None:
    from blizzard.spark.session import LazySession

    conf = {"spark.master": f"local[{spec.cores}]", "spark.local.dir": spec.work}
    session = LazySession(conf | {"spark.sql.warehouse.dir": os.path.join(spec.work, "warehouse")})
    spark = session.get()
    ingest(spark, tiny(spec))
    clock.start()
    summary = ingest(spark, spec)
    clock.stop(summary.seconds)
    session.stop()
    return int(summary.records)


def ingest(spark: Any, spec: Spec) -> Any:
    import blizzard

    return blizzard.ingest(spark, source=spec.source, table=spec.table, schema=spec.ddl, pipeline="benchmark")


if __name__ == "__main__":
    play(run)
