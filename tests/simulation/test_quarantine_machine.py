"""The quarantine, with everybody at it at once: a run that settles, others who purge, replay, compact, realign or roll
back in the middle of it, a second pipeline that shares it, and room that changes from run to run.

Beside what holds around every pipeline: the books balance, and the other pipeline keeps every record.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from blizzard import faults
from blizzard.core.audit import audit
from blizzard.core.balance import InQuarantine
from blizzard.core.look import Listed
from blizzard.core.plan import Limits
from blizzard.core.recover import Resume
from blizzard.errors import BlizzardError, Fenced, Refused, Temporary
from blizzard.operate.realign import realign
from blizzard.quarantine import contents
from blizzard.run.recover import decide_start
from blizzard.tasks.quarantine import Selection
from tests.flows.backups import Elsewhere
from tests.flows.replaying import STRICT, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import line, write
from tests.simulation.around import hopeless
from tests.simulation.invariants import BOOKS_BALANCE, OTHERS_KEEP_THEIRS, holds
from tests.simulation.test_ways_around_machine import CHOICE, ONE_OR_TWO, WaysAroundMachine

pytestmark = pytest.mark.slow

SETTLING = ("commit.after", "quarantine.before", "quarantine.copied", "quarantine.after")
ROOM = st.none() | st.integers(0, 6)
# After these, records are nowhere that a ledger knows of.
UNBALANCED = {"purge", "put_back", "copy", "accept"}


class QuarantineMachine(WaysAroundMachine):
    @initialize(room=ROOM)
    def begin(self, room: int | None) -> None:
        super().begin(room)
        self.other = Elsewhere(
            self.world.folder, pipeline="q", src_at=self.world.folder / "other", table_at=self.world.folder / "second"
        )
        self.others = 0
        self.the_other_pipeline_runs()

    @rule(room=ROOM)
    def the_room_changes(self, room: int | None) -> None:
        self.flow.always["max_quarantined"] = room

    @rule()
    def the_other_pipeline_runs(self) -> None:
        if self.done & {"put_back"}:
            return  # its quarantine was put back too, and it would be refused with good reason
        self.others += 1
        write(self.other.src / f"{self.others:04d}.ndjson", line(self.others) + hopeless(self.others) + b"\n")
        self.other.run(spec=STRICT)

    @rule()
    def somebody_compacts_the_quarantine(self) -> None:
        table = self.flow.quarantine.open()
        if table is not None:
            table.optimize.compact()

    @rule(number=st.integers(0, 9))
    def purge_a_file(self, number: int) -> None:
        names = self.world.names()
        if names:
            self._purge(Selection(pipeline="p", source_file=names[number % len(names)]))

    @rule(point=st.sampled_from(SETTLING), nth=ONE_OR_TWO, what=st.integers(0, 6), most=st.integers(1, 4))
    def others_act_while_a_run_settles(self, point: str, nth: int, what: int, most: int) -> None:
        """Each is another process, with handles of its own."""
        second = self.world.second_driver()
        acts: list[Callable[[], object]] = [
            lambda: self._purge(Selection(pipeline="p")),
            lambda: self._purge(Selection(pipeline="p", source_file=self.world.names()[-1])),
            self.somebody_compacts_the_quarantine,
            self.the_other_pipeline_runs,
            lambda: second.run(spec=STRICT, limits=Limits(max_files=1), max_batches=1),
            lambda: replay_in(second, run_id=self._run_id()),
            lambda: roll_back(second, (second.open().fence("p") or 0) - 1),
        ]
        todo = [acts[what]]

        def act(action: str, at: str) -> None:
            del action, at
            if todo:
                with mock.patch.dict("os.environ", {"BLIZZARD_FAULT": ""}):
                    todo.pop()()

        for kinds in ("gm", "mh"):
            self.world.add_file(kinds)
        with mock.patch.object(faults, "_act", act), self._fault(f"{point}=x@{nth}"):
            try:
                self.flow.run(spec=STRICT, limits=Limits(max_records=most, max_files=1))
            except (Fenced, Temporary):
                pass
            except Refused as e:
                if e.kind not in ("rollback_target", "rollback_replay", "rollback_source", "rollback_files"):
                    self._check_reason(e)

    @rule(choice=CHOICE)
    def realign(self, choice: int) -> None:
        del choice
        try:
            realign(self.flow.open(), self.flow.quarantine, pipeline="p")
        except Refused as e:
            self._check_reason(e)

    @rule(orphaned=st.booleans())
    def purge(self, orphaned: bool) -> None:
        self._purge(Selection(pipeline="p", orphaned=orphaned))

    def _purge(self, chosen: Selection) -> None:
        everything, live = set(self.world.bad(live_only=False)), set(self.world.bad(live_only=True))
        self.done.add("purge")
        contents.purge(self.flow.quarantine, chosen)
        self.world.let_go |= everything - set(self.world.bad(live_only=False))
        self.world.let_go |= live - set(self.world.bad(live_only=True))

    @invariant()
    def the_other_pipeline_has_its_records(self) -> None:
        if not hasattr(self, "other") or self.done & {"put_back"}:
            return
        held = Counter(row["source_file"] for row in self.other.quarantined() if row["pipeline"] == "q")
        wanted = Counter(path.name for path in self.other.src.iterdir())
        holds(OTHERS_KEEP_THEIRS, held == wanted, (held, wanted))

    @invariant()
    def the_books_balance(self) -> None:
        if not hasattr(self, "other") or self.done & UNBALANCED or not self.world.is_in_step():
            return
        flow, table = self.flow, self.flow.open()
        try:
            found = decide_start(table, pipeline="p", source=flow.source.identity, scan_commits=100)
        except BlizzardError:
            return
        assert isinstance(found, Resume)
        rows = Counter[int]()
        for batch in flow.quarantine.read(Selection(pipeline="p", table_id=table.table_id), ["sequence"]):
            rows.update(batch.column("sequence").to_pylist())
        listed = Listed(files=flow.source.list(), at_ms=flow.source.now_ms())
        books = audit(listed, found.position, table.scan_back(), quarantine=InQuarantine(rows=rows))
        wrong = books.quarantine_missing or books.quarantine_unknown
        holds(BOOKS_BALANCE, not wrong and books.balance is not None and books.balance.unaccounted == 0, books)


TestQuarantineMachine = QuarantineMachine.TestCase
TestQuarantineMachine.settings = settings(
    max_examples=int(os.environ.get("QUARANTINE_EXAMPLES", "15")),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
