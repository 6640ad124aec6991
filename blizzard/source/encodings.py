"""Text in other encodings than UTF-8: recognised by its first bytes, and turned into UTF-8 while it is read.

Nothing is replaced: what has no character becomes bytes that are not UTF-8. So its line is bad, and keeps them.
"""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE, getincrementaldecoder

from blizzard.core.kinds import Kind
from blizzard.source.stream import ByteStream, UnreadableSource

UTF8 = "utf-8"
_AUTO = "auto"
_UTF16 = ("utf-16-le", "utf-16-be")
_UTF32 = "utf-32"
# UTF-32 comes first: its mark begins with that of UTF-16.
_MARKS = {
    BOM_UTF32_LE: _UTF32,
    BOM_UTF32_BE: _UTF32,
    BOM_UTF16_LE: "utf-16-le",
    BOM_UTF16_BE: "utf-16-be",
    BOM_UTF8: UTF8,
}
_BEGINS_JSON = b"{[ \t\r\n"
_NUL, _END = b"\0", b""


def find_encoding(head: bytes) -> str | None:
    """By a byte order mark, or by its zeros: the first two characters of JSON text are ASCII. None: nothing says that
    it is not UTF-8, or that it is not an encoding with one byte for each character."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    one, two, three, four = (head[i : i + 1] for i in range(4))
    if one and one in _BEGINS_JSON and two == _NUL:
        if three == four == _NUL:
            return _UTF32
        if three != _NUL and four in (_NUL, _END):
            return "utf-16-le"
    if one == _NUL and two and two in _BEGINS_JSON and three in (_NUL, _END) and four != _NUL:
        return "utf-16-be"
    if one == two == three == _NUL and four and four in _BEGINS_JSON and head[4:7] in (b"\0\0\0", _END):
        return _UTF32
    return None


def settle_encoding(head: bytes, asked: str) -> str:
    """The encoding to read a file with. Raises if the file is certainly in another one than was asked for."""
    found = find_encoding(head)
    if not head:
        return UTF8 if asked == _AUTO else asked
    if asked in (_AUTO, UTF8):
        if found in (None, UTF8):
            return UTF8
    elif asked == "utf-16" or asked in _UTF16:
        # Without a mark and without zeros it is another encoding, and would become one long line of nonsense.
        if found in _UTF16 and asked in ("utf-16", found):
            return str(found)
    elif found is None:
        return asked
    raise UnreadableSource(Kind.WRONG_ENCODING, _advice(found, asked))


def _advice(found: str | None, asked: str) -> str:
    said = "" if asked in (_AUTO, UTF8) else f", not {asked} as source.encoding says"
    if found == _UTF32:
        return f"text in UTF-32, which is not read{said}; convert it to UTF-8"
    if found in _UTF16:
        return f"text in UTF-16{said}; to read it set source.encoding={found if said else 'utf-16'}"
    if found == UTF8:
        return f"text in UTF-8 by its byte order mark{said}; to read it leave the key out"
    return "the text is not in UTF-16, as source.encoding says; to read it leave the key out"


class Transcoded:
    """A stream in another encoding as UTF-8, without its byte order mark."""

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        # Half of a surrogate pair, and a byte that Windows-1252 does not have, pass as bytes that are not UTF-8.
        self._errors = "surrogatepass" if encoding in _UTF16 else "surrogateescape"
        self._stream, self._encoding = stream, encoding
        self._decoder = getincrementaldecoder(encoding)(self._errors)
        self._is_at_start, self._has_ended, self._rest = True, False, b""

    def read(self, size: int, /) -> bytes:
        while not self._rest and not self._has_ended:
            # UTF-8 rarely has more than twice as many bytes.
            self._rest = self._next(max(size // 2, 1))
        content, self._rest = self._rest[:size], self._rest[size:]
        return content

    def _next(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._has_ended = not data
        try:
            text = self._decoder.decode(data, self._has_ended)
        except UnicodeDecodeError as e:
            said = f"the file ends in the middle of a character of {self._encoding}"
            raise UnreadableSource(Kind.TRUNCATED, said) from e
        if text and self._is_at_start:
            self._is_at_start, text = False, text.removeprefix("\ufeff")
        return text.encode(UTF8, self._errors)
