"""A pipeline with several targets that dies again and again, over real Delta logs, with the tasks in this process.

A process that is dead does nothing more: from the moment of its death on, every named point of `blizzard.faults` raises
`Crash`, on whatever thread. So a commit that waits behind the one that died is not made either.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from blizzard import faults
from blizzard.testing.memory import Crash
from tests.flows.in_process import InProcessReader
from tests.flows.shell import Said
from tests.flows.targets import Targets, bad, no_object
from tests.ingesting import DDL, is_table, line, write

COMMIT_POINTS = ("commit.before", "commit.during", "commit.answer", "commit.after")
POINTS = (*COMMIT_POINTS, "quarantine.before", "quarantine.after")
Command = Callable[..., Said]


# Which records a target takes, if it has this condition.
EVEN = "name LIKE '%0' OR name LIKE '%2' OR name LIKE '%4' OR name LIKE '%6' OR name LIKE '%8'"


def wide(record_id: int, column: int) -> bytes:
    """A record with a field that no schema has at first."""
    return b'{"id":%d,"name":"n%d","extra_%d":%d}\n' % (record_id, record_id, column, record_id)


class CrashStory:
    """`deaths` counts how often a run died before its end."""

    def __init__(self, folder: Path, command: Command, seed: int) -> None:
        self.rng = random.Random(seed)
        self.command = command
        self.files = self.next_id = self.deaths = self.runs = 0
        self.good: set[int] = set()
        self.bad: set[int] = set()  # for those that take them
        self.no_object: set[int] = set()  # bad for all
        self.visits = 20  # of named points, in the run before
        self.is_dead = False  # the run before died
        self.between = Counter[str]()  # whether the targets had made as many commits when a run died
        self.targets = self._make(folder)
        self.add_file(late=False)

    def _make(self, folder: Path) -> Targets:
        rng, names = self.rng, ["one", "two", "three"][: self.rng.choice([2, 2, 3])]
        shared = str(folder / "bad") if rng.random() < 0.4 else None
        own: dict[str, dict[str, Any]] = {}
        for name in names:
            keys: dict[str, Any] = {"schema": self._schema()}
            if shared is not None:
                keys["quarantine"] = {"path": shared}
            if name != "one" and rng.random() < 0.3:
                keys["where"] = EVEN
            elif rng.random() < 0.2:
                keys |= {"schema": {"ddl": DDL}, "transform": {"sql": "SELECT id, upper(name) AS name FROM records"}}
            own[name] = keys
        policy = rng.choice(["required", "required", "all", "quorum:1"])
        if policy == "required":
            own[names[-1]]["required"] = False
        keys = {
            "commit_policy": policy,
            "limits": {
                "max_records": rng.choice([5, 9, 14]),
                "max_files": rng.choice([2, 4]),
                "max_inflight": rng.choice([1, 2, 3]),
            },
            "bad_records": {"first_batch_max_ratio": 1.0},
        }
        if rng.random() < 0.4:
            keys["after_ingest"] = {"action": "archive", "archive_path": str(folder / "archive"), "keep_s": 0}
        return Targets(folder, own, keys, schema=None)

    def _schema(self) -> dict[str, Any]:
        kind = self.rng.choice(["add_columns", "add_columns", "ignore", "rescue", "narrow", "strict names"])
        if kind == "narrow":
            return {"ddl": "id BIGINT", "evolution": "ignore"}
        return {"ddl": DDL, "evolution": "ignore" if kind == "strict names" else kind}

    # What happens.

    def step(self) -> None:
        for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
            self.add_file(late=self.files > 4 and self.rng.random() < 0.25)
        happening = self.rng.choices(
            [
                *(self.die_anywhere, self.die_at_a_point, self.lose_an_answer, self.fail_one, self.leave_one_out),
                *(self.roll_one_back, self.pause_and_resume, self.be_overtaken, self.end),
            ],
            [12, 24, 2, 1, 1, 2, 1, 2, 1],
        )[0]
        happening()
        self.targets.check_none_twice()

    def add_file(self, *, late: bool) -> None:
        rng, lines = self.rng, []
        column = rng.randint(0, 4)
        for record_id in range(self.next_id, self.next_id + rng.randint(0, 12)):
            chance = rng.random()
            if chance < 0.1:
                self.bad.add(record_id)
                lines.append(bad(record_id))
            elif chance < 0.15:
                self.no_object.add(record_id)
                lines.append(no_object(record_id))
            else:
                self.good.add(record_id)
                lines.append(wide(record_id, column) if rng.random() < 0.1 else line(record_id))
        self.next_id += len(lines)
        name = f"{'a' if late else 'm'}{self.files:05d}.ndjson{rng.choice(['', '.gz'])}"
        self.files += 1
        write(self.targets.src / name, b"".join(lines) or b"\n")

    def die_anywhere(self) -> None:
        self._die(f"*=kill@{self.rng.randint(1, self.visits)}+")

    def die_at_a_point(self) -> None:
        """Of one target: where it has just committed, or is about to, others of the batch have or have not."""
        name, point = self.rng.choice(list(self.targets.own)), self.rng.choice(POINTS)
        root = self.targets.quarantine(name) if point.startswith("quarantine") else self.targets.table(name)
        self._die(f"{point}[{root.name}]=kill@{self.rng.choice([1, 1, 1, 2])}+")

    def _die(self, fault: str) -> None:
        before = {name: self.targets.sequence(name) for name in self.targets.own}
        with self._fault(fault):
            said = self._run()
        if not self.is_dead:
            self._check_end(said)
            return
        self.deaths += 1
        moved = {name: self.targets.sequence(name) - sequence for name, sequence in before.items()}
        self.between["alike" if len(set(moved.values())) == 1 else "apart"] += 1

    def lose_an_answer(self) -> None:
        name = self.rng.choice(list(self.targets.own))
        point = self.rng.choice([*COMMIT_POINTS[1:3], "quarantine.before", "quarantine.after"])
        root = self.targets.quarantine(name) if point.startswith("quarantine") else self.targets.table(name)
        with self._fault(f"{point}[{root.name}]=raise@{self.rng.randint(1, 2)}"):
            said = self._run()
        self._check_end(said)

    def fail_one(self) -> None:
        """Its log cannot be read, for a whole run."""
        name = self.rng.choice(list(self.targets.own))
        if not is_table(self.targets.table(name)):
            return
        newest = max((self.targets.table(name) / "_delta_log").glob("*.json"))
        content = newest.read_bytes()
        newest.write_bytes(b"{broken")
        try:
            said = self._run()
        finally:
            newest.write_bytes(content)
        policy = self.targets.keys["commit_policy"]
        is_optional = policy == "quorum:1" or self.targets.own[name].get("required") is False
        assert said.code == (0 if is_optional else 3), said.text

    def leave_one_out(self) -> None:
        """For one run the configuration does not name it."""
        if len(self.targets.own) < 3 or "after_ingest" in self.targets.keys:
            return  # what others archive meanwhile it would miss
        name = self.rng.choice(list(self.targets.own))
        if self._would_leave_unrouted({name}):
            return
        kept = self.targets.own.pop(name)
        optional = self.targets.own[list(self.targets.own)[-1]].get("required")
        try:
            assert self._run().code == 0, optional
        finally:
            self.targets.own[name] = kept

    def roll_one_back(self) -> None:
        """One or two commits. The process may die of it, before or after."""
        name = self.rng.choice(list(self.targets.own))
        to = self.targets.sequence(name) - self.rng.randint(1, 2)
        if to < 1:
            return
        point = self.rng.choice([*POINTS, "none"])
        with self._fault(f"{point}=kill@1+"):
            said = self.command(
                "checkpoint", "rollback", *self.targets.words("--target", name, "--to", str(to), "--yes")
            )
        # A file is archived already, or a rollback came before.
        refusals = ("rollback_files", "rollback_source", "rollback_target")
        assert self.is_dead or said.code == 0 or said.kind in refusals, said.text

    def be_overtaken(self) -> None:
        """While a batch is read, others move the position of some targets or of all: another run, which may know fewer
        targets, a rollback, or a pause in one log."""
        name = self.rng.choice(list(self.targets.own))
        doings: list[Callable[[], object]] = [self._run_others, self.roll_one_back, lambda: self._pause_one(name)]
        read, meanwhile = InProcessReader.run, iter([self.rng.choice(doings)])

        def overtaken(reader: InProcessReader, *given: Any, **named: Any) -> Any:
            for act in meanwhile:
                act()
            return read(reader, *given, **named)

        with mock.patch.object(InProcessReader, "run", overtaken):
            said = self._run()
        assert said.code in (0, 4), said.text
        self.command("resume", *self.targets.words())

    def _run_others(self) -> None:
        kept = dict(self.targets.own)
        left_out = set(self.rng.sample(list(kept), self.rng.randint(0, len(kept) - 1)))
        # Else those that are left out would miss something.
        if "after_ingest" not in self.targets.keys and not self._would_leave_unrouted(left_out):
            self.targets.own = {name: own for name, own in kept.items() if name not in left_out}
        try:
            assert self._run("--max-batches", "2").code == 0
        finally:
            self.targets.own = kept
            self.targets.words()  # the file of the configuration, as it was

    def _would_leave_unrouted(self, left_out: Collection[str]) -> bool:
        """Every other target has a condition: records that none takes would go to the quarantine of the first one."""
        return all("where" in own for name, own in self.targets.own.items() if name not in left_out)

    def _pause_one(self, name: str) -> None:
        self.command("pause", *self.targets.words("--target", name))

    def pause_and_resume(self) -> None:
        """It may die when the pause is in some logs only. What has not begun cannot be paused: it runs."""
        was_begun = self._is_begun()
        with self._fault(f"commit.before=kill@{self.rng.randint(1, 4)}+"):
            self.command("pause", *self.targets.words())
        said = self._run()
        if not self.is_dead and was_begun:
            assert (said.code, said.last["status"]) == (0, "paused"), said.text
        assert self.command("resume", *self.targets.words()).code == 0

    def _is_begun(self) -> bool:
        return any(self.targets.sequence(name) for name in self.targets.own)

    def end(self) -> None:
        self._check_end(self._run())
        if self.rng.random() < 0.2:
            self.check_audits()

    def _check_end(self, said: Said) -> None:
        """After a run to the end everything is there, once."""
        assert said.code == 0, said.text
        for name, own in self.targets.own.items():
            # A record that is bad for the schema has no name here: the condition is not true for it.
            good = {i for i in self.good if i % 2 == 0} if "where" in own else self.good
            bad_ids = self.no_object if "where" in own else self.bad | self.no_object
            self.targets.check_each_once(good, bad_ids, of=[name])

    def check_audits(self) -> None:
        said = self.command("audit", *self.targets.words("--json"))
        found = json.loads(said.text[said.text.index("{") :])["targets"]
        assert said.code == 0, said.text
        assert {name: (audit["problems"], audit["balance"]["unaccounted"]) for name, audit in found.items()} == {
            name: ([], 0) for name in self.targets.own
        }

    def _run(self, *words: str) -> Said:
        self.runs += 1
        return self.command("run", *self.targets.words(*words))

    @contextmanager
    def _fault(self, spec: str) -> Iterator[None]:
        faults._visits.clear()

        self.is_dead = False

        def act(action: str, point: str) -> None:
            if action == "kill":
                self.is_dead = True
                raise Crash
            raise faults.InjectedFault(f"injected at {point}")

        with mock.patch.object(faults, "_act", act), mock.patch.dict(os.environ, {"BLIZZARD_FAULT": spec}):
            yield
        self.visits = min(60, max(5, faults._visits["*"]))


def tell_stories(folder: Path, command: Command, *, crashes: int, seed: int) -> Counter[str]:
    """New stories until so many runs have died. Returns what was met, in numbers."""
    told = Counter[str]()
    while told["deaths"] < crashes:
        place = folder / f"story-{told['stories']}"
        place.mkdir()
        story = CrashStory(place, command, seed + told["stories"])
        try:
            for _ in range(30):
                story.step()
            story.end()
            story.check_audits()
        except Exception as e:
            where = f"seed {seed + told['stories']}, {story.targets.own}, {story.targets.keys}"
            raise AssertionError(f"{where}: {e!r}") from e
        told.update(stories=1, deaths=story.deaths, runs=story.runs)
        told.update(story.between)
        with suppress(OSError):
            shutil.rmtree(place)
    return told
