"""A Delta log as values, commit by commit, for tests that decide on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blizzard.core.codec import encode_position, fence_app_id
from blizzard.core.ledger import Ledger, LedgerEntry, encode_ledger
from blizzard.core.log import CommitFacts, FileActions, History, Txn
from blizzard.core.types import SourceFile
from tests.core.test_codec import EXAMPLE, example

DAMAGED = "blizzard:AAAA"


def listed(*names: str, size: int = 10, etag: str = "e", seen_ms: int = 0) -> list[SourceFile]:
    return [SourceFile(path=name, size_bytes=size, etag=etag, seen_ms=seen_ms) for name in sorted(names)]


def took(path: str, start: int = 0, end: int = 5, **changes: Any) -> LedgerEntry:
    """All of a file in one go, unless it is said otherwise."""
    fields: dict[str, Any] = {"size_bytes": 10, "etag": "e", "finished": True, "bad": 0} | changes
    return LedgerEntry(path=path, from_record=start, to_record=end, **fields)


def ledger_of(sequence: int, *entries: LedgerEntry, **changes: Any) -> Ledger:
    fields: dict[str, Any] = {
        "pipeline": "p",
        "run_id": "r",
        "batch_id": f"b{sequence}",
        "base_version": max(0, sequence - 1),
        "source": EXAMPLE.source,
        "records": sum(e.to_record - e.from_record - e.bad for e in entries),
    }
    return Ledger(sequence=sequence, entries=entries, **fields | changes)


def facts(version: int, *txns: Txn, operation: str = "WRITE", **changes: Any) -> CommitFacts:
    return CommitFacts(version=version, timestamp_ms=1000 + version, operation=operation, txns=txns, **changes)


def fence(sequence: int, pipeline: str = "p") -> Txn:
    return Txn(app_id=fence_app_id(pipeline), version=sequence)


def payload(sequence: int, **changes: Any) -> Txn:
    position = example(**{"sequence": sequence, "batch_id": f"b{sequence}", "delta_version": 0} | changes)
    return Txn(app_id=encode_position(position), version=sequence)


def own(version: int, ledger: Ledger, **position: Any) -> CommitFacts:
    """A whole commit of the ledger's pipeline: position, fence and ledger."""
    txns = payload(ledger.sequence, pipeline=ledger.pipeline, **position), fence(ledger.sequence, ledger.pipeline)
    return facts(version, *txns, user_metadata=encode_ledger(ledger))


def adds(*paths: str) -> dict[str, dict[str, Any]]:
    return {path: {"path": path} for path in paths}


@dataclass
class Log:
    """Grows by one version with each call. Sequences are numbered as they come."""

    commits: list[tuple[CommitFacts, FileActions]] = field(default_factory=list)
    sequence: int = 0

    def put(self, commit: CommitFacts, added: Sequence[str] = (), removed: Sequence[str] = ()) -> Log:
        actions = FileActions(version=commit.version, adds=adds(*added), removes=adds(*removed))
        self.commits.append((commit, actions))
        return self

    @property
    def next_version(self) -> int:
        return len(self.commits)

    def own(
        self,
        *entries: LedgerEntry,
        added: Sequence[str] | None = None,
        removed: Sequence[str] = (),
        position: Mapping[str, Any] | None = None,
        **ledger: Any,
    ) -> Log:
        """A commit of pipeline p. It adds f1.parquet under sequence 1, and so on, unless it is said otherwise."""
        self.sequence += 1
        commit = own(self.next_version, ledger_of(self.sequence, *entries, **ledger), **position or {})
        return self.put(commit, [f"f{self.sequence}.parquet"] if added is None else added, removed)

    def foreign(
        self, operation: str = "WRITE", added: Sequence[str] = (), removed: Sequence[str] = (), **changes: Any
    ) -> Log:
        return self.put(facts(self.next_version, operation=operation, **changes), added, removed)

    def history(self, oldest: int = 0) -> History:
        active: dict[str, Any] = {}
        for _, actions in self.commits[: oldest + 1]:
            active = {p: a for p, a in active.items() if p not in actions.removes} | dict(actions.adds)
        return History(commits=tuple(reversed(self.commits[oldest:])), base=frozenset(active))

    def newest_first(self) -> tuple[CommitFacts, ...]:
        return tuple(commit for commit, _ in reversed(self.commits))
