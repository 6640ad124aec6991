"""The bars: what blizzard must reach, as data. A bar is passed, missed, or not measured; nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.datasets import DATASETS
from benchmarks.results import SUBJECT, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """`measure` answers None where this run has not measured it."""

    name: str
    limit: float
    at_least: bool
    unit: str
    measure: Callable[[Results], float | None]

    @property
    def wanted(self) -> str:
        sign, space = "≥" if self.at_least else "≤", "" if self.unit in "×%" else " "
        return f"{sign} {self.limit:g}{space}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    bar: Bar
    value: float | None

    @property
    def outcome(self) -> str:
        if self.value is None:
            return "not measured"
        passed = self.value >= self.bar.limit if self.bar.at_least else self.value <= self.bar.limit
        return "passed" if passed else "missed"

    @property
    def shown(self) -> str:
        return "–" if self.value is None else show(self.value, self.bar.unit)


def show(value: float, unit: str) -> str:
    match unit:
        case "×":
            return f"{value:.2f}×"
        case "MB":
            return f"{value:,.0f} MB"
        case "s":
            return f"{value:.2f} s"
        case "%":
            return f"{value:.0f}%"
        case _:
            return f"{value:,.0f} {unit}"


def judge(results: Results) -> list[Judged]:
    return [Judged(bar=bar, value=bar.measure(results)) for bar in BARS]


def _faster_than(contender: str, dataset: str, times: float) -> Bar:
    def measure(results: Results) -> float | None:
        found = results.datasets.get(dataset)
        return found.times_as_long(contender) if found else None

    return Bar(name=f"{dataset}: speed against {contender}", limit=times, at_least=True, unit="×", measure=measure)


def _worker_memory(dataset: str) -> Bar:
    def measure(results: Results) -> float | None:
        found = results.datasets.get(dataset)
        ours = found.standing(SUBJECT) if found else None
        return ours.peak_rss["worker"] / 1e6 if ours and "worker" in ours.peak_rss else None

    return Bar(name=f"{dataset}: largest Python worker", limit=400, at_least=False, unit="MB", measure=measure)


def _exact(dataset: str) -> Bar:
    def measure(results: Results) -> float | None:
        found = results.datasets.get(dataset)
        runs = [run for run in found.runs if run.contender == SUBJECT] if found else []
        return sum(run.status != "ok" for run in runs) if runs else None

    return Bar(
        name=f"{dataset}: runs that failed or lost or doubled a row",
        limit=0,
        at_least=False,
        unit="runs",
        measure=measure,
    )


def _scenario(scenario: str, metric: str, name: str, limit: float, unit: str, *, factor: float = 1.0) -> Bar:
    def measure(results: Results) -> float | None:
        found = results.scenarios.get(scenario)
        value = found.metrics.get(metric) if found else None
        return None if value is None else value * factor

    return Bar(name=name, limit=limit, at_least=False, unit=unit, measure=measure)


BARS: tuple[Bar, ...] = (
    _faster_than("structured_streaming", "nested", 4),
    # As throughput: 1.00 would mean that Spark, recovery and the commit cost nothing.
    _faster_than("floor", "nested", 0.9),
    _faster_than("structured_streaming", "small", 12),
    _faster_than("structured_streaming", "wide", 3),
    _faster_than("structured_streaming", "flat", 3),
    *(_worker_memory(name) for name in DATASETS),
    *(_exact(name) for name in DATASETS),
    _scenario("plan", "list_and_first_plan_seconds", "plan: names listed and the first batch planned", 15, "s"),
    _scenario("plan", "plan_peak_rss_bytes", "plan: driver Python", 500, "MB", factor=1e-6),
    _scenario("resume", "resume_share", "resume: from 90% on, of reading the file whole", 30, "%", factor=100),
    _scenario("recovery", "recovery_seconds", "recovery: open, observe, decide", 2, "s"),
    _scenario("recovery", "commits_scanned", "recovery: JSON commits scanned", 100, "commits"),
    _scenario(
        "recovery", "commits_replayed_by_open", "recovery: commits replayed after a Delta checkpoint", 100, "commits"
    ),
    _scenario("recovery", "commit_latency_ratio", "recovery: commit latency, of that at commit 100", 2, "×"),
    _scenario("dirt", "clean_cost", "dirt: clean data, of the bare steps", 1.03, "×"),
    _scenario("dirt", "dirty_cost", "dirt: one bad line in a hundred, of clean data", 1.5, "×"),
)


def table(judged: Iterable[Judged]) -> list[str]:
    """For a terminal, one line each."""
    rows = [(j.outcome, j.bar.name, j.shown, j.bar.wanted) for j in judged]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
