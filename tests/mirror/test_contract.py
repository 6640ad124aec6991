"""What every mirror has to do, whatever it is kept in."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blizzard.core.codec import decode_position
from blizzard.core.mirror import Change, Held, Series, Version, VersionId, version_of
from blizzard.errors import Temporary
from tests.core.test_codec import EXAMPLE, example
from tests.mirror.conftest import kinds
from tests.mirror.under_test import MirrorUnderTest

SERIES = Series(pipeline="p", table_id=EXAMPLE.on.table_id, table="file:///t")


def version(sequence: int, batch_id: str | None = None, series: Series = SERIES, **changes: Any) -> Version:
    position = example(sequence=sequence, batch_id=batch_id or f"b{sequence}", pipeline=series.pipeline, **changes)
    return version_of(series, position, 10 + sequence)


def apply(mirror: MirrorUnderTest, change: Change, series: Series = SERIES) -> None:
    with mirror.stored.opened() as contents:
        contents.apply(series, change)


def add(mirror: MirrorUnderTest, *versions: Version, is_newest: bool = True) -> None:
    for one in versions:
        apply(mirror, Change(write=(one,), newest=one if is_newest else None), one.series)


def look(mirror: MirrorUnderTest, series: Series = SERIES) -> Held:
    return mirror.stored.look(series)


def batch_of(mirror: MirrorUnderTest, sequence: int) -> str | None:
    with mirror.stored.opened() as contents:
        return contents.look(SERIES).batches[sequence] or contents.batch_of(SERIES, sequence)


def test_looking_at_an_empty_one_finds_nothing_and_makes_nothing(mirror: MirrorUnderTest) -> None:
    for _ in range(2):
        assert look(mirror) == Held()
        assert mirror.stored.read(SERIES) is None
        assert mirror.stored.newest_of_each() == []
        mirror.stored.check()
    if mirror.kind == "sqlite":
        assert not os.path.exists(mirror.uri.removeprefix("sqlite:///"))


def test_versions_are_kept_with_time_size_and_sequence(mirror: MirrorUnderTest) -> None:
    add(mirror, version(1), version(2))
    assert (sorted(look(mirror).batches), look(mirror).newest) == ([1, 2], version(2).id)
    assert mirror.stored.newest_of_each() == [version(2)]
    found = mirror.exported(SERIES)
    decoded = decode_position(found["app_id"])
    assert decoded.sequence == 2  # type: ignore[union-attr]
    assert mirror.exported(SERIES, 1)["sequence"] == 1
    assert mirror.stored.read(SERIES, 3) is None


def test_the_payload_is_what_export_writes(mirror: MirrorUnderTest) -> None:
    """Nothing of the configuration gets into a mirror."""
    add(mirror, version(1))
    exported = json.loads(version(1).payload)
    found = mirror.exported(SERIES)
    for_people = {"table", "delta_version", "taken_at_ms", "size_bytes", "run_id", "batch_id"}
    assert found.keys() - exported.keys() == (for_people if mirror.kind in ("folder", "s3") else set())
    assert {name: found[name] for name in exported} == exported
    (newest,) = mirror.stored.newest_of_each()
    assert newest.payload == version(1).payload


def test_the_same_version_twice_is_one(mirror: MirrorUnderTest) -> None:
    add(mirror, version(1), version(2), version(2), version(1, None))
    assert sorted(look(mirror).batches) == [1, 2]


def test_an_older_one_that_comes_late_is_not_the_newest(mirror: MirrorUnderTest) -> None:
    add(mirror, version(3))
    add(mirror, version(2), is_newest=False)
    assert (sorted(look(mirror).batches), look(mirror).newest) == ([2, 3], version(3).id)
    assert mirror.exported(SERIES)["sequence"] == 3


def test_another_batch_of_a_sequence_takes_its_place(mirror: MirrorUnderTest) -> None:
    add(mirror, version(1), version(2, "x"), version(2, "y"))
    assert (batch_of(mirror, 1), batch_of(mirror, 2)) == ("b1", "y")
    assert look(mirror).newest == VersionId(sequence=2, batch_id="y")


def test_what_leaves_is_gone_and_nothing_else(mirror: MirrorUnderTest) -> None:
    add(mirror, version(1), version(2), version(3))
    apply(mirror, Change(remove=(version(1).id, VersionId(sequence=9, batch_id="b9"))))
    assert sorted(look(mirror).batches) == [2, 3]
    assert mirror.stored.read(SERIES, 1) is None


@pytest.mark.parametrize("mirror", kinds("sqlite", "postgres"), indirect=True)
def test_a_batch_that_took_the_place_of_what_leaves_stays(mirror: MirrorUnderTest) -> None:
    """Another driver wrote it between the look and the change."""
    add(mirror, version(1), version(2, "new"))
    apply(mirror, Change(remove=(VersionId(sequence=2, batch_id="lost"),)))
    assert sorted(look(mirror).batches) == [1, 2]


def test_pipelines_tables_and_copies_of_a_table_are_apart(mirror: MirrorUnderTest) -> None:
    others = [
        replace(SERIES, pipeline="q"),
        replace(SERIES, table_id="../another"),
        replace(SERIES, table="file:///copy of t"),
    ]
    add(mirror, version(1), version(2))
    for other in others:
        assert look(mirror, other) == Held()
        add(mirror, version(7, series=other))
    assert look(mirror).newest == version(2).id
    newest = mirror.stored.newest_of_each()
    assert {(v.series, v.sequence) for v in newest} == {(SERIES, 2), *((other, 7) for other in others)}
    apply(mirror, Change(remove=(version(7).id,)), others[0])
    assert [look(mirror, other).highest for other in others] == [0, 7, 7]


def test_a_large_position_and_odd_texts_fit(mirror: MirrorUnderTest) -> None:
    series = replace(SERIES, table="s3://bucket/" + "ü/" * 500 + "t")
    files = {f"{'x' * 200}-{number:05d}.ndjson": "RecordsRead" for number in range(400)}
    large = version(1, series=series, held_back=files)
    assert large.size_bytes > 100_000
    add(mirror, large)
    assert mirror.stored.newest_of_each() == [large]


def test_a_moment_that_no_calendar_has_is_kept_as_the_last_one(mirror: MirrorUnderTest) -> None:
    add(mirror, version(1, taken_at_ms=2**62))
    assert look(mirror).newest == version(1).id


def test_a_fleet_begins_all_at_once(mirror: MirrorUnderTest) -> None:
    together, failed = threading.Barrier(4), list[BaseException]()

    def begin(name: str) -> None:
        series = replace(SERIES, pipeline=name)
        try:
            together.wait(60)
            add(mirror, *(version(number, series=series) for number in range(1, 4)))
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=begin, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert sorted(v.series.pipeline for v in mirror.stored.newest_of_each()) == ["p0", "p1", "p2", "p3"]
    assert {v.sequence for v in mirror.stored.newest_of_each()} == {3}


def test_two_writers_of_one_series_leave_the_newest_in_front(mirror: MirrorUnderTest) -> None:
    add(mirror, version(5))
    add(mirror, version(4), is_newest=False)
    add(mirror, version(6))
    assert mirror.stored.newest_of_each() == [version(6)]


@pytest.mark.parametrize("mirror", kinds("sqlite", "postgres"), indirect=True)
def test_a_table_is_made_with_its_view_or_not_at_all(mirror: MirrorUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody would ever make the view."""
    with monkeypatch.context() as broken:
        broken.setattr("blizzard.mirror.sql._NEWEST", "SELECT no such thing")
        with pytest.raises(Temporary, match="its database says: "):
            add(mirror, version(1))
    assert look(mirror) == Held()
    add(mirror, version(1))
    monkeypatch.setattr("blizzard.mirror.sql.TABLE", "blizzard_newest_positions")
    with mirror.stored.opened() as contents:
        assert contents._has_table()  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"sequence": "x"}'])
@pytest.mark.parametrize("mirror", ["folder"], indirect=True)
def test_a_file_that_somebody_damaged_is_not_taken_for_the_newest(mirror: MirrorUnderTest, content: bytes) -> None:
    add(mirror, version(1), version(2))
    folder = Path(mirror.uri) / SERIES.folder
    (folder / "latest.json").write_bytes(content)
    assert (look(mirror).newest, sorted(look(mirror).batches)) == (None, [1, 2])
    assert mirror.stored.newest_of_each() == []
    (folder / "1.json").write_bytes(content)
    (folder / "notes.json").write_bytes(content)
    assert batch_of(mirror, 1) is None
    add(mirror, version(2))
    assert look(mirror).newest == version(2).id


@pytest.mark.parametrize(
    "changed", [{"taken_at": None}, {"payload": b"\xff"}, {"sequence": "nine"}, {"table_uri": None}, {"pipeline": 1}]
)
@pytest.mark.parametrize("mirror", ["sqlite"], indirect=True)
def test_a_row_that_somebody_else_wrote_hides_no_other(mirror: MirrorUnderTest, changed: dict[str, Any]) -> None:
    """Whoever makes the table first decides what it takes, and SQLite takes a value of any type."""
    columns = "pipeline, table_id, place, sequence, table_uri, delta_version, taken_at, size_bytes, run_id, batch_id"
    names = [*columns.split(", "), "payload"]
    with sqlite3.connect(mirror.uri.removeprefix("sqlite:///")) as connection:
        connection.execute(
            f"CREATE TABLE blizzard_positions ({columns}, payload, PRIMARY KEY ({', '.join(names[:4])}))"
        )
    add(mirror, version(1))
    with sqlite3.connect(mirror.uri.removeprefix("sqlite:///")) as connection:
        row = dict(zip(names, connection.execute("SELECT * FROM blizzard_positions").fetchone(), strict=True))
        values = list((row | {"table_id": "t", "place": "x"} | changed).values())
        connection.execute(f"INSERT INTO blizzard_positions VALUES ({', '.join('?' * len(names))})", values)
    assert mirror.stored.newest_of_each() == [version(1)]
