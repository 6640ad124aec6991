"""What of a bucket belongs to a source, whether all of it is listed or only a part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from blizzard.core.late import EVERYTHING, Scope
from blizzard.core.patterns import DEFAULT
from blizzard.core.types import Filters, Listing, SourceFile, SourceIdentity
from blizzard.source.buckets import list_bucket
from blizzard.source.chosen import chosen_by
from blizzard.source.uri import SourceLocation
from blizzard.store.files import Page

SEEN_MS = {
    "a.JSON": 1_000,
    "b.json.gz": 2_000,
    "c.csv": 2_000,
    "d/e.ndjson": 3_000,
    "d/f.log.gz": 3_000,
    "d/": 3_000,
    "_tmp/g.json": 3_000,
    "h.tmp.json": 3_000,
    "i": 4_000,
    "j.jsonl": 4_000,
}


@dataclass
class FakeStore:
    """Lists in pages of three, and counts what it is asked for."""

    asked: list[str] = field(default_factory=list)

    @property
    def paging(self) -> Any:
        return self.pages

    def pages(self, prefix: str = "", *, after: str = "", delimiter: str = "") -> Iterator[Page]:
        self.asked.append(after)
        names = sorted(n for n in SEEN_MS if n.startswith(prefix) and n > after)
        if delimiter:
            below = sorted(
                {prefix + n.removeprefix(prefix).split("/")[0] + "/" for n in names if "/" in n[len(prefix) :]}
            )
            here = [n for n in names if "/" not in n[len(prefix) :]]
            yield Page([self._file(n) for n in here], below, True)
            return
        for i in range(0, max(len(names), 1), 3):
            yield Page([self._file(n) for n in names[i : i + 3]], [], i + 3 >= len(names))

    def stat(self, name: str) -> SourceFile | None:
        self.asked.append(f"stat {name}")
        return self._file(name) if name in SEEN_MS else None

    @staticmethod
    def _file(name: str) -> SourceFile:
        return SourceFile(path=name, size_bytes=1, etag=f"e-{name}", seen_ms=SEEN_MS[name])


@dataclass(frozen=True, kw_only=True)
class FakeLocation(SourceLocation):
    fake: Any

    @property
    def store(self) -> Any:
        return self.fake


def listed(pattern: str = DEFAULT, scope: Scope = EVERYTHING, **filters: Any) -> tuple[Listing, FakeStore]:
    chosen = Filters(**filters)
    identity = SourceIdentity(root="s3://b/src", pattern=pattern, filters=chosen)
    store = FakeStore()
    location = FakeLocation(root="s3://b/src", identity=identity, filters=chosen, fake=store)
    return list_bucket(location, chosen_by(location), scope), store


@pytest.mark.parametrize(
    ("filters", "expected", "left_out"),
    [
        ({}, ["a.JSON", "b.json.gz", "d/e.ndjson", "h.tmp.json", "j.jsonl"], 0),
        ({"modified_after_ms": 2_000}, ["b.json.gz", "d/e.ndjson", "h.tmp.json", "j.jsonl"], 1),
        ({"modified_before_ms": 3_000}, ["a.JSON", "b.json.gz"], 3),
        ({"ignore": ("*.tmp.json", "d/")}, ["a.JSON", "b.json.gz", "j.jsonl"], 2),
        (
            {"ignore": ("*.tmp.json",), "modified_after_ms": 2_000, "modified_before_ms": 4_000},
            ["b.json.gz", "d/e.ndjson"],
            3,
        ),
    ],
)
def test_a_full_listing(filters: dict[str, Any], expected: list[str], left_out: int) -> None:
    listing, _ = listed(**filters)
    assert [file.path for file in listing] == expected
    assert listing.left_out.filtered == left_out
    assert dict(listing.left_out.by_suffix) == {"": 1, ".csv": 1, ".log.gz": 1}


def test_the_first_default_is_as_it_was() -> None:
    listing, _ = listed("default")
    assert [file.path for file in listing] == ["d/e.ndjson", "j.jsonl"]
    assert listing.left_out.unmatched == 6


def test_a_part_is_chosen_like_the_whole_and_asks_no_more() -> None:
    scope = Scope(is_full=False, after={"": "d/f.log.gz"}, also=("a.JSON", "b.json.gz", "c.csv", "_tmp/g.json"))
    listing, store = listed(scope=scope, modified_after_ms=2_000, ignore=("*.tmp.json",))
    assert [file.path for file in listing] == ["b.json.gz", "j.jsonl"]
    assert store.asked == ["stat a.JSON", "stat b.json.gz", "d/f.log.gz"]
