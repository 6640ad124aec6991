"""Controls a fleet by signals: what is asked of the process is asked of every pipeline."""

from __future__ import annotations

import signal
from collections.abc import Callable

from blizzard.service.control import RunControl


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
            member.stop()

    def pause(self) -> None:
        super().pause()
        for member in self.members():
            member.pause()

    def resume(self) -> None:
        super().resume()
        for member in self.members():
            member.resume()

    def commit_now(self) -> None:
        for member in self.members():
            member.commit_now()

    def nudge(self) -> None:
        """A pipeline has ended: look whether all have."""
        self._wake.set()
