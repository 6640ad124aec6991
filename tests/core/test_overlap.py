"""Whether two sources can have a file in common: never "no" where a name is read by both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.overlap import may_overlap
from blizzard.core.patterns import DEFAULT, FIRST_DEFAULT
from blizzard.core.types import SourceIdentity
from blizzard.errors import ConfigError
from blizzard.source.chosen import compile_pattern


def source(root: str, pattern: str = "default") -> SourceIdentity:
    return SourceIdentity(root=root, pattern=pattern)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("file:///d",), ("file:///d",), True),
        (("file:///d",), ("file:///d/x",), True),  # the roots nest
        (("file:///d", "*.ndjson"), ("file:///d/x",), False),  # the outer one reads no folder
        (("file:///d",), ("file:///d2",), False),
        (("file:///d%20e",), ("file:///d%20e/f%20g", "*.jsonl.gz"), True),
        (("file:///", "d/*"), ("file:///d", "*.ndjson"), True),
        (("file:///d", "eu/**"), ("file:///d", "us/**"), False),
        (("file:///d", "{eu,us}/**"), ("file:///d", "us/*.ndjson"), True),
        (("file:///d", "*.ndjson"), ("file:///d", "*.csv"), False),
        (("file:///d", "*.ndjson"), ("file:///d", "a*"), True),
        (("file:///d", "**/dt=1/*"), ("file:///d/region=eu", "dt=1/*.ndjson"), True),
        (("file:///d", "**/dt=1/*"), ("file:///d/region=eu", "dt=2/*.ndjson"), False),
        (("file:///d",), ("file:///d/_staging",), False),  # a folder that is left out
        (("file:///d", "_x.ndjson"), ("file:///d",), False),  # a hidden file that one source is
        (("file:///d", r"a\*.ndjson"), ("file:///d", "b*"), False),
        (("s3://bucket",), ("s3://bucket/x",), True),
        (("s3://bucket",), ("s3://bucket2/x",), False),
        (("s3://bucket/x",), ("gs://bucket/x",), False),
        (("file:///d", "[ab]*"), ("file:///d", "[cd]*"), True),  # in doubt
        (("file:///d", "{a..c}x"), ("file:///d", "bx"), True),
        (("file:///d", "{a"), ("file:///d", "b"), True),
        (("file:///d", FIRST_DEFAULT), ("file:///d", DEFAULT), True),
        (("file:///d", FIRST_DEFAULT), ("file:///d", "*.json"), False),
        (("file:///d", DEFAULT), ("file:///d", "*.json"), True),
        (("file:///d", DEFAULT), ("file:///d/x", "*.JsOn.Gz"), True),  # in any case
        (("file:///d", DEFAULT), ("file:///d", "*.log.gz"), False),
        (("file:///d", "Sub/*"), ("file:///d/sub", DEFAULT), False),  # only the suffix is in any case
    ],
)
def test_roots_and_patterns(one: tuple[str, ...], other: tuple[str, ...], expected: bool) -> None:
    assert may_overlap(source(*one), source(*other)) is expected
    assert may_overlap(source(*other), source(*one)) is expected


pieces = st.sampled_from(
    ["a", "b", "*", "?", "**", "/", "{a,b}", "{,a/b}", "[ab]", "[!a]", ".nd", "\\*", "a/", "{b,{a,*}}"]
)
patterns = st.lists(pieces, min_size=1, max_size=5).map("".join)
names = st.lists(
    st.sampled_from(["a", "b", "ab", "a.nd", "b.nd", "*", "a.JSON", "b.jSonl.GZ", "a.ndjson.zst"]),
    min_size=1,
    max_size=3,
).map("/".join)
defaults = st.sampled_from([FIRST_DEFAULT, DEFAULT])


@given(
    patterns | defaults,
    patterns | defaults | st.sampled_from(["*.JSON", "**/[ab].?SON*", "{a,b}.jSonl.G*"]),
    names,
    st.sampled_from(["", "a", "b/a"]),
)
def test_what_both_patterns_match_is_never_called_disjoint(outer: str, inner: str, name: str, folder: str) -> None:
    try:
        first, second = compile_pattern(outer), compile_pattern(inner)
    except ConfigError:
        return
    whole = f"{folder}/{name}" if folder else name
    if first.match(whole) and second.match(name):
        inner_root = f"file:///d/{folder}" if folder else "file:///d"
        assert may_overlap(source("file:///d", outer), source(inner_root, inner))
