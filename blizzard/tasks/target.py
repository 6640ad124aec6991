"""One table that a task writes: what its rows become, and from which record of each file it takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from blizzard.core.bad import BadPolicy
from blizzard.core.types import BatchTicket, Slice
from blizzard.schema.derived import Provenance
from blizzard.store.access import NO_ACCESS
from blizzard.tasks.layout import BatchStamp
from blizzard.tasks.spec import TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    name: str
    spec: TaskSpec
    ticket: BatchTicket
    wanted: Mapping[str, int]  # path → the first record that it wants; a file without an entry is not for it

    @property
    def stamp(self) -> BatchStamp:
        return stamp_of(self.spec, self.ticket)

    def own(self, piece: Slice) -> Slice:
        """The part of the slice that is for this target."""
        first = self.wanted[piece.path]
        return piece if first == piece.from_record else replace(piece, from_record=first)

    def has_same_files(self, other: Target) -> bool:
        """Whether both write the same bytes: the same rows under the same layout, in files of the same size."""
        derivations = [column.derivation for column in self.spec.layout.derived]
        return (
            _without_place(self.spec) == _without_place(other.spec)
            and self.wanted == other.wanted
            and (Provenance("sequence") not in derivations or self.ticket.sequence == other.ticket.sequence)
            and (Provenance("ingested_at") not in derivations or self.ticket.planned_ms == other.ticket.planned_ms)
        )


def stamp_of(spec: TaskSpec, ticket: BatchTicket) -> BatchStamp:
    return BatchStamp(pipeline=spec.pipeline, sequence=ticket.sequence, ingested_at_us=ticket.planned_ms * 1000)


def _without_place(spec: TaskSpec) -> TaskSpec:
    """Without what says where the rows go, and what becomes of records that are no rows."""
    return replace(
        spec,
        table_root="",
        table_access=NO_ACCESS,
        quarantine_root="",
        quarantine_access=None,
        bad=BadPolicy(),
        routes=(),
        unrouted="drop",
    )
