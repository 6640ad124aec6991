"""Real driver processes for tests: `blizzard run` as a child, to be signalled or killed by its own id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.testing.samples import EVENT_DDL
from tests.ingesting import is_table

_TIMEOUT_S = 300  # on a busy machine


@dataclass
class Finished:
    code: int
    stdout: str
    stderr: str

    @property
    def summary(self) -> dict[str, Any]:
        """The contract: the last line on stdout is one JSON object."""
        parsed: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return parsed


class Driver:
    """One `blizzard run`, or another command, started at once."""

    # JVM options for all drivers of a test run; conftest puts a class archive here, which halves their start-up.
    java_options = ""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        fault: str | None = None,
        env: dict[str, str] | None = None,
        command: str = "run",
    ) -> None:
        environment = {**os.environ, "JDK_JAVA_OPTIONS": self.java_options, **(env or {})}
        environment.pop("BLIZZARD_FAULT", None)
        if fault is not None:
            environment["BLIZZARD_FAULT"] = fault
        self._out, self._err = folder / f"out-{time.monotonic_ns()}", folder / f"err-{time.monotonic_ns()}"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "blizzard", command, *arguments], stdout=out, stderr=err, env=environment
            )

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def wait(self) -> Finished:
        try:
            code = self.process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end:\n{self._err.read_text()}") from None
        return Finished(code, self._out.read_text(), self._err.read_text())

    def wait_until(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            # In this order: what it did last is seen, even if it ended right after.
            is_over = self.process.poll() is not None or time.monotonic() > deadline
            if condition():
                return
            if is_over:
                self.kill()
                raise AssertionError(f"the driver ended before {what}:\n{self._err.read_text()}")
            time.sleep(0.02)

    def wait_for(self, text: str) -> None:
        self.wait_until(lambda: text in self.stderr, f"it said {text!r}")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the driver alone; its JVM notices the closed pipe and its workers the closed sockets."""
        self.process.kill()
        self.process.wait(30)


def run(folder: Path, *arguments: str, fault: str | None = None, env: dict[str, str] | None = None) -> Finished:
    return Driver(folder, *arguments, fault=fault, env=env).wait()


def job(folder: Path, *more: str) -> list[str]:
    """The arguments of the usual test job below `folder`."""
    return ["--source", str(folder / "src"), "--table", str(folder / "table"), "--schema", EVENT_DDL, *more]


def ids(table: Path) -> list[int]:
    """Every id in the table, duplicates included, read by delta-rs."""
    from deltalake import DeltaTable

    if not is_table(table):
        return []
    return sorted(DeltaTable(str(table)).to_pyarrow_table(columns=["id"])["id"].to_pylist())
