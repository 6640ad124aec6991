"""The real driver with two and three targets on in-memory logs. Targets are added and removed, lag, fail while they
read or commit, lose answers, are fenced; the process dies at any step of any of them.

Whatever happens: each table holds the records of its own committed slices, each exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from blizzard.core.commit_policy import CommitPolicy
from blizzard.core.events import OfTarget
from blizzard.core.late import LatePolicy
from blizzard.core.log import pipelines_of
from blizzard.core.plan import Limits
from blizzard.errors import BadRecord, BlizzardError, Fenced, Temporary
from blizzard.run.commit_queue import Gate
from blizzard.run.drain import drain_all
from blizzard.run.lane import Lane, Prepared
from blizzard.run.ports import NeverStop, Ports
from blizzard.run.settings import RunSettings
from blizzard.run.summary import Summary
from blizzard.testing.background import MemoryBackground
from blizzard.testing.memory import (
    BREAK,
    ConflictError,
    Crash,
    Fault,
    Line,
    MemoryClock,
    MemoryIngestor,
    MemoryPlace,
    MemoryQuarantine,
    MemorySource,
    World,
    broken_name,
    no_fault,
)
from blizzard.testing.several import MemoryReader
from tests.simulation.invariants import (
    BROKEN_FILES_ARE_TOLD,
    ENDS_FOR_A_REASON,
    EVERYTHING_ARRIVES,
    MARK_IS_TRUE,
    NO_RECORD_TWICE,
    QUARANTINE_IN_STEP,
    TABLE_IS_THE_SLICES,
    holds,
)

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c")
STEPS = [
    *("before_create", "after_create", "observe", "refresh", "look"),
    *("before_append", "after_append", "durable", "before_settle", "after_settle"),
]
READING = ["before_ingest", "between_tasks", "after_ingest"]
ANSWERS = ["before_append", "after_append", "before_settle", "after_settle"]

limits = st.builds(
    Limits,
    max_files=st.integers(1, 4),
    max_bytes=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 30),
)
chosen = st.sampled_from([("a", "b"), ("b", "a"), ("a", "b", "c"), ("c", "b", "a"), ("b", "c"), ("a",), ("c",)])
policies = st.sampled_from(["required", "all", "quorum:1"]).map(CommitPolicy.parse)
TargetFault = Callable[[str, str], None]  # target and step; for a step of the shared read the target is ""


def no_target_fault(_target: str, _step: str) -> None:
    return None


class TargetsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        sources: dict[str, list[Line]] = {}
        seen_ms: dict[str, int] = {}
        # In the order of the ids b commits first: it need not be the first that is configured.
        ids = {"a": "2", "b": "1", "c": "3"}
        self.worlds = {name: World(sources=sources, seen_ms=seen_ms, table_id=ids[name]) for name in NAMES}
        self.sources, self.seen_ms = sources, seen_ms
        self.runs = self.next_id = 0
        self.optional: frozenset[str] = frozenset()

    @initialize(optional=st.frozensets(st.sampled_from(NAMES), max_size=2))
    def begin(self, optional: frozenset[str]) -> None:
        self.optional = optional

    def drive(
        self,
        data: st.DataObject,
        names: Sequence[str],
        limit: Limits,
        fault: TargetFault = no_target_fault,
        failing: Callable[[str], bool] = lambda _: False,
        policy: CommitPolicy | None = None,
        **changes: Any,
    ) -> Summary:
        self.runs += 1
        summary, gate = Summary(), Gate()

        def appetite(left: int) -> int:
            return left if data.draw(st.booleans(), "whole slice") else data.draw(st.integers(0, left), "lines")

        background = MemoryBackground(lambda: data.draw(st.booleans(), "commit at once"))
        slots, inflight = data.draw(st.integers(1, 3), "slots"), data.draw(st.integers(1, 3), "in flight")
        run_id = f"run{self.runs}"
        late = LatePolicy(grace_ms=10**6)

        def lane(name: str) -> Lane:
            world, strike = self.worlds[name], _of(fault, name)
            emit = _told(summary, name)
            place = MemoryPlace(world, strike)
            ports = Ports(
                source=MemorySource(world),
                place=place,
                quarantine=MemoryQuarantine(world, strike),
                ingestor=MemoryIngestor(world, slots, appetite),
                background=background,
                clock=MemoryClock(world),
                stop=NeverStop(),
                emit=emit,
            )
            given = RunSettings(pipeline="p", run_id=run_id, limits=limit, max_inflight=inflight, late=late, **changes)
            return Lane(
                lambda: Prepared(ports=ports, settings=given, table=place.open()),
                emit=emit,
                name=name,
                is_required=name not in self.optional,
                gate=gate,
            )

        reader = MemoryReader(self.worlds, appetite, _of(fault, ""), failing)
        drain_all([lane(name) for name in names], policy or CommitPolicy(), reader, NeverStop())
        return summary

    # -- rules -----------------------------------------------------------------------------------------------------

    @rule(
        uploads=st.dictionaries(
            st.text("abcd", min_size=1, max_size=4),
            st.tuples(st.lists(st.sampled_from(["good", "good", "bad", "blank"]), max_size=12), st.integers(0, 60)),
            min_size=1,
            max_size=8,
        )
    )
    def upload(self, uploads: dict[str, tuple[list[str], int]]) -> None:
        for name, (kinds, break_at) in uploads.items():
            if name in self.sources:
                continue
            self.seen_ms[name] = max(world.tick() for world in self.worlds.values())
            lines: list[Line] = []
            for kind in kinds:
                lines.append(self.next_id if kind == "good" else f"bad {self.next_id}" if kind == "bad" else None)
                self.next_id += 1
            if break_at < len(lines):
                lines[break_at] = BREAK
            self.sources[name] = lines

    @rule(data=st.data(), names=chosen, limit=limits)
    def run_to_the_end(self, data: st.DataObject, names: Sequence[str], limit: Limits) -> None:
        self.drive(data, names, limit)
        for name in names:
            world = self.worlds[name]
            found = {*world.rows(), *world.quarantine}
            broken = {path for path in self.sources if broken_name(path) in found}
            for path, lines in self.sources.items():
                is_in = found.issuperset(line for line in lines if line is not None)
                holds(EVERYTHING_ARRIVES, path in broken or is_in, (name, path))
                holds(BROKEN_FILES_ARE_TOLD, BREAK not in lines or path in broken, (name, path))

    @rule(data=st.data(), names=chosen, limit=limits, batches=st.integers(1, 3))
    def run_a_few_batches(self, data: st.DataObject, names: Sequence[str], limit: Limits, batches: int) -> None:
        self.drive(data, names, limit, max_batches=batches)

    @rule(
        data=st.data(),
        names=chosen,
        limit=limits,
        where=st.tuples(st.sampled_from(NAMES), st.sampled_from(STEPS))
        | st.tuples(st.just(""), st.sampled_from(READING)),
        nth=st.integers(1, 4),
    )
    def crash(self, data: st.DataObject, names: Sequence[str], limit: Limits, where: tuple[str, str], nth: int) -> None:
        try:
            self.drive(data, names, limit, _strike(where, nth, Crash()))
        except Crash:
            pass

    @rule(
        data=st.data(),
        names=chosen,
        limit=limits,
        victim=st.sampled_from(NAMES),
        step=st.sampled_from(ANSWERS),
        nth=st.integers(1, 4),
        times=st.sampled_from([1, 2, 100]),
        policy=policies,
    )
    def lose_answers(
        self,
        data: st.DataObject,
        names: Sequence[str],
        limit: Limits,
        victim: str,
        step: str,
        nth: int,
        times: int,
        policy: CommitPolicy,
    ) -> None:
        """A target's commits land, or not, and the driver is told only that something went wrong."""
        lost = _strike((victim, step), nth, ConflictError("Concurrent transaction failed"), times)
        self._with_one_failing(data, names, limit, victim, policy, ("commit_failed", "quarantine_failed"), fault=lost)

    @rule(data=st.data(), names=chosen, limit=limits, victim=st.sampled_from(NAMES), policy=policies)
    def fail_while_reading(
        self, data: st.DataObject, names: Sequence[str], limit: Limits, victim: str, policy: CommitPolicy
    ) -> None:
        self._with_one_failing(data, names, limit, victim, policy, ("bad_record",), failing=lambda name: name == victim)

    def _with_one_failing(
        self,
        data: st.DataObject,
        names: Sequence[str],
        limit: Limits,
        victim: str,
        policy: CommitPolicy,
        kinds: Collection[str],
        **how: Any,
    ) -> None:
        """Whether the run ends is what the policy says, and the others have everything if it does not."""
        may_fail = policy.kind == "quorum" or (policy.kind == "required" and victim in self.optional)
        goes_on = victim not in names or (may_fail and len(names) > 1)
        try:
            self.drive(data, names, limit, policy=policy, **how)
        except (Temporary, BadRecord) as e:
            holds(ENDS_FOR_A_REASON, not goes_on and e.kind in kinds, e)
            return
        for name in names:
            if name != victim:
                found = {*self.worlds[name].rows(), *self.worlds[name].quarantine}
                for path, lines in self.sources.items():
                    is_in = broken_name(path) in found or found.issuperset(i for i in lines if i is not None)
                    holds(EVERYTHING_ARRIVES, is_in, (name, path))

    @rule(
        data=st.data(),
        names=chosen,
        others=chosen,
        limit=limits,
        where=st.tuples(st.sampled_from(NAMES), st.sampled_from(STEPS))
        | st.tuples(st.just(""), st.sampled_from(READING)),
        nth=st.integers(1, 3),
        policy=policies,
    )
    def second_driver(
        self,
        data: st.DataObject,
        names: Sequence[str],
        others: Sequence[str],
        limit: Limits,
        where: tuple[str, str],
        nth: int,
        policy: CommitPolicy,
    ) -> None:
        """Another driver, with the same targets or with others, commits in the middle of this one."""
        strike = _nth(where, nth)
        before = {name: len(world.log) for name, world in self.worlds.items()}

        def intrude(target: str, step: str) -> None:
            if strike(target, step):
                self.drive(data, others, limit, max_batches=data.draw(st.integers(1, 2)))

        try:
            self.drive(data, names, limit, intrude, policy=policy)
        except Fenced as e:
            moved = any(len(self.worlds[name].log) > before[name] for name in set(names) & set(others))
            holds(ENDS_FOR_A_REASON, moved, e)
        except BlizzardError as e:
            holds(ENDS_FOR_A_REASON, False, e)

    # -- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def each_record_of_the_committed_slices_is_in_its_table_once(self) -> None:
        for name, world in self.worlds.items():
            rows = Counter[int | str](world.rows())
            committed = Counter(world.committed_slices())
            holds(NO_RECORD_TWICE, not committed or max(committed.values()) == 1, (name, committed))
            expected = Counter(i for i in committed.elements() if isinstance(i, int))
            holds(TABLE_IS_THE_SLICES, rows == expected, (name, rows))

    @invariant()
    def each_quarantine_holds_the_bad_records_but_for_the_newest_commit(self) -> None:
        for name, world in self.worlds.items():
            bad = Counter(i for i in world.committed_slices() if isinstance(i, str))
            held = Counter(world.quarantine)
            found = pipelines_of(c for c, _ in reversed(world.log)).get("p")
            if found is not None and world.quarantine_txn < found[1].sequence:
                held += Counter(i for path in found[1].quarantine.pending for i in world.bad_parquet[path])
            holds(QUARANTINE_IN_STEP, held == bad, (name, held, bad))

    @invariant()
    def every_listed_file_at_or_before_a_mark_is_committed_or_named(self) -> None:
        for name, world in self.worlds.items():
            found = pipelines_of(c for c, _ in reversed(world.log)).get("p")
            if found is None:
                continue
            marks, rows, committed = found[1].marks, set(world.rows()), set(world.committed_slices())
            for path, lines in self.sources.items():
                ids = [i for i in lines if isinstance(i, int)]
                if marks.is_finished(path):
                    is_late = not rows.intersection(ids) and not any(i in committed for i in lines)
                    is_told = rows.issuperset(ids) or broken_name(path) in committed or is_late
                    holds(MARK_IS_TRUE, is_told, (name, path))
                else:
                    taken = [i for i in lines[: marks.records_read(path)] if isinstance(i, int)]
                    holds(MARK_IS_TRUE, rows.intersection(ids) == set(taken), (name, path))


def _told(summary: Summary, name: str) -> Any:
    return lambda event: summary.see(OfTarget(target=name, event=event))


def _of(fault: TargetFault, name: str) -> Fault:
    return no_fault if fault is no_target_fault else lambda step: fault(name, step)


def _nth(where: tuple[str, str], nth: int) -> Callable[[str, str], bool]:
    visits = Counter[tuple[str, str]]()

    def strike(target: str, step: str) -> bool:
        visits[target, step] += 1
        return (target, step) == where and visits[target, step] == nth

    return strike


def _strike(where: tuple[str, str], nth: int, error: BaseException, times: int = 1) -> TargetFault:
    visits = Counter[tuple[str, str]]()

    def fault(target: str, step: str) -> None:
        visits[target, step] += 1
        if (target, step) == where and nth <= visits[target, step] < nth + times:
            raise error

    return fault


TestTargetsMachine = TargetsMachine.TestCase
TestTargetsMachine.settings = settings(max_examples=200, stateful_step_count=12, deadline=None)
