"""What a mirror has to write, decided from what it holds and what the log holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from blizzard.core.codec import decode_position
from blizzard.core.export import export_of
from blizzard.core.log import CommitFacts, Txn
from blizzard.core.mirror import (
    Change,
    Held,
    Series,
    Version,
    VersionId,
    append,
    compare,
    follows,
    is_sql,
    sqlite_file,
    version_of,
)
from tests.core.logs import DAMAGED, facts, fence, ledger_of, own
from tests.core.test_codec import EXAMPLE, example

SERIES = Series(pipeline="p", table_id=EXAMPLE.on.table_id, table="file:///t")


def version(sequence: int, batch_id: str | None = None) -> Version:
    position = example(sequence=sequence, batch_id=batch_id or f"b{sequence}", pipeline="p")
    return version_of(SERIES, position, sequence)


def held(*sequences: int, timeline: str = "b") -> Held:
    batches: dict[int, str | None] = {sequence: f"{timeline}{sequence}" for sequence in sequences}
    newest = VersionId(sequence=max(batches), batch_id=batches[max(batches)]) if batches else None
    return Held(batches=batches, newest=newest)


def log(newest: int, oldest: int = 1) -> list[CommitFacts]:
    """Newest first, with a commit of somebody else between any two."""
    commits = []
    for sequence in range(newest, oldest - 1, -1):
        commits += [own(2 * sequence, ledger_of(sequence)), facts(2 * sequence - 1)]
    return commits


def compared(before: Held, commits: Iterable[CommitFacts], **how: Any) -> Change:
    given: dict[str, Any] = {"known": 0, "keep": 100, "batch_of": before.batches.__getitem__} | how
    return compare(before, commits, SERIES, **given)


def written(change: Change) -> list[int]:
    return [version.sequence for version in change.write]


def removed(change: Change) -> list[int]:
    return [gone.sequence for gone in change.remove]


def test_a_version_is_the_export_with_time_size_and_sequence() -> None:
    made = version(7)
    assert made.payload == export_of(example(sequence=7, batch_id="b7", pipeline="p"), table_id=EXAMPLE.on.table_id)
    assert orjson.loads(made.payload).keys() == {"blizzard_position", "pipeline", "table_id", "sequence", "app_id"}
    found = decode_position(orjson.loads(made.payload)["app_id"])
    assert (made.sequence, made.taken_at_ms, made.run_id) == (7, EXAMPLE.taken_at_ms, EXAMPLE.run_id)
    assert (found.sequence, made.size_bytes) == (7, len(made.payload))  # type: ignore[union-attr]


def test_what_is_newer_is_added_and_the_oldest_leave() -> None:
    change = append(held(1, 2, 3), version(4), keep=3)
    assert change is not None
    assert (written(change), removed(change), change.newest) == ([4], [1], version(4))
    assert append(held(1, 2, 3), version(3), keep=3) is None
    assert append(held(1, 2, 3), version(2), keep=3) is None


def test_nothing_is_missing_only_after_what_both_were_known_to_agree_on() -> None:
    assert follows(Held(), version(1), None)
    assert follows(held(1, 2), version(3), VersionId(sequence=2, batch_id="b2"))
    assert not follows(held(1, 2), version(3), None)
    assert not follows(held(1, 2), version(4), VersionId(sequence=2, batch_id="b2"))
    assert not follows(held(1, 2, timeline="x"), version(3), VersionId(sequence=2, batch_id="b2"))
    assert not follows(Held(), version(2), None)
    assert not follows(held(1), version(1), None)


def test_what_is_missing_is_taken_from_the_log() -> None:
    assert written(compared(held(1, 2, 6), log(6))) == [3, 4, 5]
    assert written(compared(held(1, 2, 5), log(6))) == [3, 4, 6]
    assert written(compared(held(2), log(3))) == [1, 3]
    assert written(compared(Held(), log(3))) == [1, 2, 3]
    assert written(compared(Held(), log(9), keep=3)) == [7, 8, 9]
    assert compared(held(1, 2, 3), log(3)).is_empty


def test_where_both_agree_reading_stops() -> None:
    commits = iter(log(9))
    assert compared(held(*range(1, 10)), commits).is_empty
    assert next(commits).version == 15  # of sequence 8, and nothing before it


def test_an_older_version_of_a_late_driver_is_filled_in_and_is_not_the_newest() -> None:
    change = compared(held(1, 3), log(3), known=2)
    assert (written(change), change.newest, removed(change)) == ([2], None, [])


def test_a_table_that_was_put_back_takes_the_mirror_with_it() -> None:
    change = compared(held(1, 2, 3, 4, 5), log(2), known=2)
    assert (written(change), removed(change), change.lost) == ([2], [3, 4, 5], (3, 4, 5))
    assert change.newest == change.write[-1]  # or the mirror would go on calling another one the newest


def test_another_batch_of_the_same_sequence_is_replaced() -> None:
    before = Held(batches={1: "b1", 2: "x2", 3: "x3"}, newest=VersionId(sequence=3, batch_id="x3"))
    change = compared(before, log(3), known=3)
    assert ([v.batch_id for v in change.write], removed(change)) == (["b2", "b3"], [])


def test_a_log_that_ends_before_a_known_commit_is_not_believed() -> None:
    assert compared(held(1, 2, 3, 4), log(2), known=4).is_empty
    assert compared(held(1, 2), [facts(9)], known=2).is_empty


def test_a_damaged_newest_payload_takes_nothing_away() -> None:
    """The mirror may have the only sound copy of it."""
    damaged = facts(8, fence(4), Txn(app_id=DAMAGED, version=4))
    change = compared(held(1, 2, 3, 4), [damaged, *log(3)])
    assert change.is_empty
    assert written(compared(held(1, 4), [damaged, *log(3)])) == [2, 3]


def test_positions_of_other_pipelines_and_tables_are_not_taken() -> None:
    other = own(9, ledger_of(9, pipeline="q"))
    elsewhere = own(8, ledger_of(4), table_id="another")
    assert written(compared(held(1), [other, elsewhere, *log(3)])) == [2, 3]


def test_what_calls_itself_the_newest_and_is_not_is_put_right() -> None:
    before = Held(batches={1: "b1", 2: "b2"})  # latest.json is of another sequence
    change = compared(before, log(2))
    assert (written(change), change.newest) == ([2], change.write[-1])


@pytest.mark.parametrize("table_id", ["../../etc", "a/b", "", ".", "x" * 300, "ü", "a\x00b"])
def test_a_table_id_never_leads_out_of_the_mirror(table_id: str) -> None:
    series = Series(pipeline="p", table_id=table_id, table="file:///t")
    pipeline, name, place = series.folder.split("/")
    assert (pipeline, name.startswith("id-"), len(place)) == ("p", True, 8)


def test_a_copy_of_a_table_has_a_series_of_its_own() -> None:
    copy = Series(pipeline="p", table_id=SERIES.table_id, table="file:///copy")
    assert copy.folder != SERIES.folder
    assert SERIES.folder == f"p/{SERIES.table_id}/{SERIES.place}"


def test_which_mirror_is_a_database() -> None:
    for uri in ("sqlite:///a.db", "postgresql://h/d", "postgres://h/d", "postgresql+psycopg://h/d", "SQLITE:///x"):
        assert is_sql(uri)
    for uri in ("/var/mirror", "s3://b/mirror", "sqlite", "postgresql", "mysql://h/d", "file:///sqlite:/x"):
        assert not is_sql(uri)
    assert sqlite_file("sqlite:////var/x.db?timeout=3") == "/var/x.db"
    assert sqlite_file("sqlite+pysqlite:///x.db") == "x.db"
    assert sqlite_file("sqlite://") is None
    assert sqlite_file("postgresql:///x") is None
