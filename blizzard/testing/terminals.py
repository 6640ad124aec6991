"""A command on a real terminal, for tests and benchmarks: the leader of a session whose terminal is a pty. So Ctrl-C
reaches its whole foreground process group, the JVM included."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Callable

_TIMEOUT_S = 300  # on a busy machine
CTRL_C = b"\x03"


class OnTerminal:
    """Starts at once. `screen` is all that was written to the terminal so far."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        self.screen = ""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            command = [sys.executable, "-m", "blizzard", *arguments]
            try:
                os.execve(sys.executable, command, {**os.environ, "TERM": "xterm", "NO_COLOR": "", **env})
            finally:
                os._exit(127)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _TIMEOUT_S
        while not condition():
            is_over = not self._read()
            if (is_over and not condition()) or time.monotonic() > until:
                raise AssertionError(f"it ended before {what}:\n{self.screen}")

    def wait_for(self, text: str) -> None:
        self.wait_until(lambda: text in self.screen, f"it said {text!r}")

    def press_ctrl_c(self) -> None:
        os.write(self._terminal, CTRL_C)

    def wait(self) -> int:
        """Its exit code."""
        until = time.monotonic() + _TIMEOUT_S
        while self._read() and time.monotonic() < until:
            pass
        pid, status = os.waitpid(self._pid, 0)
        assert pid == self._pid
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        """False: nobody can write to it any more."""
        if select.select([self._terminal], [], [], 0.05)[0]:
            try:
                self.screen += os.read(self._terminal, 1 << 16).decode(errors="replace")
            except OSError:  # the way in which a pty says that it is over
                return False
        return True
