"""Everything around the commit protocol, in any order, over real logs: positions moved by hand, a quarantine that is
replayed, purged or put back, tables restored and copied, late files, cleaning, clocks that jump, drivers in drivers.

Where a run is refused, the machine does what the text says and nothing else. No record is ever there twice, and none
vanishes from table, quarantine, source and archive at once, unless a person said so.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from blizzard import faults
from blizzard.core.plan import Limits
from blizzard.errors import BlizzardError, ConfigError, Fenced, Refused, Temporary
from blizzard.operate.transfer import export_position, import_position
from blizzard.quarantine import contents
from blizzard.tasks.quarantine import Selection
from tests.flows.backups import Elsewhere
from tests.flows.in_process import newest
from tests.flows.replaying import STRICT, replay_in
from tests.flows.rollbacks import roll_back
from tests.simulation.around import World, vacuum
from tests.simulation.invariants import ENDS_FOR_A_REASON, ONE_READER, REFUSED_CHANGES_NOTHING, holds
from tests.simulation.ways_out import edit, follow

pytestmark = pytest.mark.slow

DAY_MS = 86_400_000
POINTS = (
    *("commit.before", "commit.during", "commit.answer", "commit.after", "task.before_parquet_close"),
    *("quarantine.before", "quarantine.after", "quarantine.copied", "replay.before_commit"),
)
# What has to have been done before a run may be refused so.
REASONS = {
    "table_rewritten": {"restore"},
    "quarantine_ahead": {"put_back", "copy"},
    "quarantine_behind": {"put_back", "copy"},
    "quarantine_moved": {"put_back", "copy"},
    "quarantine_lost": {"put_back"},
    "source_changed": {"clean"},
}
# What a command that moves the position may say, and then has changed nothing.
COMMANDS = {"rollback_target", "rollback_files", "rollback_source", "rollback_replay", "import_mismatch"}
ONE_OR_TWO, SLOT, CHOICE = st.integers(1, 2), st.integers(0, 2), st.integers(0, 3)


class Died(BaseException):
    """The process is gone: nothing may catch this."""


class WaysAroundMachine(RuleBasedStateMachine):
    @initialize(room=st.none() | st.integers(1, 5))
    def begin(self, room: int | None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self._folder.name), room)
        self.flow = self.world.flow
        self.exports: list[bytes] = []
        self.done: set[str] = set()
        for slot in range(3):  # something to go back to, each a little older than the next
            self.world.add_file("gm")
            self.run_to_the_end(0)
            self.world.keep(slot)

    def teardown(self) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    # Files and runs.

    @rule(kinds=st.text("ggmh", min_size=1, max_size=5), late=st.booleans())
    def arrive(self, kinds: str, late: bool) -> None:
        self.world.add_file(kinds, late=late)

    @rule(choice=CHOICE)
    def run_to_the_end(self, choice: int) -> None:
        self._go_on(choice)
        self.world.check_all_in()
        self.export()

    @rule(kinds=st.text("gmh", min_size=1, max_size=3), late=st.booleans(), choice=CHOICE)
    def arrive_and_run(self, kinds: str, late: bool, choice: int) -> None:
        self.arrive(kinds, late)
        self.run_to_the_end(choice)

    @rule(most=st.integers(1, 3), batches=ONE_OR_TWO, choice=CHOICE)
    def run_a_little(self, most: int, batches: int, choice: int) -> None:
        self._go_on(choice, limits=Limits(max_records=most), max_batches=batches)

    @rule(deletes=st.booleans(), choice=CHOICE)
    def run_and_clean(self, deletes: bool, choice: int) -> None:
        """Twice: the second one does what the first has said."""
        self.done.add("clean")
        for _ in range(2):
            self._go_on(choice, cleaning=self.world.cleaning(deletes=deletes))
        self.world.check_all_in()

    @rule(point=st.sampled_from(POINTS), nth=ONE_OR_TWO, most=st.integers(2, 5), how=st.sampled_from(("run", "replay")))
    def die(self, point: str, nth: int, most: int, how: str) -> None:
        def die(action: str, at: str) -> None:
            raise Died

        with mock.patch.object(faults, "_act", die), self._fault(f"{point}=kill@{nth}"):
            try:
                if how == "replay":
                    replay_in(self.flow, run_id=self._run_id())
                else:
                    self.flow.run(spec=STRICT, limits=Limits(max_records=most))
            except (Died, BlizzardError):
                pass

    @rule(deletes=st.booleans())
    def die_before_anything_is_cleaned(self, deletes: bool) -> None:
        def die(*_: object) -> None:
            raise Died

        self.done.add("clean")
        cleaning = self.world.cleaning(deletes=deletes)
        with mock.patch("blizzard.run.after_ingest.Cleaning._clean", die):
            try:
                self.flow.run(spec=STRICT, cleaning=cleaning)
            except (Died, BlizzardError):
                pass

    @rule(nth=ONE_OR_TWO, most=st.integers(2, 5), choice=CHOICE)
    def lose_an_answer(self, nth: int, most: int, choice: int) -> None:
        with self._fault(f"commit.answer=raise@{nth}"):
            self._go_on(choice, limits=Limits(max_records=most))

    @rule(
        what=st.sampled_from(("run", "roll_back", "reset", "skip", "import", "replay", "compact", "delete", "vacuum")),
        number=st.integers(0, 5),
        most=st.integers(2, 5),
    )
    def meanwhile(self, what: str, number: int, most: int) -> None:
        """Somebody else does this while a run has read its batch and not committed it."""
        acts: dict[str, Callable[[], None]] = {
            "run": lambda: self.run_to_the_end(number),
            "roll_back": lambda: self.roll_back(number),
            "reset": lambda: self.reset(number),
            "skip": lambda: self.skip(number),
            "import": lambda: self.import_again(number),
            "replay": lambda: self.replay(number),
            "compact": self.somebody_compacts,
            "delete": lambda: self.somebody_deletes(number),
            "vacuum": lambda: vacuum(self.flow.table),
        }
        self.world.add_file("gm")
        outer, todo = self.world.second_driver(), [acts[what]]

        def once() -> None:
            if todo:
                todo.pop()()

        try:
            outer.run(spec=STRICT, while_reading=once, limits=Limits(max_records=most))
        except (Fenced, Temporary):
            pass
        except Refused as e:
            self._mend(e, number)

    # Commands.

    @rule()
    def export(self) -> None:
        try:
            self.exports.append(export_position(self.flow.open(), "p"))
        except Refused as e:
            self._check_reason(e)

    @rule(number=st.integers(0, 9))
    def import_again(self, number: int) -> None:
        if self.exports:
            kept = self.exports[number % len(self.exports)]
            self._command(
                lambda: import_position(self.flow.open(), kept, quarantine=self.flow.quarantine, replaces=True)
            )

    @rule(number=st.integers(0, 9))
    def reset(self, number: int) -> None:
        names = self.world.names()
        if names:
            self._command(lambda: edit(self.flow, "reset", names[number % len(names)]))

    @rule(number=st.integers(0, 9))
    def skip(self, number: int) -> None:
        names = self.world.names()
        if not names:
            return
        name = names[number % len(names)]
        before = newest(self.flow.table)
        self._command(lambda: edit(self.flow, "skip", name))
        if newest(self.flow.table) > before:
            here = set(self.world.rows()) | set(self.world.bad(live_only=True))
            self.world.let_go |= self.world.in_files(self.flow.src / name) - here

    @rule(back=st.integers(1, 4))
    def roll_back(self, back: int) -> None:
        self._command(lambda: roll_back(self.flow, (self.flow.open().fence("p") or 0) - back))

    @rule(choice=CHOICE)
    def replay(self, choice: int) -> None:
        try:
            replay_in(self.flow, run_id=self._run_id())
        except Refused as e:
            self._mend(e, choice)

    @rule(orphaned=st.sampled_from((False, False, True)))
    def purge(self, orphaned: bool) -> None:
        everything, live = set(self.world.bad(live_only=False)), set(self.world.bad(live_only=True))
        contents.purge(self.flow.quarantine, Selection(pipeline="p", orphaned=orphaned))
        # A record that is live no longer was let go, even if an orphan of it is still there.
        self.world.let_go |= everything - set(self.world.bad(live_only=False))
        self.world.let_go |= live - set(self.world.bad(live_only=True))

    @rule()
    def begin_under_a_second_name(self) -> None:
        second, before = Elsewhere(self.world.folder, pipeline="q"), newest(self.flow.table)
        try:
            second.run(spec=STRICT)
        except Refused as e:
            holds(ONE_READER, e.kind == "source_read_by_other", e)
        else:
            holds(ONE_READER, not self.world.names())
        holds(ONE_READER, newest(self.flow.table) == before)

    # Others.

    @rule()
    def somebody_compacts(self) -> None:
        DeltaTable(str(self.flow.table)).optimize.compact()

    @rule(number=st.integers(0, 30))
    def somebody_updates(self, number: int) -> None:
        DeltaTable(str(self.flow.table)).update({"name": "'changed'"}, predicate=f"id <= {number}")

    @rule(number=st.integers(0, 30))
    def somebody_merges(self, number: int) -> None:
        rows = pa.table({"id": pa.array([number], pa.int64()), "name": ["merged"]})
        merge = DeltaTable(str(self.flow.table)).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().execute()

    @rule(number=st.integers(0, 30))
    def somebody_deletes(self, number: int) -> None:
        if number < self.world.records and number in self.world.rows():
            DeltaTable(str(self.flow.table)).delete(f"id = {number}")
            self.world.let_go.add(number)

    @rule(back=st.integers(1, 6))
    def somebody_restores(self, back: int) -> None:
        self.done.add("restore")
        try:
            DeltaTable(str(self.flow.table)).restore(max(0, newest(self.flow.table) - back))
        except DeltaError:
            pass  # its files have been vacuumed

    @rule(slot=SLOT)
    def keep(self, slot: int) -> None:
        self.world.keep(slot)

    @rule(what=st.sampled_from(("table", "quarantine", "log of the quarantine", "both")), slot=SLOT)
    def put_back(self, what: str, slot: int) -> None:
        self.done.add("put_back")
        for name in ("table", "quarantine"):
            if name in what or what == "both":
                self.world.put_back(name, slot, whole="log" not in what)

    @rule(choice=CHOICE)
    def run_a_copy_of_the_table(self, choice: int) -> None:
        """At another place, with the same quarantine."""
        self.done.add("copy")
        copy = self.world.second_driver()
        copy.table_at = self.world.folder / "copy"
        if not copy.table.exists():
            shutil.copytree(self.flow.table, copy.table)
            return
        try:
            copy.run(spec=STRICT)
        except Refused as e:
            self._check_reason(e)
            follow(copy, e, lambda: _run(copy), choice)
        self.world.check_all_in(copy)

    @rule(ms=st.sampled_from((-3 * DAY_MS, 3 * DAY_MS)))
    def the_clock_jumps(self, ms: int) -> None:
        self.flow.clock.ms += ms

    @rule(ms=st.sampled_from((-3 * DAY_MS, 120_000, 3 * DAY_MS)))
    def the_clock_of_the_source_is_wrong(self, ms: int) -> None:
        self.flow.later_ms = ms

    # What must hold.

    @invariant()
    def nothing_twice_and_nothing_gone(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def _go_on(self, choice: int, **how: Any) -> None:
        try:
            self.flow.run(spec=STRICT, **how)
        except Refused as e:
            self._mend(e, choice, **how)

    def _mend(self, error: Refused, choice: int, **how: Any) -> None:
        self._check_reason(error)
        ways = follow(self.flow, error, lambda: _run(self.flow, **how), choice)
        for way in ways:
            if way.command in ("skip", "accept"):  # what that gives up was said
                self.done.add(way.command)
                self.world.give_up()

    def _check_reason(self, error: BlizzardError) -> None:
        holds(ENDS_FOR_A_REASON, bool(REASONS.get(error.kind, set()) & self.done), f"{error.kind}: {error}")

    def _command(self, command: Callable[[], object]) -> None:
        """One that moves the position, or says why not and changes nothing."""
        before = newest(self.flow.table)
        try:
            command()
        except ConfigError as e:
            holds(ENDS_FOR_A_REASON, e.kind == "usage", e)
        except Refused as e:
            if e.kind not in COMMANDS:
                self._check_reason(e)
        else:
            return
        holds(REFUSED_CHANGES_NOTHING, newest(self.flow.table) == before)

    def _run_id(self) -> str:
        self.flow.runs += 1
        return f"replay{self.flow.runs}"

    def _fault(self, spec: str) -> Any:
        faults._visits.clear()
        return mock.patch.dict("os.environ", {"BLIZZARD_FAULT": spec})


def _run(flow: Elsewhere, **how: Any) -> None:
    flow.run(spec=STRICT, **how)


TestWaysAroundMachine = WaysAroundMachine.TestCase
TestWaysAroundMachine.settings = settings(
    max_examples=int(os.environ.get("WAYS_AROUND_EXAMPLES", "30")),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
