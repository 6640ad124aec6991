"""Pauses between attempts."""

from __future__ import annotations

import pytest

from blizzard.core.retry import RetryPolicy

POLICY = RetryPolicy(base_ms=100, max_ms=1_000)


@pytest.mark.parametrize(
    ("attempt", "chance", "delay_s"),
    [
        pytest.param(1, 0.0, 0.2, id="after the first attempt"),
        pytest.param(2, 0.0, 0.4, id="doubled"),
        pytest.param(3, 0.0, 0.8, id="doubled again"),
        pytest.param(4, 0.0, 1.0, id="up to the longest"),
        pytest.param(4, 1.0, 0.5, id="chance takes away half at most"),
        pytest.param(1, 0.5, 0.15, id="chance takes away some"),
        pytest.param(100_000, 0.0, 1.0, id="after weeks of failures"),
    ],
)
def test_a_pause_doubles_up_to_a_bound(attempt: int, chance: float, delay_s: float) -> None:
    assert POLICY.delay_s(attempt, chance) == pytest.approx(delay_s)
