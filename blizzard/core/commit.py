"""A commit as values: what is wanted (Intent), and what exactly is written for it (CommitRequest)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.core.batch import SealedPosition, seal
from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import LedgerEntry
from blizzard.core.position import Position
from blizzard.core.types import BatchResult, DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit, complete: every Add, both Txns and the ledger, or nothing."""

    app_id: str
    fence_app_id: str
    sequence: int
    last_updated_ms: int
    ledger: str
    files: tuple[DataFile, ...]
    # A rollback removes these Adds and may put a schema back. It must become the version right after the table's, and
    # fails if another commit has taken that version.
    removes: tuple[Mapping[str, Any], ...] = ()
    metadata: Mapping[str, Any] | None = None

    @property
    def is_rollback(self) -> bool:
        return bool(self.removes) or self.metadata is not None

    @classmethod
    def of(cls, sealed: SealedPosition, files: tuple[DataFile, ...]) -> CommitRequest:
        return cls(
            app_id=sealed.app_id,
            fence_app_id=sealed.fence_app_id,
            sequence=sealed.position.sequence,
            last_updated_ms=sealed.position.taken_at_ms,
            ledger=sealed.ledger,
            files=files,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A commit that is wanted. `position` is the one after it, already numbered, and names the version that was looked
    at."""

    position: Position
    planned_ms: int
    kind: CommitKind = CommitKind.BATCH
    result: BatchResult = field(default_factory=BatchResult)
    late: frozenset[str] = frozenset()
    edited: tuple[LedgerEntry, ...] = ()  # what a person said about files
    rolled_back_to: int | None = None
    superseded: tuple[int, ...] = ()
    removes: tuple[Mapping[str, Any], ...] = ()  # Adds that leave the table
    metadata: Mapping[str, Any] | None = None

    def sealed(self) -> SealedPosition:
        return seal(
            self.position,
            self.result,
            kind=self.kind,
            rolled_back_to=self.rolled_back_to,
            superseded=self.superseded,
            late=self.late,
            edited=self.edited,
            began_ms=self.planned_ms if self.result.slices or self.result.files else None,
        )
