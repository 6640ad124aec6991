"""One task: reads its slices, writes Parquet, reports what was read and written.

A bad record goes where the policy says. A broken file does not stop the others: its rows are dropped, and the other
slices are read once more without it. If a retry would not help, the task ends with a failure in its report. Any other
error is raised, so that Spark runs the task again. No commit ever names what a failed attempt wrote.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Protocol

from blizzard.core.kinds import Kind
from blizzard.core.types import BatchTicket, Slice, TaskFailure, TaskPlan, TaskReport
from blizzard.errors import BlizzardError, failure_to_write, said
from blizzard.faults import reach
from blizzard.store import open_store
from blizzard.tasks.layout import BatchStamp
from blizzard.tasks.parse import ParserDisagrees, ParserMissing
from blizzard.tasks.partitioned import RowWriter, open_writer
from blizzard.tasks.quarantine import BadRowWriter, QuarantineWriter, broken_file
from blizzard.tasks.reading import BadRecordStop, BrokenFile, Reading, find_broken
from blizzard.tasks.spec import TaskSpec

# The bytes may be fine: it is about rights, too many open files, a setting, or a file that does not belong here. Giving
# up the file would lose it.
_LEFT_TO_THE_NEXT_RUN = (
    *(Kind.UNREADABLE, Kind.WRONG_COMPRESSION, Kind.WRONG_ENCODING, Kind.OTHER_KIND),
    *(Kind.UNAVAILABLE, Kind.ARCHIVED),
)
_STILL_ARRIVING_S = 60


def open_outputs(spec: TaskSpec, ticket: BatchTicket, part: str) -> tuple[RowWriter, QuarantineWriter]:
    """Writers for the rows and the bad records of one attempt, with a name that no other attempt has."""
    name = f"blizzard-{spec.run_id}-{ticket.sequence:08d}-{part}-{os.urandom(6).hex()}"
    writer = open_writer(
        spec.layout,
        store=open_store(spec.table_root, spec.table_access),
        name_prefix=name,
        indexed_columns=spec.indexed_columns,
        target_bytes=spec.target_file_bytes,
        codec=spec.codec,
    )
    quarantine = QuarantineWriter(
        store=spec.quarantine,
        name=f"{name}.parquet",
        pipeline=spec.pipeline,
        table_id=ticket.table_id,
        sequence=ticket.sequence,
        run_id=spec.run_id,
        batch_id=ticket.batch_id or None,
    )
    return writer, quarantine


def end_marker(spec: TaskSpec, ticket: BatchTicket) -> str:
    """While a file of this name is in the table's folder, tasks of the batch stop at the next record boundary."""
    return f"_blizzard-end-{spec.run_id}-{ticket.sequence:08d}"


class Outputs(Protocol):
    """Where an attempt of a task writes, and how it is asked to end early."""

    def open(self, spec: TaskSpec, ticket: BatchTicket, part: str) -> tuple[RowWriter, BadRowWriter]: ...
    def end_marker(self, spec: TaskSpec, ticket: BatchTicket) -> str | None: ...


@dataclass(frozen=True, slots=True)
class TableOutputs:
    """Files in the folders of the table and of its quarantine."""

    def open(self, spec: TaskSpec, ticket: BatchTicket, part: str) -> tuple[RowWriter, BadRowWriter]:
        return open_outputs(spec, ticket, part)

    def end_marker(self, spec: TaskSpec, ticket: BatchTicket) -> str | None:
        return end_marker(spec, ticket)


def stamp_of(spec: TaskSpec, ticket: BatchTicket) -> BatchStamp:
    return BatchStamp(pipeline=spec.pipeline, sequence=ticket.sequence, ingested_at_us=ticket.planned_ms * 1000)


def run_task(spec: TaskSpec, plan: TaskPlan, ticket: BatchTicket, outputs: Outputs | None = None) -> TaskReport:
    """Into the table's folders, unless `outputs` says otherwise."""
    outputs = outputs or TableOutputs()
    broken: dict[str, BrokenFile] = {}
    defect: str | None = None
    while True:
        try:
            return replace(_attempt(spec, plan, ticket, broken, outputs), parser_defect=defect)
        except BrokenFile as e:
            if spec.bad.files == "fail" or e.kind in (Kind.SOURCE_CHANGED, Kind.BEYOND_END):
                return _failed(plan, TaskFailure(kind=e.kind, path=e.piece.path, line=None, message=str(e)))
            if not broken:
                # Find all broken files now. One per attempt would read everything again for each of them.
                broken = find_broken(spec, plan.slices[plan.slices.index(e.piece) + 1 :])
            broken[e.piece.path] = e
        except BadRecordStop as e:
            return _failed(plan, e.failure)
        except ParserDisagrees as e:
            # None of its rows can be trusted: everything is read again without it.
            spec, defect = replace(spec, parser="pyarrow"), str(e)
        except ParserMissing as e:
            return _failed(plan, without_parser(e))


def _written_to(spec: TaskSpec, said: str) -> str:
    """Which of the two places an error is about. Both, if its text names neither."""
    roots = (spec.quarantine_root, spec.table_root)
    return next((root for root in roots if root in said), " or ".join(reversed(roots)))


def without_parser(error: ParserMissing) -> TaskFailure:
    said = f"source.parser, or BLIZZARD_PARSER, asks for the native parser, which this Python does not have ({error})"
    return TaskFailure(kind=Kind.WORKER_ENVIRONMENT, path="", line=None, message=said)


def _failed(plan: TaskPlan, failure: TaskFailure) -> TaskReport:
    return TaskReport(slot=plan.slot, failure=failure)


def _attempt(
    spec: TaskSpec, plan: TaskPlan, ticket: BatchTicket, broken: dict[str, BrokenFile], outputs: Outputs
) -> TaskReport:
    """Reads everything but the files that are known to be broken. Those are given up or left to the next run."""
    writer, quarantine = outputs.open(spec, ticket, f"{plan.slot:04d}")
    stamp = stamp_of(spec, ticket)
    marker = outputs.end_marker(spec, ticket)
    reading = Reading(spec, plan.budget, stamp, writer, quarantine, end_marker=marker, threads=plan.threads)
    retried = []
    try:
        for i, piece in enumerate(plan.slices):
            if reading.exhausted():
                break
            spec.source.prefetch(plan.slices[i:])
            if piece.given_up is not None:
                _quarantine_whole(reading, quarantine, piece, piece.given_up)
            elif piece.path in broken and _is_tried_again(broken[piece.path], spec):
                retried.append((piece.path, f"{broken[piece.path].kind}: {broken[piece.path]}"))
            elif piece.path in broken:
                _give_up(reading, quarantine, piece, broken[piece.path])
            else:
                reading.read(piece)
        reading.finish()
        files = writer.close()
        bad_files = quarantine.close()
        reach(f"task.{plan.slot}.written")
    except (BrokenFile, BadRecordStop, ParserDisagrees, BlizzardError):  # the last: an object store while writing
        writer.abandon()
        quarantine.abandon()
        raise
    except OSError as e:
        writer.abandon()
        quarantine.abandon()
        # Source files that cannot be opened raise BrokenFile, so this error is about a file being written.
        reason = failure_to_write(e, _written_to(spec, str(e)))
        if reason is None:
            raise
        return _failed(plan, TaskFailure(kind=reason.kind, path=_written_to(spec, str(e)), line=None, message=said(e)))
    return TaskReport(
        slot=plan.slot,
        slices=reading.reports(),
        files=files,
        bytes_read=reading.bytes_read,
        changed=tuple(reading.changed),
        unreadable=tuple(retried),
        quarantine=bad_files,
        rescued=reading.rescued,
        undeclared=reading.undeclared,
        cut_times=reading.cut_times,
        reasons=reading.reasons,
        siblings=reading.siblings,
        parser=reading.parser,
        doubtful=reading.doubtful,
        observed=reading.observed,
    )


def _is_tried_again(broken: BrokenFile, spec: TaskSpec) -> bool:
    if spec.bad.files == "retry" or broken.kind in _LEFT_TO_THE_NEXT_RUN:
        return True
    # A file that is still being written ends early too.
    return broken.kind == Kind.TRUNCATED and spec.source.age_s(broken.piece.path) < _STILL_ARRIVING_S


def _quarantine_whole(reading: Reading, quarantine: BadRowWriter, piece: Slice, kind: str) -> None:
    """No line of it is read: by policy a person decides about such files."""
    reading.add_broken(piece, kind)
    message = f"the file is {kind}, and such files are not read (see late_files.policy, rewritten_files.policy)"
    quarantine.add(broken_file(piece, line=None, kind=kind, message=message))


def _give_up(reading: Reading, quarantine: BadRowWriter, piece: Slice, broken: BrokenFile) -> None:
    """Take nothing of the file in this batch. What earlier batches took stays; the ledger says where it broke."""
    reading.add_broken(piece, f"{broken.kind} after {broken.counts} {broken.lines_read}")
    quarantine.add(broken_file(piece, line=broken.lines_read, kind=broken.kind, message=str(broken)))
