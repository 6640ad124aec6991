"""Server processes for tests: on a free loopback port, ready when they answer, gone when the tests are."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_READY_S = 120
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class ServerProcess:
    """One server. `command` makes its command line from a port; `health` is a path that answers once it is ready;
    without one, any connection will do.

    The kernel kills the server when the thread that started it ends, so start it from the main thread: then not even
    a killed pytest leaves it behind.
    """

    def __init__(
        self, command: Callable[[int], list[str]], *, health: str | None, log: Path, ready_s: float = _READY_S
    ) -> None:
        self.port = free_port()
        self.log = log
        with open(log, "ab") as out:
            self._process = subprocess.Popen(
                command(self.port),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - one system call through a library that is already loaded
            )
        self.pid = self._process.pid
        self._wait_until_ready(health, ready_s)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def _wait_until_ready(self, health: str | None, ready_s: float) -> None:
        url = f"http://127.0.0.1:{self.port}{health or ''}"
        deadline = time.monotonic() + ready_s
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if health is None:
                    socket.create_connection(("127.0.0.1", self.port), timeout=10).close()
                else:
                    urllib.request.urlopen(url, timeout=10).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"the server at {url} did not start:\n{self.log.read_text()}")


def die_with_parent() -> Callable[[], None]:
    """For a child, before its program begins: the kernel kills it when the thread that started it ends."""
    parent = os.getpid()

    def prepare() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it ended before prctl could notice
                os._exit(1)

    return prepare


def free_port() -> int:
    """A loopback port that is free. No client gets it before the server does, or while the server is down: the system
    takes the ports of clients from a range above these."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
