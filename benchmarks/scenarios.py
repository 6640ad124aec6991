"""Scenarios: what no data set shows. A million names, a resume near the end of one file, a table of 10,000 commits.

Each measurement is a child process of its own, `python -m benchmarks.scenarios <name> <json parameters>`, so that its
memory is its own, too; it prints one JSON line.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks import machine
from benchmarks.bare import TICKET, UNHURRIED, make_spec
from benchmarks.datasets import Prepared, read_once
from benchmarks.generators import NESTED_DDL
from benchmarks.measure import measure
from benchmarks.results import ScenarioResult
from benchmarks.shapes import CLEAN, SHAPES, measure_shape
from benchmarks.targets import compare_targets, measure_targets
from benchmarks.transforms import compare_transforms, measure_transform
from blizzard.core.batch import RunIdentity, next_position, position_before
from blizzard.core.commit import Intent
from blizzard.core.events import unheard
from blizzard.core.plan import Limits, count_backlog, is_drained, plan_batch
from blizzard.core.position import Marks, advance_mark, apply_reports, prune_finished
from blizzard.core.recover import Resume, decide_recovery
from blizzard.core.refuse import Refuse
from blizzard.core.types import (
    BatchPlan,
    BatchResult,
    Budget,
    DataFile,
    Listing,
    Slice,
    SliceReport,
    SourceIdentity,
    TaskPlan,
    TaskReport,
)
from blizzard.delta.place import DeltaRsPlace
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.clock import SystemClock
from blizzard.run.commit import Committing
from blizzard.schema.load import load_schema
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.tasks.task import run_task

SCENARIOS = ("plan", "resume", "recovery", "shapes", "targets", "transform", "warm-up", "terminal", "fleet")
_TITLES = {
    "plan": "a million listed names: planning, and the driver's memory",
    "resume": "resuming at 90% of the huge file, against reading it whole",
    "recovery": "recovery and commit latency on a table with many commits",
    "shapes": "shapes of records against clean ones: one task, one process",
    "targets": "three tables from one read against one table: CPU time of one task",
    "transform": "a transform, against none: CPU of one task",
    "warm-up": "the first commit of one small file in a cold process, after `warm-up` and without",
    "terminal": "what a person waits for at a terminal: the first line, and the end after Ctrl-C",
    "fleet": "fifty pipelines in one process: their first files, an idle minute, memory",
}
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PIPELINE = "benchmark"
_SOURCE = SourceIdentity(root="file:///data/events", pattern="**/*.ndjson.gz")
SCAN_COMMITS = 100
FULL_NAMES, FULL_COMMITS, FULL_PIPELINES = 1_000_000, 10_000, 50
_SHAPE_ROUNDS = 5  # at least: a task takes a second or less
# After the last hundred of commits: the newest Delta checkpoint is then as old as it gets, the worst case for opening.
_COMMITS_SINCE_CHECKPOINT = 98

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioSettings:
    names: int
    commits: int
    rounds: int
    scratch: str
    date: str
    time_limit_s: float
    prepared: Callable[[str], Prepared]  # asked only by the scenarios that read data sets


def run_scenario(name: str, settings: ScenarioSettings) -> ScenarioResult:
    os.makedirs(settings.scratch, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"{name}-", dir=settings.scratch)
    parameters: dict[str, Any] = {}
    metrics: Metrics = {}
    error = None
    try:
        match name:
            case "plan":
                parameters = {"names": settings.names}
                metrics = _child("plan", parameters, folder, settings)
            case "resume":
                parameters, metrics = _resume(settings, folder)
            case "recovery":
                parameters = {"commits": settings.commits}
                table = {"table": os.path.join(os.path.abspath(folder), "table")}
                metrics = _child("commits", parameters | table, folder, settings)
                metrics = metrics | _child("recovery", table, folder, settings)
            case "shapes":
                parameters, metrics = _shapes(settings, folder)
            case "targets":
                child = partial(_child, "targets", folder=folder, settings=settings)
                parameters, metrics = compare_targets(settings.prepared(CLEAN), settings.rounds, folder, child)
            case "transform":
                child = partial(_child, "transform", folder=folder, settings=settings)
                parameters, metrics = compare_transforms(settings.prepared(CLEAN), settings.rounds, folder, child)
            case "warm-up":
                work = os.path.join(os.path.abspath(folder), "work")  # the child's own output is beside it
                os.makedirs(work)
                metrics = _child("warm-up", {"work": work}, folder, settings)
                metrics["warm_share"] = metrics["warm_seconds"] / metrics["cold_seconds"]
            case "terminal":
                work = os.path.join(os.path.abspath(folder), "work")
                os.makedirs(work)
                metrics = _child("terminal", {"work": work}, folder, settings)
            case "fleet":
                work = os.path.join(os.path.abspath(folder), "work")
                os.makedirs(work)
                parameters = {"pipelines": FULL_PIPELINES}
                metrics = _child("fleet", parameters | {"work": work}, folder, settings)
            case _:
                raise ValueError(name)
    except ScenarioFailed as e:
        error = str(e)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ScenarioResult(
        name=name,
        title=_TITLES[name],
        date=settings.date,
        machine=machine.describe(),
        parameters=parameters,
        metrics=metrics,
        error=error,
    )


class ScenarioFailed(Exception):
    """The child did not come to its end."""


def _child(name: str, parameters: dict[str, Any], folder: str, settings: ScenarioSettings) -> Metrics:
    command = [sys.executable, "-m", "benchmarks.scenarios", name, json.dumps(parameters)]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))}
    measured = measure(command, work=folder, time_limit_s=settings.time_limit_s, env=env, cwd=folder)
    if measured.exit_code != 0:
        lines = measured.stderr.strip().splitlines() or [f"exit code {measured.exit_code}"]
        raise ScenarioFailed(f"{name}: {lines[-1]}".replace(os.path.abspath(folder), "…"))
    if not measured.last_json:
        raise ScenarioFailed(f"{name}: it said nothing")
    return {**measured.last_json, f"{name}_peak_rss_bytes": measured.peak_rss.get("driver", 0)}


def _resume(settings: ScenarioSettings, folder: str) -> tuple[dict[str, Any], Metrics]:
    """The best of some rounds each, in turns, like the contenders."""
    huge = settings.prepared("huge")
    lines = huge.dataset.rows
    best: Metrics = {}
    peak_rss = 0.0
    for _ in range(settings.rounds):
        for what, first in (("whole_seconds", 0), ("resume_seconds", lines * 9 // 10)):
            table = os.path.join(os.path.abspath(folder), "table")
            os.makedirs(table)
            parameters = {"source": os.path.abspath(huge.folder), "ddl": huge.dataset.ddl, "first": first}
            answer = _child("read", parameters | {"table": table}, folder, settings)
            shutil.rmtree(table)
            if answer["rows"] != lines - first:
                raise ScenarioFailed(f"resume: {answer['rows']:.0f} rows instead of {lines - first}")
            best[what] = min(answer["seconds"], best.get(what, answer["seconds"]))
            peak_rss = max(peak_rss, answer["read_peak_rss_bytes"])
    share = best["resume_seconds"] / best["whole_seconds"]
    return {"lines": lines, "scale": huge.scale}, best | {"resume_share": share, "read_peak_rss_bytes": peak_rss}


def _shapes(settings: ScenarioSettings, folder: str) -> tuple[dict[str, Any], Metrics]:
    """Every shape once a round, in turns, each in a process of its own; the best time, the highest memory."""
    sets = {name: settings.prepared(name) for name in SHAPES}
    rounds = max(_SHAPE_ROUNDS, settings.rounds)
    found: Metrics = {}
    parsers: set[str] = set()
    for _ in range(rounds):
        for name, prepared in sets.items():
            read_once(prepared)
            table = os.path.join(os.path.abspath(folder), "table")
            parameters = {"shape": name, "source": os.path.abspath(prepared.folder), "records": prepared.dataset.rows}
            answer = _child("shape", parameters | {"table": table}, folder, settings)
            shutil.rmtree(table)
            shutil.rmtree(table + "_quarantine", ignore_errors=True)
            parsers.add(str(answer["parser"]))
            seconds, rss = answer["seconds"], answer["shape_peak_rss_bytes"]
            found[f"{name}.seconds"] = min(seconds, found.get(f"{name}.seconds", seconds))
            found[f"{name}.peak_rss_bytes"] = max(rss, found.get(f"{name}.peak_rss_bytes", 0.0))
            found[f"{name}.doubtful_share"] = answer["doubtful_share"]
    clean = sets[CLEAN].json_bytes / found[f"{CLEAN}.seconds"]
    for name, prepared in sets.items():
        speed = prepared.json_bytes / found[f"{name}.seconds"]
        found[f"{name}.megabytes_per_second"] = speed / 1e6
        found[f"{name}.share"] = speed / clean
        found[f"{name}.time"] = found[f"{name}.seconds"] / found[f"{CLEAN}.seconds"]
    given = {"records": sets[CLEAN].dataset.rows, "rounds": rounds, "parser": " and ".join(sorted(parsers))}
    return given, found


# What follows runs in the children.


def measure_warm_up(work: str) -> Metrics:
    # Imported only where it is asked for: it starts whole sessions.
    found: Metrics = import_module("benchmarks.warm_up").measure_warm_up(work)
    return found


def measure_terminal(work: str) -> Metrics:
    found: Metrics = import_module("benchmarks.terminal").measure_terminal(work)
    return found


def plan_names(names: int) -> Metrics:
    """List, sort and plan every batch, each assumed to finish. `count_backlog` is what the driver does once a batch."""
    started = time.monotonic()
    listing = _listing(names)
    listed = time.monotonic()
    position, limits, batches, first_plan = Marks(), Limits(), 0, 0.0
    while not is_drained(position, listing):
        plan_started = time.monotonic()
        plan = plan_batch(position, listing, limits, slots=machine.cores())
        first_plan = first_plan or time.monotonic() - plan_started
        reports = [_finished(piece) for piece in plan.slices]
        position = prune_finished(advance_mark(apply_reports(position, reports), plan.frontier))
        batches += 1
    planned = time.monotonic()
    count_backlog(Marks(), listing)
    return {
        "list_seconds": listed - started,
        "first_plan_seconds": first_plan,
        "list_and_first_plan_seconds": listed - started + first_plan,
        "all_plans_seconds": planned - listed,
        "batches": batches,
        "count_backlog_seconds": time.monotonic() - planned,
    }


def _listing(names: int) -> Listing:
    """Built column by column, as the listing of a folder is."""
    numbers = range(names)
    return Listing(
        list(map(_name, numbers)),
        array("q", (100_000 + n % 1000 for n in numbers)),
        array("q", (1_700_000_000_000_000_000 + n * 1009 for n in numbers)),
        array("q", (1_700_000_000_000 + n for n in numbers)),
    )


def _name(number: int) -> str:
    hour, part = divmod(number, 1000)
    return f"day={hour // 24:04d}/hour={hour % 24:02d}/events-{part:05d}-{number * 2654435761 % 2**32:08x}.ndjson.gz"


def _finished(piece: Slice) -> SliceReport:
    return SliceReport(
        path=piece.path,
        size_bytes=piece.size_bytes,
        etag=piece.etag,
        from_record=0,
        to_record=1000,
        finished=True,
        rows=1000,
    )


def read_from(source: str, ddl: str, first: int, table: str) -> Metrics:
    """One task over the one file of the source, from line `first` on."""
    spec = make_spec(source, table, ddl)
    (file,) = list_source(locate_source(source, None))
    piece = Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=first)
    budget = Budget(output_bytes=1 << 62, max_records=None, seconds=UNHURRIED.interval_s)
    started = time.monotonic()
    report = run_task(spec, TaskPlan(slot=0, slices=(piece,), budget=budget), TICKET)
    seconds = time.monotonic() - started
    if report.failure is not None:
        raise RuntimeError(report.failure.message)
    return {"seconds": seconds, "rows": sum(s.rows for s in report.slices)}


def write_commits(commits: int, table: str) -> Metrics:
    """A table with this many commits of one pipeline and a few more, each with one Add, by blizzard's own commit."""
    clock = SystemClock()
    place = DeltaRsPlace(root=table, schema=load_schema(NESTED_DDL), clock=clock)
    place.create(_PIPELINE)
    opened = place.open()
    if opened is None:
        raise RuntimeError("the table was not created")
    recovery = decide_recovery(
        opened.observe(_PIPELINE, scan_commits=SCAN_COMMITS), pipeline=_PIPELINE, source=_SOURCE, start_from=None
    )
    if isinstance(recovery, Refuse):
        raise RuntimeError(recovery.message)
    identity = RunIdentity(
        pipeline=_PIPELINE,
        run_id="benchmark",
        source=_SOURCE,
        table_id=opened.table_id,
        schema_fingerprint=opened.schema_fingerprint,
    )
    quarantine = DeltaRsQuarantine(root=f"{table}_quarantine", clock=clock)
    committing = Committing(table=opened, quarantine=quarantine, clock=clock, emit=unheard, attempts=1)
    position = position_before(recovery, identity, version=0, timestamp_ms=clock.now_ms())
    seconds = []
    for number in range(commits + _COMMITS_SINCE_CHECKPOINT):
        plan, result = _batch_of_one(number)
        for file in result.files:  # a commit looks whether they are there
            with open(os.path.join(table, file.path), "wb") as empty:
                empty.truncate(file.size_bytes)
        after = next_position(position, plan, result, batch_id=os.urandom(8).hex(), now_ms=clock.now_ms())
        started = time.monotonic()
        landing = committing.commit(Intent(position=after, result=result, planned_ms=clock.now_ms()))
        seconds.append(time.monotonic() - started)
        position = replace(landing.position, on=replace(landing.position.on, delta_version=landing.version))
    return _latencies(seconds[:commits])


def _batch_of_one(number: int) -> tuple[BatchPlan, BatchResult]:
    piece = Slice(path=_name(number), size_bytes=1_000_000, etag=str(1_700_000_000_000_000_000 + number), from_record=0)
    task = TaskPlan(slot=0, slices=(piece,), budget=Budget(output_bytes=1, max_records=None, seconds=None))
    data = DataFile(
        path=f"blizzard-benchmark-{number:08d}-0000.snappy.parquet",
        size_bytes=1_000_000,
        rows=1000,
        stats=json.dumps({"numRecords": 1000, "minValues": {"id": number}, "maxValues": {"id": number + 999}}),
        modified_ms=1_700_000_000_000 + number,
    )
    report = TaskReport(slot=0, slices=(_finished(piece),), files=(data,))
    return BatchPlan(tasks=(task,), frontier=(piece.path,)), BatchResult(reports=(report,))


def _latencies(seconds: list[float]) -> Metrics:
    """The median commit around the hundredth against the last ones; the mean also sees the Delta checkpoints."""
    width = max(1, min(100, len(seconds) // 4))
    start = max(0, min(100, len(seconds) // 2) - width // 2)
    early, late = seconds[start : start + width], seconds[-width:]
    return {
        "commit_seconds_at_100": statistics.median(early),
        "commit_seconds_at_end": statistics.median(late),
        "commit_latency_ratio": statistics.median(late) / statistics.median(early),
        "commit_mean_seconds_at_100": statistics.mean(early),
        "commit_mean_seconds_at_end": statistics.mean(late),
        "commit_max_seconds": max(seconds),
    }


def recover(table: str) -> Metrics:
    """What a run does before it can plan: open, observe, decide."""
    started = time.monotonic()
    opened = DeltaRsPlace(root=table, schema=None, clock=SystemClock()).open()
    if opened is None:
        raise RuntimeError("there is no table")
    opened_at = time.monotonic()
    facts = opened.observe(_PIPELINE, scan_commits=SCAN_COMMITS)
    recovery = decide_recovery(facts, pipeline=_PIPELINE, source=_SOURCE, start_from=None)
    ended = time.monotonic()
    if not isinstance(recovery, Resume):
        raise RuntimeError(f"not resumed: {recovery}")
    return {
        "recovery_seconds": ended - started,
        "open_seconds": opened_at - started,
        "observe_seconds": ended - opened_at,
        "commits_scanned": len(facts.commits),
        "commits_replayed_by_open": facts.version - _delta_checkpoint_version(table),
    }


def _delta_checkpoint_version(table: str) -> int:
    try:
        with open(os.path.join(table, "_delta_log", "_last_checkpoint"), encoding="utf-8") as file:
            return int(json.load(file)["version"])
    except FileNotFoundError:
        return -1


def measure_fleet(work: str, pipelines: int) -> Metrics:
    """Imported only here: psutil is a package of the benchmarks alone."""
    found: Metrics = import_module("benchmarks.fleet").measure_fleet(work, pipelines=pipelines)
    return found


_CHILDREN: dict[str, Callable[..., Any]] = {
    "plan": plan_names,
    "read": read_from,
    "commits": write_commits,
    "recovery": recover,
    "shape": measure_shape,
    "targets": measure_targets,
    "transform": measure_transform,
    "warm-up": measure_warm_up,
    "terminal": measure_terminal,
    "fleet": measure_fleet,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(_CHILDREN[sys.argv[1]](**json.loads(sys.argv[2]))) + "\n")
