"""`blizzard try`: what some files would become. The schema is inferred or given as for a run, the lines are parsed as
in a task, and nothing is written: there is no table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.config.request import RequestForFiles
from blizzard.core.events import Emit, unheard
from blizzard.core.framing import framing_of_pipeline
from blizzard.core.kinds import Kind
from blizzard.core.look import Listed
from blizzard.core.reasons import explain
from blizzard.core.trial import Trial
from blizzard.core.types import Slice, SourceFile
from blizzard.errors import BadData
from blizzard.run.assemble import Assembly
from blizzard.run.discover import check_matches
from blizzard.run.layouts import layout_of_new_table, parse_policy
from blizzard.run.reasons import Advisor
from blizzard.run.trial import trial_facts
from blizzard.schema import DeltaSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """`schema` is what is read from the records, `columns` are those of the rows. `failure`: why there is no row."""

    files: Sequence[SourceFile]
    schema: DeltaSchema
    columns: tuple[str, ...]
    first_rows: tuple[Mapping[str, Any], ...]
    facts: Mapping[str, Any]
    failure: BadData | None


def try_files(request: RequestForFiles, *, max_records: int | None, rows: int, emit: Emit = unheard) -> Tried:
    """Parse so many lines of the picked files; all of them for None. Raises if there is no record."""
    files, config = request.picked.files, request.config
    listed = Listed(files=files, at_ms=0, left_out=request.picked.left_out)
    check_matches(emit if files else unheard, listed, request.source_location.identity)
    assembly = Assembly(request=request, emit=emit)
    policy = parse_policy(config)  # report a mistake before anything is read
    # With a transform, what is read from the records and what becomes of them are two schemas.
    reads = request.schema or _infer(assembly, files)
    if request.transforms and request.schema is None:
        assembly = replace(assembly, request=replace(request, given=reads))
    layout = layout_of_new_table(config, reads, assembly.transform)
    spec = assembly.task_spec(layout, pipeline="try", run_id="try", table=None)
    framing = framing_of_pipeline(config.source.framing, None)
    slices = [Slice(path=f.path, size_bytes=f.size_bytes, etag=f.etag, from_record=0, framing=framing) for f in files]
    trial = assembly.try_out(spec, slices, max_records=max_records, rows=rows)
    advisor = Advisor(rescues=config.bad_records.policy == "rescue", gives_schema=request.schema is not None)
    return Tried(
        files=files,
        schema=assembly.record_schema(layout),
        columns=tuple(field["name"] for field in layout.schema["fields"]),
        first_rows=trial.first_rows,
        facts=trial_facts(trial, layout.schema, advisor=advisor, rename=policy.rename),
        failure=None if trial.result.rows else _why_no_row(trial, assembly),
    )


def _infer(assembly: Assembly, files: Sequence[SourceFile]) -> DeltaSchema:
    inferred = assembly.infer(files)
    if inferred is None:
        raise _no_record(assembly)
    return inferred.schema


def _why_no_row(trial: Trial, assembly: Assembly) -> BadData:
    if trial.records and not trial.result.bad:
        return BadData(f"each of {trial.records:,} records is left out by the transform", kind=Kind.MOSTLY_BAD)
    if trial.records:
        ((reason, _),) = trial.result.reasons.commonest(1)
        return BadData(
            f"not one of {trial.records:,} records becomes a row. The commonest reason: {explain(reason)}. Change the"
            f" settings that are named beside the reasons, or the files.",
            kind=Kind.MOSTLY_BAD,
        )
    broken = trial.result.unreadable | trial.result.broken
    for path, why in broken.items():
        return BadData(f"no file can be read. The first: {path}: {why}", kind=Kind.UNREADABLE_FILES)
    return _no_record(assembly)


def _no_record(assembly: Assembly) -> BadData:
    location = assembly.request.source_location
    return BadData(f"there is no record in {location.root} ({location.pattern})", kind=Kind.NO_RECORDS)
