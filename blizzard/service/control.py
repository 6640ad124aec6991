"""Controls a run while it lasts: stop, pause, resume, commit now. By signals, and through the API.

SIGTERM and SIGINT stop: the first one gracefully; a second one, or the end of the grace time, gives up the batch.
SIGUSR1 pauses and resumes. SIGUSR2 commits what is read so far.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_GRACE_S = 20.0
_PAUSE_LOOK_S = 60.0


class RunControl:
    """Called from signal handlers and from the API's threads, so it only sets flags."""

    def __init__(self, grace_s: float = STOP_GRACE_S) -> None:
        self.grace_s = grace_s
        self._stops = 0
        self._first_at = 0.0
        self._paused = False
        self._commit_now = False
        self._wake = threading.Event()

    # Called by the run.

    def requested(self) -> bool:
        """Plan nothing more."""
        return self._stops > 0 or self._paused

    def must_cancel(self) -> bool:
        return self._stops > 1 or (self._stops == 1 and time.monotonic() - self._first_at > self.grace_s)

    def ends_batch(self) -> bool:
        """Tasks should stop at the next record boundary, so that what they have read is committed."""
        return self._commit_now or self.requested()

    def batch_ended(self) -> None:
        self._commit_now = False

    @property
    def is_stopping(self) -> bool:
        return self._stops > 0

    @property
    def is_paused(self) -> bool:
        return self._paused

    def wait(self, seconds: float) -> None:
        """Until this time has passed or a request has come."""
        self._wake.wait(seconds)
        self._wake.clear()

    def wait_while_paused(self) -> None:
        while self._paused and not self.is_stopping:
            self.wait(_PAUSE_LOOK_S)

    # Called by signal handlers and the API.

    def stop(self) -> None:
        if self._stops == 0:
            self._first_at = time.monotonic()
        self._stops += 1
        self._wake.set()

    def pause(self) -> None:
        self._paused = True
        self._wake.set()

    def resume(self) -> None:
        self._paused = False
        self._wake.set()

    def commit_now(self) -> None:
        self._commit_now = True
        self._wake.set()

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        match signum:
            case signal.SIGUSR1:
                self.resume() if self._paused else self.pause()
            case signal.SIGUSR2:
                self.commit_now()
            case _:
                self.stop()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle signals here. Only the main thread may do that; in another thread the caller's handlers stay."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
        before = {s: signal.signal(s, self.handle) for s in signals}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
