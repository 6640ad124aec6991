"""One look at a source for all targets of a run. What one target has listed, the others are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from blizzard.core.late import Scope
from blizzard.core.look import Listed
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.source.listed import ListedSource
from blizzard.source.uri import SourceLocation


@dataclass(slots=True)
class Looks:
    """What was listed in this run, and what had been asked for."""

    _done: list[tuple[ListedSource, Scope, Listed]] = field(default_factory=list)

    def of(self, source: ListedSource) -> LookedAt:
        return LookedAt(source, self)

    def find(self, source: ListedSource, scope: Scope) -> Listed | None:
        """A full listing holds whatever is asked for."""
        for known, asked, listed in self._done:
            if known == source and (listed.is_full or asked == scope):
                return listed
        return None

    def forget(self) -> None:
        """Before a position is read from the log: a listing that is older lacks files which the position may name."""
        self._done.clear()

    def add(self, source: ListedSource, scope: Scope, listed: Listed) -> None:
        if not listed.asides:  # else it is listed again, when they are put back or deleted
            self._done.append((source, scope, listed))


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A source that shares its listings."""

    source: ListedSource
    looks: Looks

    @property
    def location(self) -> SourceLocation:
        return self.source.location

    @property
    def identity(self) -> SourceIdentity:
        return self.source.identity

    def list(self) -> Sequence[SourceFile]:
        return self.source.list()

    def look(self, scope: Scope) -> Listed:
        listed = self.looks.find(self.source, scope)
        if listed is None:
            listed = self.source.look(scope)
            self.looks.add(self.source, scope, listed)
        return listed

    def finish_asides(self, names: Sequence[str]) -> Sequence[str]:
        return self.source.finish_asides(names)

    def now_ms(self) -> int:
        return self.source.now_ms()
