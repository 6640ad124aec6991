"""Passes each event of a run to every listener."""

from __future__ import annotations

import threading

from blizzard.core.events import Emit, Event


class Stream:
    """One event at a time, because commits land on another thread."""

    def __init__(self, *listeners: Emit) -> None:
        self._listeners, self._lock = listeners, threading.RLock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            for listener in self._listeners:
                listener(event)
