"""Signals: the first asks for a graceful end, the second, or the end of the grace, gives the batch up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_GRACE_S = 20.0


class NeverStop:
    def requested(self) -> bool:
        return False

    def must_cancel(self) -> bool:
        return False


class SignalStop:
    def __init__(self, grace_s: float = STOP_GRACE_S) -> None:
        self.grace_s = grace_s
        self._signals = 0
        self._first_at = 0.0

    def requested(self) -> bool:
        return self._signals > 0

    def must_cancel(self) -> bool:
        return self._signals > 1 or (self._signals == 1 and time.monotonic() - self._first_at > self.grace_s)

    def handle(self, _signum: int, _frame: FrameType | None) -> None:
        if self._signals == 0:
            self._first_at = time.monotonic()
        self._signals += 1

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT here. Only the main thread may; elsewhere the caller's handlers stay."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {s: signal.signal(s, self.handle) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
