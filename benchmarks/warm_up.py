"""How long a cold process takes to its first commit of one small file: after `blizzard warm-up`, and without it.

Every run is a process of its own, with a JVM of its own. The two kinds take turns, and the best of each counts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time

from benchmarks.measure import Measured, measure
from blizzard.testing.samples import EVENT_DDL, write_events

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FIRST_COMMIT = "00000000000000000001.json"  # version 0 makes the table


class WarmUpFailed(Exception):
    """A command did not come to its end."""


def measure_warm_up(folder: str, *, rounds: int = 3, time_limit_s: float = 600.0) -> dict[str, float]:
    """Seconds from the start of the process to the first commit, and CPU seconds of all its processes."""
    folder = os.path.abspath(folder)
    write_events(os.path.join(folder, "source"), files=1, records=1000)
    made = json.loads(_blizzard(folder, "warm", time_limit_s, "warm-up", "--json").stdout)
    best: dict[str, float] = {}
    for _ in range(rounds):
        for kind in ("cold", "warm"):
            seconds, cpu_seconds = _first_commit(folder, kind, time_limit_s)
            for name, value in ((f"{kind}_seconds", seconds), (f"{kind}_cpu_seconds", cpu_seconds)):
                best[name] = min(value, best.get(name, value))
    return best | {
        "warm_share": best["warm_seconds"] / best["cold_seconds"],
        "warm_cpu_share": best["warm_cpu_seconds"] / best["cold_cpu_seconds"],
        "warm_up_seconds": made["seconds"],
        "warm_up_bytes": made["bytes"],
    }


def _first_commit(folder: str, kind: str, time_limit_s: float) -> tuple[float, float]:
    table = os.path.join(folder, "table")
    shutil.rmtree(table, ignore_errors=True)
    arguments = ("run", "--source", os.path.join(folder, "source"), "--table", table, "--schema", EVENT_DDL)
    started = time.time()
    done = _blizzard(folder, kind, time_limit_s, *arguments)
    return os.path.getmtime(os.path.join(table, "_delta_log", _FIRST_COMMIT)) - started, done.cpu_seconds


def _blizzard(folder: str, kind: str, time_limit_s: float, *arguments: str) -> Measured:
    """With a cache folder for each kind, so that only one of them has an archive."""
    env = {
        "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH")))),
        "XDG_CACHE_HOME": os.path.join(folder, kind),
    }
    command = [sys.executable, "-m", "blizzard", *arguments]
    done = measure(command, work=folder, time_limit_s=time_limit_s, env=env, cwd=folder)
    if done.exit_code != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.exit_code}"]
        raise WarmUpFailed(f"{arguments[0]}: {lines[-1]}")
    return done


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure_warm_up(**json.loads(sys.argv[1]))) + "\n")
