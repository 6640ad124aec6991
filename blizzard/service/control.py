"""Controls a run while it lasts: stop, pause, resume, commit now. By signals, and through the API.

SIGTERM and SIGINT stop: the first one gracefully; a second one, or the end of the grace time, gives up the batch.
SIGUSR1 pauses and resumes. SIGUSR2 commits what is read so far. A pause and a resume are only noted here; the run makes
the commit for them when its batch has ended.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType

STOP_GRACE_S = 20.0


class Wish(Enum):
    """What was asked for and is not in the log yet."""

    PAUSE = "pausing"
    RESUME = "resuming"


class RunControl:
    """Called from signal handlers and from the API's threads, so it only sets flags."""

    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)

    def __init__(self, grace_s: float = STOP_GRACE_S) -> None:
        self.grace_s = grace_s
        self._stops = 0
        self._first_at = 0.0
        self._commit_now = False
        self.wish: Wish | None = None
        self.wish_failed = False  # it could not be committed when that was last tried
        self.is_paused = False  # the log says so, as far as the run knows
        self._wake = threading.Event()
        # Called in a signal handler, with the signal and which stop it is: 1 for the first.
        self.hears: Callable[[signal.Signals, int], None] = lambda _, __: None

    # Called by the run.

    def requested(self) -> bool:
        """Plan nothing more."""
        return self._stops > 0 or self.wish is Wish.PAUSE

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

    def wait(self, seconds: float) -> None:
        """Until this time has passed or a request has come."""
        self._wake.wait(seconds)
        self._wake.clear()

    def look_again(self) -> None:
        """The next wait ends at once."""
        self._wake.set()

    def has_tried(self, wish: Wish, *, is_done: bool) -> None:
        """Forget it if it is done, unless something else was asked for meanwhile."""
        if self.wish is wish:
            self.wish_failed = not is_done
            self.wish = None if is_done else wish

    # Called by signal handlers and the API.

    def stop(self) -> None:
        if self._stops == 0:
            self._first_at = time.monotonic()
        self._stops += 1
        self._wake.set()

    def stop_gracefully(self) -> None:
        """Asked for again, this gives no batch up."""
        if self._stops == 0:
            self.stop()

    def pause(self) -> None:
        self._want(Wish.PAUSE)

    def resume(self) -> None:
        self._want(Wish.RESUME)

    def _want(self, wish: Wish) -> None:
        self.wish, self.wish_failed = wish, False
        self._wake.set()

    @property
    def rests(self) -> bool:
        """It is paused, or will be as soon as possible."""
        return self.wish is Wish.PAUSE or (self.is_paused and self.wish is None)

    def commit_now(self) -> None:
        self._commit_now = True
        self._wake.set()

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        match signum:
            case signal.SIGUSR1:
                self.resume() if self.rests else self.pause()
            case signal.SIGUSR2:
                self.commit_now()
            case _:
                self.stop()
                self.hears(signal.Signals(signum), self._stops)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle signals here. Only the main thread may do that; in another thread the caller's handlers stay."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # nohup ignores SIGHUP, and so must a program that is meant to outlive its terminal.
        outlives = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        heard = [s for s in self.signals if not (outlives and s == signal.SIGHUP)]
        before = {s: signal.signal(s, self.handle) for s in heard}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
