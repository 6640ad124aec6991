"""Every row of the table in docs/targets.md as a run: who advances, how it ends, who gets the next batch."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import pytest

from blizzard import faults
from blizzard.errors import BadData, BlizzardError, Refused, Temporary
from tests.flows.in_process import InProcessReader
from tests.flows.operating import LONGEST_S, wait_until
from tests.flows.policies import Outcome, outcomes
from tests.flows.shell import Shell
from tests.flows.targets import Targets

ERRORS: dict[str, type[BlizzardError]] = {"a": BadData, "b": Refused, "c": Temporary}


@pytest.mark.parametrize("outcome", outcomes(), ids=str)
def test_a_run_ends_and_goes_on_as_the_table_says(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    keys = {"commit_policy": outcome.policy, "limits": {"max_files": 1, "max_inflight": 1}}
    optional = {"required": False} if outcome.policy == "required" else {}
    targets = Targets(shell.folder, {"a": {}, "b": {}, "c": optional}, keys)
    for number in range(3):
        targets.put(f"{number}.ndjson", range(10 * number, 10 * number + 10))

    def fail(target: str, _point: str) -> None:
        raise ERRORS[target](f"{target} fails")

    with mock.patch.object(faults, "_act", fail), monkeypatch.context() as patch:
        faults._visits.clear()
        patch.setenv("BLIZZARD_FAULT", ";".join(f"commit.before[{name}]={name}@2" for name in outcome.failing))
        said = shell("run", *targets.words())

    assert said.code == outcome.exit_code
    assert said.last["error"] == (f"{outcome.cause} fails" if outcome.cause else None)
    has = {name: targets.sequence(name) for name in targets.own}
    assert {name for name, sequence in has.items() if sequence >= 2} == set(outcome.second)
    assert {name for name, sequence in has.items() if sequence >= 3} == set(outcome.third)
    ended = {name: summary["status"] for name, summary in said.last["targets"].items()}
    assert {name for name, status in ended.items() if status == "failed"} == set(outcome.failing)

    assert shell("run", *targets.words()).code == 0
    targets.check_each_once(range(30))
    assert {name: targets.sequence(name) for name in targets.own} == dict.fromkeys("abc", 3)


@pytest.mark.parametrize(("failing", "gives_up"), [("c", False), ("abc", True)])
def test_a_read_is_given_up_only_if_nothing_of_it_can_be_committed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, failing: str, gives_up: bool
) -> None:
    """The commits of batch 1 fail while batch 2 is being read."""
    keys = {"commit_policy": "quorum:1", "limits": {"max_files": 1, "max_inflight": 2}}
    targets = Targets(shell.folder, {"a": {}, "b": {}, "c": {}}, keys)
    for number in range(3):
        targets.put(f"{number}.ndjson", range(10 * number, 10 * number + 10))
    read, is_reading, said = InProcessReader.run, threading.Event(), list[bool]()

    def fail(target: str, _point: str) -> None:
        assert is_reading.wait(LONGEST_S)
        raise Temporary(f"{target} fails")

    def read_and_ask(reader: InProcessReader, plan: Any, *, tickets: Any, stop: Any) -> Any:
        if not said:
            said.append(stop.must_cancel())  # batch 1
        elif len(said) == 1:
            is_reading.set()
            wait_until(lambda: sum(lane.has_failed_commit() for lane in stop.lanes) == len(failing))
            said.append(stop.must_cancel())
        return read(reader, plan, tickets=tickets, stop=stop)

    monkeypatch.setattr(InProcessReader, "run", read_and_ask)
    with mock.patch.object(faults, "_act", fail), monkeypatch.context() as patch:
        faults._visits.clear()
        patch.setenv("BLIZZARD_FAULT", ";".join(f"commit.before[{name}]={name}@1" for name in failing))
        code = shell("run", *targets.words()).code
    assert (code, said) == (75 if gives_up else 0, [False, gives_up])
    assert shell("run", *targets.words()).code == 0
    targets.check_each_once(range(30))
