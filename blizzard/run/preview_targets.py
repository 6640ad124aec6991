"""`blizzard plan` for several targets: what each would do first, who shares the first read, and who lags.

Nothing is decided here: each target goes through the first steps of a run, and the read is shared as a run shares it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.core.commit_policy import Member
from blizzard.core.patterns import word_for
from blizzard.core.pause import find_pause
from blizzard.core.pause_json import pause_to_json
from blizzard.core.recover import Resume
from blizzard.core.refuse import filters_shown
from blizzard.core.share import Want
from blizzard.core.types import SharedPlan
from blizzard.errors import BlizzardError, known_failure
from blizzard.run.after_ingest import Other, Others
from blizzard.run.assemble import Assembly, Opened
from blizzard.run.carry_out import preview
from blizzard.run.plan import plan_read
from blizzard.run.ports import NeverStop
from blizzard.run.preview import NothingRead, Preview, error_shown
from blizzard.run.recover import decide_start
from blizzard.run.validate import Validation


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stands:
    """One target as its log has it. `as_other` is None where the others cannot know what it needs."""

    opened: Opened | None = None
    as_other: Other | None = None
    error: BlizzardError | None = None


def preview_targets(assembly: Assembly, *, slots: int, validation: Validation | None = None) -> dict[str, Any]:
    """Changes nothing. What would end the run is in `ends_run`; else `next_read` says what is read first."""
    pipeline, targets = assembly.pipeline_of_targets(), assembly.targets()
    stands = {name: _look_at_log(name, target, pipeline) for name, target in targets.items()}
    found = {
        name: _preview(target, stands[name], _others(stands, name), slots=slots, validation=validation)
        for name, target in targets.items()
    }
    members = [Member(name=name, is_required=target.config.required) for name, target in targets.items()]
    failed = {name for name, one in found.items() if _stops(one)}
    cause = assembly.config.policy_of_targets.cause_of_end(members, failed)
    wants = [
        Want(name=name, plan=one.first.plan)
        for name, one in found.items()
        if name not in failed and one.first is not None and one.first.plan is not None
    ]
    paused = find_pause(
        one.first.position.paused for one in found.values() if one.first is not None and one.first.position is not None
    )
    location = assembly.request.source_location
    return {
        "pipeline": pipeline,
        "source": location.identity.root,
        "pattern": word_for(location.identity.pattern),
        "filters": filters_shown(location.identity),
        "commit_policy": assembly.config.commit_policy,
        "paused": None if paused is None else pause_to_json(paused),
        "ends_run": cause,
        "next_read": None if cause is not None or not wants else _next_read(wants, targets, slots),
        "targets": {name: {"required": target.config.required} | found[name].shown for name, target in targets.items()},
    }


def _look_at_log(name: str, target: Assembly, pipeline: str) -> _Stands:
    try:
        table = target.place().open()
    except Exception as e:
        return _Stands(error=_known(e))
    opened = Opened(table=table, pipeline=pipeline)
    if table is None:
        return _Stands(opened=opened)
    try:
        source = target.on(table, pipeline).source.identity
        scan_commits = target.config.checkpoint.scan_commits
        found = decide_start(table, pipeline=pipeline, source=source, scan_commits=scan_commits)
    except BlizzardError:  # its own preview says why
        return _Stands(opened=opened)
    if not isinstance(found, Resume):
        return _Stands(opened=opened)
    other = Other(name=name, position=found.position, table=table, quarantine=target.quarantine)
    return _Stands(opened=opened, as_other=other)


def _known(error: Exception) -> BlizzardError:
    failure = known_failure(error)
    if failure is None:
        raise error
    return failure


def _others(stands: Mapping[str, _Stands], name: str) -> Others:
    others = [one.as_other for other, one in stands.items() if other != name]
    return None if None in others else [other for other in others if other is not None]


def _preview(
    target: Assembly, stands: _Stands, others: Others, *, slots: int, validation: Validation | None
) -> Preview:
    if stands.opened is None:
        assert stands.error is not None
        return Preview(shown=error_shown(stands.error))
    try:
        return preview(target, stands.opened, slots=slots, validation=validation, others=others)
    except Exception as e:
        return Preview(shown=error_shown(_known(e)))


def _stops(found: Preview) -> bool:
    validation = found.shown.get("validation") or {}
    return "exit_code" in found.shown or validation.get("stops") is not None


def _next_read(wants: Sequence[Want], targets: Mapping[str, Assembly], slots: int) -> dict[str, Any]:
    nothing = NothingRead(slots=slots, schema_fingerprint="")
    together, shared = plan_read(wants, lambda name: (targets[name].config.batch_limits, nothing), NeverStop())
    names = [want.name for want in together]
    return {
        "targets": names,
        "in_turn": [want.name for want in wants if want.name not in names],
        "files": sum(len(task.slices) for task in shared.tasks),
        "bytes": sum(piece.size_bytes for task in shared.tasks for piece in task.slices),
        "slices": _slices(shared),
    }


def _slices(shared: SharedPlan) -> list[dict[str, Any]]:
    return [
        {
            "slot": task.slot,
            "path": piece.path,
            "size": piece.size_bytes,
            "from_record": {name: wanted[piece.path] for name, wanted in shared.wanted.items() if piece.path in wanted},
        }
        for task in shared.tasks
        for piece in task.slices
    ]
