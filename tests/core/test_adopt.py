"""A position of the Rust program as one of ours: what is taken over, and what is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from blizzard.core.adopt import (
    Adoption,
    adoption_warnings,
    check_rust_reader,
    decide_adoption,
    find_rust_position,
)
from blizzard.core.kinds import Kind
from blizzard.core.log import CheckpointFacts, CommitFacts, TableFacts, Txn
from blizzard.core.position import FINISHED, Marks, RecordsRead
from blizzard.core.refuse import Refuse
from blizzard.core.types import SourceIdentity
from tests.core.logs import DAMAGED, facts, fence, listed, payload
from tests.core.test_codec import app_id

BUCKET = SourceIdentity(root="s3://bucket/in", pattern="default")
FOLDER = SourceIdentity(root="file:///data/with%20space", pattern="default")
LISTING = listed("a", "b", "c", size=30, etag="now")


def rust(mark: str | None, files: dict[str, Any] | None = None, at: int = 1) -> Txn:
    """As the Rust program writes it. A number stands for records read."""
    progress = {path: {"RecordsRead": p} if isinstance(p, int) else p for path, p in (files or {}).items()}
    state = {"files": progress, "last_committed_file": mark}
    return Txn(
        app_id=app_id(orjson.dumps({"schema_version": 1, "source_state": state, "delta_version": at})), version=at
    )


def table(*commits: CommitFacts, **changes: Any) -> TableFacts:
    fields: dict[str, Any] = {"version": 9, "table_id": "t", "has_data": True, "fence": None} | changes
    return TableFacts(commits=commits, **fields)


def one(mark: str | None, files: dict[str, Any] | None = None) -> TableFacts:
    return table(facts(5, rust(mark, files)))


A, B, C = (f"s3://bucket/in/{name}" for name in "abc")
IN_B = {B: 5}
READ_B = RecordsRead(records=5, size_bytes=30, etag="now")

# what the table holds; the source; what is taken over
ADOPTED: dict[str, tuple[TableFacts, SourceIdentity, Marks]] = {
    "a mark": (one(A), BUCKET, Marks(last_committed_file="a")),
    "a file in progress": (one(A, IN_B), BUCKET, Marks(last_committed_file="a", files={"b": READ_B})),
    "no mark yet": (one(None, IN_B), BUCKET, Marks(files={"b": READ_B})),
    "a finished file": (one(A, {C: "Finished"}), BUCKET, Marks(last_committed_file="a", files={"c": FINISHED})),
    "a finished file that is gone": (
        one(A, {f"{A}0": "Finished"}),
        BUCKET,
        Marks(last_committed_file="a", files={"a0": FINISHED}),
    ),
    "a deeper name": (one("s3://bucket/in/d/e"), BUCKET, Marks(last_committed_file="d/e")),
    "s3a, as Hadoop writes it": (one("s3a://bucket/in/a"), BUCKET, Marks(last_committed_file="a")),
    "s3n, as Hadoop wrote it": (one("s3n://bucket/in/a"), BUCKET, Marks(last_committed_file="a")),
    "a path": (one("/data/with space/a"), FOLDER, Marks(last_committed_file="a")),
    "a URI that is not quoted": (one("file:///data/with space/a"), FOLDER, Marks(last_committed_file="a")),
    "a URI that is quoted": (one("file:///data/with%20space/a"), FOLDER, Marks(last_committed_file="a")),
    "a root with a slash at its end": (
        one(A),
        SourceIdentity(root="s3://bucket/in/", pattern="default"),
        Marks(last_committed_file="a"),
    ),
}


@pytest.mark.parametrize(("known", "source", "marks"), ADOPTED.values(), ids=ADOPTED)
def test_what_is_taken_over(known: TableFacts, source: SourceIdentity, marks: Marks) -> None:
    found = decide_adoption(known, pipeline="p", source=source, listing=LISTING)
    assert found == Adoption(marks=marks, version=5)


REFUSED: dict[str, tuple[TableFacts | None, str]] = {
    "no table": (None, "holds no position of the Rust program"),
    "no position": (table(facts(5)), "holds no position of the Rust program"),
    "only one of ours": (table(facts(5, payload(1))), "holds no position of the Rust program"),
    "the pipeline has begun": (table(facts(6, fence(1)), facts(5, rust(A))), "has a position of its own"),
    "the pipeline has begun, by the snapshot": (table(facts(5, rust(A)), fence=1), "has a position of its own"),
    "its rows were rewritten since": (
        table(facts(6, operation="RESTORE"), facts(5, rust(A))),
        "its position is of version 5, and since then: version 6 of the table is a RESTORE",
    ),
    "an empty position": (one(None), "its newest position is empty"),
    "a file in progress is gone": (one(A, {f"{A}0": 7}), "a0 is in progress there (7 records read) and is not in"),
    "a mark elsewhere": (one("s3://other/in/a"), "s3://other/in/a, which is not below the source"),
    "a mark in a folder whose name begins alike": (one("s3://bucket/input/a"), "which is not below the source"),
    "a mark that leads out": (one("s3://bucket/in/../a"), "which is not below the source"),
    "the folder itself": (one("s3://bucket/in/"), "which is not below the source"),
    "a file elsewhere": (one(A, {"s3://other/b": 5}), "s3://other/b, which is not below the source"),
    "a path, where the source is a bucket": (one("/bucket/in/a"), "which is not below the source"),
    "Parquet that it had staged": (one("s3://staging/x.parquet"), "over Parquet files that another part of it"),
}


@pytest.mark.parametrize(("known", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(known: TableFacts | None, words: str) -> None:
    found = decide_adoption(known, pipeline="p", source=BUCKET, listing=LISTING)
    assert isinstance(found, Refuse)
    assert found.kind == Kind.ADOPT_REJECTED
    assert words in found.message


def test_rewrites_before_its_position_do_no_harm_nor_does_another_pipeline() -> None:
    known = table(facts(6, fence(3, "q"), operation="OPTIMIZE"), facts(5, rust(A)), facts(4, operation="RESTORE"))
    found = decide_adoption(known, pipeline="p", source=BUCKET, listing=LISTING)
    assert found == Adoption(marks=Marks(last_committed_file="a"), version=5)


def test_a_pipeline_that_has_only_made_the_table_may_adopt() -> None:
    known = table(facts(6, fence(0)), facts(5, rust(A)), fence=0)
    assert isinstance(decide_adoption(known, pipeline="p", source=BUCKET, listing=LISTING), Adoption)


# what the table holds; the mark of the position that is found, and its version
NEWEST: dict[str, tuple[TableFacts, tuple[str | None, int] | None]] = {
    "none": (table(facts(5)), None),
    "the newest commit": (table(facts(6, rust(B)), facts(5, rust(A))), (B, 6)),
    "behind commits of others": (
        table(facts(6, Txn(app_id=DAMAGED, version=1), payload(1)), facts(5, rust(A))),
        (A, 5),
    ),
    "the newest of one commit": (table(facts(5, rust(B, at=4), rust(A, at=3))), (B, 5)),
    "the newest of one commit, the other way round": (table(facts(5, rust(A, at=3), rust(B, at=4))), (B, 5)),
    "in a Delta checkpoint": (
        table(facts(8), checkpoint=CheckpointFacts(version=7, txns=(rust(A, at=1), rust(B, at=2)))),
        (B, 7),
    ),
    "a commit before a Delta checkpoint": (
        table(facts(8, rust(C)), checkpoint=CheckpointFacts(version=7, txns=(rust(A),))),
        (C, 8),
    ),
    "a Delta checkpoint without one": (table(checkpoint=CheckpointFacts(version=7, txns=(payload(1),))), None),
}


@pytest.mark.parametrize(("known", "expected"), NEWEST.values(), ids=NEWEST)
def test_the_newest_position_is_found(known: TableFacts, expected: tuple[str | None, int] | None) -> None:
    found = find_rust_position(known)
    assert (None if found is None else (found[0].marks.last_committed_file, found[1])) == expected


# the Rust program's position; where a pipeline of this table would begin; which file it would read again
READERS: dict[str, tuple[TableFacts, Marks, str | None]] = {
    "it has read nothing": (table(facts(5)), Marks(), None),
    "begin at the first file": (one(A), Marks(), "a"),
    "begin after its mark": (one(A), Marks(last_committed_file="a"), None),
    "begin far after its mark": (one(A), Marks(last_committed_file="c"), None),
    "begin before its mark": (one(B), Marks(last_committed_file="a"), "b"),
    "its mark is named as well": (one(A, {A: 0}), Marks(), "a"),
    "its mark is of another source": (one("s3://other/a"), Marks(), None),
    "a file in progress": (one(None, IN_B), Marks(last_committed_file="a"), "b"),
    "a file in progress that is gone on with": (
        one(A, IN_B),
        Marks(last_committed_file="a", files={"b": READ_B}),
        None,
    ),
    "a file in progress that is taken for finished": (one(None, IN_B), Marks(last_committed_file="b"), None),
    "a file that it has only seen": (one(None, {B: 0}), Marks(last_committed_file="a"), None),
    "a file that it has finished": (one(None, {C: "Finished"}), Marks(last_committed_file="a"), "c"),
    "the first of several": (one(A, {C: "Finished", B: 1}), Marks(last_committed_file="a"), "b"),
}


@pytest.mark.parametrize(("known", "begins_at", "again"), READERS.values(), ids=READERS)
def test_what_would_be_read_again(known: TableFacts, begins_at: Marks, again: str | None) -> None:
    refusal = check_rust_reader(known, BUCKET, begins_at)
    assert (refusal is None) == (again is None)
    if refusal is not None:
        assert refusal.kind == Kind.SOURCE_READ_BY_OTHER
        assert f", and {again} would be read once more" in refusal.message


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        (Marks(), "files up to none are not read, 0 are read on"),
        (Marks(last_committed_file="a", files={"b": READ_B, "c": FINISHED}), "up to a are not read, 1 are read on"),
    ],
    ids=["nothing", "a mark and files"],
)
def test_what_is_taken_over_is_told(marks: Marks, words: str) -> None:
    assert words in adoption_warnings(marks)[0]
