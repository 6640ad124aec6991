"""The bars: what blizzard must reach, as data. A bar is passed, missed, or not measured; nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from benchmarks.datasets import DATASETS
from benchmarks.results import SUBJECT, Results
from benchmarks.shapes import BLANK, CLEAN, SHAPES

_BAD = {"bad_1": 1.2, "bad_10": 2.0}


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
            return f"{value:.0f}%" if value >= 10 or value == 0 else f"{value:.2g}%"
        case _:
            return f"{value:,.0f} {unit}"


def judge(results: Results) -> list[Judged]:
    return [Judged(bar=bar, value=bar.measure(results)) for bar in BARS]


def _faster_than(contender: str, dataset: str, times: float, *, subject: str = SUBJECT) -> Bar:
    def measure(results: Results) -> float | None:
        found = results.datasets.get(dataset)
        return found.times_as_long(contender, subject=subject) if found else None

    whose = "speed" if subject == SUBJECT else f"speed of {subject}"
    return Bar(name=f"{dataset}: {whose} against {contender}", limit=times, at_least=True, unit="×", measure=measure)


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


def _doubtful(dataset: str) -> Bar:
    def measure(results: Results) -> float | None:
        found = results.datasets.get(dataset)
        ours = found.standing(SUBJECT) if found else None
        return None if not ours or ours.doubtful is None else 100 * ours.doubtful / max(1, ours.rows)

    return Bar(name=f"{dataset}: {_DOUBTFUL}", limit=0.1, at_least=False, unit="%", measure=measure)


_DOUBTFUL = "lines that the fast parser left to the reference"


def _scenario(
    scenario: str, metric: str, name: str, limit: float, unit: str, *, factor: float = 1.0, at_least: bool = False
) -> Bar:
    def measure(results: Results) -> float | None:
        found = results.scenarios.get(scenario)
        value = found.metrics.get(metric) if found else None
        return None if value is None else value * factor

    return Bar(name=name, limit=limit, at_least=at_least, unit=unit, measure=measure)


def _shape_bars(name: str) -> Iterator[Bar]:
    title = f"{name}: {SHAPES[name].title}"
    if name in _BAD:
        yield _scenario("shapes", f"{name}.time", f"{title}, time of clean", _BAD[name], "×")
    elif name not in (CLEAN, BLANK):
        yield _scenario("shapes", f"{name}.share", f"{title}, speed of clean", 0.5, "×", at_least=True)
    if name not in (*_BAD, BLANK):
        yield _scenario("shapes", f"{name}.doubtful_share", f"{name}: {_DOUBTFUL}", 0.1, "%", factor=100)
    yield _scenario("shapes", f"{name}.peak_rss_bytes", f"{name}: the task's process", 400, "MB", factor=1e-6)


BARS: tuple[Bar, ...] = (
    _faster_than("structured_streaming", "nested", 6.5),
    _faster_than("duckdb", "nested", 1.4),
    _faster_than("duckdb", "flat", 1.2),
    _faster_than("duckdb", "small", 1.2),
    _faster_than("duckdb", "wide", 1.1),
    _faster_than("structured_streaming", "small", 20),
    _faster_than("duckdb", "huge", 1.4),
    # As throughput: 1.00 would mean that Spark, recovery and the commit cost nothing.
    _faster_than("floor", "nested", 0.85),
    _faster_than("structured_streaming", "nested", 3, subject="blizzard_pyarrow"),
    _faster_than("structured_streaming", "wide", 3),
    _faster_than("structured_streaming", "flat", 3),
    *(bar for name in SHAPES for bar in _shape_bars(name)),
    *(_worker_memory(name) for name in DATASETS),
    *(_exact(name) for name in DATASETS),
    *(_doubtful(name) for name in DATASETS),
    _scenario("transform", "identity_ratio", "transform: SELECT * FROM records, CPU of a task without", 1.15, "×"),
    _scenario("transform", "python_ratio", "transform: a function that returns its batch, the same", 1.15, "×"),
    _scenario("warm-up", "warm_share", "warm-up: first commit of a cold process, of that without", 0.65, "×"),
    _scenario("terminal", "first_line_seconds", "terminal: the first line of a run", 0.5, "s"),
    _scenario("terminal", "answer_seconds", "terminal: the answer to Ctrl-C", 0.5, "s"),
    _scenario("terminal", "stop_seconds", "terminal: from Ctrl-C to the end, on disk", 2, "s"),
    _scenario("fleet", "python_rss_bytes", "fleet: driver Python of fifty pipelines", 1000, "MB", factor=1e-6),
    _scenario("fleet", "idle_python_cpu_ms_per_cycle", "fleet: CPU of an idle pipeline and cycle", 5, "ms"),
    _scenario("targets", "three_ratio", "targets: three tables of one schema, CPU of one", 1.5, "×"),
    _scenario("plan", "list_and_first_plan_seconds", "plan: names listed and the first batch planned", 15, "s"),
    _scenario("plan", "plan_peak_rss_bytes", "plan: driver Python", 500, "MB", factor=1e-6),
    _scenario("resume", "resume_share", "resume: from 90% on, of reading the file whole", 30, "%", factor=100),
    _scenario("recovery", "recovery_seconds", "recovery: open, observe, decide", 2, "s"),
    _scenario("recovery", "commits_scanned", "recovery: JSON commits scanned", 100, "commits"),
    _scenario(
        "recovery", "commits_replayed_by_open", "recovery: commits replayed after a Delta checkpoint", 100, "commits"
    ),
    _scenario("recovery", "commit_latency_ratio", "recovery: commit latency, of that at commit 100", 2, "×"),
)


def table(judged: Iterable[Judged]) -> list[str]:
    """For a terminal, one line each."""
    rows = [(j.outcome, j.bar.name, j.shown, j.bar.wanted) for j in judged]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
