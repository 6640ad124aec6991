"""How far one target is behind the others: by the listing of the source, and by the positions alone."""

from __future__ import annotations

import pytest

from blizzard.core.lag import find_behind, stands_behind
from blizzard.core.position import FINISHED, Marks, RecordsRead
from blizzard.core.types import SourceFile


def listed(*names: str) -> list[SourceFile]:
    return [SourceFile(path=name, size_bytes=10, etag="e") for name in names]


@pytest.mark.parametrize(
    ("own", "other", "files"),
    [
        (Marks(), Marks(), 0),
        (Marks(last_committed_file="b"), Marks(last_committed_file="b"), 0),
        (Marks(last_committed_file="a"), Marks(last_committed_file="c"), 2),
        (Marks(last_committed_file="c"), Marks(last_committed_file="a"), 0),
        (Marks(), Marks(files={"b": FINISHED}), 1),
        (Marks(files={"b": RecordsRead(records=3)}), Marks(files={"b": RecordsRead(records=7)}), 1),
        (Marks(files={"b": RecordsRead(records=7)}), Marks(files={"b": RecordsRead(records=3)}), 0),
        (Marks(last_committed_file="c", files={"a": RecordsRead(records=0)}), Marks(last_committed_file="c"), 1),
    ],
)
def test_how_far_a_target_is_behind_another(own: Marks, other: Marks, files: int) -> None:
    found = find_behind(own, [other], listed("a", "b", "c"))
    assert (found.files, found.stored_bytes) == (files, 10 * files)
    assert stands_behind(own, [other]) == bool(files)


def test_one_that_stands_alone_is_behind_nobody() -> None:
    assert find_behind(Marks(), [], listed("a")).files == 0
    assert not stands_behind(Marks(), [])
