"""Which names of the log may stand for a file."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.core.names import is_below, is_name

# name: could a listing have given it, and is it below the folder that it is joined to?
CASES: list[tuple[Any, bool, bool]] = [
    ("a", True, True),
    ("a/b.ndjson", True, True),
    ("with space and ü", True, True),
    ("a..b", True, True),
    ("..a", True, True),
    ("a..", True, True),
    ("...", True, True),
    (".", True, True),
    ("a/./b", True, True),
    ("..\\a", True, True),
    ("a/", True, True),
    ("/a", True, False),
    ("//a", True, False),
    ("/", True, False),
    ("..", False, False),
    ("../a", False, False),
    ("a/..", False, False),
    ("a/../b", False, False),
    ("/../a", False, False),
    ("a..b/../c", False, False),
    ("", False, False),
    ("\0", False, False),
    ("a\0b", False, False),
    (None, False, False),
    (7, False, False),
    (True, False, False),
    (b"a", False, False),
    (["a"], False, False),
    ({"a": 1}, False, False),
]


@pytest.mark.parametrize(("value", "name", "below"), CASES, ids=[repr(case[0]) for case in CASES])
def test_name(value: Any, name: bool, below: bool) -> None:
    assert (is_name(value), is_below(value)) == (name, below)
