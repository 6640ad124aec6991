"""Text in other encodings: read as UTF-8 without a change if the setting says so, and held back if it does not."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blizzard.source.decode import UnreadableSource
from tests.source.codecs import COMPRESS, RECORDS, decoded

TEXT = '{"name":"Zoë","note":"日本 \U0001f600"}\n'
UTF_16 = ("utf-16-le", "utf-16-be")
SINGLE_BYTES = ("latin-1", "windows-1252")
CHUNKS = st.integers(1, 12)
# What a JSON file begins with tells the encoding.
BEGINNINGS = st.sampled_from(['{"', "[1", "\n{", " \t", "{\r", "{}"])


def refusal(content: bytes, encoding: str = "auto") -> str:
    with pytest.raises(UnreadableSource) as error:
        decoded(content, encoding=encoding)
    return f"{error.value.kind}: {error.value}"


@given(BEGINNINGS, st.text(st.characters(codec="utf-8")), st.sampled_from(UTF_16), st.booleans(), CHUNKS)
@example("{}", "\ufeff", "utf-16-le", True, 1)
def test_utf_16_in_pieces_of_any_size_is_the_same_text(
    beginning: str, text: str, encoding: str, has_mark: bool, chunk_bytes: int
) -> None:
    content = (("\ufeff" if has_mark else "") + beginning + text).encode(encoding)
    expected = (beginning + text).encode()  # a mark that is not at the start stays
    assert decoded(content, encoding="utf-16", chunk_bytes=chunk_bytes) == expected
    assert decoded(content, encoding=encoding, chunk_bytes=chunk_bytes) == expected
    assert decoded(COMPRESS["gzip"](content), encoding="utf-16", chunk_bytes=chunk_bytes) == expected


@given(st.binary(), st.sampled_from(SINGLE_BYTES), CHUNKS)
def test_bytes_in_pieces_of_any_size_are_the_same_text(content: bytes, encoding: str, chunk_bytes: int) -> None:
    content = b"{" + content.replace(b"\0", b"")
    read = decoded(content, encoding=encoding, chunk_bytes=chunk_bytes)
    try:
        assert read == content.decode(encoding).encode()
    except UnicodeDecodeError:  # Windows-1252 has no character for five bytes
        with pytest.raises(UnicodeDecodeError):
            read.decode()
    assert read.count(b"\n") == content.count(b"\n")


@given(st.lists(st.integers(0, 0xFFFF)), st.sampled_from(UTF_16), CHUNKS)
def test_half_a_surrogate_pair_spoils_its_own_line_only(units: list[int], encoding: str, chunk_bytes: int) -> None:
    odd = b"".join(unit.to_bytes(2, "little" if encoding == "utf-16-le" else "big") for unit in units)
    content = "{}\n".encode(encoding) + odd + "\n{}".encode(encoding)
    first, *between, last = decoded(content, encoding=encoding, chunk_bytes=chunk_bytes).split(b"\n")
    assert (first, last) == (b"{}", b"{}")
    try:
        assert b"\n".join(between) == odd.decode(encoding).encode()
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            b"\n".join(between).decode()
    assert b"\n".join(between).decode("utf-8", "surrogatepass").encode(encoding, "surrogatepass") == odd


@pytest.mark.parametrize("encoding", UTF_16)
def test_a_file_that_ends_in_the_middle_of_a_character_is_truncated(encoding: str) -> None:
    content = TEXT.encode(encoding)
    assert refusal(content[:-1], encoding) == (f"truncated: the file ends in the middle of a character of {encoding}")


@pytest.mark.parametrize("asked", ["auto", "utf-8"])
@pytest.mark.parametrize("text", [TEXT, "[{}]", " {}", "\n", "{\n}"])
def test_utf_16_is_held_back_with_the_setting_that_reads_it(text: str, asked: str) -> None:
    for encoding in ("utf-16", *UTF_16):
        content = text.encode(encoding)
        assert refusal(content, asked) == "wrong_encoding: text in UTF-16; to read it set source.encoding=utf-16"
        assert decoded(content, encoding="utf-16") == text.encode()
    for encoding in ("utf-32", "utf-32-le", "utf-32-be"):
        assert refusal(text.encode(encoding), asked) == (
            "wrong_encoding: text in UTF-32, which is not read; convert it to UTF-8"
        )


def test_a_setting_that_the_bytes_contradict_is_an_error() -> None:
    marked = b"\xef\xbb\xbf" + RECORDS
    for encoding in ("utf-16", *UTF_16):
        assert refusal(RECORDS, encoding) == (
            "wrong_encoding: the text is not in UTF-16, as source.encoding says; to read it leave the key out"
        )
        assert refusal(marked, encoding).startswith("wrong_encoding: text in UTF-8 by its byte order mark, not utf-16")
    for encoding in SINGLE_BYTES:
        assert refusal(marked, encoding).startswith("wrong_encoding: text in UTF-8 by its byte order mark, not")
        assert refusal(TEXT.encode("utf-16"), encoding) == (
            f"wrong_encoding: text in UTF-16, not {encoding} as source.encoding says; to read it set"
            " source.encoding=utf-16-le"
        )
    assert "source.encoding=utf-16-be" in refusal(TEXT.encode("utf-16-be"), "utf-16-le")
    assert "UTF-32" in refusal(TEXT.encode("utf-32"), "utf-16")


@pytest.mark.parametrize("encoding", ["auto", "utf-8", "utf-16", *UTF_16, *SINGLE_BYTES])
def test_an_empty_file_is_in_any_encoding(encoding: str) -> None:
    assert decoded(b"", encoding=encoding) == b""


def test_utf_8_is_left_as_it_is() -> None:
    for content in (b"\xef\xbb\xbf" + RECORDS, b'{"a":"\xff"}\n', RECORDS + b"\xef\xbb\xbf"):
        assert decoded(content) == decoded(content, encoding="utf-8") == content
