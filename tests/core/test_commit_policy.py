"""Whose failure ends a run with several targets, by the table in docs/targets.md. tests/run/test_commit_policy.py holds
runs against the same table."""

from __future__ import annotations

import pytest

from blizzard.core.commit_policy import CommitPolicy, Member
from tests.flows.policies import Outcome, outcomes


@pytest.mark.parametrize("outcome", outcomes(), ids=str)
def test_whose_failure_ends_the_run(outcome: Outcome) -> None:
    members = [Member(name="a"), Member(name="b"), Member(name="c", is_required=False)]
    assert CommitPolicy.parse(outcome.policy).cause_of_end(members, outcome.failing) == outcome.cause


def test_a_run_whose_every_target_fails_fails_though_none_is_required() -> None:
    members = [Member(name="a", is_required=False), Member(name="b", is_required=False)]
    assert CommitPolicy().cause_of_end(members, ["a"]) is None
    assert CommitPolicy().cause_of_end(members, ["a", "b"]) == "a"
