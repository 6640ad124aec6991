"""The whole driver over a real Delta log that others write to, clean up, damage, compact and roll back.

Whatever is done to it in whatever order: no record is ever in the table twice, a run that ends well leaves every record
of the source in it, and a run that does not says why with a kind that fits what was done. Each file has a bad record as
well; the quarantine has room for a few, holds none twice, and never more than it has room for.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blizzard import faults
from blizzard.core.late import LatePolicy
from blizzard.core.log import fence_version
from blizzard.core.plan import Limits
from blizzard.core.recover import Resume
from blizzard.errors import BlizzardError, Fenced, Refused
from blizzard.operate.transfer import export_position, import_position
from blizzard.run.recover import decide_start
from tests.delta.test_hostile_log import change_payload
from tests.flows.in_process import Flow, clean_up_log, newest, write_foreign
from tests.flows.pausing import pause, resume
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write
from tests.simulation.ways_out import follow, ways_in

pytestmark = pytest.mark.slow

FOREIGN = 1_000_000
POINTS = (
    *("commit.before", "commit.during", "commit.answer", "commit.after", "task.before_parquet_close"),
    *("quarantine.before", "quarantine.copied", "quarantine.after"),
)
ROOM = 3
# What a run may refuse with once somebody has cleaned up, compacted or damaged what it needs.
LOST = {
    *("late_unclear", "table_rewritten", "damaged_checkpoint", "position_not_found", "stale_checkpoint"),
    "log_rewritten",
}
UNROLLABLE = {"rollback_target", "rollback_files", "rollback_ledger"}


class Died(BaseException):
    """The process is gone: nothing may catch this."""


class RealLogMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.flow = Flow(Path(self._folder.name))
        self.flow.always = {"max_quarantined": ROOM, "overflow": "drop_oldest"}
        self.files = self.records = self.foreign = 0
        self.backup: bytes | None = None  # the newest position, as a careful person would keep it
        self.is_hurt = False  # somebody has done what may leave the position unusable
        self.is_paused = False
        self.arrive(3)
        self.run_to_the_end()

    def teardown(self) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    @rule(count=st.integers(1, 5))
    def arrive(self, count: int) -> None:
        good = b"".join(map(line, range(self.records, self.records + count)))
        write(self.flow.src / f"{self.files:04d}.ndjson", good + b"bad %d\n" % self.files)
        self.files, self.records = self.files + 1, self.records + count

    @rule()
    def run_to_the_end(self) -> None:
        expected = self._own() if self.is_paused else Counter(range(self.records))
        if self._runs():
            assert self._own() == expected

    @rule(most=st.integers(1, 4), batches=st.integers(1, 2))
    def run_a_little(self, most: int, batches: int) -> None:
        self._runs(limits=Limits(max_records=most), max_batches=batches)

    @rule(point=st.sampled_from(POINTS), nth=st.integers(1, 2), most=st.integers(2, 5))
    def run_and_die(self, point: str, nth: int, most: int) -> None:
        def die(action: str, at: str) -> None:
            raise Died

        before = newest(self.flow.table)
        with mock.patch.object(faults, "_act", die), self._fault(f"{point}=kill@{nth}"):
            try:
                self.flow.run(limits=Limits(max_records=most))
            except (Died, BlizzardError):
                pass
        if newest(self.flow.table) > before:
            self._back_up()

    @rule(nth=st.integers(1, 2), most=st.integers(2, 5))
    def run_with_an_answer_lost(self, nth: int, most: int) -> None:
        with self._fault(f"commit.answer=raise@{nth}"):
            self._runs(limits=Limits(max_records=most))

    @rule()
    def be_overtaken_by_a_second_driver(self) -> None:
        self.arrive(2)
        overtaken = Flow(self.flow.folder, always=self.flow.always)
        try:
            overtaken.run(while_reading=self.run_to_the_end)
        except Fenced:
            pass
        except BlizzardError as e:
            self._check_refusal(e)
        self._back_up()

    @rule()
    def pause(self) -> None:
        self._set_pause(True)

    @rule()
    def resume(self) -> None:
        self._set_pause(False)

    def _set_pause(self, wanted: bool) -> None:
        try:
            done = pause(self.flow, "why") if wanted else resume(self.flow)
        except BlizzardError as e:
            self._check_refusal(e)
            self._mend()
            return
        assert done.changed == (wanted != self.is_paused)
        self.is_paused = wanted
        self._back_up()

    @rule(resumes=st.booleans())
    def be_overtaken_by_a_pause(self, resumes: bool) -> None:
        """The run ends as paused, and not as fenced; or it goes on, if the pause is over when it looks."""
        self.arrive(2)
        before, turns = self._own(), list[object]()

        def meanwhile() -> None:
            if not turns:  # after the resume it reads once more
                turns.append(pause(self.flow, "why"))
                self.is_paused = not (resumes and resume(self.flow))

        try:
            Flow(self.flow.folder, always=self.flow.always).run(while_reading=meanwhile)
        except BlizzardError as e:
            self._check_refusal(e)
        else:
            assert self._own() == (before if self.is_paused else Counter(range(self.records)))
        self._back_up()

    @rule()
    def somebody_appends(self) -> None:
        write_foreign(self.flow.table, FOREIGN + self.foreign)
        self.foreign += 1

    @rule()
    def somebody_compacts(self) -> None:
        DeltaTable(str(self.flow.table)).optimize.compact()
        self.is_hurt = True

    @rule()
    def somebody_cleans_the_log_up(self) -> None:
        clean_up_log(self.flow.table)
        self.is_hurt = True

    @rule()
    def somebody_damages_the_newest_commit(self) -> None:
        change_payload(self.flow.table, lambda fields: {k: v for k, v in fields.items() if k != "sequence"})
        self.is_hurt = True

    @precondition(lambda self: self.backup is not None)
    @rule(back=st.integers(1, 3))
    def somebody_restores_an_older_version(self, back: int) -> None:
        """A table that holds what its position says is gone on with; else the text of the refusal leads out of it."""
        flow = self.flow
        if self.is_paused:
            self.resume()
        if self.is_paused:
            return  # it was refused, and is mended now
        own = [c.version for c in flow.open().scan_back() if fence_version(c, "p")]
        if back >= len(own):
            return
        try:
            DeltaTable(str(flow.table)).restore(own[back])
        except DeltaError:
            return  # that version can no longer be read
        try:
            flow.run()
        except Refused as e:
            assert e.kind in LOST
            if ways_in(str(e)):
                follow(flow, e, lambda: _run(flow))
            else:  # the position cannot be read, or nothing tells what the table holds: as it was before
                DeltaTable(str(flow.table)).restore(newest(flow.table) - 1)
                self._mend()
                flow.run()
        assert self._own() == Counter(range(self.records))
        self._back_up()

    @rule(back=st.integers(1, 3))
    def roll_back(self, back: int) -> None:
        flow = self.flow
        before = (self._own(), newest(flow.table))
        try:
            roll_back(flow, (flow.open().fence("p") or 0) - back)
        except Refused as e:
            assert e.kind in UNROLLABLE | (LOST if self.is_hurt else set())
            assert before == (self._own(), newest(flow.table))
        else:
            self._back_up()

    @invariant()
    def nothing_is_there_twice(self) -> None:
        if hasattr(self, "flow"):
            assert max(Counter(ids(self.flow.table)).values(), default=0) <= 1
            bad = [row["source_file"] for row in self.flow.quarantined() if not row["orphaned"]]
            assert len(bad) == len(set(bad)) <= ROOM

    @invariant()
    def only_pause_and_resume_change_whether_it_is_paused(self) -> None:
        if not hasattr(self, "flow"):
            return
        try:
            found = decide_start(self.flow.open(), pipeline="p", source=None, scan_commits=100)
        except Refused:
            return  # nobody knows where it stands
        assert isinstance(found, Resume)
        assert (found.position.paused is not None) == self.is_paused

    def _runs(self, **how: Any) -> bool:
        """Whether a run ended well. One that is refused for a reason is mended from the backup."""
        try:
            self.flow.run(**how)
        except BlizzardError as e:
            self._check_refusal(e)
            if e.kind == "late_unclear":  # here nothing is ever late
                self.flow.run(late=LatePolicy(unclear="ignore"))
                self._back_up()
            else:
                self._mend()
            return False
        self._back_up()
        return True

    def _check_refusal(self, error: BlizzardError) -> None:
        assert self.is_hurt, f"refused for no reason: {error}"
        assert error.kind in LOST, str(error)

    def _mend(self) -> None:
        assert self.backup is not None
        import_position(self.flow.open(), self.backup, quarantine=self.flow.quarantine, replaces=True, is_trusted=True)
        self._back_up()

    def _back_up(self) -> None:
        try:
            self.backup = export_position(self.flow.open(), "p")
        except Refused:
            assert self.is_hurt
        else:
            self.is_hurt = False

    def _own(self) -> Counter[int]:
        return Counter(i for i in ids(self.flow.table) if i < FOREIGN)

    def _fault(self, spec: str) -> Any:
        faults._visits.clear()
        return mock.patch.dict("os.environ", {"BLIZZARD_FAULT": spec})


def _run(flow: Flow) -> None:
    flow.run()


TestRealLogMachine = RealLogMachine.TestCase
TestRealLogMachine.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
