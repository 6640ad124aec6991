"""The results as values: every run of every contender, what follows from them, and `latest.json`.

A run that measured only some data sets replaces only those in the file; each entry carries its own date and machine.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.datasets import DATASETS

SUBJECT = "blizzard"
LATEST = "latest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One contender, one round."""

    contender: str
    round: int
    status: str  # ok | disqualified | failed | timed out
    why: str | None = None
    seconds: float | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    files: int = 0
    stored_bytes: int = 0
    remarks: tuple[str, ...] = ()
    parser: str | None = None  # of those that are blizzard
    doubtful: int | None = None  # lines that it left to the reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One contender over all rounds. A contender that was wrong once has no time."""

    contender: str
    status: str
    why: str | None
    best: float | None
    median: float | None
    cpu_seconds: float  # of the best run
    peak_rss: Mapping[str, int]  # over all rounds
    rows: int
    files: int
    stored_bytes: int
    remarks: tuple[str, ...]
    parser: str | None
    doubtful: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSetResult:
    name: str
    title: str
    rows: int
    files: int
    json_bytes: int
    stored_bytes: int
    scale: float
    rounds: int
    date: str
    machine: Mapping[str, str]
    runs: tuple[Run, ...]

    def standing(self, contender: str) -> Standing | None:
        runs = [run for run in self.runs if run.contender == contender]
        return _standing(contender, runs) if runs else None

    @property
    def standings(self) -> list[Standing]:
        """The fastest first, those without a time last."""
        names = dict.fromkeys(run.contender for run in self.runs)
        found = [_standing(name, [r for r in self.runs if r.contender == name]) for name in names]
        return sorted(found, key=lambda s: (s.best is None, s.best))

    def megabytes_per_second(self, seconds: float) -> float:
        return self.json_bytes / 1e6 / seconds

    def times_as_long(self, contender: str, *, median: bool = False, subject: str = SUBJECT) -> float | None:
        """How many times as long as blizzard it took, or None where one of the two has no time."""
        ours, theirs = self.standing(subject), self.standing(contender)
        if ours is None or theirs is None:
            return None
        a, b = (ours.median, theirs.median) if median else (ours.best, theirs.best)
        return b / a if a and b else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    name: str
    title: str
    date: str
    machine: Mapping[str, str]
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    datasets: Mapping[str, DataSetResult] = field(default_factory=dict)
    scenarios: Mapping[str, ScenarioResult] = field(default_factory=dict)

    def updated_by(self, newer: Results) -> Results:
        datasets, scenarios = {**self.datasets, **newer.datasets}, {**self.scenarios, **newer.scenarios}
        # Always in the same order, whatever was measured first.
        return Results(datasets={n: datasets[n] for n in DATASETS if n in datasets}, scenarios=scenarios)


def _standing(contender: str, runs: list[Run]) -> Standing:
    wrong = next((run for run in runs if run.status != "ok"), None)
    timed = sorted((run for run in runs if run.seconds is not None), key=lambda r: r.seconds or 0.0)
    shown = wrong or timed[0]
    roles = {role for run in runs for role in run.peak_rss}
    return Standing(
        contender=contender,
        status=shown.status,
        why=shown.why,
        best=None if wrong else timed[0].seconds,
        median=None if wrong else statistics.median(run.seconds or 0.0 for run in timed),
        cpu_seconds=shown.cpu_seconds,
        peak_rss={role: max(run.peak_rss.get(role, 0) for run in runs) for role in sorted(roles)},
        rows=shown.rows,
        files=shown.files,
        stored_bytes=shown.stored_bytes,
        remarks=shown.remarks,
        parser=shown.parser,
        doubtful=max((run.doubtful for run in runs if run.doubtful is not None), default=None),
    )


def save(results: Results, folder: str) -> None:
    path = os.path.join(folder, LATEST)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(asdict(results), file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".tmp", path)


def load(folder: str) -> Results:
    """What is there; nothing where there is no file yet."""
    try:
        with open(os.path.join(folder, LATEST), encoding="utf-8") as file:
            tree = json.load(file)
    except FileNotFoundError:
        return Results()
    return Results(
        datasets={name: _dataset(entry) for name, entry in tree["datasets"].items()},
        scenarios={name: ScenarioResult(**entry) for name, entry in tree["scenarios"].items()},
    )


def _dataset(entry: dict[str, Any]) -> DataSetResult:
    runs = tuple(Run(**(run | {"remarks": tuple(run["remarks"])})) for run in entry["runs"])
    return DataSetResult(**(entry | {"runs": runs}))
