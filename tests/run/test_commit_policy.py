"""Every row of the table in docs/targets.md as a run: who advances, how it ends, who gets the next batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from blizzard import faults
from blizzard.errors import BadData, BlizzardError, Refused, Temporary
from blizzard.run.ports import StopRequest
from tests.flows.in_process import InProcessReader
from tests.flows.operating import LONGEST_S, wait_until
from tests.flows.policies import Outcome, outcomes
from tests.flows.shell import Said, Shell
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


def while_commits_fail(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, failing: str, meanwhile: Callable[[StopRequest], None]
) -> tuple[Targets, Said]:
    """A run with three targets. The commits of batch 1 to some of them fail while batch 2 is being read."""
    keys = {"commit_policy": "quorum:1", "limits": {"max_files": 1, "max_inflight": 2}}
    targets = Targets(shell.folder, {"a": {}, "b": {}, "c": {}}, keys)
    for number in range(3):
        targets.put(f"{number}.ndjson", range(10 * number, 10 * number + 10))
    read, is_reading, reads = InProcessReader.run, threading.Event(), 0

    def fail(target: str, _point: str) -> None:
        assert is_reading.wait(LONGEST_S)
        raise Temporary(f"{target} fails")

    def read_and_look(reader: InProcessReader, plan: Any, *, tickets: Any, stop: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == 2:
            is_reading.set()
            wait_until(lambda: sum(lane.has_failed_commit() for lane in stop.lanes) == len(failing))
            meanwhile(stop)
        return read(reader, plan, tickets=tickets, stop=stop)

    with mock.patch.object(faults, "_act", fail), monkeypatch.context() as patch:
        faults._visits.clear()
        patch.setattr(InProcessReader, "run", read_and_look)
        patch.setenv("BLIZZARD_FAULT", ";".join(f"commit.before[{name}]={name}@1" for name in failing))
        return targets, shell("run", *targets.words())


@pytest.mark.parametrize(("failing", "gives_up"), [("c", False), ("abc", True)])
def test_a_read_is_given_up_only_if_nothing_of_it_can_be_committed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, failing: str, gives_up: bool
) -> None:
    answers: list[bool] = []
    targets, said = while_commits_fail(shell, monkeypatch, failing, lambda stop: answers.append(stop.must_cancel()))
    assert (said.code, answers) == (75 if gives_up else 0, [gives_up])
    assert shell("run", *targets.words()).code == 0
    targets.check_each_once(range(30))


def test_a_target_fails_for_the_first_reason(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commit, and not the read that could not have been committed any more. It may be that it was fenced."""

    def fail_too(_stop: StopRequest) -> None:
        raise Refused("the read fails")

    targets, said = while_commits_fail(shell, monkeypatch, "c", fail_too)
    errors = {name: summary["error"] for name, summary in said.last["targets"].items()}
    assert errors == {"a": "the read fails", "b": "the read fails", "c": "c fails"}
    assert shell("run", *targets.words()).code == 0
    targets.check_each_once(range(30))
