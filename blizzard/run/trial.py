"""What a trial found, as facts for people and scripts: what would become rows, what would be bad and which settings
would take it, and how the schema fits the records. Decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from blizzard.core.bad import BadPolicy, find_excess, is_mostly_bad
from blizzard.core.kinds import Kind
from blizzard.core.tally import Tally
from blizzard.core.trial import Trial
from blizzard.core.types import BatchResult
from blizzard.errors import BadData
from blizzard.run.ingest import error_of_failure, mostly_bad
from blizzard.run.reasons import Advisor
from blizzard.schema import DeltaSchema, show_path
from blizzard.schema.derived import derived_columns
from blizzard.schema.evolve import RESCUED_COLUMN, evolve_schema
from blizzard.schema.names import Rename

_MAX_REASONS = 20
_MAX_NAMES = 200


def trial_facts(trial: Trial, schema: DeltaSchema, *, advisor: Advisor, rename: Rename = None) -> dict[str, Any]:
    """`schema` is the one that the rows were made under. Raises what a task failed with."""
    result = trial.result
    if result.failure is not None:
        raise error_of_failure(result.failure)
    speed = trial.bytes_per_s
    observed = [r.observed for r in result.reports if r.observed is not None]
    new = evolve_schema(schema, observed, rename).added if observed else ()
    return {
        "records": trial.records,
        "rows": result.rows,
        "bad": result.bad,
        "filtered": result.filtered,
        "blank": sum(s.blank for s in result.slices),
        "files": len(result.slices),
        "read_all": trial.is_whole,
        "framings": dict(Counter(s.framing for s in result.slices if s.to_record)),
        "sibling_fields": _named(result.siblings),
        "bad_reasons": _bad_reasons(result, advisor),
        "bad_files": result.broken,
        "unreadable_files": result.unreadable | dict.fromkeys(result.changed, "changed after it was listed"),
        "unknown_fields": _named(result.undeclared),
        "new_columns": list(new)[:_MAX_NAMES],
        "rescued": result.rescued,
        "never_filled": _never_filled(trial, schema),
        "cut_timestamps": _named(result.cut_times),
        "parser": "+".join(result.parsers) or None,
        "doubtful_lines": result.doubtful,
        "bytes_read": result.bytes_read,
        "seconds": round(trial.seconds, 3),
        "mb_per_s": None if speed is None else round(speed / 1e6, 1),
    }


def _bad_reasons(result: BatchResult, advisor: Advisor) -> list[dict[str, Any]]:
    """The commonest first, each with an example and the settings that would take such records."""
    return [
        {
            "records": met.records,
            "sentence": advisor.sentence(reason, met),
            "path": met.path,
            "line": met.line,
            "message": met.message,
            "remedies": [asdict(remedy) | {"options": str(remedy)} for remedy in advisor.remedies(reason)],
        }
        | asdict(reason)
        for reason, met in result.reasons.commonest(_MAX_REASONS)
    ]


def find_stop(trial: Trial, bad: BadPolicy, advisor: Advisor, *, is_first: bool) -> BadData | None:
    """The error that a run would end with if its first batch were these records. `is_first`: of the pipeline."""
    if bad.records == "fail" and trial.result.bad:
        (_, met), *_ = trial.result.reasons.commonest(1)
        said = f"{met.path} line {met.line}: {met.message}"
        return BadData(f"bad_records.policy is fail, and a record is bad: {said}", kind=Kind.BAD_RECORD)
    excess = find_excess(trial.result, bad)
    if excess is not None:
        return BadData(excess, kind=Kind.TOO_MANY_BAD_RECORDS)
    if is_first and is_mostly_bad(trial.result, bad):
        return mostly_bad(trial.result, advisor)
    return None


def estimate(trial: Trial, backlog_bytes: int, *, slots: int) -> dict[str, Any] | None:
    """For what is still to be read: only parsing, on so many cores. None: too little was read to say, or nothing tells
    how large it is as JSON."""
    speed = trial.bytes_per_s
    if speed is None or trial.growth is None or not trial.records:
        return None
    json_bytes = backlog_bytes * trial.growth
    return {
        "records": round(json_bytes * trial.records / trial.result.bytes_read),
        "json_bytes": round(json_bytes),
        "seconds": round(json_bytes / speed / slots, 1),
        "cores": slots,
    }


def _named(tally: Tally) -> dict[str, int]:
    return {show_path(path): tally.counts[path] for path in tally.paths[:_MAX_NAMES]}


def _never_filled(trial: Trial, schema: DeltaSchema) -> list[str]:
    """Columns of the records without a value in any row. Of a struct without a value only the struct is named."""
    if not trial.result.rows:
        return []
    derived = {column.name for column in derived_columns(schema["fields"])} | {RESCUED_COLUMN}
    empty = sorted(path for path, filled in trial.filled.items() if not filled and path[0] not in derived)
    return [show_path(path) for path in empty if not _is_below(path, trial.filled)][:_MAX_NAMES]


def _is_below(path: tuple[str, ...], filled: Mapping[tuple[str, ...], int]) -> bool:
    return any(not filled.get(path[:length], 1) for length in range(1, len(path)))
