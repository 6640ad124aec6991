"""The delta-spark committer keeps the contract that delta-rs keeps: the same tests, with another place."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from blizzard.delta.spark_place import DeltaSparkPlace
from blizzard.schema.load import load_schema
from tests.flows.in_process import Flow
from tests.run import test_commit

pytestmark = pytest.mark.spark

# Tests that are about delta-rs itself: how it commits by hand, and that files are put on the disk by our own hands.
_ABOUT_DELTA_RS = {
    "test_a_commit_between_the_look_and_the_commit_is_looked_at_again",
    "test_the_commit_removes_and_says_so",
    "test_files_are_on_the_disk_before_the_commit_and_the_commit_before_the_answer",
    "test_a_new_tables_first_commit_is_on_the_disk_too",
}


def commit_by(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let flows in this process commit through this session."""

    def place(self: Flow) -> DeltaSparkPlace:
        return DeltaSparkPlace(
            root=str(self.table),
            schema=load_schema(self.ddl),
            clock=self.clock,
            session=lambda: spark,
            is_sole_writer=True,
        )

    monkeypatch.setattr(Flow, "place", property(place))


@pytest.fixture(autouse=True)
def committed_by_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_by(spark, monkeypatch)


def _tests_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    found = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    return {name: test for name, test in found.items() if callable(test) and name not in _ABOUT_DELTA_RS}


globals().update(_tests_of(test_commit))
