"""blizzard itself, in a session started the way its command line starts one."""

from __future__ import annotations

import os

from benchmarks.contenders.play import Clock, Spec, play


def run(spec: Spec, clock: Clock) -> int | None:
    import blizzard
    from blizzard.session import LazySession

    conf = {"spark.master": f"local[{spec.cores}]", "spark.local.dir": spec.work}
    session = LazySession(conf | {"spark.sql.warehouse.dir": os.path.join(spec.work, "warehouse")})
    spark = session.get()
    clock.start()
    summary = blizzard.ingest(spark, source=spec.source, table=spec.table, schema=spec.ddl, pipeline="benchmark")
    clock.stop(summary.seconds)
    session.stop()
    return summary.records


if __name__ == "__main__":
    play(run)
