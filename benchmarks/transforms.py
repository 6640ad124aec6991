"""What a transform costs: the CPU of one task over the records of `clean`, with it and without.

CPU time and not the clock: the ratios are close to 1, and others use the machine too.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.bare import TICKET, UNHURRIED, make_spec
from benchmarks.datasets import Prepared, read_once
from benchmarks.generators import NESTED_DDL
from blizzard.core.types import Budget, Slice, TaskPlan
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.tasks.task import run_task
from blizzard.tasks.transform_code import Transform, make_transform

NO_TRANSFORM = "none"
_ROUNDS = 5  # at least: a task takes less than a second
_SQL = {
    "identity": "SELECT * FROM records",
    # What people write: a condition, a cast, a text, a field of a struct.
    "typical": "SELECT * EXCLUDE (user, note), upper(kind) AS kind_of, user.country AS country, total * 100 AS cents"
    " FROM records WHERE id % 10 <> 0",
    # Every column through DuckDB.
    "computed": "SELECT COALESCE(id, 0) AS id, COALESCE(ts, NULL) AS ts, COALESCE(kind, '') AS kind,"
    " CASE WHEN true THEN user END AS user, CASE WHEN true THEN items END AS items,"
    " COALESCE(total, 0) AS total, COALESCE(tax, 0) AS tax, COALESCE(note, '') AS note FROM records",
}
CASES = (NO_TRANSFORM, *_SQL, "python")


def compare_transforms(
    prepared: Prepared, rounds: int, folder: str, child: Callable[[dict[str, Any]], dict[str, float]]
) -> tuple[dict[str, Any], dict[str, float]]:
    """The least CPU time of some rounds each, in turns, each in a process of its own."""
    best: dict[str, float] = {}
    rounds = max(_ROUNDS, rounds)
    for _ in range(rounds):
        for case in CASES:
            read_once(prepared)
            table = os.path.join(os.path.abspath(folder), "table")
            source = os.path.abspath(prepared.folder)
            answer = child({"case": case, "source": source, "records": prepared.dataset.rows, "table": table})
            shutil.rmtree(table)
            key = f"{case}_cpu_seconds"
            best[key] = min(answer["cpu_seconds"], best.get(key, answer["cpu_seconds"]))
    without = best[f"{NO_TRANSFORM}_cpu_seconds"]
    ratios = {f"{case}_ratio": best[f"{case}_cpu_seconds"] / without for case in CASES if case != NO_TRANSFORM}
    return {"records": prepared.dataset.rows, "rounds": rounds}, best | ratios


def same(batch: Any) -> Any:
    return batch


def _transform(case: str) -> Transform | None:
    if case == NO_TRANSFORM:
        return None
    reads = load_schema(NESTED_DDL)
    return make_transform(reads, function=same) if case == "python" else make_transform(reads, sql=_SQL[case])


def measure_transform(case: str, source: str, records: int, table: str) -> dict[str, float]:
    """One task over all files. Raises if it did not make of the records what it should."""
    os.makedirs(table)
    transform = _transform(case)
    spec = make_spec(source, table, NESTED_DDL)
    if transform is not None:
        spec = replace(spec, transform=transform, layout=TableLayout(schema=transform.result))
    pieces = tuple(
        Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
        for file in list_source(locate_source(source, None))
    )
    budget = Budget(output_bytes=1 << 62, max_records=None, seconds=UNHURRIED.interval_s)
    # Once before the clock: loading DuckDB and parsing the statement is done once in a worker.
    run_task(spec, TaskPlan(slot=0, slices=pieces[:1], budget=replace(budget, max_records=100)), TICKET)
    started = time.process_time()
    report = run_task(spec, TaskPlan(slot=0, slices=pieces, budget=budget), TICKET)
    seconds = time.process_time() - started
    if report.failure is not None:
        raise RuntimeError(f"{case}: {report.failure.message}")
    filtered = sum(s.filtered for s in report.slices)
    found = sum(s.rows for s in report.slices), filtered
    expected = (records, 0) if case != "typical" else (records - filtered, filtered)
    if found != expected or (filtered > 0) != (case == "typical"):
        raise RuntimeError(f"{case}: {found} rows and filtered records instead of {expected}")
    return {"cpu_seconds": seconds}
