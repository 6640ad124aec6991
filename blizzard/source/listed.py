"""The source as a run sees it: the files, which are too young, and which an unfinished deletion has hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blizzard.core.late import EVERYTHING, Scope
from blizzard.core.look import Listed
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.source.listing import find_young, list_source
from blizzard.source.uri import SourceLocation
from blizzard.store import aside
from blizzard.store.uri import is_local, join


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSource:
    location: SourceLocation
    min_age_s: float = 0

    @property
    def identity(self) -> SourceIdentity:
        return self.location.identity

    def list(self) -> Sequence[SourceFile]:
        return list_source(self.location)

    def look(self, scope: Scope) -> Listed:
        at_ms = self.now_ms()
        is_full = scope.is_full or is_local(self.location.root)  # a local folder is always listed whole
        files = list_source(self.location, EVERYTHING if is_full else scope)
        held = find_young(files, at_ms, self.min_age_s)
        return Listed(
            files=files, at_ms=at_ms, is_full=is_full, held=held, asides=files.asides, left_out=files.left_out
        )

    def finish_asides(self, names: Sequence[str]) -> Sequence[str]:
        return [said for name in names if (said := aside.finish(join(self.location.root, name))) is not None]

    def now_ms(self) -> int:
        return self.location.store.now_ms()
