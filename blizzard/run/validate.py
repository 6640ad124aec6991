"""`blizzard plan --validate`: parses records of the first batch as its tasks would, and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from blizzard.core.kinds import Kind
from blizzard.core.position import Position
from blizzard.core.trial import Trial
from blizzard.core.types import BatchResult
from blizzard.errors import ConfigError
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.layouts import parse_policy
from blizzard.run.preview import FirstSteps
from blizzard.run.reasons import Advisor
from blizzard.run.trial import estimate, find_stop, trial_facts
from blizzard.schema import DeltaSchema
from blizzard.schema.evolve import with_rescued_column
from blizzard.schema.layout import TableLayout

_RECORDS = 100_000
_NO_COLUMNS: DeltaSchema = {"type": "struct", "fields": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """How many lines are parsed at most; None: all of the first batch."""

    max_records: int | None

    @classmethod
    def asked(cls, *, validate: bool, records: int | None) -> Validation | None:
        """As a caller says it. `records` 0: all."""
        if not validate and records is not None:
            raise ConfigError("--records goes with --validate", kind=Kind.USAGE)
        return cls(max_records=(_RECORDS if records is None else records) or None) if validate else None


def validate(
    assembly: Assembly, opened: Opened, layout: TableLayout, first: FirstSteps, asked: Validation, *, slots: int
) -> dict[str, Any]:
    policy = parse_policy(assembly.config)
    if policy.rescues:  # a run would add the column first
        layout = layout.with_schema(with_rescued_column(layout.schema))
    spec = assembly.task_spec(layout, pipeline=opened.pipeline, run_id="plan", table=opened.table)
    planned = first.plan.slices if first.plan is not None else ()
    # Files that go to quarantine unread say nothing about the schema.
    slices = [piece for piece in planned if piece.given_up is None]
    trial = assembly.try_out(spec, slices, max_records=asked.max_records)
    has_table = opened.table is not None
    settings = assembly.settings(pipeline=opened.pipeline, run_id="plan", has_table=has_table)
    stop = find_stop(trial, settings.bad, settings.advisor, is_first=_has_no_commit(first.position))
    return trial_facts(trial, layout.schema, advisor=settings.advisor, rename=policy.rename) | {
        "backlog": estimate(trial, first.backlog[1], slots=slots),
        "stops": None if stop is None else {"error_kind": stop.kind, "error": str(stop)},
    }


def validate_nothing() -> dict[str, Any]:
    """For a source without a record."""
    nothing = Trial(slices=(), result=BatchResult(), filled={}, first_rows=(), seconds=0.0)
    return trial_facts(nothing, _NO_COLUMNS, advisor=Advisor()) | {"backlog": None, "stops": None}


def _has_no_commit(position: Position | None) -> bool:
    return position is None or position.sequence == 0
