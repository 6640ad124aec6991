"""Reads one batch for the targets that share it. Slots that showed new columns are read again, for those targets only.

What goes wrong for one target is returned as its outcome, and the others go on. What stops the read itself is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blizzard.core.kinds import Kind
from blizzard.core.types import BatchPlan, BatchResult, BatchTicket, SharedPlan, TaskReport
from blizzard.errors import BadData
from blizzard.run.ingest import BatchIngest
from blizzard.run.ports import Ingestor, Reader, StopRequest

# Every round adds a column. Data with a fixed set of fields never needs this many rounds.
_MAX_ROUNDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of one target in a read."""

    ingest: BatchIngest
    ticket: BatchTicket


@dataclass(frozen=True, slots=True)
class ReadsForOne:
    """For a run with one table: what its ingestor reads."""

    ingestors: Mapping[str, Ingestor]

    def run(
        self, plan: SharedPlan, *, tickets: Mapping[str, BatchTicket], stop: StopRequest
    ) -> Mapping[str, BatchResult]:
        ((name, ticket),) = tickets.items()
        return {name: self.ingestors[name].run(BatchPlan(tasks=plan.tasks, frontier=()), ticket=ticket, stop=stop)}


def read_batch(
    reader: Reader, plan: SharedPlan, parts: Mapping[str, Part], stop: StopRequest
) -> dict[str, BatchResult | Exception]:
    """The result of each target, or what went wrong for it."""
    tickets = {name: part.ticket for name, part in parts.items()}
    outcomes: dict[str, BatchResult | Exception] = dict(reader.run(plan, tickets=tickets, stop=stop))
    again: dict[str, frozenset[int]] = {}
    for _ in range(_MAX_ROUNDS):
        again = _find_again(outcomes, parts)
        if not again:
            return outcomes
        more = plan.only(frozenset().union(*again.values()), again)
        newer = reader.run(more, tickets={name: tickets[name] for name in again}, stop=stop)
        for name, result in newer.items():
            before = outcomes[name]
            assert isinstance(before, BatchResult)
            outcomes[name] = _replaced(before, result.reports)
    return outcomes | {name: _unstable() for name in again}


def _find_again(outcomes: dict[str, BatchResult | Exception], parts: Mapping[str, Part]) -> dict[str, frozenset[int]]:
    """By target, the slots that it must read again. What goes wrong becomes its outcome."""
    again = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, Exception):
            continue
        try:
            slots = parts[name].ingest.slots_to_read_again(outcome)
        except Exception as e:
            outcomes[name] = e
            continue
        if slots:
            again[name] = slots
    return again


def _replaced(result: BatchResult, reports: tuple[TaskReport, ...]) -> BatchResult:
    newer = {r.slot: r for r in reports}
    return BatchResult(reports=tuple(newer.get(r.slot, r) for r in result.reports))


def _unstable() -> BadData:
    return BadData(
        "the batch shows new fields however many columns are added: are the names of these fields data? Nothing"
        " of it was committed. Use schema.evolution rescue or ignore, or change the source.",
        kind=Kind.SCHEMA_UNSTABLE,
    )
