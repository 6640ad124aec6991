"""What may happen to bad records and bad files, and how many of them are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blizzard.core.kinds import LineKind
from blizzard.core.types import BatchResult, SliceReport


class NotARecord(Exception):
    """A line that is not a record, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPolicy:
    """`records`: quarantine, rescue, drop or fail. `files`: quarantine, retry or fail. `max_records` limits a batch,
    `max_ratio` a batch and each file of it, `first_batch_max_ratio` the first batch of a pipeline if `max_ratio` is not
    given."""

    records: str = "quarantine"
    files: str = "quarantine"
    max_records: int | None = None
    max_ratio: float | None = None
    first_batch_max_ratio: float | None = None

    @property
    def keeps_bad_records(self) -> bool:
        return self.records in ("quarantine", "rescue")


# A share of few records says little: the last three lines of a file are no reason to stop. Fewer records count only if
# whole files hold no more.
_ENOUGH_RECORDS = 100
# Of a first batch fewer records are enough: a person who tries a small file waits for an answer. Still fewer count only
# if not one of them is good. So it is with files.
_ENOUGH_FIRST_RECORDS = 20
_ENOUGH_FIRST_FILES = 20
_NO_RECORD = (LineKind.NOT_UTF8, LineKind.NOT_JSON, LineKind.NOT_OBJECT, LineKind.TOO_LONG, LineKind.TOO_DEEP)


def find_excess(result: BatchResult, policy: BadPolicy) -> str | None:
    """Why this batch has more bad records than are allowed, or None."""
    if policy.max_records is not None and result.bad > policy.max_records:
        worst = max(result.slices, key=lambda s: s.bad)
        return (
            f"{result.bad:,} bad records in one batch, {worst.bad:,} of them in {worst.path}; the limit"
            f" (bad_records.max_records) is {policy.max_records:,}"
        )
    if policy.max_ratio is None:
        return None
    for report in result.slices:
        if _is_enough([report]) and _ratio(report.bad, report.rows + report.filtered) > policy.max_ratio:
            return f"{_share(report)} of {report.path} are bad, {_limit(policy.max_ratio)}"
    for bad, good in _shares(result):
        if _is_enough(result.slices) and _ratio(bad, good) > policy.max_ratio:
            return f"{bad:,} of {bad + good:,} records of one batch are bad, {_limit(policy.max_ratio)}"
    return None


def is_mostly_bad(result: BatchResult, policy: BadPolicy) -> bool:
    """Whether this, the first batch of a pipeline, shows that schema or settings do not fit the records or the files: a
    wrong framing breaks every file, and would use up all of them."""
    if policy.first_batch_max_ratio is None or policy.max_ratio is not None:
        return False
    for bad, good in _shares(result):
        is_enough = bad + good >= _ENOUGH_FIRST_RECORDS or not good
        if is_enough and _ratio(bad, good) > policy.first_batch_max_ratio:
            return True
    broken = len(result.broken)
    is_enough = len(result.slices) >= _ENOUGH_FIRST_FILES or not result.rows
    return is_enough and _ratio(broken, len(result.slices) - broken) > policy.first_batch_max_ratio


def _shares(result: BatchResult) -> list[tuple[int, int]]:
    """Bad records and good ones. Where the target does not take every record: of all records, and of those that it
    takes. A line that is no record at all could have been for any target, so it counts among all only."""
    if not result.filtered:
        return [(result.bad, result.rows)]
    anybodys = sum(met.records for reason, met in result.reasons.met.items() if reason.kind in _NO_RECORD)
    return [(result.bad, result.rows + result.filtered), (result.bad - anybodys, result.rows)]


def _is_enough(slices: Sequence[SliceReport]) -> bool:
    whole = all(s.from_record == 0 and s.finished for s in slices)
    return whole or sum(s.bad + s.rows + s.filtered for s in slices) >= _ENOUGH_RECORDS


def _ratio(bad: int, good: int) -> float:
    return bad / (bad + good) if bad else 0.0


def _share(report: SliceReport) -> str:
    return f"{report.bad:,} of {report.bad + report.rows + report.filtered:,} records"


def _limit(max_ratio: float) -> str:
    return f"more than the allowed share of {max_ratio:g} (bad_records.max_ratio)"
