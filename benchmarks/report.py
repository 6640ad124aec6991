"""The results for people: a Markdown page per data set, one for all of them, and the chart."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from benchmarks import bars, chart
from benchmarks.results import SUBJECT, DataSetResult, Results, ScenarioResult, Standing, save
from benchmarks.shapes import SHAPES

CHART = "chart.svg"
_METRICS = {
    "list_seconds": "built and sorted, s",
    "first_plan_seconds": "first batch planned, s",
    "list_and_first_plan_seconds": "both together, s",
    "all_plans_seconds": "all batches planned, s",
    "batches": "batches",
    "count_backlog_seconds": "backlog counted once, s",
    "plan_peak_rss_bytes": "peak RSS of the driver, MB",
    "whole_seconds": "the whole file, s",
    "resume_seconds": "from 90% on, s",
    "resume_share": "resume, share of the whole",
    "read_peak_rss_bytes": "peak RSS of the process, MB",
    "commit_seconds_at_100": "commit around the 100th, median s",
    "commit_seconds_at_end": "commit at the end, median s",
    "commit_latency_ratio": "end against 100th",
    "commit_mean_seconds_at_100": "commit around the 100th, mean s",
    "commit_mean_seconds_at_end": "commit at the end, mean s (Delta checkpoints included)",
    "commit_max_seconds": "slowest commit, s",
    "commits_peak_rss_bytes": "peak RSS of the committing process, MB",
    "recovery_seconds": "recovery, s",
    "open_seconds": "of it: the table opened, s",
    "observe_seconds": "of it: observed and decided, s",
    "commits_scanned": "JSON commits scanned for the position",
    "commits_replayed_by_open": "JSON commits after the Delta checkpoint, replayed on opening",
    "recovery_peak_rss_bytes": "peak RSS of the recovering process, MB",
    "one_cpu_seconds": "one table, CPU s",
    "three_cpu_seconds": "three tables of one schema, CPU s",
    "three_ratio": "of that of one",
    "routed_cpu_seconds": "three tables that share the records by `where`, CPU s",
    "routed_ratio": "of that of one",
    "cold_seconds": "without, s",
    "warm_seconds": "after `warm-up`, s",
    "warm_share": "share",
    "cold_cpu_seconds": "without, CPU s",
    "warm_cpu_seconds": "after `warm-up`, CPU s",
    "warm_cpu_share": "share of CPU",
    "warm_up_seconds": "`warm-up` itself, s",
    "warm_up_bytes": "size of the archive, MB",
    "warm-up_peak_rss_bytes": "peak RSS of the measuring process, MB",
    "first_line_seconds": "the first line of a run, s",
    "answer_seconds": "the answer to Ctrl-C, s",
    "summary_seconds": "from Ctrl-C to the summary, s",
    "stop_seconds": "from Ctrl-C to the end of the process, s",
    "terminal_peak_rss_bytes": "peak RSS of the measuring process, MB",
    "first_files_seconds": "until all have committed their first files, Spark's start included, s",
    "one_more_file_seconds": "until all have committed one more file, s",
    "idle_cycles": "cycles in the idle minute",
    "idle_python_cpu_ms_per_cycle": "CPU of one idle cycle of one pipeline, ms",
    "idle_python_cpu_share": "idle driver Python, cores",
    "idle_jvm_cpu_share": "idle JVM, cores",
    "threads": "threads of the driver's Python",
    "jvm_threads": "threads of the JVM",
    "python_rss_bytes": "RSS of the driver's Python, MB",
    "jvm_rss_bytes": "RSS of the JVM, MB",
    "workers_rss_bytes": "RSS of Python's workers and their daemon, MB",
    "fleet_peak_rss_bytes": "peak RSS of the measuring process, MB",
}


def write(results: Results, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for dataset in results.datasets.values():
        _write(os.path.join(folder, f"{dataset.name}.md"), _dataset_page(dataset))
    if results.datasets:
        _write(os.path.join(folder, CHART), chart.draw(results))
    _write(os.path.join(folder, "README.md"), _overview(results))
    save(results, folder)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _overview(results: Results) -> str:
    lines = ["# Results", "", "Written by `python -m benchmarks`; do not edit. What is measured, and what the numbers"]
    lines += ["do not say, is in [the benchmarks' README](../README.md).", ""]
    if results.datasets:
        lines += [f"![Throughput of each contender on each data set]({CHART})", ""]
    lines += ["## Bars", "", *_bars_table(results), ""]
    for dataset in results.datasets.values():
        lines += [f"## {dataset.name}", "", *_dataset_body(dataset)]
    for scenario in results.scenarios.values():
        lines += [f"## {scenario.title}", "", *_scenario_body(scenario)]
    lines += ["## Machine and versions", "", *_machines(results)]
    return "\n".join(lines).rstrip() + "\n"


def _dataset_page(dataset: DataSetResult) -> str:
    lines = [f"# {dataset.name}", "", *_dataset_body(dataset), "## Every run", "", *_runs_table(dataset), ""]
    lines += ["## Machine and versions", "", *_facts(dataset.machine)]
    return "\n".join(lines).rstrip() + "\n"


def _dataset_body(dataset: DataSetResult) -> list[str]:
    title = dataset.title[0].upper() + dataset.title[1:]
    scaled = f" **Scaled to {dataset.scale:g}: not a measurement.**" if dataset.scale != 1 else ""
    size = (
        f"{dataset.rows:,} records in {dataset.files:,} {'file' if dataset.files == 1 else 'files'},"
        f" {dataset.json_bytes / 1e6:,.0f} MB of JSON, {dataset.stored_bytes / 1e6:,.0f} MB"
        f" stored. {dataset.rounds} {'round' if dataset.rounds == 1 else 'rounds'}, {dataset.date}.{scaled}"
    )
    lines = [f"{title}.", "", size, "", *_standings_table(dataset), ""]
    for s in dataset.standings:
        lines += [f"- **{s.contender} {s.status}**: {s.why}"] if s.why else []
        lines += [f"- {s.contender}: {remark}" for remark in s.remarks]
        lines += [f"- {s.contender}: parser {s.parser}, {s.doubtful or 0:,} doubtful lines"] if s.parser else []
    return [*lines, ""] if lines[-1] else lines


def _standings_table(dataset: DataSetResult) -> list[str]:
    head = ("contender", "best s", "median s", "times blizzard, best", "median", "MB/s", "CPU s", "rows", "files")
    memory = ("driver MB", "JVM MB", "worker MB")
    return _markdown([*head, *memory], [_standing_row(dataset, s) for s in dataset.standings])


def _standing_row(dataset: DataSetResult, s: Standing) -> list[str]:
    name = f"**{s.contender}**" if s.contender == SUBJECT else s.contender
    memory = [f"{s.peak_rss[role] / 1e6:,.0f}" if role in s.peak_rss else "–" for role in ("driver", "jvm", "worker")]
    rows = [f"{s.rows:,}" if s.files else "–", f"{s.files:,}" if s.files else "–"]
    if s.best is None or s.median is None:
        return [name, s.status, "–", "–", "–", "–", "–", *rows, *memory]
    best, median = dataset.times_as_long(s.contender), dataset.times_as_long(s.contender, median=True)
    ratios = [f"{r:.2f}×" if r is not None else "–" for r in (best, median)]
    speed = f"{dataset.megabytes_per_second(s.best):,.0f}"
    return [name, f"{s.best:.2f}", f"{s.median:.2f}", *ratios, speed, f"{s.cpu_seconds:.1f}", *rows, *memory]


def _runs_table(dataset: DataSetResult) -> list[str]:
    head = ("round", "contender", "status", "seconds", "with start-up", "CPU s", "rows", "files", "Parquet MB")
    rows = [
        [
            str(run.round),
            run.contender,
            run.status,
            "–" if run.seconds is None else f"{run.seconds:.2f}",
            f"{run.wall_seconds:.2f}",
            f"{run.cpu_seconds:.1f}",
            f"{run.rows:,}",
            f"{run.files:,}",
            f"{run.stored_bytes / 1e6:,.0f}",
        ]
        for run in dataset.runs
    ]
    return _markdown(head, rows)


def _scenario_body(scenario: ScenarioResult) -> list[str]:
    given = ", ".join(
        f"{name} {value}" if isinstance(value, str) else f"{name} {value:,}"
        for name, value in scenario.parameters.items()
    )
    lines = [f"{given}. {scenario.date}.", ""] if given else []
    if scenario.error:
        return [*lines, f"**Failed**: {scenario.error}", ""]
    if any("." in name for name in scenario.metrics):
        return [*lines, *_shapes_table(scenario.metrics), ""]
    rows = [[_METRICS.get(name, name), _metric(name, value)] for name, value in scenario.metrics.items()]
    return [*lines, *_markdown(("what", "value"), rows), ""]


def _shapes_table(metrics: Mapping[str, float]) -> list[str]:
    head = ("shape", "what", "best s", "MB/s", "speed of clean", "time of clean", "doubtful", "peak RSS MB")
    rows = []
    for name in dict.fromkeys(metric.partition(".")[0] for metric in metrics):
        numbers = {
            metric.partition(".")[2]: value for metric, value in metrics.items() if metric.startswith(f"{name}.")
        }
        rows.append(
            [
                name,
                SHAPES[name].title if name in SHAPES else "",
                f"{numbers['seconds']:.2f}",
                f"{numbers['megabytes_per_second']:,.0f}",
                f"{numbers['share']:.2f}×",
                f"{numbers['time']:.2f}×",
                f"{numbers['doubtful_share']:.2%}",
                f"{numbers['peak_rss_bytes'] / 1e6:,.0f}",
            ]
        )
    return _markdown(head, rows)


def _metric(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return f"{value / 1e6:,.0f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _bars_table(results: Results) -> list[str]:
    rows = [[j.bar.name, j.bar.wanted, j.shown, j.outcome] for j in bars.judge(results)]
    return _markdown(("bar", "wanted", "measured", ""), rows)


def _machines(results: Results) -> list[str]:
    """Once, if everything was measured in the same place; else by what was measured there."""
    entries: list[tuple[str, Mapping[str, str]]] = [
        *((d.name, d.machine) for d in results.datasets.values()),
        *((s.name, s.machine) for s in results.scenarios.values()),
    ]
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, facts in entries:
        groups.setdefault(tuple(facts.items()), []).append(name)
    lines: list[str] = []
    for known, names in groups.items():
        lines += ([f"{', '.join(names)}:", ""] if len(groups) > 1 else []) + [*_facts(dict(known)), ""]
    return lines


def _facts(facts: Mapping[str, str]) -> list[str]:
    return _markdown(("what", "version"), [[name, value] for name, value in facts.items()])


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    numbers = "---:"
    rule = ["---", *(numbers for _ in head[1:])]
    return ["| " + " | ".join(cells).replace("\n", " ") + " |" for cells in (head, rule, *rows)]
