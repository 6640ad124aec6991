"""Adds up what became of the records that a pipeline took: records = rows + quarantined + dropped.

By the ledgers that are left, and by what the quarantine holds. No ledger tells what a person purged or gave up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import SKIPPED, Ledger
from blizzard.core.overflow import names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InQuarantine:
    """What the quarantine table holds of this pipeline and this table."""

    rows: Mapping[int, int]  # how many came with each sequence
    was_purged: bool = False  # some were deleted by age or by hand
    keeps_all: bool = True  # every bad record goes there: none is dropped, by policy or because it is full
    unsettled: int | None = None  # the sequence whose bad records the next run will add


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Of the commits whose ledgers are left and count. A file that cannot be read to its end counts as a record."""

    records: int
    rows: int  # of the table; a replay makes more of them
    quarantined: int
    dropped: int  # they had to leave a full quarantine, or never got in: it was full, or the policy was to drop them
    unaccounted: int  # purged, given up with --accept-quarantine-loss, or a replay of older commits made rows of them


def dropped_rows(ledgers: Iterable[Ledger], unsettled: int | None) -> dict[str, int]:
    """How many records each batch had that had to leave. What the unsettled commit drops is still there."""
    return {name: rows for ledger in ledgers if ledger.sequence != unsettled for name, rows in ledger.dropped.items()}


def put_in(ledger: Ledger, *, keeps_all: bool = True) -> int:
    """How many records this commit put into quarantine. An older version did not count them: then at least so many."""
    if ledger.quarantined is not None or not ledger.quarantine:
        return ledger.quarantined or 0
    return max(1, sum(entry.bad for entry in ledger.entries) if keeps_all else 0)


def balance_of(ledgers: Sequence[Ledger], dropped: Mapping[str, int], quarantine: InQuarantine) -> Balance:
    """`ledgers` of the pipeline that count; `dropped` by these, and by those that were taken back."""
    records = rows = held = left = 0
    for ledger in ledgers:
        there = put_in(ledger) if ledger.sequence == quarantine.unsettled else quarantine.rows.get(ledger.sequence, 0)
        held, rows = held + there, rows + ledger.records
        if not there:
            left += sum(dropped.get(name, 0) for name in names_of(ledger.batch_id, ledger.sequence))
        if ledger.kind == CommitKind.BATCH:
            bad = sum(entry.bad + (entry.broken not in (None, SKIPPED)) for entry in ledger.entries)
            bad = max(bad, put_in(ledger))  # more of them: records that no target takes, if they are kept
            is_counted = ledger.quarantined is not None or not ledger.quarantine
            records += ledger.records + bad
            left += bad - put_in(ledger) if is_counted else 0
    return Balance(records=records, rows=rows, quarantined=held, dropped=left, unaccounted=records - rows - held - left)
