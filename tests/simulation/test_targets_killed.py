"""A run with several targets dies at any moment, again and again: each record is in each table once.

BLIZZARD_CRASHES=1000 makes a thousand of it; pytest --junitxml=FILE keeps the numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.flows.crashes import tell_stories
from tests.flows.shell import Shell

pytestmark = pytest.mark.slow

CRASHES = int(os.environ.get("BLIZZARD_CRASHES", "50"))
SEED = int(os.environ.get("BLIZZARD_SEED", "1"))


def test_between_the_commits_of_targets_a_run_may_die(
    shell: Shell, record_property: Callable[[str, object], None]
) -> None:
    told = tell_stories(shell.folder, shell, crashes=CRASHES, seed=SEED)
    record_property("told", dict(told))
    assert told["apart"] >= CRASHES // 5, "it hardly ever died between two commits"
