"""Contenders on one data set: interleaved over the rounds, each into an empty folder, each checked afterwards."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import machine
from benchmarks.contenders.play import Spec
from benchmarks.datasets import FILE_PATTERN, Prepared, read_once
from benchmarks.external import External
from benchmarks.measure import Measured, measure
from benchmarks.results import DataSetResult, Run
from benchmarks.verify import Verdict, verify

BUILT_IN = ("blizzard", "blizzard_pyarrow", "floor", "structured_streaming", "spark_read_json", "duckdb", "polars")
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    contenders: tuple[str | External, ...]
    by_dataset: bool  # of the built-in ones only those that the data set names
    rounds: int
    scratch: str  # below the data folder: same disk for everyone
    time_limit_s: float
    date: str
    note: Note


def run_dataset(prepared: Prepared, settings: Settings) -> DataSetResult:
    """Every contender once per round: A B C, A B C, so that a slow minute of the machine hits all of them."""
    dataset, runs, out = prepared.dataset, list[Run](), set[str]()
    for number in range(1, settings.rounds + 1):
        for contender in settings.contenders:
            name = contender.name if isinstance(contender, External) else contender
            if name in out or not _is_wanted(contender, prepared, settings):
                continue
            run = run_once(contender, prepared, number, settings)
            runs.append(run)
            if run.status != "ok":
                out.add(name)  # it would fail the same way again
            settings.note(f"{dataset.name} {number}/{settings.rounds} {_tell(run, prepared)}")
    return DataSetResult(
        name=dataset.name,
        title=dataset.title,
        rows=dataset.rows,
        files=dataset.files,
        json_bytes=prepared.json_bytes,
        stored_bytes=prepared.stored_bytes,
        scale=prepared.scale,
        rounds=settings.rounds,
        date=settings.date,
        machine=machine.describe(),
        runs=tuple(runs),
    )


def _is_wanted(contender: str | External, prepared: Prepared, settings: Settings) -> bool:
    if isinstance(contender, External):
        return not contender.datasets or prepared.dataset.name in contender.datasets
    return not settings.by_dataset or contender in prepared.dataset.contenders


def run_once(contender: str | External, prepared: Prepared, number: int, settings: Settings) -> Run:
    os.makedirs(settings.scratch, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="run-", dir=settings.scratch)
    try:
        work = os.path.join(folder, "work")
        os.makedirs(work)
        spec = Spec(
            source=os.path.abspath(prepared.folder),
            pattern=FILE_PATTERN,
            table=os.path.abspath(os.path.join(folder, "table")),
            ddl=prepared.dataset.ddl,
            rows=prepared.dataset.rows,
            cores=machine.cores(),
            work=os.path.abspath(work),
        )
        read_once(prepared)
        os.sync()  # what the last contender left to the disk is not this one's business
        if isinstance(contender, External):
            try:
                measured = measure(contender.arguments(spec), work=folder, time_limit_s=settings.time_limit_s)
            except OSError as e:  # no such command
                return Run(contender=contender.name, round=number, status="failed", why=str(e.strerror))
            return _judge(contender.name, number, measured, spec, prepared, wall_counts=True)
        command = [sys.executable, "-m", f"benchmarks.contenders.{contender}", spec.to_json()]
        env = {"PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))}
        measured = measure(command, work=folder, time_limit_s=settings.time_limit_s, env=env, cwd=work)
        return _judge(contender, number, measured, spec, prepared, wall_counts=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judge(name: str, number: int, measured: Measured, spec: Spec, prepared: Prepared, *, wall_counts: bool) -> Run:
    said = measured.last_json
    seconds = said.get("seconds")
    if seconds is None and wall_counts:
        seconds = measured.wall_seconds
    status, why = "ok", None
    if measured.exit_code is None:
        status, why = "timed out", f"after {measured.wall_seconds:.0f} s"
    elif measured.exit_code or said.get("error") or seconds is None:
        status, why = "failed", _reason(measured, spec)
    if status != "ok":
        return Run(contender=name, round=number, status=status, why=why, wall_seconds=measured.wall_seconds)
    try:
        verdict = verify(spec.table, prepared.dataset)
    except Exception as e:  # whatever a reader says to what this contender has left behind
        verdict = Verdict(problems=(f"cannot be read: {_without_paths(str(e), spec)}",))
    if verdict.problems:
        status, why = "disqualified", "; ".join(verdict.problems)
    return Run(
        contender=name,
        round=number,
        status=status,
        why=why,
        seconds=seconds,
        wall_seconds=measured.wall_seconds,
        cpu_seconds=measured.cpu_seconds,
        peak_rss=measured.peak_rss,
        rows=verdict.rows,
        files=verdict.files,
        stored_bytes=verdict.stored_bytes,
        remarks=verdict.remarks,
        parser=said.get("parser"),
        doubtful=said.get("doubtful"),
    )


def _reason(measured: Measured, spec: Spec) -> str:
    """The error in one line, without the folders of this machine."""
    lines = [line.strip() for line in measured.stderr.splitlines() if line.strip()]
    text = str(measured.last_json.get("error") or (lines[-1] if lines else f"exit code {measured.exit_code}"))
    return _without_paths(text, spec)


def _without_paths(text: str, spec: Spec) -> str:
    for path in (spec.table, spec.work, spec.source, os.path.dirname(spec.table), _ROOT, os.path.expanduser("~")):
        text = text.replace(path, "…")
    return " ".join(text.split())[:300]


def _tell(run: Run, prepared: Prepared) -> str:
    if run.status != "ok" or run.seconds is None:
        return f"{run.contender}: {run.status}: {run.why}"
    worker = f", worker {run.peak_rss['worker'] / 1e6:,.0f} MB" if "worker" in run.peak_rss else ""
    parser = f", parser {run.parser}, {run.doubtful:,} doubtful" if run.parser else ""
    return (
        f"{run.contender}: {run.seconds:.2f} s, {prepared.json_bytes / 1e6 / run.seconds:,.0f} MB/s,"
        f" {run.cpu_seconds:.1f} CPU s, {run.rows:,} rows in {run.files} files{worker}{parser}"
    )
