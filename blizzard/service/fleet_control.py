"""Controls a fleet by signals: what is asked of the process is asked of every pipeline."""

from __future__ import annotations

import signal
from collections.abc import Callable

from blizzard.service.control import RunControl, Wish


class FleetControl(RunControl):
    """What is asked of the process is asked of every pipeline. SIGHUP stops too: a restart is how the configuration
    changes."""

    signals = (*RunControl.signals, signal.SIGHUP)

    def __init__(self) -> None:
        super().__init__()
        self.members: Callable[[], tuple[RunControl, ...]] = tuple

    def stop(self) -> None:
        super().stop()
        for member in self.members():
            # The first signal gives no batch up, not even of one that was asked to stop before.
            member.stop() if self._stops > 1 else member.stop_gracefully()

    def pause(self) -> None:
        super().pause()
        for member in self.members():
            member.pause()

    def resume(self) -> None:
        super().resume()
        for member in self.members():
            member.resume()

    @property
    def rests(self) -> bool:
        """Others may have paused and resumed them meanwhile. One without a position cannot be paused."""
        each = [member.rests for member in self.members() if not member.is_stopping]
        return any(each) if self.wish is Wish.PAUSE else bool(each) and all(each)

    def commit_now(self) -> None:
        for member in self.members():
            member.commit_now()

    def nudge(self) -> None:
        """A pipeline has ended: look whether all have."""
        self._wake.set()
