"""Decides when a target that failed is tried again, in a run that follows and goes on without it.

Else every cycle would read its batch once more, and fail again. Until its time has come it fails at once, with the same
error, so that the policy and `after_ingest` judge it as they did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blizzard.errors import BadData, BlizzardError, ConfigError, Refused, Temporary, failure_of
from blizzard.service.follow import wait_out_all


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    error: BlizzardError
    repeats: int
    until_s: float


class Resting:
    """`pause_s` is the usual pause between two looks."""

    def __init__(self, pause_s: float, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._pause_s, self._now_s = pause_s, now_s
        self._rests: dict[str, _Rest] = {}

    def errors(self) -> dict[str, BlizzardError]:
        """Of the targets that are not tried yet, by name."""
        now_s = self._now_s()
        return {name: rest.error for name, rest in self._rests.items() if rest.until_s > now_s}

    def learn(self, failed: Mapping[str, Exception]) -> None:
        """How a cycle ended: which targets failed. Those that went well are forgotten."""
        rests = {}
        for name, error in failed.items():
            known = self._rests.get(name)
            rests[name] = known if known is not None and known.error is error else self._rest(error, known)
        self._rests = rests

    def _rest(self, error: Exception, known: _Rest | None) -> _Rest:
        failure = _plain(failure_of(error))
        repeats = known.repeats + 1 if known is not None and known.error.kind == failure.kind else 1
        pause_s = wait_out_all(failure, repeats, self._pause_s) or 0.0
        return _Rest(error=failure, repeats=repeats, until_s=self._now_s() + pause_s)

    def end(self) -> None:
        """Somebody asks to try again now."""
        self._rests = {}


def _plain(error: BlizzardError) -> BlizzardError:
    """The same for whoever reads it, but of no class that a run acts on, such as files that are gone."""
    first, *further = str(error).split("\n")
    made = next((branch for branch in (ConfigError, Refused, BadData, Temporary) if isinstance(error, branch)), None)
    return (made or BlizzardError)(first, kind=error.kind, further=further)
