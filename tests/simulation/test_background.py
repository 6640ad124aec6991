"""The stand-in for the thread that commits."""

from __future__ import annotations

from blizzard.testing.background import MemoryBackground


def test_a_run_may_have_thousands_of_commits() -> None:
    """Each used to call the one before it, however long ago that had run: a long run ended in a RecursionError."""
    done: list[int] = []
    background = MemoryBackground(lambda: True)
    for i in range(5_000):
        background.start(lambda i=i: done.append(i) or i)  # type: ignore[misc, func-returns-value]
    assert done == list(range(5_000))


def test_commits_run_in_the_order_they_were_given_and_each_once() -> None:
    done: list[int] = []
    background = MemoryBackground(lambda: False)
    pending = [background.start(lambda i=i: done.append(i) or i) for i in range(3)]  # type: ignore[misc, func-returns-value]
    assert pending[2].result() == 2
    assert [p.result() for p in pending[:2]] == [0, 1]
    assert done == [0, 1, 2]
