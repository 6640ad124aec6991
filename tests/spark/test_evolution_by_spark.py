"""New columns, bad records and late files through the delta-spark committer: the tests of the contract once more."""

from __future__ import annotations

import pytest

from tests.run import test_evolution
from tests.run.test_evolution import *  # noqa: F403
from tests.spark.test_committer_contract import _tests_of, committed_by_spark

__all__ = ["committed_by_spark"]
pytestmark = pytest.mark.spark

globals().update(_tests_of(test_evolution))
