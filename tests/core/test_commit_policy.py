"""Which failure ends a run with several targets. The same table is in docs/targets.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blizzard.core.commit_policy import CommitPolicy, Member

DOCS = Path(__file__).parents[2] / "docs" / "targets.md"

# Three targets: a and b are required, c is not. Policy, who has failed, whose error ends the run.
OUTCOMES = [
    ("required", "", None),
    ("required", "c", None),
    ("required", "a", "a"),
    ("required", "b", "b"),
    ("required", "a b", "a"),
    ("required", "b c", "b"),
    ("required", "a b c", "a"),
    ("all", "", None),
    ("all", "c", "c"),
    ("all", "a", "a"),
    ("all", "b c", "b"),
    ("quorum:2", "", None),
    ("quorum:2", "a", None),
    ("quorum:2", "c", None),
    ("quorum:2", "a c", "a"),
    ("quorum:2", "b c", "b"),
    ("quorum:1", "a b", None),
    ("quorum:1", "a b c", "a"),
    ("quorum:3", "c", "c"),
]


@pytest.mark.parametrize(("policy", "failed", "cause"), OUTCOMES)
def test_whose_failure_ends_the_run(policy: str, failed: str, cause: str | None) -> None:
    members = [Member(name="a"), Member(name="b"), Member(name="c", is_required=False)]
    assert CommitPolicy.parse(policy).cause_of_end(members, failed.split()) == cause


def test_a_run_whose_every_target_fails_fails_though_none_is_required() -> None:
    members = [Member(name="a", is_required=False), Member(name="b", is_required=False)]
    assert CommitPolicy().cause_of_end(members, ["a"]) is None
    assert CommitPolicy().cause_of_end(members, ["a", "b"]) == "a"


def test_the_table_in_the_documents_is_this_one() -> None:
    rows = re.findall(r"^\| `([\w:]+)` \| ([a-c, –]+) \| ([a-c, –]+) \|", DOCS.read_text(), re.MULTILINE)
    shown = [
        (policy, failed.replace(",", "").replace("–", "").strip(), cause.strip()) for policy, failed, cause in rows
    ]
    assert shown == [(policy, failed, cause or "–") for policy, failed, cause in OUTCOMES]
