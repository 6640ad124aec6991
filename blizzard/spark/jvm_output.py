"""What the JVM of a local session writes to stderr. While it starts nothing is shown, unless it fails to start.

Java, Spark's launcher and Ivy write there without a logger, so no log setting can turn it off. The JVM gets a pipe for
its stderr. What comes through it later, errors of Spark (`log4j2-quiet.properties`) and output of the Python workers,
is passed on line by line, without secrets. When the session is stopped, nothing is shown again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from blizzard.text.shown import shown
from blizzard.text.streams import as_lines, put_err

_KEPT_LINES = 1_000
_LOGGED = "spark "  # how our log settings begin a line


class _JvmOutput(threading.Thread):
    """Reads the pipe as long as the JVM lives."""

    def __init__(self, pipe: int) -> None:
        super().__init__(name="blizzard-jvm-output", daemon=True)
        self._pipe = pipe
        self._lock = threading.Lock()
        self._kept: deque[str] | None = deque(maxlen=_KEPT_LINES)  # None: it is up

    def run(self) -> None:
        with open(self._pipe, encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                self._take(line.rstrip("\n").expandtabs(4))

    def _take(self, line: str) -> None:
        with self._lock:
            if self._kept is not None:
                self._kept.append(line)
                return
        _show([line])

    def end_start(self, *, has_failed: bool) -> None:
        """From now on all is shown. Of what came before: everything if the start has failed; else only what Spark
        logged, an error, and what follows it."""
        if has_failed:
            self.join(1)  # it has ended, or is about to: let it finish its last words
        with self._lock:
            kept, self._kept = list(self._kept or ()), None
        logged = (number for number, line in enumerate(kept) if line.startswith(_LOGGED))
        _show(kept if has_failed else kept[next(logged, len(kept)) :])

    def hush(self) -> None:
        """Spark complains of the tasks that it breaks off when it is stopped."""
        with self._lock:
            self._kept = deque(maxlen=0)


def _show(lines: list[str]) -> None:
    put_err(as_lines(sys.stderr, map(shown, lines)))


@contextmanager
def quiet_start(builder: Any) -> Iterator[Callable[[], None]]:
    """Start the JVM for the session that is made inside, with the settings of its builder. Nothing is done if this
    process has a JVM already. What it yields is to be called before the session is stopped."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        yield lambda: None
        return
    settings = SparkConf().setAll(list(builder._options.items()))
    reading, writing = os.pipe()
    output = _JvmOutput(reading)
    output.start()
    has_failed = True
    try:
        try:
            gateway = launch_gateway(settings, {"stderr": writing})
        finally:
            os.close(writing)
        SparkContext._ensure_initialized(gateway=gateway)
        yield output.hush
        has_failed = False
    finally:
        output.end_start(has_failed=has_failed)
