"""What is in a folder and is not read, by suffix."""

from __future__ import annotations

import pytest

from blizzard.core.left_out import LeftOut, LeftOutCount, suffix_of

SUFFIXES = {
    "a.csv": ".csv",
    "d.e/a": "",
    "a.log.gz": ".log.gz",
    "a.b.log.GZ": ".log.GZ",
    "a.gz": ".gz",
    "README": "",
    "app.log.1": "",  # a number is no kind
    "a.": "",
    "x/.gitkeep": "",
    "a.json.": "",
    "a.x*y": "",  # it would be a glob
    "a.a-very-long-suffix-of-a-name": "",
    "stream-1-2026-01-01-00-00-00-abc": "",
    "a.tar.xz": ".tar.xz",
    "a.é": "",
}


@pytest.mark.parametrize(("name", "suffix"), SUFFIXES.items())
def test_a_suffix_is_what_a_person_knows_a_kind_of_file_by(name: str, suffix: str) -> None:
    assert suffix_of(name) == suffix


def counted(*names: str) -> LeftOut:
    count = LeftOutCount()
    for name in names:
        count.add_unmatched(name)
    return count.total


def test_the_commonest_kinds_come_first_and_the_rest_is_a_number() -> None:
    found = counted(*["x.log.gz"] * 12, *["x.csv"] * 5, "a.b", "c", "e.f")
    assert found.sentence == "20 files match no pattern: 12 .log.gz, 5 .csv, 1 without a suffix, 2 of other kinds"
    assert found.way_to_read == "to read the .log.gz: --set 'source.pattern=**/*.log.gz'"
    assert found.shown["unmatched_files"] == 20


def test_names_without_a_suffix_are_read_with_everything() -> None:
    assert counted("a").sentence == "1 file matches no pattern: 1 without a suffix"
    assert counted("a").way_to_read == "to read them: --set 'source.pattern=**/*'"


def test_a_suffix_for_every_file_does_not_fill_the_memory() -> None:
    found = counted(*(f"a.x{i}" for i in range(10_000)))
    assert (found.unmatched, len(found.by_suffix) <= 201) == (10_000, True)
