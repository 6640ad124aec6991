"""One task: reads its slices once, writes Parquet for each target, reports what was read and written.

A bad record goes where the policy says. A broken file does not stop the others: its rows are dropped, and the other
slices are read once more without it. If a retry would not help, a target's report has the failure. Any other error is
raised, so that Spark runs the task again. No commit ever names what a failed attempt wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from blizzard.core.kinds import Kind
from blizzard.core.types import BatchTicket, TaskFailure, TaskPlan, TaskReport
from blizzard.errors import BlizzardError
from blizzard.faults import reach
from blizzard.tasks.live import LiveAddress, Telling
from blizzard.tasks.outputs import Outputs, TableOutputs
from blizzard.tasks.parse import ParserDisagrees, ParserMissing
from blizzard.tasks.parsings import Parsings
from blizzard.tasks.progress import BrokenFile
from blizzard.tasks.reading import Reading, find_broken
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.taker import Taker, steps_of
from blizzard.tasks.target import Target

_ALONE = ""


def run_task(spec: TaskSpec, plan: TaskPlan, ticket: BatchTicket, outputs: Outputs | None = None) -> TaskReport:
    """For one target, which wants all that is read. Into the table's folders, unless `outputs` says otherwise."""
    wanted = {piece.path: piece.from_record for piece in plan.slices}
    return run_shared_task({_ALONE: spec}, plan, {_ALONE: wanted}, {_ALONE: ticket}, outputs)[_ALONE]


def run_shared_task(
    specs: Mapping[str, TaskSpec],
    plan: TaskPlan,
    wanted: Mapping[str, Mapping[str, int]],
    tickets: Mapping[str, BatchTicket],
    outputs: Outputs | None = None,
    tells: LiveAddress | None = None,
) -> Mapping[str, TaskReport]:
    """One read for several targets, all by name. The source fields of all specs are the same. `wanted`: path → the
    first record that the target wants. Every target gets a report. Meanwhile it says at `tells` how far it is."""
    paths = [piece.path for piece in plan.slices]
    targets = [
        Target(
            name=name,
            spec=spec,
            ticket=tickets[name],
            wanted={path: wanted[name][path] for path in paths if path in wanted[name]},
        )
        for name, spec in specs.items()
    ]
    with closing(Telling(tells, plan.slot)) as telling:
        return _Task(targets, plan, outputs or TableOutputs(), telling).run()


@dataclass(slots=True)
class _Task:
    targets: Sequence[Target]
    plan: TaskPlan
    outputs: Outputs
    telling: Telling
    failed: dict[str, TaskReport] = field(default_factory=dict)
    broken: dict[str, BrokenFile] = field(default_factory=dict)
    defect: str | None = None  # of the native parser

    def run(self) -> Mapping[str, TaskReport]:
        while True:
            try:
                reports = self.failed | self._attempt([t for t in self.targets if t.name not in self.failed])
                return {t.name: replace(reports[t.name], parser_defect=self.defect) for t in self.targets}
            except BrokenFile as e:
                if not self.broken:
                    # Find all broken files now. One per attempt would read everything again for each of them.
                    later = self.plan.slices[self.plan.slices.index(e.piece) + 1 :]
                    self.broken = find_broken(self.targets, later)
                self.broken[e.piece.path] = e
            except ParserDisagrees as e:
                # None of its rows can be trusted: everything is read again without it.
                self.defect = str(e)
                self.targets = [replace(t, spec=replace(t.spec, parser="pyarrow")) for t in self.targets]
            except ParserMissing as e:
                return {t.name: _failed(self.plan, without_parser(e)) for t in self.targets}

    def _attempt(self, targets: Sequence[Target]) -> dict[str, TaskReport]:
        """Reads everything but the files that are known to be broken. Those are given up or left to the next run."""
        takers, reading = self._open(targets)
        try:
            self._read_all(takers, reading)
            return {taker.target.name: self._end(taker, reading) for taker in takers}
        except (BrokenFile, ParserDisagrees, BlizzardError, OSError):  # the last ones: a store while writing
            for taker in takers:
                if taker.failure is not None:
                    self.failed[taker.target.name] = _failed(self.plan, taker.failure)
                taker.abandon()
            raise

    def _open(self, targets: Sequence[Target]) -> tuple[list[Taker], Reading]:
        self.telling.begin()
        parsings = Parsings()
        steps = [steps_of(target.spec, parsings) for target in targets]
        parsers = [parsings.parser() for _ in range(self.plan.threads)]
        opened = self.outputs.open(targets, f"{self.plan.slot:04d}")
        takers = [
            Taker(target, writer, quarantine, parsers[0], own)
            for target, (writer, quarantine), own in zip(targets, opened, steps, strict=True)
        ]
        markers = {t.name: name for t in self.targets if (name := self.outputs.end_marker(t)) is not None}
        return takers, Reading(self.targets, takers, parsers, self.plan.budget, self.telling, end_markers=markers)

    def _read_all(self, takers: Sequence[Taker], reading: Reading) -> None:
        slices = self.plan.slices
        for i, piece in enumerate(slices):
            if not reading.has_active or reading.exhausted():
                break
            self.targets[0].spec.source.prefetch(slices[i:])
            wanting = [taker for taker in takers if taker.wants(piece)]
            if piece.given_up is not None:
                for taker in wanting:
                    reading.let(taker, partial(taker.quarantine_whole, piece, piece.given_up))
            elif piece.path in self.broken:
                for taker in wanting:
                    reading.let(taker, partial(taker.give_up, self.broken[piece.path]))
            else:
                reading.read(piece)
        reading.finish()

    def _end(self, taker: Taker, reading: Reading) -> TaskReport:
        closed = reading.let(taker, taker.close) if taker.is_active else None
        if closed is None:
            assert taker.failure is not None
            return _failed(self.plan, taker.failure)
        reach(f"task.{self.plan.slot}.written")
        return taker.report(self.plan.slot, *closed)


def without_parser(error: ParserMissing) -> TaskFailure:
    said = f"source.parser, or BLIZZARD_PARSER, asks for the native parser, which this Python does not have ({error})"
    return TaskFailure(kind=Kind.WORKER_ENVIRONMENT, path="", line=None, message=said)


def _failed(plan: TaskPlan, failure: TaskFailure) -> TaskReport:
    return TaskReport(slot=plan.slot, failure=failure)
