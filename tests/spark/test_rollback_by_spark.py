"""Rollbacks through the delta-spark committer: the tests of the contract once more."""

from __future__ import annotations

import pytest

from tests.operate import test_rollback
from tests.operate.test_rollback import flow
from tests.spark.test_committer_contract import _tests_of, committed_by_spark

__all__ = ["committed_by_spark", "flow"]
pytestmark = pytest.mark.spark

globals().update(_tests_of(test_rollback))
