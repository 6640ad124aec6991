"""`blizzard plan`: what a run would do first, found by the run's own first steps. Changes nothing.

Every port that a run would use to change something is replaced by one that only takes notes. Nothing is decided here,
so the answer cannot differ from the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from blizzard.core.cleanable import OneCleaned
from blizzard.core.events import Event, Recovered
from blizzard.core.framing import framing_of_pipeline
from blizzard.core.kinds import Kind
from blizzard.core.late import Scope, Unexpected
from blizzard.core.ledger import LedgerEntry
from blizzard.core.look import Listed
from blizzard.core.paths import Path
from blizzard.core.pause_json import pause_to_json
from blizzard.core.plan import count_backlog, is_drained
from blizzard.core.position import Marks, Position
from blizzard.core.recover import Fresh, Resume
from blizzard.core.types import (
    ONE_CORE,
    BatchPlan,
    BatchResult,
    BatchTicket,
    Cores,
    DataFile,
    QuarantinedBatch,
    SourceFile,
    SourceIdentity,
)
from blizzard.errors import BadData, BlizzardError, ConfigError, Refused
from blizzard.run.after_ingest import Others
from blizzard.run.discover import look_at_all
from blizzard.run.lane import begin, missed_files
from blizzard.run.plan import plan
from blizzard.run.ports import Cleaner, Ports, Quarantine, Source, StopRequest, Table
from blizzard.run.recover import recover_without_table
from blizzard.run.settings import RunSettings
from blizzard.run.stream import Stream
from blizzard.schema import DeltaSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingRead:
    """In place of Spark."""

    slots: int
    schema_fingerprint: str
    cores: Cores = ONE_CORE

    def prepare(self) -> None: ...

    def start(self, stop: StopRequest) -> int:
        del stop
        return self.slots

    def adopt(self, schema: DeltaSchema) -> None:
        del schema
        raise AssertionError("a plan adopts no schema")

    def run(self, plan: BatchPlan, *, ticket: BatchTicket, stop: StopRequest) -> BatchResult:
        del plan, ticket, stop
        raise AssertionError("a plan is not carried out")


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingSettled:
    """In place of the quarantine: remembers what a run would have settled."""

    quarantine: Quarantine
    unsettled: list[Position] = field(default_factory=list)

    def announce(self, position: Position, files: Sequence[DataFile] = ()) -> Position:
        del position, files
        raise AssertionError("a plan commits nothing")

    def settle(self, position: Position) -> None:
        if not self.quarantine.is_settled(position):
            self.quarantine.check_pending(position)
            self.unsettled.append(position)

    def check_pending(self, position: Position) -> None:
        self.quarantine.check_pending(position)

    def is_settled(self, position: Position) -> bool:
        return self.quarantine.is_settled(position)

    def take_back(self, run_id: str, table_id: str) -> None:
        del run_id, table_id

    def took_in(self, position: Position, sequences: Collection[int]) -> Collection[int]:
        return self.quarantine.took_in(position, sequences)

    def count(self, pipeline: str | None = None, table_id: str | None = None) -> int:
        return self.quarantine.count(pipeline, table_id)

    def batches(self, pipeline: str, table_id: str) -> Sequence[QuarantinedBatch]:
        return self.quarantine.batches(pipeline, table_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingPutBack:
    """In place of the source: files that an unfinished deletion has hidden stay hidden. All of them were ingested."""

    source: Source

    @property
    def identity(self) -> SourceIdentity:
        return self.source.identity

    def list(self) -> Sequence[SourceFile]:
        return self.source.list()

    def look(self, scope: Scope) -> Listed:
        return self.source.look(scope)

    def finish_asides(self, names: Sequence[str]) -> Sequence[str]:
        del names
        return ()

    def now_ms(self) -> int:
        return self.source.now_ms()


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingTouched:
    """In place of the cleaner: says that there is nothing left to do. `listing`: which files are there, for a target
    that must leave them to the others."""

    verb: str
    listing: Cleaner | None = None

    def is_listed(self, path: str) -> bool:
        return self.listing is not None and self.listing.is_listed(path)

    def clean(self, entry: LedgerEntry) -> OneCleaned:
        del entry
        return OneCleaned()


class StopBeforeWork:
    """In place of the stop request: says that a stop was requested, so nothing is committed and no batch is read."""

    def requested(self) -> bool:
        return True

    def must_cancel(self) -> bool:
        return True

    def ends_batch(self) -> bool:
        return False

    def batch_ended(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSteps:
    """How a run begins: what it found, and the first batch. Without a first batch it is idle."""

    recovered: Resume | Fresh
    position: Position | None  # None: there is no table yet
    listed: Listed
    found: Unexpected
    plan: BatchPlan | None
    backlog: tuple[int, int]  # files and stored bytes
    renews: bool
    missed: tuple[str, ...] = ()  # files that other targets have ingested, and that are gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`first` is None where the run would not begin."""

    shown: dict[str, Any]
    first: FirstSteps | None = None


def look_ahead(ports: Ports, settings: RunSettings, table: Table | None, others: Others = ()) -> FirstSteps:
    """The first steps of `drain`, up to the first plan. They can settle the quarantine and clean source files, unless
    the ports and the cleaning prevent it."""
    if table is None:
        listed, fresh = look_at_all(ports, settings), recover_without_table(ports, settings)
        return FirstSteps(
            recovered=fresh,
            position=None,
            listed=listed,
            found=Unexpected(),
            plan=_first_plan(ports, settings, fresh.marks, listed, {}, framing_of_pipeline(settings.framing, None)),
            backlog=count_backlog(fresh.marks, listed.files),
            renews=False,
        )
    start, discovered = begin(ports, settings, table, others)
    missed = tuple(entry.path for entry in missed_files(start.position, discovered.listed, table, others or ()))
    position, discovered = discovered.take_up(discovered.position, settings.late)
    first = _first_plan(ports, settings, position.marks, discovered.listed, discovered.given_up, position.framing)
    return FirstSteps(
        recovered=start.found,
        position=position,
        listed=discovered.listed,
        found=discovered.found,
        plan=first,
        backlog=discovered.backlog,
        renews=start.is_fragile or (first is None and (discovered.renewal is not None or bool(missed))),
        missed=missed,
    )


def _first_plan(
    ports: Ports, settings: RunSettings, marks: Marks, listed: Listed, given_up: Mapping[str, str], framing: str
) -> BatchPlan | None:
    if is_drained(marks, listed.files, listed.held):
        return None
    slots = ports.ingestor.start(ports.stop)
    limits, held = settings.limits, listed.held
    return plan(marks, listed.files, limits, slots=slots, held=held, given_up=given_up, framing=framing)


Validate: TypeAlias = Callable[[FirstSteps], dict[str, Any]]


def plan_run(
    ports: Ports, settings: RunSettings, table: Table | None, validate: Validate | None = None, others: Others = ()
) -> Preview:
    """What `drain` would do first with these, or why it would refuse to. Changes nothing. `validate` says what would
    become of the records. `others` are the other targets, as their logs have them."""
    quarantine, recovery = NothingSettled(quarantine=ports.quarantine), _RecoveryPath()
    if settings.cleaning is not None:
        cleaner = settings.cleaning.cleaner
        untouched = NothingTouched(verb=cleaner.verb, listing=None if others == () else cleaner)
        settings = replace(settings, cleaning=replace(settings.cleaning, cleaner=untouched))
    source, stop = NothingPutBack(source=ports.source), StopBeforeWork()
    ports = replace(ports, quarantine=quarantine, source=source, stop=stop, emit=Stream(recovery.see, ports.emit))
    first = None
    try:
        first = look_ahead(ports, settings, table, others)
    except (Refused, BadData, ConfigError) as e:
        if isinstance(e, ConfigError) and e.kind != Kind.NO_FILE_MATCHES:
            raise
        shown = {"recovery": recovery.path, **error_shown(e)}
    else:
        shown = _shown(first) | ({} if validate is None else {"validation": validate(first)})
    settles = [{"sequence": s.sequence, "files": len(s.quarantine.pending)} for s in quarantine.unsettled]
    return Preview(shown=shown | {"settles": settles}, first=first)


def error_shown(error: BlizzardError) -> dict[str, Any]:
    return {"exit_code": error.exit_code, "error_kind": error.kind, "error": str(error)}


def error_of(shown: Mapping[str, Any]) -> BlizzardError | None:
    """The error with which a run would end at once."""
    code = shown.get("exit_code", 0)
    if not code:
        return None
    branch = {BadData.exit_code: BadData, ConfigError.exit_code: ConfigError}.get(code, Refused)
    return branch(shown["error"], kind=shown["error_kind"])


class _RecoveryPath:
    path: Path | None = None

    def see(self, event: Event) -> None:
        if isinstance(event, Recovered):
            self.path = event.path


def plan_nothing(listed: Listed) -> Preview:
    """For a source without a record and without a table: a run makes no table and ends."""
    first = FirstSteps(
        recovered=Fresh(marks=Marks(), start_from=None),
        position=None,
        listed=listed,
        found=Unexpected(),
        plan=None,
        backlog=(0, 0),
        renews=False,
    )
    return Preview(shown=_shown(first) | {"settles": []}, first=first)


def _shown(first: FirstSteps) -> dict[str, Any]:
    source = first.position.marks if first.position is not None else first.recovered.marks
    files, stored_bytes = first.backlog
    paused = None if first.position is None else first.position.paused
    return {
        "recovery": first.recovered.path,
        "paused": None if paused is None else pause_to_json(paused),
        "creates_table": first.position is None and first.plan is not None,
        "mark": source.last_committed_file,
        "prefix_marks": dict(source.prefix_marks),
        "listed_files": len(first.listed.files),
        "listed_all": first.listed.is_full,
        "backlog_files": files,
        "backlog_bytes": stored_bytes,
        "late_files": list(first.found.late),
        "rewritten_files": list(first.found.rewritten),
        "unclear_files": list(first.found.unclear),
        "held_files": dict(first.listed.held),
        "held_back": _held_before(first),
        "missed_files": list(first.missed),
        **first.listed.left_out.shown,
        "half_deleted_files": list(first.listed.asides),
        "renewal": first.renews,
        "cleans_through": _cleans_through(first),
        "first_batch": [
            {
                "slot": task.slot,
                "path": s.path,
                "from_record": s.from_record,
                "size": s.size_bytes,
                "framing": s.framing,
            }
            | ({} if s.given_up is None else {"given_up": s.given_up})
            for task in (first.plan.tasks if first.plan is not None else ())
            for s in task.slices
        ],
    }


def _held_before(first: FirstSteps) -> dict[str, str]:
    """Which files of the first batch the last run could not read, and why. The run tries them again."""
    held = first.position.seen.held_back if first.position is not None else {}
    tasks = first.plan.tasks if first.plan is not None else ()
    return {s.path: held[s.path] for task in tasks for s in task.slices if s.path in held}


def _cleans_through(first: FirstSteps) -> int | None:
    """The sequence up to which source files would be archived or deleted at once."""
    before, after = first.recovered, first.position
    if (
        not isinstance(before, Resume)
        or after is None
        or after.cleaned.done_through == before.position.cleaned.done_through
    ):
        return None
    return after.cleaned.done_through
