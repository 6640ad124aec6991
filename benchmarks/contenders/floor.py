"""The floor: blizzard's own decode, parse, guard and encode in one process per core, without Spark and commit.

What blizzard adds on top of this is what Spark, recovery and the commit cost.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

from benchmarks.bare import TICKET, drain, make_spec, said_by
from benchmarks.contenders.play import Clock, Said, Spec, play
from blizzard.core.types import TaskPlan, TaskReport
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import run_task


def run(spec: Spec, clock: Clock) -> Said:
    os.makedirs(spec.table)
    job = make_spec(spec.source, spec.table, spec.ddl)
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(spec.cores + 1)
    with context.Pool(spec.cores, initializer=ready.wait) as pool:
        ready.wait()  # every process has imported this module, and so all that a task needs
        clock.start()
        reports = drain(spec.source, slots=spec.cores, run=lambda plans: _run_all(pool, job, plans))
        clock.stop()
    return said_by(reports, rows=sum(s.rows for report in reports for s in report.slices))


def _run_all(pool: Any, job: TaskSpec, plans: tuple[TaskPlan, ...]) -> tuple[TaskReport, ...]:
    return tuple(pool.map(_run_one, [(job, plan) for plan in plans], chunksize=1))


def _run_one(job: tuple[TaskSpec, TaskPlan]) -> TaskReport:
    spec, plan = job
    return run_task(spec, plan, TICKET)


if __name__ == "__main__":
    play(run)
