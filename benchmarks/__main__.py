"""python -m benchmarks: data sets × contenders × rounds, then scenarios, then tables, a chart and the bars."""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import sys
import time
from collections.abc import Iterator

from benchmarks import bars, machine, report, results
from benchmarks.datasets import DATASETS, Prepared, prepare
from benchmarks.external import External, UsageError, load_config, parse_flag
from benchmarks.results import Results
from benchmarks.runner import BUILT_IN, Settings, run_dataset
from benchmarks.scenarios import FULL_COMMITS, FULL_NAMES, SCENARIOS, ScenarioSettings, run_scenario

_HERE = os.path.dirname(os.path.abspath(__file__))
_DEFAULT_CONFIG = os.path.join(_HERE, "external.yaml")


def main() -> int:
    options = _parser().parse_args()
    try:
        contenders = _contenders(options)
        datasets = _chosen(options.datasets, tuple(DATASETS), "data set")
        scenarios = _chosen(options.scenarios, SCENARIOS, "scenario")
    except UsageError as e:
        sys.stderr.write(f"{e}\n")
        return 2
    measured = Results()
    out = options.out or _default_out(options)
    for new in itertools.chain(
        _measure_datasets(options, datasets, contenders), _measure_scenarios(options, scenarios)
    ):
        measured = measured.updated_by(new)
        report.write(results.load(out).updated_by(new), out)  # at once: a run takes an hour
    _note(f"written to {os.path.relpath(out)}")
    return _check(options, measured) if options.check else 0


def _is_whole(options: argparse.Namespace) -> bool:
    return (options.scale, options.names, options.commits) == (1, FULL_NAMES, FULL_COMMITS)


def _default_out(options: argparse.Namespace) -> str:
    """Trial runs, scaled down, never touch the results that are kept."""
    if _is_whole(options):
        return os.path.join(_HERE, "results")
    return os.path.join(options.data_dir, f"results-x{options.scale:g}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--data-dir", default=os.path.join(_HERE, "data"), help="data sets and scratch space (about 2 GB and 3 GB)")
    add("--rounds", type=int, default=3)
    add("--datasets", default="all", help=f"'all', 'none' or some of {','.join(DATASETS)}")
    add("--contenders", default="default", help=f"'all' or some of {','.join(BUILT_IN)} and external names")
    add("--scenarios", nargs="?", const="all", default="none", help=f"also some or all of {','.join(SCENARIOS)}")
    add("--scale", type=float, default=1.0, help="shrink every data set: for trying things out, not for numbers")
    add("--names", type=int, default=FULL_NAMES, help="names in the scenario 'plan'")
    add("--commits", type=int, default=FULL_COMMITS, help="commits in the scenario 'recovery'")
    add("--external", action="append", default=[], metavar="NAME=COMMAND", help="see benchmarks/README.md")
    add("--config", help="external contenders in YAML (default: benchmarks/external.yaml if it exists)")
    add("--out", help="folder for the results (default: benchmarks/results; scaled ones go below --data-dir)")
    add("--time-limit", type=float, default=900.0, help="seconds for one run of one contender")
    add("--date", default=datetime.date.today().isoformat(), help="written into the results")
    add("--check", action="store_true", help="judge the bars; exit 1 if one is missed")
    return parser


def _contenders(options: argparse.Namespace) -> tuple[str | External, ...]:
    external = load_config(options.config) if options.config else []
    if not options.config and os.path.isfile(_DEFAULT_CONFIG):
        external = load_config(_DEFAULT_CONFIG)
    known: dict[str, str | External] = {name: name for name in BUILT_IN}
    for contender in [*external, *map(parse_flag, options.external)]:
        if contender.name in known:
            raise UsageError(f"there are two contenders called {contender.name}")
        known[contender.name] = contender
    wanted = "all" if options.contenders == "default" else options.contenders
    return tuple(known[name] for name in _chosen(wanted, tuple(known), "contender"))


def _chosen(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return known if text == "all" else ()
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise UsageError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return names


def _measure_datasets(
    options: argparse.Namespace, names: tuple[str, ...], contenders: tuple[str | External, ...]
) -> Iterator[Results]:
    settings = Settings(
        contenders=contenders,
        by_dataset=options.contenders == "default",
        rounds=options.rounds,
        scratch=_scratch(options),
        time_limit_s=options.time_limit,
        date=options.date,
        note=_note,
    )
    for name in names:
        yield Results(datasets={name: run_dataset(_prepared(options, name), settings)})


def _measure_scenarios(options: argparse.Namespace, names: tuple[str, ...]) -> Iterator[Results]:
    settings = ScenarioSettings(
        names=options.names,
        commits=options.commits,
        rounds=options.rounds,
        scratch=_scratch(options),
        date=options.date,
        time_limit_s=max(3600.0, options.time_limit),
        prepared=lambda name: _prepared(options, name),
    )
    for name in names:
        started = time.monotonic()
        found = run_scenario(name, settings)
        _note(f"scenario {name}: {found.error or f'done in {time.monotonic() - started:.0f} s'}")
        yield Results(scenarios={name: found})


def _prepared(options: argparse.Namespace, name: str) -> Prepared:
    started = time.monotonic()
    prepared = prepare(name, options.data_dir, scale=options.scale, cores=machine.cores())
    seconds = time.monotonic() - started
    written = f", written in {seconds:.0f} s" if seconds > 1 else ""
    _note(f"{name}: {prepared.dataset.rows:,} records, {prepared.json_bytes / 1e6:,.0f} MB of JSON{written}")
    return prepared


def _scratch(options: argparse.Namespace) -> str:
    return os.path.join(os.path.abspath(options.data_dir), "scratch")


def _check(options: argparse.Namespace, measured: Results) -> int:
    judged = bars.judge(measured)
    sys.stdout.write("\n".join(bars.table(judged)) + "\n")
    if not _is_whole(options):
        sys.stdout.write("This run was scaled down: the bars are meant for a whole one.\n")
    return 1 if any(j.outcome == "missed" for j in judged) else 0


def _note(message: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {message}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
