"""Decides which batches leave a full quarantine to make room for new bad records (`quarantine.overflow: drop_oldest`).

Whole batches leave, oldest first, as few as are needed: a commit can name them, and whether one has left is a question
with one answer. What it names is bounded, because the commit's payload is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import orjson

from blizzard.core.types import QuarantinedBatch

# About 600 names. The planner leaves this much of the payload free.
MAX_DROPPED_BYTES = 12 * 1024
_WITHOUT_BATCH_ID = "sequence:"


def batch_name(batch_id: str | None, sequence: int | str) -> str:
    """How a commit names a batch that leaves. An older version wrote no batch_id: then by its sequence."""
    return f"{_WITHOUT_BATCH_ID}{sequence}" if batch_id is None else batch_id


def names_of(batch_id: str, sequence: int) -> tuple[str, str]:
    """The names that the records of this commit may have: an older version may have written them."""
    return batch_name(batch_id, sequence), batch_name(None, sequence)


def is_named(batch_id: str, sequence: int, names: Collection[str]) -> bool:
    """Whether one of these names stands for the records of this commit."""
    return any(name in names for name in names_of(batch_id, sequence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """`batches` leave, oldest first. `over`: so many records are more than the limit allows even then, because one
    commit cannot name more batches. The next ones leave with the next commit that has bad records."""

    batches: tuple[QuarantinedBatch, ...] = ()
    over: int = 0

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)


def choose_leaving(batches: Iterable[QuarantinedBatch], *, new_rows: int, limit: int) -> Leaving:
    """`batches` are those in quarantine now. `new_rows` come in with the next commit, and alone fit within `limit`."""
    oldest_first = sorted(batches, key=lambda batch: (batch.sequence, batch.name))
    excess = sum(batch.rows for batch in oldest_first) + new_rows - limit
    leaving: list[QuarantinedBatch] = []
    room_bytes = MAX_DROPPED_BYTES
    for batch in oldest_first:
        room_bytes -= _name_bytes(batch.name)
        if excess <= 0 or room_bytes < 0:
            break
        leaving.append(batch)
        excess -= batch.rows
    return Leaving(batches=tuple(leaving), over=max(0, excess))


def _name_bytes(name: str) -> int:
    return len(orjson.dumps(name)) + 1
