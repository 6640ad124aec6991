"""A source that another pipeline has read from another place, told by its files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blizzard.core.codec import encode_position
from blizzard.core.ledger import Ledger, LedgerEntry, encode_ledger
from blizzard.core.log import CheckpointFacts, CommitFacts, Txn, standings_of
from blizzard.core.position import FINISHED, Marks, RecordsRead
from blizzard.core.readers import check_moved, find_reader, readers_of
from blizzard.core.refuse import Refuse, describe_position
from blizzard.core.types import SourceFile, SourceIdentity
from tests.core.test_codec import example
from tests.core.test_recover import commit

LOCAL = SourceIdentity(root="file:///old", pattern="default")
BUCKET = SourceIdentity(root="s3://bucket/new", pattern="default")


def entry(path: str, size: int = 9, etag: str = "e", to: int = 3) -> LedgerEntry:
    return LedgerEntry(
        path=path, size_bytes=size, etag=etag, from_record=0, to_record=to, finished=True, bad=0, broken=None
    )


def taken(*entries: LedgerEntry, source: SourceIdentity = LOCAL, version: int = 7) -> CommitFacts:
    position = example(pipeline="p", source=source, marks=Marks(last_committed_file="b"))
    ledger = Ledger(
        pipeline="p",
        sequence=7,
        run_id="r",
        batch_id="b",
        base_version=6,
        source=source,
        records=0,
        entries=entries,
    )
    return commit(version, position, user_metadata=encode_ledger(ledger))


def found(
    commits: list[CommitFacts], *files: SourceFile, at: SourceIdentity, after: str | None = None
) -> Refuse | None:
    return check_moved(
        commits,
        standings_of(commits),
        pipeline="q",
        source=at,
        begins_at=Marks(last_committed_file=after),
        listing=files,
    )


def listed(path: str, size: int = 9, etag: str = "e") -> SourceFile:
    return SourceFile(path=path, size_bytes=size, etag=etag)


def test_in_one_kind_of_store_name_size_and_etag_have_to_fit() -> None:
    at, commits = replace(LOCAL, root="file:///new"), [taken(entry("a"), entry("b"))]
    assert found(commits, listed("a"), listed("c"), at=at) is not None
    for other in (listed("a", size=8), listed("a", etag="f"), listed("c"), listed("a", size=0)):
        assert found(commits, other, at=at) is None
    assert found(commits, listed("a"), at=at, after="a") is None
    assert found([taken(entry("a", to=0))], listed("a"), at=at) is None  # left out there


def test_between_kinds_of_stores_sizes_have_to_do_and_none_may_differ() -> None:
    commits = [taken(entry("a"), entry("b"))]
    refusal = found(commits, listed("a", etag="md5"), listed("b", etag="md5-2"), at=BUCKET)
    assert refusal is not None
    assert refusal.kind == "source_read_by_other"
    assert "--source file:///old --pipeline p" in refusal.message
    assert found(commits, listed("a", etag="md5"), listed("b", size=8, etag="md5-2"), at=BUCKET) is None


def test_files_in_progress_are_known_without_their_ledger() -> None:
    position = example(
        pipeline="p",
        source=LOCAL,
        marks=Marks(files={"a": RecordsRead(records=1, size_bytes=9, etag="e")}),
    )
    checkpoint = CheckpointFacts(version=9, txns=(Txn(app_id=encode_position(position), version=7),))
    standings = standings_of((), checkpoint)
    refusal = check_moved(
        (),
        standings,
        pipeline="q",
        source=replace(LOCAL, root="file:///new"),
        begins_at=Marks(),
        listing=[listed("a")],
    )
    assert refusal is not None
    assert "a (1 record read)" in refusal.message


def test_a_pipeline_whose_position_cannot_be_read_is_known_by_its_ledger() -> None:
    whole = taken(entry("a"))
    damaged = replace(whole, txns=whole.txns[1:])
    assert found([damaged], listed("a"), at=replace(LOCAL, root="file:///new")) is not None


def test_the_pipeline_that_reads_all_of_the_source_is_named_first() -> None:
    inner = replace(LOCAL, root="file:///old/in")
    commits = [
        commit(8, example(pipeline="a", source=inner, sequence=1, delta_version=7)),
        commit(7, example(pipeline="b", source=LOCAL)),
    ]
    standings = standings_of(commits)
    reader = find_reader(standings, pipeline="q", source=LOCAL)
    assert reader is not None
    assert reader.pipeline == "b"
    assert readers_of(standings, LOCAL) == ("b",)
    assert find_reader(standings, pipeline="b", source=replace(LOCAL, root="file:///else")) is None


def test_the_newest_position_counts_wherever_it_is() -> None:
    old, new = example(sequence=7), example(sequence=8, delta_version=7)
    checkpoint = CheckpointFacts(
        version=9,
        txns=tuple(Txn(app_id=encode_position(position), version=position.sequence) for position in (old, new)),
    )
    assert standings_of((), checkpoint)["p"].position == new
    assert standings_of([commit(8, new)], checkpoint)["p"].version == 8
    assert standings_of([commit(7, old)], checkpoint)["p"].version == 9


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        (Marks(), "no mark; nothing in progress"),
        (Marks(last_committed_file="m"), "mark m; nothing in progress"),
        (
            Marks(files={"a": RecordsRead(records=5), "z": FINISHED}, last_committed_file="m"),
            "mark m; in progress: a (5 records read); finished after the mark: z",
        ),
        (Marks(prefix_marks={"r=b/": "r=b/1", "r=a/": "r=a/9"}), "mark r=a/9, r=b/1; nothing in progress"),
    ],
)
def test_a_position_is_told_whole(marks: Marks, text: str) -> None:
    assert describe_position(example(marks=marks)) == text


def test_of_very_many_names_the_first_are_told_and_where_the_others_are() -> None:
    files = {f"{i:03d}": RecordsRead(records=1) for i in range(50)}
    text = describe_position(example(marks=Marks(files=files)))
    assert "and 30 more (blizzard checkpoint show has all)" in text
