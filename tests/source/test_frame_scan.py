"""The scanners of frames: both find the same places in any bytes, however they are cut into chunks."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blizzard import native
from blizzard.source.frame_scan import EXPECTED, OTHER_NAMES, make_scanner
from blizzard.source.frames import as_one_line, join_records_in_python

FRAMINGS = ("concatenated", "array", "array:k")
# Bytes that decide, and few others, so that random bytes are often almost right.
pieces = st.sampled_from(
    [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\n", b" ", b"\x1e", b"1", b'"k"', b'"k":[', b'{"k":', b'\\"']
)
garbage = st.lists(pieces, max_size=40).map(b"".join) | st.binary(max_size=30)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "a", "b"]), inner, max_size=3),
    max_leaves=10,
).map(lambda value: json.dumps(value, indent=None).encode())
contents = st.lists(garbage | documents | st.sampled_from([b"[", b"]", b",", b'{"k":[', b"]}"]), max_size=6).map(
    b"".join
)


def scanned(content: bytes, framing: str, cuts: list[int], *, natively: bool, first_byte: int = 0) -> dict[str, Any]:
    scanner = make_scanner(framing, first_byte, natively=natively)
    edges = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    spans: list[tuple[int, int]] = []
    newlines: list[int] = []
    siblings: dict[tuple[int, bytes], int] = {}
    open_at, error = None, None
    for start, end in pairwise(edges):
        found = scanner.scan(content[start:end])
        spans += zip(found.starts.tolist(), found.ends.tolist(), strict=True)
        newlines += found.string_newlines.tolist()
        for index, name, count in found.siblings:
            siblings[index, name] = siblings.get((index, name), 0) + count
        open_at, error = found.open_at, found.error
    ended = scanner.is_between and error is None
    return {
        "spans": spans,
        "newlines": newlines,
        "siblings": siblings,
        "open_at": open_at,
        "error": error,
        "ended": ended,
    }


@pytest.mark.skipif(not native.has_frame_scanner(), reason="the native module is not built")
@settings(max_examples=1500)
@given(contents, st.sampled_from(FRAMINGS), st.lists(st.integers(0, 200), max_size=5))
@example(b'[\\"a",1]', "array", [2])
@example(b'{"k\\\\":1,"k":[{}]}', "array:k", [4, 5])
@example(b'[x"\\"y", {"a":"\n"}]', "array", [])
@example(b'{"a":"\n"}}', "concatenated", [3])
def test_the_native_scanner_finds_what_the_python_scanner_finds(content: bytes, framing: str, cuts: list[int]) -> None:
    expected = scanned(content, framing, cuts, natively=False, first_byte=3)
    assert scanned(content, framing, cuts, natively=True, first_byte=3) == expected


@settings(max_examples=500)
@given(contents, st.sampled_from(FRAMINGS), st.lists(st.integers(0, 200), max_size=5))
def test_chunks_do_not_matter(content: bytes, framing: str, cuts: list[int]) -> None:
    assert scanned(content, framing, cuts, natively=False) == scanned(content, framing, [], natively=False)


def one_by_one(content: bytes) -> tuple[list[bytes], bool]:
    """Concatenated records by the plainest reading of the rules; and whether the file ends between two."""
    records: list[bytes] = []
    depth, in_string, odd, start = 0, False, False, 0
    for at, byte in enumerate(content):
        letter = chr(byte)
        if not depth and letter not in " \t\r\n\x1e{[":
            return records, False
        if letter == '"' and not odd:
            in_string = not in_string
        elif letter in "{[" and not in_string:
            start = at if not depth else start
            depth += 1
        elif letter in "}]" and not in_string:
            depth -= 1
            if not depth:
                records.append(content[start : at + 1])
        odd = letter == "\\" and not odd
    return records, not depth


@settings(max_examples=500)
@given(contents)
def test_concatenated_records_are_what_a_plain_reading_finds(content: bytes) -> None:
    found = scanned(content, "concatenated", [], natively=False)
    assert ([content[s:e] for s, e in found["spans"]], found["ended"]) == one_by_one(content)


@pytest.mark.parametrize("natively", [False, True])
@pytest.mark.parametrize(
    ("framing", "content", "place", "expected"),
    [
        ("concatenated", b'{"a":1} x', 8, "a record"),
        ("concatenated", b"{}}", 2, "a record"),
        ("concatenated", b"{},{}", 2, "a record"),
        ("array", b"{}", 0, "an array"),
        ("array", b"[{}] 1", 5, "an array"),
        ("array", b"[{} {}]", 4, "a comma"),
        ("array", b"[{}}", 3, "a comma"),
        ("array", b"[1 {}]", 3, "a comma"),
        ("array", b"[1}", 2, "a comma"),
        ("array:k", b"[]", 0, "an object"),
        ("array:k", b'{"a":1}', 6, "the key"),
        ("array:k", b"{}", 1, "the key"),
        ("array:k", b'{"k":[] "a":1}', 8, "a comma or the end of the object"),
        ("array:k", b'{"k" []}', 5, "a colon"),
        ("array:k", b'{"a":,"k":[]}', 5, "a value"),
        ("array:k", b"{1:[]}", 1, "a key"),
        ("array:k", b'{"a":1]', 6, "a comma or the end of the object"),
    ],
)
def test_a_broken_frame_is_found_where_it_breaks(
    framing: str, content: bytes, place: int, expected: str, natively: bool
) -> None:
    if natively and not native.has_frame_scanner():
        pytest.skip("the native module is not built")
    found = scanned(content, framing, [], natively=natively)
    assert found["error"] is not None
    assert found["error"][0] == place
    assert EXPECTED[found["error"][1]].startswith(expected)


@pytest.mark.parametrize(
    ("framing", "content", "records"),
    [
        ("array", b"[]", []),
        ("array", b'[{"a":1},\n{"b":[2]},\n]', [b'{"a":1}', b'{"b":[2]}']),
        ("array", b'[ 1 , "a,]" ,null,[3],{}]', [b"1", b'"a,]"', b"null", b"[3]", b"{}"]),
        ("array", b'[,{},,{}]\n[{"x":"]"}]', [b"{}", b"{}", b'{"x":"]"}']),
        ("array:k", b'{"a":[{}],"k":[{"k":1}, 2],"z":"}"} {"k":[{"b":2}]}', [b'{"k":1}', b"2", b'{"b":2}']),
        ("array:k", b'{"k":{"a":1}}{"k":null}{"k":[]}', [b'{"a":1}', b"null"]),
        ("array:k", b'{"x":{"k":[{}]},"k":[{"a":"k"}]}', [b'{"a":"k"}']),
        ("concatenated", b'{"a":1}{"b":"}"}\n\x1e[1]\r\n', [b'{"a":1}', b'{"b":"}"}', b"[1]"]),
    ],
)
def test_what_the_records_are(framing: str, content: bytes, records: list[bytes]) -> None:
    found = scanned(content, framing, [3], natively=False)
    assert [content[start:end] for start, end in found["spans"]] == records
    assert found["ended"]


def test_siblings_are_counted_where_they_stand() -> None:
    content = b'{"a":1,"k":[{},{}],"b":[1],"a":2}{"k":[{}],"c":{}}'
    assert scanned(content, "array:k", [5, 9], natively=False)["siblings"] == {
        (0, b"a"): 1,
        (2, b"b"): 1,
        (2, b"a"): 1,
        (3, b"c"): 1,
    }


def test_many_siblings_are_counted_together() -> None:
    content = b"{" + b",".join(b'"%d":1' % i for i in range(3_000)) + b',"k":[]}'
    for natively in {False, native.has_frame_scanner()}:
        siblings = scanned(content, "array:k", [], natively=natively)["siblings"]
        assert sum(siblings.values()) == 3_000
        assert siblings[0, OTHER_NAMES] == 2_000


@pytest.mark.skipif(not native.has_frame_scanner(), reason="the native module is not built")
@given(st.lists(st.text('a"\\\n{}', max_size=8).map(str.encode), max_size=6), st.binary(max_size=3))
def test_both_make_the_same_lines_of_records(records: list[bytes], gap: bytes) -> None:
    raw, starts, ends = b"", [], []
    for record in records:
        starts.append(len(raw))
        raw += record
        ends.append(len(raw))
        raw += gap
    newlines = np.array([m.start() for m in re.finditer(b"\n", raw)][::2], np.int64)
    places = np.array(starts, np.int64), np.array(ends, np.int64)
    assert native.join_records(
        raw, places[0].tobytes(), places[1].tobytes(), newlines.tobytes()
    ) == join_records_in_python(raw, *places, newlines)


def test_a_record_becomes_one_line_that_is_good_or_bad_as_it_was() -> None:
    assert as_one_line(b'{\n"a": 1\n}') == b'{ "a": 1 }'
    assert as_one_line(b'{"a":"x\ny",\n"b":1}') == b'{"a":"x\vy", "b":1}'


def value_of(text: bytes) -> Any:
    try:
        return [json.loads(text)]
    except ValueError:
        return None


@settings(max_examples=500)
@given(documents | contents, st.lists(st.integers(0, 200), max_size=4))
def test_the_line_is_valid_if_and_only_if_the_record_is(content: bytes, places: list[int]) -> None:
    """Newlines are put anywhere: between values, into strings, into garbage."""
    for number in places:
        place = number % (len(content) + 1)
        content = content[:place] + b"\n" + content[place:]
    line = as_one_line(content)
    assert b"\n" not in line
    assert value_of(line) == value_of(content)
