"""One child process and all it starts, watched: peak memory by role, CPU time, wall time.

Looks from outside and changes nothing; what outlives the child, or its time limit, is ended by process id.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.contenders.play import READY

_INTERVAL_S = 0.05
# Finding the tree reads every process of the machine; doing that in every sample would cost a tenth of a core.
_SAMPLES_PER_SEARCH = 4
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one child did, as seen from outside."""

    exit_code: int | None  # None: ended by the time limit
    wall_seconds: float
    cpu_seconds: float  # since the child said that it was ready, else since its start
    peak_rss: Mapping[str, int]  # bytes by role: driver, jvm, worker (the largest one), other, total
    stdout: str
    stderr: str

    @property
    def last_json(self) -> dict[str, Any]:
        """The JSON object on the last line of stdout, or an empty one."""
        lines = self.stdout.strip().splitlines()
        try:
            parsed = json.loads(lines[-1]) if lines else {}
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}


def measure(
    command: Sequence[str],
    *,
    work: str,
    time_limit_s: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Measured:
    """Run a command to its end, or to the end of its time. `work` takes its output."""
    out_path, err_path = os.path.join(work, "stdout"), os.path.join(work, "stderr")
    cpu_before, started = _cpu_of_ended_children(), time.monotonic()
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
    tree = _Tree(child.pid)
    exit_code, cpu_at_ready = None, 0.0
    try:
        while (exit_code := child.poll()) is None and time.monotonic() - started < time_limit_s:
            tree.sample()
            if not cpu_at_ready and _says_ready(out_path):
                cpu_at_ready = tree.cpu_seconds
            time.sleep(_INTERVAL_S)
    finally:
        wall = time.monotonic() - started
        tree.end(child)
    # Ended children count exactly, but only if each was waited for by its parent; the samples see the others.
    cpu = max(_cpu_of_ended_children() - cpu_before, tree.cpu_seconds)
    return Measured(
        exit_code=exit_code,
        wall_seconds=wall,
        cpu_seconds=max(0.0, cpu - cpu_at_ready),
        peak_rss=dict(tree.peak_rss),
        stdout=_read(out_path),
        stderr=_read(err_path),
    )


@dataclass
class _Seen:
    process: psutil.Process
    role: str
    cpu_seconds: float = 0.0


@dataclass
class _Tree:
    """The child and its descendants, the ones that have ended included."""

    root_pid: int
    seen: dict[tuple[int, float], _Seen] = field(default_factory=dict)
    peak_rss: dict[str, int] = field(default_factory=dict)
    samples: int = 0

    @property
    def cpu_seconds(self) -> float:
        return sum(s.cpu_seconds for s in self.seen.values())

    def sample(self) -> None:
        if self.samples % _SAMPLES_PER_SEARCH == 0:
            self._search()
        self.samples += 1
        total = 0
        for seen in list(self.seen.values()):
            try:
                with seen.process.oneshot():
                    times, rss = seen.process.cpu_times(), seen.process.memory_info().rss
            except psutil.Error:
                continue  # it has ended; its last sample stands
            seen.cpu_seconds = max(seen.cpu_seconds, times.user + times.system)
            self.peak_rss[seen.role] = max(self.peak_rss.get(seen.role, 0), rss)
            total += rss
        self.peak_rss["total"] = max(self.peak_rss.get("total", 0), total)

    def _search(self) -> None:
        """Add what has started since. Roles are looked at again: before exec a process has its parent's name."""
        children: dict[int, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            try:
                children.setdefault(process.ppid(), []).append(process)
            except psutil.Error:
                continue
        # Starting from everything seen before also finds what an ended process has left behind.
        pending = [self.root_pid, *(pid for pid, _ in self.seen)]
        reached = {self.root_pid: psutil.Process(self.root_pid)} if psutil.pid_exists(self.root_pid) else {}
        while pending:
            for process in children.pop(pending.pop(), []):
                reached[process.pid] = process
                pending.append(process.pid)
        for process in reached.values():
            try:
                seen = self.seen.setdefault((process.pid, process.create_time()), _Seen(process, "other"))
                seen.role = self._role(process)
            except psutil.Error:
                continue

    def _role(self, process: psutil.Process) -> str:
        if process.pid == self.root_pid:
            return "driver"
        name = process.name().lower()
        if name.startswith("java"):
            return "jvm"
        return "worker" if name.startswith("python") else "other"

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """Leave nothing running that the child has started."""
        if child.poll() is None:
            self._search()  # its time is over: nobody is waited for
        else:
            deadline = time.monotonic() + _GRACE_S
            while self._alive() and time.monotonic() < deadline:
                self.sample()
                time.sleep(_INTERVAL_S)
        left = self._alive()
        for process in left:
            _quietly(process.terminate)
        _, left = psutil.wait_procs(left, timeout=_GRACE_S)
        for process in left:
            _quietly(process.kill)
        child.wait()

    def _alive(self) -> list[psutil.Process]:
        return [s.process for s in self.seen.values() if _runs(s.process)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _quietly(end: Any) -> None:
    try:
        end()
    except psutil.NoSuchProcess:
        return


def _cpu_of_ended_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _says_ready(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(READY)) == READY.encode()


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
