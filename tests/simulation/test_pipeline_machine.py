"""The real driver on an in-memory log: crashes at every step, lost answers, second drivers, partial files.

Whatever happens, the table holds the records of the committed slices, each exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import reject, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blizzard.core.balance import InQuarantine, balance_of, dropped_rows
from blizzard.core.events import unheard
from blizzard.core.kinds import CommitKind
from blizzard.core.late import LatePolicy
from blizzard.core.ledger import Ledger, decode_ledger
from blizzard.core.log import pipelines_of
from blizzard.core.plan import Limits
from blizzard.core.position import Marks, Position
from blizzard.errors import BlizzardError, Fenced, Refused, Temporary
from blizzard.operate.pause import Pausing
from blizzard.run.drain import drain
from blizzard.run.ports import NeverStop, Ports
from blizzard.run.settings import RunSettings
from blizzard.run.summary import Summary
from blizzard.testing.background import MemoryBackground
from blizzard.testing.memory import (
    BREAK,
    IDENTITY,
    ConflictError,
    Crash,
    Fault,
    Line,
    MemoryClock,
    MemoryIngestor,
    MemoryPlace,
    MemoryQuarantine,
    MemorySource,
    MemoryTable,
    World,
    broken_name,
    no_fault,
)
from tests.simulation.invariants import (
    BOOKS_BALANCE,
    BROKEN_FILES_ARE_TOLD,
    ENDS_FOR_A_REASON,
    EVERYTHING_ARRIVES,
    MARK_IS_TRUE,
    NEWEST_STAY,
    NO_RECORD_TWICE,
    NOTHING_LATE_IS_LEFT,
    NOTHING_WHILE_PAUSED,
    QUARANTINE_IN_STEP,
    RESTORE_IS_NOTICED,
    TABLE_IS_THE_SLICES,
    holds,
)

pytestmark = pytest.mark.slow

STEPS = [
    *("before_create", "after_create", "observe", "before_ingest", "between_tasks", "after_ingest"),
    *("refresh", "look", "before_append", "after_append", "durable", "before_settle", "after_settle"),
]
# Where the edge may raise without the process dying: any exception of a commit means "unknown".
ANSWERS = ["before_append", "after_append", "before_settle", "after_settle"]

limits = st.builds(
    Limits,
    max_files=st.integers(1, 4),
    max_bytes=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 30),
)


class PipelineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.late: set[str] = set()  # names that their mark had passed when they appeared
        self.runs = self.next_id = 0
        self.refused_forever = False
        self.grace_ms = 0
        self.marks_per: str | None = None
        self.limits: dict[str, int | None] = {}  # of the quarantine, by run
        self.depth = 0

    @initialize(grace_ms=st.sampled_from([0, 3, 50, 10**6]), marks_per=st.sampled_from([None, "r"]))
    def begin(self, grace_ms: int, marks_per: str | None) -> None:
        self.grace_ms, self.marks_per = grace_ms, marks_per

    # -- the driver ------------------------------------------------------------------------------------------------

    def drive(
        self,
        data: st.DataObject,
        limit: Limits,
        fault: Fault = no_fault,
        ends_with: Collection[str] = (),
        **changes: Any,
    ) -> Summary:
        self.runs += 1
        summary = Summary()

        def appetite(left: int) -> int:
            return left if data.draw(st.booleans(), "whole slice") else data.draw(st.integers(0, left), "lines")

        ports = Ports(
            source=MemorySource(self.world, replace(IDENTITY, marks_per=self.marks_per)),
            place=MemoryPlace(self.world, fault),
            quarantine=MemoryQuarantine(self.world, fault),
            ingestor=MemoryIngestor(self.world, data.draw(st.integers(1, 3), "slots"), appetite, fault),
            background=MemoryBackground(lambda: data.draw(st.booleans(), "commit at once")),
            clock=MemoryClock(self.world),
            stop=NeverStop(),
            emit=summary.see,
        )
        inflight = data.draw(st.integers(1, 3), "in flight")
        run_id = f"run{self.runs}"
        self.limits[run_id] = data.draw(st.none() | st.integers(0, 8), "room in quarantine")
        run_settings = RunSettings(
            pipeline="p",
            run_id=run_id,
            limits=limit,
            max_quarantined=self.limits[run_id],
            overflow="drop_oldest",
            max_inflight=inflight,
            late=changes.pop("late", None) or data.draw(self.late_policies(), "late files"),
            **changes,
        )
        self.depth += 1
        try:
            drain(ports, run_settings, ports.place.open())
        except BlizzardError as e:
            # One driver inside another: what it ends with is for the other to take, or not.
            if self.depth == 1 and e.kind not in ends_with:
                holds(ENDS_FOR_A_REASON, False, e)
                reject()  # what follows says nothing about the other invariants
            raise
        finally:
            self.depth -= 1
        return summary

    def late_policies(self) -> st.SearchStrategy[LatePolicy]:
        """How often all of the source is looked at may change from run to run; the grace may not."""
        return st.builds(
            LatePolicy,
            grace_ms=st.just(self.grace_ms),
            relist_max_names=st.sampled_from([0, 10**9]),
            relist_every_ms=st.sampled_from([20, 10**9]),
        )

    # -- rules -----------------------------------------------------------------------------------------------------

    @rule(
        uploads=st.dictionaries(
            st.tuples(st.sampled_from(["", "r=x/", "r=y/"]), st.text("abcd", min_size=1, max_size=4)).map("".join),
            st.tuples(st.lists(st.sampled_from(["good", "good", "bad", "blank"]), max_size=12), st.integers(0, 60)),
            min_size=1,
            max_size=8,
        ),
        delay_ms=st.sampled_from([0, 1, 7, 60, 10_000]),
    )
    def upload(self, uploads: dict[str, tuple[list[str], int]], delay_ms: int) -> None:
        self._upload(uploads, delay_ms)

    def _upload(self, uploads: dict[str, tuple[list[str], int]], delay_ms: int) -> None:
        """Files become visible some time after the time they say they are of: a renamed folder, long after it."""
        position = self._state()
        for name, (kinds, break_at) in uploads.items():
            if name in self.world.sources:
                continue
            if position is not None and position.is_passed(name):
                self.late.add(name)
            self.world.seen_ms[name] = max(0, self.world.tick() - delay_ms)
            lines: list[Line] = []
            for kind in kinds:
                lines.append(self.next_id if kind == "good" else f"bad {self.next_id}" if kind == "bad" else None)
                self.next_id += 1
            if break_at < len(lines):
                lines[break_at] = BREAK
            self.world.sources[name] = lines

    @rule(data=st.data(), limit=limits)
    def run_to_the_end(self, data: st.DataObject, limit: Limits) -> None:
        if self.refused_forever:
            return
        look_at_all = LatePolicy(grace_ms=self.grace_ms, relist_every_ms=0)
        if self._is_paused():
            summary = self.drive(data, limit, late=look_at_all)
            holds(NOTHING_WHILE_PAUSED, summary.paused is not None and summary.commits == 0)
            self.resume()
        summary = self.drive(data, limit, late=look_at_all)
        holds(EVERYTHING_ARRIVES, summary.backlog_files == 0)
        found = {*self.world.rows(), *(line for line in self.world.committed_slices() if isinstance(line, str))}
        broken = {name for name in self.world.sources if broken_name(name) in found}
        for name, lines in self.world.sources.items():
            holds(EVERYTHING_ARRIVES, name in broken or found.issuperset(line for line in lines if line is not None))
            holds(BROKEN_FILES_ARE_TOLD, BREAK not in lines or name in broken)
        holds(NOTHING_LATE_IS_LEFT, self.drive(data, limit, late=look_at_all).late_files == 0)

    @rule(data=st.data(), limit=limits, batches=st.integers(1, 3))
    def run_a_few_batches(self, data: st.DataObject, limit: Limits, batches: int) -> None:
        if not self.refused_forever:
            self.drive(data, limit, max_batches=batches)

    @rule(data=st.data(), limit=limits, step=st.sampled_from(STEPS), nth=st.integers(1, 4))
    def crash(self, data: st.DataObject, limit: Limits, step: str, nth: int) -> None:
        if self.refused_forever:
            return
        try:
            self.drive(data, limit, _strike(step, nth, Crash()))
        except Crash:
            pass

    @rule(data=st.data(), limit=limits, step=st.sampled_from(ANSWERS), nth=st.integers(1, 4), times=st.integers(1, 4))
    def lose_an_answer(self, data: st.DataObject, limit: Limits, step: str, nth: int, times: int) -> None:
        """The commit landed, or it did not, and the driver is told only that something went wrong."""
        if self.refused_forever:
            return
        expected = {"before_append": "commit_failed", "before_settle": "quarantine_failed"}.get(step, "")
        lost = _strike(step, nth, ConflictError("Concurrent transaction failed"), times)
        try:
            self.drive(data, limit, lost, ends_with=(expected,))
        except Temporary as e:
            holds(ENDS_FOR_A_REASON, e.kind == expected, e)

    @rule(data=st.data(), limit=limits, step=st.sampled_from(STEPS), nth=st.integers(1, 3))
    def second_driver(self, data: st.DataObject, limit: Limits, step: str, nth: int) -> None:
        """Another driver of the same pipeline commits in the middle of this one."""
        if self.refused_forever:
            return
        before = len(self.world.log)

        def intrude(at: str) -> None:
            if strike(at):
                self.drive(data, limit, max_batches=data.draw(st.integers(1, 2)))

        strike = _nth(step, nth)
        try:
            self.drive(data, limit, intrude, ends_with=("fenced",))
        except Fenced as e:
            holds(ENDS_FOR_A_REASON, len(self.world.log) > before, e)

    @precondition(lambda self: self._can_be_paused() and not self._is_paused())
    @rule()
    def pause(self) -> None:
        self._set_pause("why")

    @precondition(lambda self: self._is_paused())
    @rule()
    def resume(self) -> None:
        if not self.refused_forever:
            self._set_pause(resumes=True)

    @precondition(lambda self: self._can_be_paused() and not self._is_paused())
    @rule(
        data=st.data(),
        limit=limits,
        step=st.sampled_from(STEPS),
        nth=st.integers(1, 4),
        resumes=st.sampled_from([0, 1, 2]),
    )
    def pause_meanwhile(self, data: st.DataObject, limit: Limits, step: str, nth: int, resumes: int) -> None:
        """A person pauses the pipeline in the middle of a run, and resumes it too: at once, or when the run has looked
        a few times more. The run ends without an error, whatever it has read: it may have looked before the resume. The
        next one does what the log says."""
        strike, wake = _nth(step, nth), _nth(step, nth + resumes)

        def intrude(at: str) -> None:
            if strike(at):
                self._set_pause("meanwhile")
            if wake(at) and resumes:
                self._set_pause(resumes=True)

        self.drive(data, limit, intrude)
        is_paused = self._is_paused()
        again = self.drive(data, limit)
        holds(NOTHING_WHILE_PAUSED, (again.paused is not None) == is_paused and not (is_paused and again.commits))

    def _set_pause(self, reason: str | None = None, *, resumes: bool = False) -> None:
        pausing = Pausing(
            table=MemoryTable(self.world, no_fault),
            quarantine=MemoryQuarantine(self.world),
            pipeline="p",
            clock=MemoryClock(self.world),
            emit=unheard,
        )
        try:
            pausing.resume() if resumes else pausing.pause(reason)
        except BlizzardError as e:
            holds(ENDS_FOR_A_REASON, False, e)
            reject()  # what follows says nothing about the other invariants

    def _can_be_paused(self) -> bool:
        return not self.refused_forever and self._position() is not None

    def _is_paused(self) -> bool:
        position = self._position()
        return position is not None and position.paused is not None

    @precondition(lambda self: self.world.log)
    @rule(data=st.data(), limit=limits, step=st.sampled_from(STEPS), nth=st.integers(1, 3))
    def others_append_meanwhile(self, data: st.DataObject, limit: Limits, step: str, nth: int) -> None:
        if self.refused_forever:
            return
        strike = _nth(step, nth)
        self.drive(data, limit, lambda at: self.world.foreign_commit("OPTIMIZE", "") if strike(at) else None)

    @precondition(lambda self: len(self.world.log) > 3)
    @rule(data=st.data(), step=st.sampled_from(STEPS), nth=st.integers(1, 3))
    def table_is_restored_meanwhile(self, data: st.DataObject, step: str, nth: int) -> None:
        """A RESTORE in the middle of several batches is noticed by this run or the next one, and by all after it."""
        if self.refused_forever or not any(c.txns for c, adds in self.world.log if adds):
            return
        for i in range(5):
            self._upload({f"e{self.runs:04d}-{i}": (["good", "good"], 60)}, delay_ms=0)
        limit = Limits(max_files=1)
        struck = []
        strike = _nth(step, nth)

        def restore(at: str) -> None:
            if strike(at):
                struck.append(at)
                self.world.foreign_commit("RESTORE", "")

        try:
            self.drive(data, limit, restore, ends_with=("table_rewritten",))
        except Refused as e:
            holds(ENDS_FOR_A_REASON, e.kind == "table_rewritten" and bool(struck), e)
        if struck:
            self.refused_forever = True

    @precondition(lambda self: self.refused_forever)
    @rule(data=st.data(), limit=limits)
    def a_restored_table_stays_refused(self, data: st.DataObject, limit: Limits) -> None:
        try:
            self.drive(data, limit, ends_with=("table_rewritten",))
        except Refused as e:
            holds(ENDS_FOR_A_REASON, e.kind == "table_rewritten", e)
        else:
            holds(RESTORE_IS_NOTICED, False)

    # -- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def each_record_of_the_committed_slices_is_in_the_table_once(self) -> None:
        rows = Counter[int | str](self.world.rows())
        committed = Counter(self.world.committed_slices())
        holds(NO_RECORD_TWICE, not committed or max(committed.values()) == 1, committed)
        holds(TABLE_IS_THE_SLICES, rows == Counter(i for i in committed.elements() if isinstance(i, int)), rows)

    @invariant()
    def nothing_is_read_on_top_of_a_pause(self) -> None:
        paused = None
        for commit, adds in self.world.log:
            ledger = decode_ledger(commit.user_metadata)
            if ledger is None:
                continue
            reads = bool(adds or ledger.entries or ledger.quarantine)
            holds(NOTHING_WHILE_PAUSED, paused is None or not reads, commit)
            resumes = ledger.kind is CommitKind.RESUME
            holds(NOTHING_WHILE_PAUSED, paused is None or resumes or ledger.paused == paused, commit)
            paused = ledger.paused
        position = self._position()
        holds(NOTHING_WHILE_PAUSED, position is None or position.paused == paused)

    @invariant()
    def the_quarantine_holds_what_each_commit_put_in_and_none_dropped_but_for_the_newest_commit(self) -> None:
        changing = [ledger for ledger in self._ledgers() if ledger.quarantine]
        settled = [ledger for ledger in changing if ledger.sequence != self._unsettled()]
        dropped = {name for ledger in settled for name in ledger.dropped}
        expected = [(ledger.batch_id, self._put_in(ledger)) for ledger in settled if ledger.batch_id not in dropped]
        held = [(batch.batch_id, batch.lines) for batch in self.world.bad_batches]
        holds(QUARANTINE_IN_STEP, held == expected, (held, expected))
        never_in = Counter(i for i in self.world.committed_slices() if isinstance(i, str))
        never_in.subtract(line for ledger in changing for line in self._put_in(ledger))
        holds(QUARANTINE_IN_STEP, min(never_in.values(), default=0) >= 0, never_in)

    @invariant()
    def the_newest_batches_that_fit_stay(self) -> None:
        """Played over again, commit by commit, with the limit that its run had."""
        held: list[tuple[str, int]] = []
        for ledger in self._ledgers():
            new, limit, gone = len(self._put_in(ledger)), self.limits.get(ledger.run_id), {}
            bad = sum(entry.bad + (entry.broken is not None) for entry in ledger.entries)
            holds(NEWEST_STAY, new == bad or (limit is not None and new <= limit < bad), (ledger.sequence, new, bad))
            while new and limit is not None and held and sum(rows for _, rows in held) + new > limit:
                name, rows = held.pop(0)
                gone[name] = rows
            holds(NEWEST_STAY, dict(ledger.dropped) == gone, (ledger.sequence, ledger.dropped, gone))
            held += [(ledger.batch_id, new)] if new else []

    @invariant()
    def the_books_balance(self) -> None:
        ledgers, unsettled = self._ledgers(), self._unsettled()
        rows = {batch.sequence: len(batch.lines) for batch in self.world.bad_batches}
        found = balance_of(ledgers, dropped_rows(ledgers, unsettled), InQuarantine(rows=rows, unsettled=unsettled))
        records, in_table = len(self.world.committed_slices()), len(self.world.rows())
        holds(BOOKS_BALANCE, (found.records, found.rows, found.unaccounted) == (records, in_table, 0), found)

    def _ledgers(self) -> list[Ledger]:
        """Oldest first."""
        return [ledger for commit, _ in self.world.log if (ledger := decode_ledger(commit.user_metadata)) is not None]

    def _put_in(self, ledger: Ledger) -> tuple[str, ...]:
        return tuple(line for name in ledger.quarantine for line in self.world.bad_parquet[name])

    def _unsettled(self) -> int | None:
        """The newest sequence, if the quarantine does not follow it yet."""
        ledgers = self._ledgers()
        newest = ledgers[-1].sequence if ledgers else 0
        return newest if newest and ledgers[-1].quarantine and self.world.quarantine_txn < newest else None

    @invariant()
    def every_listed_file_at_or_before_the_mark_is_committed_or_named(self) -> None:
        found = pipelines_of(c for c, _ in reversed(self.world.log)).get("p")
        if found is None:
            return
        position, rows, committed = found[1].marks, set(self.world.rows()), set(self.world.committed_slices())
        for name, lines in self.world.sources.items():
            ids = [i for i in lines if isinstance(i, int)]
            if position.is_finished(name):
                is_waiting = name in self.late and not rows.intersection(ids)
                is_told = rows.issuperset(ids) or broken_name(name) in committed or is_waiting
                holds(MARK_IS_TRUE, is_told, name)
            else:
                taken = [i for i in lines[: position.records_read(name)] if isinstance(i, int)]
                holds(MARK_IS_TRUE, rows.intersection(ids) == set(taken), name)

    def _state(self) -> Marks | None:
        position = self._position()
        return position.marks if position is not None else None

    def _position(self) -> Position | None:
        found = pipelines_of(c for c, _ in reversed(self.world.log)).get("p")
        return found[1] if found else None


def _nth(step: str, nth: int) -> Any:
    visits = Counter[str]()

    def strike(at: str) -> bool:
        visits[at] += 1
        return at == step and visits[at] == nth

    return strike


def _strike(step: str, nth: int, error: BaseException, times: int = 1) -> Fault:
    visits = Counter[str]()

    def fault(at: str) -> None:
        visits[at] += 1
        if at == step and nth <= visits[at] < nth + times:
            raise error

    return fault


TestPipelineMachine = PipelineMachine.TestCase
TestPipelineMachine.settings = settings(max_examples=300, stateful_step_count=15, deadline=None)
