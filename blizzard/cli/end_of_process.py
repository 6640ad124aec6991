"""Ends the process of a command when all is said and done. Python would first take pyspark, pandas and pyarrow apart,
object by object: half a second and more, while the person who has stopped a run waits for the prompt."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass


@dataclass
class EndOfProcess:
    """Called at exit, after what others have registered later. Threads that Python waits for have ended by then."""

    code: int | None = None  # None: the command did not come to its end, and Python says why

    def begin(self, code: int) -> None:
        """All is said, and Python waits for threads. A signal ends that, and does not change what was done."""
        self.code = code
        if threading.current_thread() is threading.main_thread():
            for late in (signal.SIGINT, signal.SIGTERM):
                signal.signal(late, lambda *_: self())

    def __call__(self) -> None:
        if self.code is None:
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # what could not be written was reported before
                stream.flush()
        os._exit(self.code)
