"""Files of any framing: recognised, cut into the same records as lines, and broken where they break."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard import native
from blizzard.core.framing import is_framing
from blizzard.source import frame_scan
from blizzard.source.decode import UnreadableSource
from blizzard.source.frames import FramedBlock, siblings_of
from blizzard.source.framing import LOOK_BYTES, decide_framing, open_records
from blizzard.source.lines import KEPT_OF_A_LONG_LINE, Block, ShorterThanBefore
from tests.source.framed import FRAMED, framed

BOM = b"\xef\xbb\xbf"
values = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=6) | st.sampled_from(['"', "\\", "]}", "\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
records_lists = st.lists(st.dictionaries(st.text(max_size=4), values, max_size=4), max_size=8)


@pytest.fixture(params=[False, True], ids=["python", "native"])
def natively(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(native, "has_frame_scanner", lambda: False)
    elif not native.has_frame_scanner():
        pytest.skip("the native module is not built")


def blocks_of(content: bytes, framing: str, **options: Any) -> Iterator[Block]:
    size = options.pop("block_bytes", 16)
    given_options = {"max_record_bytes": 1 << 20} | options
    return open_records(io.BytesIO(content), framing, block_bytes=size).blocks(**given_options)


def lines_of(content: bytes, framing: str, **options: Any) -> list[bytes]:
    lines = []
    number = options.get("skip", 0)
    for block in blocks_of(content, framing, **options):
        assert block.first_line == number
        number += block.lines
        lines += block.data.split(b"\n")[: block.lines]
    return lines


@settings(max_examples=300, deadline=None)
@given(records_lists, st.sampled_from(sorted(FRAMED)), st.integers(1, 200), st.integers(0, 9), st.booleans())
def test_any_records_in_any_framing_cut_anywhere_are_the_same_records(
    records: list[dict[str, Any]], shape: str, block_bytes: int, skip: int, has_mark: bool
) -> None:
    content = (BOM if has_mark else b"") + framed(shape, records)
    skip = min(skip, len(records))
    lines = [line.removeprefix(BOM) for line in lines_of(content, FRAMED[shape][0], block_bytes=block_bytes, skip=skip)]
    assert [json.loads(line) for line in lines if line] == records[skip:]
    last = [block.last for block in blocks_of(content, FRAMED[shape][0], block_bytes=block_bytes, skip=skip)]
    assert sum(last) == any(lines) or shape in ("lines", "siblings")
    assert last == sorted(last)


@pytest.mark.parametrize("shape", sorted(FRAMED))
@pytest.mark.parametrize("mark", [b"", BOM, b"\n \r\n"])
def test_auto_recognises_every_framing(shape: str, mark: bytes) -> None:
    framing = FRAMED[shape][0]
    expected = "concatenated" if shape == "siblings" else framing  # a key that auto does not unwrap: one record
    for count in (2, 500):
        records = [{"id": i, "name": "n{[" * 40, "of": {"a": [1, {"b": "\\"}]}} for i in range(count)]
        assert decide_framing((mark + framed(shape, records))[:LOOK_BYTES]) == expected, count


ONE = b'{"a":1,"b":[{}]}'
DECIDED = {
    "nothing": (b"", "lines"),
    "white space": (b" \r\n\t", "lines"),
    "one object": (ONE, "lines"),
    "one object and a newline": (ONE + b"\r\n", "lines"),
    "a good first line": (ONE + b"\n{", "lines"),
    "a first line with a comma": (ONE + b",\n" + ONE, "lines"),
    "a first line with more": (ONE + b" x\n" + ONE, "lines"),
    "two objects in the first line": (ONE + b" " + ONE + b"\n" + ONE, "concatenated"),
    "a first line that is cut off after a value": (b'{"a":1\n' + ONE + b"\n", "lines"),
    "a first line that is cut off after a comma": (b'{"a":1,\n' + ONE + b"\n", "lines"),
    "a first line that is cut off in a string": (b'{"a":"x\n' + ONE + b"\n", "lines"),
    "a first line that is cut off in an array": (b'{"a":[1,2\n' + ONE + b"\n", "lines"),
    "a first line that is cut off after a colon": (b'{"a":\n' + ONE + b"\n" + ONE + b"\n", "lines"),
    "a first line that is no JSON": (b"{'a':1}\n" + ONE, "lines"),
    "a pretty object": (b'{\n "a": 1\n}', "concatenated"),
    "a pretty object that is cut off": (b'{\n "a": 1,\n "b', "concatenated"),
    "a pretty object with NaN and a comma too many": (b'{\n "a": NaN,\n}', "concatenated"),
    "a long pretty object": (b'{\n"a": [' + b"1,\n" * LOOK_BYTES, "concatenated"),
    "a long first line": (b'{"a": [' + b"1," * LOOK_BYTES, "lines"),
    "a record separator": (b"\x1e" + ONE + b"\n", "concatenated"),
    "an array of objects": (b" [" + ONE + b"]", "array"),
    "an array with a later element that is not sound": (b"[" + ONE + b',\n{"a":"\n"}]', "array"),
    "an array whose first element is not sound": (b'[{"a":"\n"},' + ONE + b"]", "lines"),
    "an empty array": (b"[ ]\n", "array"),
    "an array that is cut off": (b"[\n" + ONE + b",\n", "array"),
    "only a bracket": (b"[", "array"),
    "arrays in lines": (b"[" + ONE + b"]\n[" + ONE + b"]\n", "array"),
    "a first line that is an array of objects": (b"[" + ONE + b"]\n" + ONE + b"\n", "lines"),
    "a first line that is an empty array": (b"[]\n" + ONE + b"\n", "lines"),
    "a first line that is an array of numbers": (b"[1,2]\n" + ONE, "lines"),
    "objects in lines between brackets": (b"[\n" + ONE + b"\n" + ONE + b"\n]", "lines"),
    "a log line": (b"[2026-01-01] x {}\n", "lines"),
    "records of AWS": (b'{"Records": [' + ONE, "array:Records"),
    "no records of AWS": (b'{"Records":[]}', "array:Records"),
    "records of Azure": (b'{\n"records" : [\n' + ONE, "array:records"),
    "Records that are no objects": (b'{"Records":[1]}', "lines"),
    "an array at another key": (b'{"items":[{"a":1}]}', "lines"),
    "records that are not first": (b'{"a":1,"Records":[{"a":1}]}', "lines"),
    "wrappers in lines": (b'{"Records":[{"a":1}]}\n{ "Records" : [{"a":2}]}\n', "array:Records"),
    "wrappers one after the other": (b'{"Records":[{"a":1}]}{"Records":[]}', "array:Records"),
    "wrappers with record separators": (b'{"Records":[{"a":1}]}\n\x1e{"Records":[{}]}', "array:Records"),
    "a wrapper, and another that is cut off": (b'{"Records":[{"a":1}]}\n{"Rec', "array:Records"),
    "one wrapper with more beside the array": (b'{"Records":[{"a":1}],"next":7}\n', "array:Records"),
    "events that begin with such an array": (b'{"records":[{"a":1}],"b":7}\n{"records":[{}],"b":8}\n', "lines"),
    "such events one after the other": (b'{"records":[{"a":1}],"b":7}{"records":[{}],"b":8}', "concatenated"),
    "a first event with such an array alone": (b'{"Records":[{"a":1}]}\n' + ONE + b"\n", "lines"),
    "a first event with an empty array alone": (b'{"Records":[]}\n' + ONE + b"\n", "lines"),
    "text": (b"id,name\n1,a\n", "lines"),
    "a string": (b'"a"\n', "lines"),
}


@pytest.mark.parametrize(("beginning", "expected"), DECIDED.values(), ids=DECIDED)
def test_what_auto_decides(beginning: bytes, expected: str) -> None:
    assert decide_framing(beginning[:LOOK_BYTES]) == expected


def test_a_key_that_is_a_column_is_not_unwrapped() -> None:
    content = b'{"Records":[{"a":1}]}\n'
    assert decide_framing(content, ["id", "records"]) == "lines"
    assert decide_framing(content, ["id"]) == "array:Records"


@settings(max_examples=500)
@given(st.binary(max_size=60) | st.text('{}[]",:\\\n \x1eRecords1', max_size=60).map(str.encode))
def test_auto_decides_about_any_bytes(beginning: bytes) -> None:
    assert is_framing(decide_framing(beginning))


class OneByOne:
    """Returns one byte at a time, whatever is asked for."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def read(self, size: int, /) -> bytes:
        return self._file.read(min(size, 1))


@pytest.mark.parametrize("shape", sorted(FRAMED))
def test_the_decision_does_not_depend_on_how_the_stream_is_read(shape: str) -> None:
    content = framed(shape, [{"a": i} for i in range(50)])
    opened = open_records(OneByOne(content), "auto", block_bytes=8)
    assert opened.framing == decide_framing(content)
    assert sum(block.lines for block in opened.blocks(max_record_bytes=1000)) == (1 if shape == "siblings" else 50)


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize("shape", [shape for shape, (framing, _) in sorted(FRAMED.items()) if framing != "lines"])
def test_a_file_that_is_cut_off_at_any_byte_is_broken_after_its_whole_records(shape: str) -> None:
    records = [{"a": i, "s": "}]"} for i in range(3)]
    framing, content = FRAMED[shape][0], framed(shape, records)
    ends = {end for end in range(len(content) + 1) if is_whole(content[:end], framing)}
    assert len(content) in ends
    for end in range(len(content)):
        found: list[Any] = []
        try:
            for block in blocks_of(content[:end], framing):
                found += [json.loads(line) for line in block.data.split(b"\n")[:-1]]
            assert end in ends
        except UnreadableSource as e:
            assert end not in ends
            assert e.kind == "truncated"
            assert f"after record {len(found)}" in str(e)
        assert found == records[: len(found)]


def is_whole(content: bytes, framing: str) -> bool:
    """Whether Python's json can read all of it, one document after the other."""
    text, at = content.decode().replace("\x1e", " "), 0
    while at < len(text.rstrip()):
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            document, at = json.JSONDecoder().raw_decode(text, at)
        except json.JSONDecodeError:
            return False
        if framing.startswith("array:") and framing[6:] not in document:
            return False
    return True


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize("shape", [shape for shape, (framing, _) in sorted(FRAMED.items()) if framing != "lines"])
@pytest.mark.parametrize("garbage", [b"x", b"}", b"]", b'"', b"\x00", b"{", b"\\"])
def test_garbage_at_any_byte_never_makes_up_a_record_before_it(shape: str, garbage: bytes) -> None:
    """A record that ended before the garbage is what it was; and the file breaks, or the rest is accounted for."""
    records = [{"a": i} for i in range(3)]
    framing, content = FRAMED[shape][0], framed(shape, records)
    for place in range(len(content) + 1):
        damaged = content[:place] + garbage + content[place:]
        lines: list[bytes] = []
        try:
            for block in blocks_of(damaged, framing):
                assert isinstance(block, FramedBlock)
                offsets, raws = block.originals(block.starts.argsort())
                for offset, raw in zip(offsets, raws, strict=True):
                    assert damaged[offset : offset + len(raw)] == raw
                    if offset + len(raw) <= place:
                        assert json.loads(raw) in records
                lines += block.data.split(b"\n")[:-1]
        except UnreadableSource as e:
            assert e.kind in ("truncated", "corrupt")
            assert f"after record {len(lines)}" in str(e)


@pytest.mark.parametrize(
    ("framing", "content", "message"),
    [
        ("array", b'[{"a":1} {"b":2}]', "after record 1, at byte 9, there is { instead of a comma"),
        ("concatenated", b'{"a":1}\n\x00', "after record 1, at byte 8, there is byte 0x00 instead of a record"),
        ("array:k", b'{"j":[]}', "after record 0, at byte 7, there is } instead of the key"),
        ("array", BOM + b"[1]2", "after record 1, at byte 6, there is 2 instead of an array"),
    ],
)
def test_a_broken_frame_says_where_and_what(framing: str, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableSource, match=message.replace("{", r"\{").replace("}", r"\}")) as caught:
        list(blocks_of(content, framing))
    assert caught.value.kind == "corrupt"
    with pytest.raises(UnreadableSource) as counted:
        list(open_records(io.BytesIO(content), framing, block_bytes=4).count())
    assert str(counted.value) == str(caught.value)


def test_a_file_with_fewer_records_than_are_committed_is_refused() -> None:
    with pytest.raises(ShorterThanBefore, match="the file has 2 records, but the position says that 3"):
        list(blocks_of(b"[{},{}]", "array", skip=3))


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize("block_bytes", [1, 7, 10_000])
@pytest.mark.parametrize("skip", [0, 1, 2, 3, 4])
def test_a_record_over_the_limit_is_counted_to_its_end_and_not_kept(block_bytes: int, skip: int) -> None:
    content = b'[{"a":1}, {"b":"' + b"x]" * 300 + b'"}, 7, "' + b"y" * 200 + b'",{"c":"\n"}]'
    blocks = list(blocks_of(content, "array", block_bytes=block_bytes, max_record_bytes=100, skip=skip))
    numbers = [n for block in blocks for n in range(block.first_line, block.first_line + block.lines)]
    assert numbers == list(range(skip, 5))
    long = {b.first_line: (b.first_byte, b.too_long.size_bytes) for b in blocks if b.too_long is not None}
    expected = {1: (10, 608), 3: (content.index(b'"yy'), 202)}
    assert long == {number: where for number, where in expected.items() if number >= skip}
    assert [block.last for block in blocks] == [False] * (len(blocks) - 1) + [True]


class Endless:
    """A file that is made as it is read: the beginning, and then the same again and again."""

    def __init__(self, beginning: bytes, again: bytes, size_bytes: int, end: bytes = b"") -> None:
        self._next, self._again, self._left, self._end = beginning, again, size_bytes, end

    def read(self, size: int, /) -> bytes:
        if self._next:
            chunk, self._next = self._next[:size], self._next[size:]
            return chunk
        if self._left <= 0:
            end, self._end = self._end, b""
            return end
        self._left -= size
        return self._again * (size // len(self._again))


BOMBS = {
    "an endless string": ("concatenated", b'{"a":"', b"x"),
    "an endless string with escapes": ("array", b'[{"a":"', b'\\"\n '),
    "an endless element": ("array", b'["', b"y,"),
    "deep brackets": ("concatenated", b"", b"[{"),
    "deep brackets in an array": ("array", b"[", b"["),
    "an endless sibling": ("array:k", b'{"a":[', b"1,"),
    "an endless key": ("array:k", b'{"', b"k"),
    "endless siblings": ("array:k", b"{", b'"a":1,'),
    "endless white space": ("concatenated", b"{", b" \n"),
    "endless white space between records": ("array:k", b'{"k":[]', b"\r\n"),
    "endless commas": ("array", b"[", b", "),
}


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize(("framing", "beginning", "again"), BOMBS.values(), ids=BOMBS)
def test_bombs_take_no_memory(framing: str, beginning: bytes, again: bytes) -> None:
    # Siblings are the slowest: each is looked at by itself.
    stream = Endless(beginning, again, 1 << 17 if b":" in again else 8 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableSource) as caught:
            for block in open_records(stream, framing, block_bytes=1 << 18).blocks(max_record_bytes=1 << 19):
                raise AssertionError(block.lines)
        assert caught.value.kind == "truncated"
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_bomb_that_ends_is_one_bad_record_with_its_size() -> None:
    size = 20 << 20
    stream = Endless(b'[{"a":"', b"x", size, b'"},{"b":1}]')
    blocks = list(open_records(stream, "array", block_bytes=1 << 18).blocks(max_record_bytes=1 << 20))
    assert [block.lines for block in blocks] == [1, 1]
    assert blocks[0].too_long is not None
    assert (blocks[0].too_long.size_bytes, len(blocks[0].too_long.head)) == (size + 8, KEPT_OF_A_LONG_LINE)
    assert blocks[1].data == b'{"b":1}\n'


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize("block_bytes", [5, 1000])
def test_siblings_belong_to_the_records_that_they_stand_before(block_bytes: int) -> None:
    content = b'{"a":1,"k":[{"x":1},{"x":2}],"b":2}{"a":1,"k":[{"x":3}],"c":[{}]}'
    every: dict[tuple[str, ...], int] = {("a",): 2, ("b",): 1, ("c",): 1}
    for first in range(4):
        # Read in two parts, whichever record the first ends with: each is reported once.
        met: dict[tuple[str, ...], int] = {}
        for block in blocks_of(content, "array:k", block_bytes=block_bytes):
            if block.first_line < first:
                part = block if block.first_line + block.lines <= first else block.head(first - block.first_line)
                for path, count in siblings_of(part).counts.items():
                    met[path] = met.get(path, 0) + count
        if first < 3:  # else the last block has all, also what stands after it
            for block in blocks_of(content, "array:k", block_bytes=block_bytes, skip=first):
                for path, count in siblings_of(block).counts.items():
                    met[path] = met.get(path, 0) + count
        assert met == every, first


def test_siblings_of_an_array_without_records_are_reported() -> None:
    (block,) = blocks_of(b'{"a":1,"k":[]}', "array:k")
    assert (block.lines, block.last) == (0, True)
    assert siblings_of(block).counts == {("a",): 1}


def test_many_small_records_are_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "has_frame_scanner", lambda: False)
    monkeypatch.setattr(frame_scan, "_PIECE_BYTES", 7)
    records = [{"a": i, "b": '"}\\'} for i in range(100)]
    for shape, (framing, _) in FRAMED.items():
        assert [json.loads(line) for line in lines_of(framed(shape, records), framing, block_bytes=50)] == records
