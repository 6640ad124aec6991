"""Moments as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.moments import moment_text, parse_moment

JANUARY_MS = 1_767_225_600_000  # 2026-01-01, UTC

MOMENTS = {
    "2026-01-01": JANUARY_MS,
    " 2026-01-01 ": JANUARY_MS,
    "2026-01-01T00:00": JANUARY_MS,
    "2026-01-01 00:00:00": JANUARY_MS,
    "2026-01-01T00:00:00Z": JANUARY_MS,
    "2026-01-01T02:00:00+02:00": JANUARY_MS,
    "2025-12-31T19:00-05:00": JANUARY_MS,
    "2026-01-01T00:00:00.5Z": JANUARY_MS + 500,
    "2026-01-01T00:00:00.123000": JANUARY_MS + 123,
    "1970-01-01": 0,
    "9999-12-31T23:59:59.999Z": 253_402_300_799_999,
}


@pytest.mark.parametrize(("text", "ms"), MOMENTS.items())
def test_a_moment(text: str, ms: int) -> None:
    assert parse_moment(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026", "2026-1-1", "2026-02-30", "2026-01-01T", "2026-01-01T24:01", "2026-01-01T00", "20260101"),
        *("2026-01-01Z", "2026-01-01T00:00:60", "2026-01-01T00:00:00.1234", "1969-12-31", "0001-01-01T00:00+14:00"),
        *("2026-01-01T00:00+25:00", "2026-01-01T00:00 UTC", "٢٠٢٦-٠١-٠١", "2026-01-01T00:00:00z", "1767225600000"),
    ],
)
def test_what_is_no_moment(text: str) -> None:
    assert parse_moment(text) is None


@given(st.integers(0, 253_402_300_799_999))
def test_a_moment_that_is_shown_can_be_read_back(ms: int) -> None:
    assert parse_moment(moment_text(ms)) == ms


def test_any_number_can_be_shown() -> None:
    assert moment_text(2**63 - 1) == "9223372036854775807 ms after 1970"
