"""A Spark standalone cluster of separate JVMs on loopback: a master and two workers with one core each."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pyspark

from tests.s3.processes import ServerProcess, free_port

SPARK_HOME = Path(pyspark.__file__).parent
# Two hosts, as far as Spark can tell: it never runs a second attempt at a task where the first one runs.
_HOSTS = ("127.0.0.2", "127.0.0.3")
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a short life: compiling well does not pay
_WAIT_S = 300  # for a JVM on a machine that is busy with other tests


class StandaloneCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rpc_port = free_port()
        master = ("--host", "127.0.0.1", "--port", str(self._rpc_port))
        self._master = self._start("master.Master", *master)
        self._workers: dict[str, ServerProcess] = {}
        self.heal()

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._rpc_port}"

    def heal(self) -> None:
        """As if nothing had been killed: two workers that wait for work, and nothing left of other applications."""
        for host in _HOSTS:
            if host not in self._workers or not self._workers[host].is_alive:
                work = ("--work-dir", str(self._folder / "work"), "--cores", "1", "--memory", "1g")
                self._workers[host] = self._start("worker.Worker", "--host", host, *work, self.url)
        wait_until(self._is_idle, "two idle workers")
        # Every executor unpacks the environment for itself: half a gigabyte.
        for application in (self._folder / "work").glob("app-*"):
            shutil.rmtree(application, ignore_errors=True)

    def kill_worker_of(self, executor: int) -> None:
        """The worker JVM that started this executor JVM."""
        pid = parent_of(executor)
        assert pid in [worker.pid for worker in self._workers.values()]
        os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in [*self._workers.values(), self._master]:
            process.stop()

    def _is_idle(self) -> bool:
        state = self._state()
        alive = [worker for worker in state["workers"] if worker["state"] == "ALIVE"]
        return (
            len(alive) == len(_HOSTS) and not state["activeapps"] and all(worker["coresused"] == 0 for worker in alive)
        )

    def _state(self) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._master.port}/json/", timeout=_WAIT_S) as answer:
            return json.load(answer)

    def _start(self, role: str, *arguments: str) -> ServerProcess:
        environment = {
            "SPARK_LOCAL_IP": "127.0.0.1",  # where its web page listens
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
        }
        command = ["env", *(f"{key}={value}" for key, value in environment.items())]
        command += [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{role}"]
        return ServerProcess(
            lambda port: [*command, "--webui-port", str(port), *arguments],
            health="/json/",
            log=self._folder / f"{role}.log",
            ready_s=_WAIT_S,
        )


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_of(python_worker: int) -> int:
    """The executor JVM above a Python worker, which Spark's daemon forked."""
    pid = python_worker
    while "CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_text():
        pid = parent_of(pid)
        assert pid > 1, f"no executor is above process {python_worker}"
    return pid


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
