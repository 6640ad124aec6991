"""How far the tasks of a batch are, while it is read: what they tell themselves, and what Spark says about them.

For people only. On this machine the tasks tell it (`tasks/live.py`). Elsewhere Spark knows how many have ended. Through
Spark Connect nothing is known.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from blizzard.core.events import Reading
from blizzard.tasks.live import KEY_BYTES, LiveAddress, Told, unpack_told

_ASK_SPARK_EVERY_S = 1.0
_LONGEST = 256


class LiveReports:
    """Of one job. `ended_tasks` asks Spark how many of its tasks have ended."""

    def __init__(self, *, tasks: int, on_driver: bool, ended_tasks: Callable[[], int | None]) -> None:
        self._tasks, self._ended_tasks = tasks, ended_tasks
        self._told: dict[int, Told] = {}
        self._socket = _open_port() if on_driver else None
        self._key = os.urandom(KEY_BYTES)
        self._ended: int | None = None
        self._next_s = time.monotonic() + _ASK_SPARK_EVERY_S

    @property
    def address(self) -> LiveAddress | None:
        """Where the tasks tell how far they are; None: they cannot reach this process."""
        return None if self._socket is None else LiveAddress(port=self._socket.getsockname()[1], key=self._key)

    def look(self) -> Reading:
        """What is known now."""
        self._receive()
        now = time.monotonic()
        if now >= self._next_s:
            self._next_s = now + _ASK_SPARK_EVERY_S
            self._ended = self._ended_tasks()
        told = self._told.values()
        return Reading(
            tasks=self._tasks,
            ended_tasks=self._ended,
            is_told=bool(told),
            files=sum(one.files for one in told),
            stored_bytes=sum(one.stored_bytes for one in told),
            records=sum(one.records for one in told),
            json_bytes=sum(one.json_bytes for one in told),
        )

    def _receive(self) -> None:
        if self._socket is None:
            return
        with suppress(OSError):  # there is no more
            while True:
                told = unpack_told(self._socket.recv(_LONGEST), self._key)
                if told is not None:
                    self._told[told.slot] = told

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _open_port() -> socket.socket | None:
    """None if the system gives none: then nothing is told."""
    try:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            opened.setblocking(False)
            opened.bind(("127.0.0.1", 0))
        except OSError:
            opened.close()
            raise
    except OSError:
        return None
    return opened
