"""blizzard's data path without Spark and without a commit: for the floor and for the scenarios."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.contenders.play import Said
from blizzard.config.load import make_config
from blizzard.core.plan import Limits, is_drained, plan_batch
from blizzard.core.position import Marks, advance_mark, apply_reports, prune_finished
from blizzard.core.types import BatchResult, BatchTicket, TaskPlan, TaskReport
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.tasks.spec import TaskSpec

Runner = Callable[[tuple[TaskPlan, ...]], tuple[TaskReport, ...]]

# Without a time box: the floor stops for nothing but the size of a batch.
UNHURRIED = Limits(interval_s=None)
TICKET = BatchTicket(sequence=1, planned_ms=0, table_id="floor")


def make_spec(source: str, table: str, ddl: str) -> TaskSpec:
    """The task's settings as a run without any configuration has them."""
    config = make_config({})
    return TaskSpec(
        source_root=locate_source(source, None).root,
        compression=config.source.compression,
        table_root=table,
        layout=TableLayout(schema=load_schema(ddl)),
        pipeline="floor",
        quarantine_root=table + "_quarantine",
        run_id="floor",
        target_file_bytes=config.table.target_file_bytes,
        codec=config.table.compression,
        max_record_bytes=config.limits.max_record_bytes,
        indexed_columns=32,
    )


def drain(source: str, *, slots: int, run: Runner) -> list[TaskReport]:
    """Plan and run batch after batch until everything listed is finished."""
    listing = list_source(locate_source(source, None))
    position, reports = Marks(), list[TaskReport]()
    while not is_drained(position, listing):
        plan = plan_batch(position, listing, UNHURRIED, slots=slots)
        result = BatchResult(reports=run(plan.tasks))
        if result.failure is not None:
            raise RuntimeError(f"{result.failure.path}: {result.failure.message}")
        reports += result.reports
        position = prune_finished(advance_mark(apply_reports(position, result.slices), plan.frontier))
    return reports


def said_by(reports: Sequence[TaskReport], *, rows: int) -> Said:
    """Several parsers, if the tasks of one run did not have the same one."""
    parsers = sorted({report.parser for report in reports if report.parser})
    return Said(rows=rows, parser=" and ".join(parsers) or None, doubtful=sum(r.doubtful for r in reports))
