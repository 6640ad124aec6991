"""Fifty pipelines in one process: how long their first files take, what they cost while nothing is new, and how much
memory they need.

The fleet is a real one, `blizzard serve`, with a local Spark session. After every pipeline has committed its files a
file more comes for each, so that the session has seen two batches of all; then nothing more comes, and the process is
watched. `psutil` reads the CPU time and the memory of the driver's Python, of the JVM and of Python's workers.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import yaml

from blizzard.testing.samples import EVENT_DDL, write_events

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FILES, _RECORDS = 20, 200
_POLL_S = 2.0  # five times as often as by default, so that a minute has many cycles
_WATCHED_S = 60.0
_PATIENCE_S = 900.0


class FleetFailed(Exception):
    """The fleet did not come to where it could be measured."""


def measure_fleet(folder: str, *, pipelines: int, watched_s: float = _WATCHED_S) -> dict[str, float]:
    folder, names = os.path.abspath(folder), [f"feed-{i:02d}" for i in range(pipelines)]
    for name in names:
        write_events(os.path.join(folder, name, "source"), files=_FILES, records=_RECORDS)
    with _fleet(folder, names) as (process, url):
        drained_s = _until(process, url, lambda row: row["total_records"] == _FILES * _RECORDS)
        for name in names:  # the same records again, under another name
            _copy(os.path.join(folder, name, "source"))
        again_s = _until(process, url, lambda row: row["total_records"] == (_FILES + 1) * _RECORDS)
        _until(process, url, lambda row: row["cycles"] >= row["cycles_after"])  # glances begin after two idle cycles
        idle = _watch(process, url, watched_s)
    return {"first_files_seconds": drained_s, "one_more_file_seconds": again_s, **idle}


@contextmanager
def _fleet(folder: str, names: list[str]) -> Iterator[tuple[psutil.Process, str]]:
    tree = {
        "api": {"address": "127.0.0.1:0"},
        "follow": {"poll_s": _POLL_S, "jitter_s": 0},
        "schema": {"ddl": EVENT_DDL},
        "pipelines": {
            name: {
                "source": {"path": os.path.join(folder, name, "source")},
                "table": {"path": os.path.join(folder, name, "table")},
            }
            for name in names
        },
    }
    path, log = os.path.join(folder, "fleet.yaml"), os.path.join(folder, "stderr")
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(tree, file)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))}
    with open(log, "wb") as err:
        command = [sys.executable, "-m", "blizzard", "serve", "--config", path]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, env=env, cwd=folder)
    try:
        yield psutil.Process(child.pid), _url(child, log)
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _url(child: subprocess.Popen[bytes], log: str) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until and child.poll() is None:
        with open(log, encoding="utf-8") as file:
            found = re.search(r"the API is at (\S+)", file.read())
        if found:
            return found[1]
        time.sleep(0.1)
    raise FleetFailed("the fleet did not start")


def _rows(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/pipelines", timeout=60) as answer:
        return list(json.load(answer)["pipelines"])


def _until(process: psutil.Process, url: str, is_there: Callable[[dict[str, Any]], bool]) -> float:
    """Seconds until this is so for every pipeline."""
    started = time.monotonic()
    base = {row["pipeline"]: row["cycles"] + 4 for row in _rows(url)}
    waiting = set(base)
    while waiting:
        if time.monotonic() - started > _PATIENCE_S or not process.is_running():
            raise FleetFailed(f"{len(waiting)} pipelines did not get there")
        time.sleep(0.2)
        rows = {row["pipeline"]: row for row in _rows(url)}
        failed = [row["last_error"] for row in rows.values() if row["last_error"]]
        if failed:
            raise FleetFailed(failed[0])
        for name in list(waiting):
            if is_there(rows[name] | {"cycles_after": base[name], "total_records": _records(url, name)}):
                waiting.discard(name)
    return time.monotonic() - started


def _records(url: str, name: str) -> int:
    with urllib.request.urlopen(f"{url}/pipelines/{name}", timeout=60) as answer:
        return int(json.load(answer)["total"]["records"])


def _copy(source: str) -> None:
    first = os.path.join(source, min(os.listdir(source)))
    with open(first, "rb") as old, open(os.path.join(source, "zzz-one-more" + _suffix(first)), "wb") as new:
        new.write(old.read())


def _suffix(path: str) -> str:
    name = os.path.basename(path)
    return name[name.index(".") :]


def _watch(process: psutil.Process, url: str, seconds: float) -> dict[str, float]:
    cycles, sequences = _counts(url)
    cpu = _cpu(process)
    time.sleep(seconds)
    after, still = _counts(url)
    if still != sequences:
        raise FleetFailed("something was committed while nothing should be new")
    spent = {part: now - cpu.get(part, 0.0) for part, now in _cpu(process).items()}
    memory = _memory(process)
    done = after - cycles
    return {
        "idle_cycles": done,
        "idle_python_cpu_ms_per_cycle": 1000 * spent["python"] / done,
        "idle_python_cpu_share": spent["python"] / seconds,
        "idle_jvm_cpu_share": spent.get("jvm", 0.0) / seconds,
        "threads": process.num_threads(),
        "jvm_threads": sum(one.num_threads() for one in _parts(process)["jvm"]),
        **{f"{part}_rss_bytes": size for part, size in memory.items()},
    }


def _counts(url: str) -> tuple[int, list[int]]:
    rows = _rows(url)
    return sum(row["cycles"] for row in rows), [row["sequence"] for row in rows]


def _parts(process: psutil.Process) -> dict[str, list[psutil.Process]]:
    found: dict[str, list[psutil.Process]] = {"python": [process], "jvm": [], "workers": []}
    for child in process.children(recursive=True):
        try:
            found["jvm" if child.name() == "java" else "workers"].append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def _cpu(process: psutil.Process) -> dict[str, float]:
    def spent(one: psutil.Process) -> float:
        times = one.cpu_times()
        return float(times.user + times.system)

    return {part: sum(map(spent, each)) for part, each in _parts(process).items()}


def _memory(process: psutil.Process) -> dict[str, float]:
    return {part: float(sum(one.memory_info().rss for one in each)) for part, each in _parts(process).items()}
