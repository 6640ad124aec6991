"""The README's numbers, from benchmarks/results/latest.json: a chart of one data set, and a table of all."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.results import SUBJECT, DataSetResult, load

ROOT = Path(__file__).parents[2]
_PLACE = re.compile(r"(<!-- (chart|table): made by make docs -->\n).*?(?=<!-- end -->)", re.DOTALL)
_PEERS = {
    SUBJECT: "blizzard",
    "duckdb": "DuckDB + deltalake",
    "structured_streaming": "Structured Streaming",
}
_DRAWN = "nested"
_WIDTH = 60  # characters of the longest bar


def with_numbers(readme: str) -> str:
    """The README with the numbers as they are now."""
    assert [name for _, name in _PLACE.findall(readme)] == ["chart", "table"]
    made = {"chart": make_chart(), "table": make_table()}
    return _PLACE.sub(lambda place: place[1] + made[place[2]], readme)


def make_chart() -> str:
    drawn = load(str(ROOT / "benchmarks/results")).datasets[_DRAWN]
    return f"```text\n{_chart(drawn)}\n```\n"


def make_table() -> str:
    datasets = load(str(ROOT / "benchmarks/results")).datasets
    head = f"| seconds | records | {' | '.join(_PEERS.values())} |\n|---|---:|---:|---:|---:|\n"
    rows = "\n".join(_row(found) for found in datasets.values())
    started = f"The first line with the start of the process: {_wall(datasets[_DRAWN])}."
    return f"{head}{rows}\n\n{started}\n"


def _chart(found: DataSetResult) -> str:
    best = {name: standing.best for name in _PEERS if (standing := found.standing(name)) and standing.best}
    longest = max(best.values())
    lines = [
        f"{found.rows:,} nested records, {found.json_bytes / 1e9:.2f} GB of JSON, {found.machine['processor']}",
        "",
    ]
    for name, seconds in best.items():
        bar = "█" * max(1, round(_WIDTH * seconds / longest))
        times = "" if name == SUBJECT else f"  {seconds / best[SUBJECT]:.1f} times as long"
        lines.append(f"{_PEERS[name]:<21} {bar} {seconds:.1f} s{times}")
    return "\n".join(lines)


def _wall(found: DataSetResult) -> str:
    best = {name: min(run.wall_seconds for run in found.runs if run.contender == name) for name in _PEERS}
    return ", ".join(f"{_PEERS[name]} {seconds:.1f} s" for name, seconds in best.items())


def _row(found: DataSetResult) -> str:
    shown = []
    for name in _PEERS:
        standing = found.standing(name)
        seconds, times = standing.best if standing else None, found.times_as_long(name)
        more = "" if name == SUBJECT or times is None else f" ({times:.1f}×)"
        shown.append("not measured" if seconds is None else f"{seconds:.1f}{more}")
    return f"| {found.title} | {found.rows:,} | {' | '.join(shown)} |"
