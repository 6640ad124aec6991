"""The state machine over a real log once more, with commits by the delta-spark committer: fewer and shorter runs."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.test_real_log_machine import RealLogMachine
from tests.spark.test_committer_contract import commit_by

pytestmark = pytest.mark.spark


class SparkLogMachine(RealLogMachine):
    session: ClassVar[Any] = None


def test_the_machine_holds_with_commits_by_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_by(spark, monkeypatch)
    few = settings(max_examples=4, stateful_step_count=10, deadline=None)
    run_state_machine_as_test(SparkLogMachine, settings=few)
