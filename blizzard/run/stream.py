"""The one stream of a run's events, to everybody who listens."""

from __future__ import annotations

import threading

from blizzard.core.events import Emit, Event


class Stream:
    """Each event goes to every listener, one event at a time: commits land on a thread of their own."""

    def __init__(self, *listeners: Emit) -> None:
        self._listeners, self._lock = listeners, threading.RLock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            for listener in self._listeners:
                listener(event)
