"""Files, folders and patterns that somebody names together are one listing below one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard.errors import ConfigError
from blizzard.source.picked import Picked, pick_files
from blizzard.store.access import NO_ACCESS
from tests.ingesting import write_ids


def pick(*uris: str, pattern: str | None = None) -> Picked:
    return pick_files(uris, pattern, lambda _: NO_ACCESS)


def names(picked: Picked) -> list[str]:
    return [file.path for file in picked.files]


def test_several_places_become_one(tmp_path: Path) -> None:
    for name in ("a/x.ndjson", "a/deep/y.ndjson.gz", "b/z.ndjson", "b/odd.log", "c.txt"):
        write_ids(tmp_path / name, 0, 1)
    picked = pick(str(tmp_path / "a"), str(tmp_path / "b/*.log"), str(tmp_path / "c.txt"), str(tmp_path / "a/x.ndjson"))
    assert picked.location.root == str(tmp_path)
    assert names(picked) == ["a/deep/y.ndjson.gz", "a/x.ndjson", "b/odd.log", "c.txt"]
    assert all(picked.location.store.stat(file.path) == file for file in picked.files)


def test_one_place_stays_as_it_is(tmp_path: Path) -> None:
    write_ids(tmp_path / "a/x.ndjson", 0, 1)
    write_ids(tmp_path / "a/y.log", 0, 1)
    assert names(pick(str(tmp_path / "a"))) == ["x.ndjson"]
    assert names(pick(str(tmp_path / "a"), pattern="*.log")) == ["y.log"]
    alone = pick(str(tmp_path / "a/y.log"))
    assert (alone.location.root, names(alone)) == (str(tmp_path / "a"), ["y.log"])


def test_a_folder_whose_name_begins_like_another_is_no_part_of_it(tmp_path: Path) -> None:
    write_ids(tmp_path / "a/x.ndjson", 0, 1)
    write_ids(tmp_path / "ab/x.ndjson", 0, 1)
    assert names(pick(str(tmp_path / "a"), str(tmp_path / "ab"))) == ["a/x.ndjson", "ab/x.ndjson"]


def test_what_is_not_in_one_store_is_refused(tmp_path: Path) -> None:
    write_ids(tmp_path / "x.ndjson", 0, 1)
    with pytest.raises(ConfigError, match="one after the other") as refused:
        pick(str(tmp_path / "x.ndjson"), "memory://bucket/folder")
    assert refused.value.kind == "usage"
    with pytest.raises(ConfigError, match="does not exist"):
        pick(str(tmp_path / "nowhere"), str(tmp_path / "x.ndjson"))
