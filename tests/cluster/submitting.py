"""`spark-submit` with what `make dist` made, as a process to wait for, and what its event log says happened."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.standalone import SMALL_JVM, SPARK_HOME, wait_until
from tests.drivers import Driver, Finished, job

ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 300
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.executor.extraJavaOptions": SMALL_JVM,
    "spark.executor.memory": "512m",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}
# A task that takes longer than the fastest half is run a second time, at once.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


@dataclass
class Submission:
    """One way to submit: to which master, with which Python. `start` may be called again and again."""

    folder: Path
    master: str
    package_zip: Path
    driver_python: Path
    python: str  # of the executors
    archive: Path | None = None
    words: Sequence[str] | None = None  # of the job; None: the usual one below the folder
    _started: int = 0

    def start(self, *arguments: str, settings: dict[str, str] | None = None, fault: str | None = None) -> Submitted:
        """`fault` is for the driver."""
        self._started += 1
        folder = self.folder / f"submit-{self._started}"
        (folder / "events").mkdir(parents=True)
        # Without a Python of its own the driver would take that of the executors, whose path may mean nothing here.
        pythons = {"spark.pyspark.python": self.python, "spark.pyspark.driver.python": str(self.driver_python)}
        own = {"spark.eventLog.dir": f"file://{folder}/events"}
        own["spark.executorEnv.JDK_JAVA_OPTIONS"] = Driver.java_options
        conf = _SETTINGS | pythons | own | (settings or {})
        command = [str(SPARK_HOME / "bin/spark-submit"), "--master", self.master, "--deploy-mode", "client"]
        command += ["--py-files", str(self.package_zip)]
        if self.archive is not None:
            command += ["--archives", f"{self.archive}#environment"]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        words = job(self.folder) if self.words is None else self.words
        environment = self._env() | ({} if fault is None else {"BLIZZARD_FAULT": fault})
        return Submitted(folder, [*command, str(ROOT / "jobs/ingest.py"), *words, *arguments], environment)

    def _env(self) -> dict[str, str]:
        """Nothing of the environment that runs the tests: its packages must not be what makes a run work."""
        ours = ("PYSPARK", "SPARK", "VIRTUAL_ENV", "PYTHON", "BLIZZARD")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        java = {"JDK_JAVA_OPTIONS": Driver.java_options}
        return kept | java | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}


class Submitted:
    def __init__(self, folder: Path, command: list[str], environment: dict[str, str]) -> None:
        self._folder = folder
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            # A session of its own: the JVM and the Python below it can then be ended together, whatever happens.
            self._process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True)

    def wait(self) -> Finished:
        try:
            code = self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"spark-submit did not end:\n{self._told()}") from None
        return Finished(code, (self._folder / "out").read_text(), self._told())

    def wait_for_held(self, folder: Path, count: int) -> list[int]:
        """The ids of processes that a fault holds, once there are so many."""

        def held() -> list[int]:
            assert self._process.poll() is None, f"spark-submit ended too early:\n{self._told()}"
            return [int(path.name) for path in sorted(folder.iterdir(), key=os.path.getmtime) if path.name != "go"]

        wait_until(lambda: len(held()) >= count, f"{count} held tasks")
        return held()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Everything of the driver's: Python and JVM."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self._events() if event["Event"] == f"SparkListener{name}"]

    def _events(self) -> Iterator[dict[str, Any]]:
        for path in (self._folder / "events").iterdir():
            for line in path.read_text().splitlines():
                with contextlib.suppress(ValueError):  # the last line of a killed driver
                    yield json.loads(line)

    def _told(self) -> str:
        return (self._folder / "err").read_text()
