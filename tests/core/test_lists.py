"""Counts as a person says them."""

from __future__ import annotations

from blizzard.core.lists import count, first_of


def test_one_is_one() -> None:
    assert [count(1, "batch"), count(2, "batch"), count(1_000, "file")] == ["1 batch", "2 batches", "1,000 files"]
    assert [first_of(1, "line"), first_of(2, "line")] == ["first line", "first 2 lines"]
