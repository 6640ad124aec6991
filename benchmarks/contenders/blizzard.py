"""blizzard itself, in a session started the way its command line starts one."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.bare import said_by
from benchmarks.contenders.play import Clock, Said, Spec, play, tiny
from blizzard.core.events import Committed, Event
from blizzard.core.types import TaskReport


def run(spec: Spec, clock: Clock) -> Said:
    from blizzard.spark.session import LazySession

    conf = {"spark.master": f"local[{spec.cores}]", "spark.local.dir": spec.work}
    session = LazySession(conf | {"spark.sql.warehouse.dir": os.path.join(spec.work, "warehouse")})
    spark = session.get()
    ingest(spark, tiny(spec), [])
    clock.start()
    reports: list[TaskReport] = []
    summary = ingest(spark, spec, reports)
    clock.stop(summary.seconds)
    session.stop()
    return said_by(reports, rows=int(summary.records))


def ingest(spark: Any, spec: Spec, reports: list[TaskReport]) -> Any:
    import blizzard

    def see(event: Event) -> None:
        if isinstance(event, Committed):
            reports.extend(event.result.reports)

    return blizzard.ingest(
        spark, source=spec.source, table=spec.table, schema=spec.ddl, pipeline="benchmark", on_event=see
    )


if __name__ == "__main__":
    play(run)
