"""The comparison and the benchmarks' pages have the numbers of the committed results and no others. A failure of the
first test shows the text for the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks import bars, report, results

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/comparison.md"
RESULTS: dict[str, Any] = json.loads((ROOT / "benchmarks/results/latest.json").read_text())["datasets"]
CONTENDERS = {"blizzard": "blizzard", "structured_streaming": "Structured Streaming", "duckdb": "DuckDB with deltalake"}


def best(dataset: str, contender: str, what: str) -> float:
    """Of all rounds, as the benchmarks' own report counts."""
    runs = RESULTS[dataset]["runs"]
    return float(min(run[what] for run in runs if run["contender"] == contender and run["status"] == "ok"))


def cell(dataset: str, contender: str) -> str:
    seconds, wall = (best(dataset, contender, what) for what in ("seconds", "wall_seconds"))
    return f"{seconds:.2f} s ({wall:.1f} s)"


def block() -> str:
    lines = [
        "Seconds of the fastest round, and in brackets with the start of the process. From",
        "[the committed results](../benchmarks/results/README.md), where the machine and all else is.",
        "",
        f"| data | {' | '.join(CONTENDERS.values())} |",
        "|---|---|---|---|",
    ]
    for name, dataset in RESULTS.items():
        what = f"{name}: {dataset['rows']:,} records, files: {dataset['files']:,}"
        lines.append(f"| {what} | {' | '.join(cell(name, contender) for contender in CONTENDERS)} |")
    for contender in list(CONTENDERS)[1:]:
        ratios = [best(name, contender, "seconds") / best(name, "blizzard", "seconds") for name in RESULTS]
        times = f"{min(ratios):.1f} to {max(ratios):.1f} times"
        lines += ["", f"Without the start {CONTENDERS[contender]} took {times} as long as blizzard."]
    return "\n".join(lines) + "\n"


def test_the_speeds_are_those_of_the_committed_results() -> None:
    assert block() in PAGE.read_text(), block()


def test_nothing_else_on_the_page_was_measured() -> None:
    rest = PAGE.read_text().replace(block(), "")
    assert re.findall(r"\d[\d.,]* ?(?:s|ms|MB|GB|MB/s|GB/s|×|%|times|records)\b", rest) == []


def test_the_pages_of_the_results_are_made_from_them(tmp_path: Path) -> None:
    committed = ROOT / "benchmarks/results"
    report.write(results.load(str(committed)), str(tmp_path))
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(made) > 6
    assert {path.name: path.read_text() for path in committed.iterdir()} == made


def test_every_bar_that_is_missed_is_named_with_its_value() -> None:
    missed = [one for one in bars.judge(results.load(str(ROOT / "benchmarks/results"))) if one.outcome == "missed"]
    text = (ROOT / "benchmarks/README.md").read_text()
    (section,) = re.findall(r"^Missed in the results that are kept here:\n(.*?)^## ", text, re.M | re.S)
    assert sorted(re.findall(r"([\d.]+) times", section)) == sorted(one.shown.removesuffix("×") for one in missed)
