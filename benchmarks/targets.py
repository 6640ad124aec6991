"""What it costs to write several tables from one read: blizzard's own task with one target and with three, in one
process, by its CPU time. The clock would show the disk: three tables are three times the bytes to be written.
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
from blizzard.schema.load import load_schema
from blizzard.schema.where import parse_where
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.tasks.policy import ParsePolicy
from blizzard.tasks.spec import Route, TaskSpec
from blizzard.tasks.task import run_shared_task

# How many targets; and whether each takes its own kinds of records, or all take all.
VARIANTS = {"one": (1, False), "three": (3, False), "routed": (3, True)}
_WHERES = ("kind = 'order'", "kind = 'refund'", "kind NOT IN ('order', 'refund')")
_ROUNDS = 7  # at least: a task takes less than a second

Child = Callable[[dict[str, Any]], dict[str, float]]


def compare_targets(
    prepared: Prepared, rounds: int, folder: str, child: Child
) -> tuple[dict[str, Any], dict[str, float]]:
    """The least CPU time of some rounds each, in turns, each in a process of its own."""
    best: dict[str, float] = {}
    rounds = max(_ROUNDS, rounds)
    for _ in range(rounds):
        for name in VARIANTS:
            read_once(prepared)
            tables = os.path.join(os.path.abspath(folder), "tables")
            source = os.path.abspath(prepared.folder)
            answer = child({"variant": name, "source": source, "records": prepared.dataset.rows, "tables": tables})
            shutil.rmtree(tables)
            key = f"{name}_cpu_seconds"
            best[key] = min(answer["cpu_seconds"], best.get(key, answer["cpu_seconds"]))
    ratios = {f"{name}_ratio": best[f"{name}_cpu_seconds"] / best["one_cpu_seconds"] for name in ("three", "routed")}
    return {"records": prepared.dataset.rows, "rounds": rounds}, best | ratios


def measure_targets(variant: str, source: str, records: int, tables: str) -> dict[str, float]:
    """One task over all files. Raises if a table did not get its records."""
    count, is_routed = VARIANTS[variant]
    specs = {f"t{n}": _spec(source, tables, n, is_routed=is_routed) for n in range(count)}
    pieces = tuple(
        Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
        for file in list_source(locate_source(source, None))
    )
    budget = Budget(output_bytes=1 << 62, max_records=None, seconds=UNHURRIED.interval_s)
    wanted = {name: {piece.path: 0 for piece in pieces} for name in specs}
    tickets = {name: replace(TICKET, sequence=number) for number, name in enumerate(specs, 1)}
    few = replace(budget, max_records=100)
    # Once before the clock: what a task imports when it needs it would count for one target as much as for three.
    run_shared_task(specs, TaskPlan(slot=0, slices=pieces[:1], budget=few), wanted, tickets)
    started = time.process_time()
    reports = run_shared_task(specs, TaskPlan(slot=0, slices=pieces, budget=budget), wanted, tickets)
    seconds = time.process_time() - started
    rows = [sum(s.rows for s in report.slices) for report in reports.values()]
    if any(report.failure is not None for report in reports.values()) or sum(rows) != records * (
        1 if is_routed else count
    ):
        raise RuntimeError(f"{variant}: {rows} rows of {records} records")
    return {"cpu_seconds": seconds}


def _spec(source: str, tables: str, number: int, *, is_routed: bool) -> TaskSpec:
    table = os.path.join(tables, f"t{number}")
    os.makedirs(table)
    spec = make_spec(source, table, NESTED_DDL)
    if not is_routed:
        return spec
    wheres = [parse_where(text, load_schema(NESTED_DDL)) for text in _WHERES]
    routes = tuple(Route(where=where, parsing=ParsePolicy()) for where in wheres)
    return replace(spec, where=wheres[number], routes=() if number else routes, unrouted="quarantine")
