"""What one look at the source says about the next: which names are done, where listing begins, and the digests."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.core.look import (
    Listed,
    Look,
    digest_count,
    digest_files,
    salted,
    settled_files,
    settled_in,
    young_files,
)
from blizzard.core.position import FINISHED, Marks, Position, RecordsRead
from blizzard.core.types import SourceFile, SourceIdentity
from tests.core.logs import listed
from tests.core.test_codec import example

GRACE_MS = 100
UNREAD = RecordsRead(records=0)


def at(mark: str | None = None, **changes: Any) -> Position:
    files = changes.pop("files", {})
    return example(**{"marks": Marks(last_committed_file=mark, files=files)} | changes)


def by_region(eu: str | None = None, us: str | None = None, rest: str | None = None, **changes: Any) -> Position:
    marks = {f"region={name}/": f"region={name}/{mark}" for name, mark in (("eu", eu), ("us", us)) if mark}
    source = SourceIdentity(root="file:///s", pattern="*", marks_per="region")
    return example(
        **{
            "source": source,
            "marks": Marks(last_committed_file=rest, prefix_marks=marks, marks_per="region"),
        }
        | changes
    )


def seen(**times: int) -> list[SourceFile]:
    """Files, each with the time at which the store has seen it."""
    return [SourceFile(path=path, size_bytes=1, etag="e", seen_ms=ms) for path, ms in sorted(times.items())]


def paths(files: Any) -> list[str]:
    return [file.path for file in files]


# position; which of a, b, c, m, n it takes for done
SETTLED: dict[str, tuple[Position, str]] = {
    "nothing yet": (at(), ""),
    "up to the mark, the mark too": (at("c"), "abc"),
    "a mark that no file has": (at("d"), "abc"),
    "but for a file in progress": (at("c", files={"b": RecordsRead(records=3)}), "ac"),
    "but for a file that was passed unread": (at("c", files={"b": UNREAD}), "ac"),
    "but for a finished file that is named": (at("c", files={"n": FINISHED, "a": FINISHED}), "bc"),
    "not what after:NAME left out": (at("m", start_from="after:b"), "cm"),
    "all, from the beginning": (at("c", start_from="beginning"), "abc"),
    "all, after an import": (at("c", start_from="import"), "abc"),
    "all of it": (at("z"), "abcmn"),
}


@pytest.mark.parametrize(("position", "done"), SETTLED.values(), ids=SETTLED)
def test_what_is_done(position: Position, done: str) -> None:
    names = "abcmn"
    assert "".join(filter(settled_in(position), names)) == done
    assert "".join(paths(settled_files(listed(*names), position))) == done


def test_what_is_done_by_parts() -> None:
    files = listed("region=eu/1", "region=eu/5", "region=us/1", "region=us/5", "region=xx/1", "z")
    assert paths(settled_files(files, by_region(eu="3", us="5"))) == ["region=eu/1", "region=us/1", "region=us/5"]
    assert paths(settled_files(files, by_region(rest="z"))) == ["z"]


# when the last full look was; which of files seen at 800, 900, 950, 1000 and 1001 were young then
YOUNG: dict[str, tuple[int | None, str, str]] = {
    "no look yet": (None, "z", ""),
    "within the grace before the look": (1000, "z", "bcd"),
    "only those that are done": (1000, "c", "bc"),
    "an earlier look": (900, "z", "ab"),
}


@pytest.mark.parametrize(("looked_ms", "mark", "young"), YOUNG.values(), ids=YOUNG)
def test_what_was_young_at_the_last_look(looked_ms: int | None, mark: str, young: str) -> None:
    files = seen(a=800, b=900, c=950, d=1000, e=1001)
    position = at(mark, relist_watermark_ms=looked_ms)
    assert "".join(paths(young_files(files, position, GRACE_MS))) == young


FILE, OTHER = (
    SourceFile(path="a", size_bytes=1, etag="e"),
    SourceFile(path="ü b", size_bytes=20, etag=""),
)


@pytest.mark.parametrize(
    ("files", "digest"),
    [
        ([], "0:0"),
        ([FILE], "1:8f619fd821008a74"),
        ([FILE, OTHER], "2:cca281ee2be542fc"),
        ([OTHER, FILE], "2:cca281ee2be542fc"),
        ([FILE] * 17, "11:857b9d5a310931b4"),
    ],
    ids=["none", "one", "two", "in any order", "counted in hexadecimal"],
)
def test_a_digest_is_the_one_that_the_first_release_wrote(files: list[SourceFile], digest: str) -> None:
    """It is compared with digests in positions that are years old."""
    assert digest_files(files) == digest
    assert digest_count(digest) == len(files)


@pytest.mark.parametrize(
    "changed",
    [
        SourceFile(path="b", size_bytes=1, etag="e"),
        SourceFile(path="a", size_bytes=2, etag="e"),
        SourceFile(path="a", size_bytes=1, etag="f"),
    ],
    ids=["name", "size", "etag"],
)
def test_a_digest_tells_one_file_from_another(changed: SourceFile) -> None:
    assert digest_files([changed]) != digest_files([FILE])


def test_when_a_file_was_seen_is_no_part_of_its_digest() -> None:
    assert digest_files([SourceFile(path="a", size_bytes=1, etag="e", seen_ms=9)]) == digest_files([FILE])


@pytest.mark.parametrize("digest", ["0:0", "11:857b9d5a310931b4", "1:ffffffffffffffff"])
def test_a_salted_digest_fits_only_under_its_salt(digest: str) -> None:
    assert salted(digest, "ingest report") == salted(digest, "ingest report") != digest
    assert salted(digest, "ingest report") != salted(digest, "ignore report")
    assert digest_count(salted(digest, "x")) == digest_count(digest)
    assert int(salted(digest, "x").split(":")[1], 16) < 1 << 64


# names with the times at which they were seen; the mark; where the last look began; where the next begins
BEGINNINGS: dict[str, tuple[dict[str, int], str, str, str]] = {
    "all are old: at the mark": ({"a": 1, "b": 2, "c": 3}, "c", "", "c"),
    "before the first young one": ({"a": 1, "b": 950, "c": 3}, "c", "", "a"),
    "one at the edge of the grace is young": ({"a": 1, "b": 900, "c": 3}, "c", "", "a"),
    "one just before it is old": ({"a": 1, "b": 899, "c": 3}, "c", "", "c"),
    "all are young": ({"a": 950, "b": 950}, "b", "", ""),
    "not after the mark": ({"a": 1, "b": 2, "c": 3}, "b", "", "b"),
    "not after a mark that no file has": ({"a": 1, "c": 3}, "b", "", "a"),
    "never back: late files do not count": ({"a": 950, "b": 1, "c": 2}, "c", "b", "c"),
    "never back: the young one is after it": ({"a": 1, "b": 2, "c": 950}, "c", "b", "b"),
    "never back: all that is listed is before it": ({"a": 1}, "c", "b", "b"),
    "nothing was listed": ({}, "m", "k", "k"),
}


@pytest.mark.parametrize(("times", "mark", "began", "begins"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_where_listing_begins(times: dict[str, int], mark: str, began: str, begins: str) -> None:
    position = at(mark, list_from={"": began} if began else {})
    look = Look(Listed(files=seen(**times), at_ms=1000), position, GRACE_MS)
    assert look.list_from(position.marks) == {"": begins}
    assert look.list_from(position.marks) == {"": begins}  # it may be asked after every batch


def test_where_listing_begins_moves_on_with_the_mark() -> None:
    position = at("b")
    look = Look(Listed(files=seen(a=1, b=2, c=3, d=950, e=4), at_ms=1000), position, GRACE_MS)
    assert [look.list_from(at(mark).marks)[""] for mark in "bcde"] == ["b", "c", "c", "c"]


def test_without_a_mark_nothing_is_said() -> None:
    assert Look(Listed(files=seen(a=1), at_ms=1000), at(), GRACE_MS).list_from(Marks()) == {}


def test_each_part_has_a_beginning_of_its_own() -> None:
    position = by_region(eu="2", us="2", rest="z")
    files = listed("region=eu/1", "region=eu/2", "region=us/1", "z") + seen(zz=1)
    files[1] = SourceFile(path="region=eu/2", size_bytes=1, etag="e", seen_ms=950)
    look = Look(Listed(files=files, at_ms=1000), position, GRACE_MS)
    assert look.list_from(position.marks) == {"region=eu/": "region=eu/1", "region=us/": "region=us/1", "": "z"}


ALL = seen(a=950, b=1, c=1000, d=1001, e=899, f=900)
LOOKED: dict[str, Any] = {"relist_watermark_ms": 1000, "young_names": "0:0", "settled_names": "0:0"}

# position before; marks after; which names are added to the young ones, and which to all that are settled
NEWLY: dict[str, tuple[Position, Marks, str, str]] = {
    "the mark stays": (at("b", **LOOKED), Marks(last_committed_file="b"), "", ""),
    "the mark moves": (at("a", **LOOKED), Marks(last_committed_file="f"), "cf", "bcdef"),
    "the first mark": (at(**LOOKED), Marks(last_committed_file="b"), "a", "ab"),
    "a file that the mark passes unread": (
        at("a", **LOOKED),
        Marks(last_committed_file="d", files={"c": UNREAD}),
        "",
        "bd",
    ),
    "a file that was passed and is finished now": (
        at("d", files={"a": UNREAD, "b": UNREAD}, **LOOKED),
        Marks(last_committed_file="d", files={"b": UNREAD}),
        "a",
        "a",
    ),
    "both": (at("b", files={"a": UNREAD}, **LOOKED), Marks(last_committed_file="c"), "ac", "ac"),
    "a finished file that the mark reaches counts once": (
        at("a", files={"c": FINISHED}, **LOOKED),
        Marks(last_committed_file="c"),
        "c",
        "bc",
    ),
    "a file that is gone from the source": (
        at("d", files={"aa": UNREAD}, **LOOKED),
        Marks(last_committed_file="d"),
        "",
        "",
    ),
}


@pytest.mark.parametrize(("before", "after", "young", "settled"), NEWLY.values(), ids=NEWLY)
def test_digests_grow_by_what_is_newly_done(before: Position, after: Marks, young: str, settled: str) -> None:
    look = Look(Listed(files=ALL, at_ms=2000), before, GRACE_MS)
    expected = tuple(digest_files(f for f in ALL if f.path in names) for names in (young, settled))
    assert look.digests(before, after) == expected


@pytest.mark.parametrize(
    ("changes", "digests"),
    [
        ({"relist_watermark_ms": None, "young_names": None, "settled_names": None}, (None, None)),
        ({"relist_watermark_ms": None}, ("0:0", "0:0")),
        ({"young_names": None}, (None, digest_files(ALL[:2]))),
        ({"settled_names": None}, (digest_files(ALL[:1]), None)),
    ],
    ids=["nothing is known", "no look yet", "young ones are not known", "settled ones are not known"],
)
def test_what_is_not_known_stays_unknown(changes: dict[str, Any], digests: tuple[str | None, str | None]) -> None:
    before = at(**LOOKED | changes)
    look = Look(Listed(files=ALL, at_ms=2000), before, GRACE_MS)
    assert look.digests(before, Marks(last_committed_file="b")) == digests


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (by_region(eu="2", us="1"), ["region=eu/2", "region=us/1"]),
        (by_region(eu="1", rest="z"), ["a", "z"]),
    ],
    ids=["two parts", "what is in no part"],
)
def test_a_part_grows_by_its_own_files_only(after: Position, names: list[str]) -> None:
    files = listed("a", "region=eu/1", "region=eu/2", "region=eu/3", "region=us/1", "region=us/2", "z")
    before = by_region(eu="1", **LOOKED)
    look = Look(Listed(files=files, at_ms=2000), before, GRACE_MS)
    assert look.digests(before, after.marks)[1] == digest_files(listed(*names))
