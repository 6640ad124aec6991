"""Which files a run holds back now, and why, made from its events. The log knows only those of the last commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blizzard.core.events import Event, HoldsBack, OfTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNow:
    """`first` are some of the `files`."""

    files: int
    first: Mapping[str, str]


class Holding:
    def __init__(self) -> None:
        self._by_target: dict[str, HeldNow] = {}

    def see(self, event: Event, target: str = "") -> None:
        match event:
            case OfTarget():
                self.see(event.event, event.target)
            case HoldsBack():
                known = self._by_target.get(target)
                held = HeldNow(files=event.files, first=event.first)
                if known is not None and not event.is_all:
                    # A cycle has begun. Files that it has not tried again yet are held until it says otherwise.
                    first = {**known.first, **event.first}
                    held = HeldNow(files=max(known.files, event.files, len(first)), first=first)
                self._by_target = {**self._by_target, target: held}  # other threads read it
            case _:
                pass

    @property
    def by_target(self) -> Mapping[str, HeldNow]:
        """Without names of targets: one with an empty name. Nothing before the first look."""
        return self._by_target

    @property
    def files(self) -> int | None:
        """What two targets hold back is mostly the same. None before the first look."""
        return max((held.files for held in self._by_target.values()), default=None)
