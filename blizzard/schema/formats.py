"""The forms in which a column of times may be written: their names, and what they read.

Pure. A text that two forms of one column read is a mistake in the configuration, found here before any record is read.
Which instant a text is, and whether its day exists, `tasks/values.py` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from blizzard.errors import SchemaError
from blizzard.schema.automata import ANY_DIGIT, Language, alternatives, common_text, many, maybe, one_of, sequence, word

ISO = "iso"
# The power of ten that makes microseconds of the number.
EPOCHS = {"epoch_s": 6, "epoch_ms": 3, "epoch_us": 0, "epoch_ns": -3}
TIME_TYPES = ("timestamp", "timestamp_ntz", "date")
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_NAMED = {"rfc1123": "%a, %d %b %Y %H:%M:%S ", "clf": "%d/%b/%Y:%H:%M:%S %z"}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TIME_PARTS = frozenset({"hour", "hour12", "minute", "second", "fraction", "half", "zone"})
_DIGITS = frozenset("0123456789")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A directive, or a character for itself."""

    part: str = ""  # of the time; empty: of none
    regex: str
    reads: Language
    may_be_short: bool = False  # where it ends depends on what follows
    starts_with_digit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeFormat:
    """One form. `regex` has a group for each part of the time; None: an epoch, which is a number."""

    name: str
    regex: re.Pattern[str] | None
    reads: Language


def _two(first: int, last: int) -> Language:
    return alternatives(*(word(f"{number:02d}") for number in range(first, last + 1)))


def _one_or_two(first: int, last: int) -> Language:
    return alternatives(*(word(str(number)) for number in range(first, min(last, 9) + 1)), _two(first, last))


def _zeros(count: int) -> Language:
    return sequence(word("0" * count), one_of("123456789"), *[ANY_DIGIT] * (3 - count))


_YEAR = alternatives(*map(_zeros, range(4)))
_FRACTION = many(ANY_DIGIT)
_OFFSET = sequence(one_of("+-"), _two(0, 23), maybe(sequence(maybe(word(":")), _two(0, 59))))
_ZONE = alternatives(word("Z"), _OFFSET)
_ZONE_REGEX = r"Z|[+-][0-9]{2}(?::?[0-9]{2})?"

_DAY = sequence(_YEAR, word("-"), _two(1, 12), word("-"), _two(1, 31))
_SECONDS = sequence(word(":"), _two(0, 59), maybe(sequence(word("."), _FRACTION)))
_CLOCK = sequence(one_of("T "), _two(0, 23), maybe(sequence(word(":"), _two(0, 59), maybe(_SECONDS))))
_DAY_REGEX = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_CLOCK_REGEX = r"[T ](?P<hour>[0-9]{2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?)?"
_ISO = {
    "date": (_DAY_REGEX, _DAY),
    "timestamp": (
        f"{_DAY_REGEX}(?:{_CLOCK_REGEX}(?P<zone>{_ZONE_REGEX})?)?",
        sequence(_DAY, maybe(sequence(_CLOCK, maybe(_ZONE)))),
    ),
    "timestamp_ntz": (f"{_DAY_REGEX}(?:{_CLOCK_REGEX})?", sequence(_DAY, maybe(_CLOCK))),
}
_NUMBER = sequence(
    maybe(word("-")),
    alternatives(word("0"), sequence(one_of("123456789"), maybe(many(ANY_DIGIT)))),
    maybe(sequence(word("."), _FRACTION)),
    maybe(sequence(one_of("eE"), maybe(one_of("+-")), ANY_DIGIT, maybe(ANY_DIGIT), maybe(ANY_DIGIT))),
)


def _number(part: str, first: int, last: int, *, short: bool = False) -> _Piece:
    return _Piece(
        part=part,
        regex="[0-9]{1,2}" if short else "[0-9]{2}",
        reads=_one_or_two(first, last) if short else _two(first, last),
        may_be_short=short,
        starts_with_digit=True,
    )


def _names(part: str, names: Iterable[str]) -> _Piece:
    longest_first = sorted(names, key=len, reverse=True)
    reads = alternatives(*(word(name, any_case=True) for name in longest_first))
    return _Piece(part=part, regex=f"(?i:{'|'.join(longest_first)})", reads=reads)


_NUMBERS = {
    "m": ("month", 1, 12),
    "d": ("day", 1, 31),
    "H": ("hour", 0, 23),
    "I": ("hour12", 1, 12),
    "M": ("minute", 0, 59),
    "S": ("second", 0, 59),
}
_DIRECTIVES = {
    "%Y": _Piece(part="year", regex="[0-9]{4}", reads=_YEAR, starts_with_digit=True),
    **{f"%{letter}": _number(*range_) for letter, range_ in _NUMBERS.items()},
    **{f"%-{letter}": _number(*range_, short=True) for letter, range_ in _NUMBERS.items()},
    "%e": _Piece(
        part="day",
        regex="[ 0-9][0-9]",
        reads=alternatives(sequence(word(" "), one_of("123456789")), _two(1, 31)),
        starts_with_digit=True,
    ),
    "%f": _Piece(part="fraction", regex="[0-9]+", reads=_FRACTION, may_be_short=True, starts_with_digit=True),
    "%b": _names("month", (name[:3] for name in MONTHS)),
    "%B": _names("month", MONTHS),
    "%a": _names("weekday", (name[:3] for name in _WEEKDAYS)),
    "%A": _names("weekday", _WEEKDAYS),
    "%p": _names("half", ("am", "pm")),
    "%z": _Piece(part="zone", regex=_ZONE_REGEX, reads=_ZONE, may_be_short=True),
    "%%": _Piece(regex="%", reads=word("%")),
}
_RFC1123_ZONE = _Piece(
    part="zone", regex=f"GMT|UTC|{_ZONE_REGEX}", reads=alternatives(word("GMT"), word("UTC"), _ZONE), may_be_short=True
)


def parse_formats(names: Sequence[str], data_type: str) -> tuple[TimeFormat, ...]:
    """The forms with these names, for a column of this type. SchemaError if a text could be read by two of them."""
    if data_type not in TIME_TYPES:
        raise SchemaError(f"formats are for dates and timestamps, not for {data_type}; remove it")
    formats = [parse_format(name, data_type) for name in names]
    if not formats:
        raise SchemaError(f"no format is given; name at least one, such as {ISO}")
    for one, other in combinations(formats, 2):
        if (text := common_text(one.reads, other.reads)) is not None:
            raise SchemaError(f"both {one.name!r} and {other.name!r} read the text {text!r}; keep one of them")
    return tuple(formats)


def parse_format(name: str, data_type: str) -> TimeFormat:
    """SchemaError says what is wrong with the name."""
    if name == ISO:
        regex, reads = _ISO[data_type]
        return TimeFormat(name=name, regex=re.compile(regex), reads=reads)
    if name in EPOCHS:
        if data_type == "date":
            raise SchemaError(f"{name} is a time and not a day; make the column a TIMESTAMP, or use another format")
        return TimeFormat(name=name, regex=None, reads=_NUMBER)
    if name not in _NAMED and "%" not in name:
        known = ", ".join((ISO, *EPOCHS, *_NAMED))
        raise SchemaError(f"{name!r} is no format; use {known}, or a pattern such as %d/%m/%Y %H:%M:%S")
    pieces = list(_pieces(_NAMED.get(name, name)))
    if name == "rfc1123":
        pieces.append(_RFC1123_ZONE)
    _check_parts(name, [piece.part for piece in pieces if piece.part], data_type)
    _check_ends(name, pieces)
    regex = "".join(f"(?P<{piece.part}>{piece.regex})" if piece.part else piece.regex for piece in pieces)
    return TimeFormat(name=name, regex=re.compile(regex, re.ASCII), reads=sequence(*(p.reads for p in pieces)))


def _pieces(pattern: str) -> Iterator[_Piece]:
    for match in re.finditer(r"%-?.?|[^%]", pattern, re.DOTALL):
        written = match[0]
        if written[0] != "%":
            yield _Piece(regex=re.escape(written), reads=word(written), starts_with_digit=written in _DIGITS)
        elif written in _DIRECTIVES:
            yield _DIRECTIVES[written]
        else:
            raise SchemaError(f"{pattern!r}: {written} is not known; use {' '.join(_DIRECTIVES)}")


def _check_parts(name: str, parts: list[str], data_type: str) -> None:
    given = set(parts)
    problem = None
    if twice := next((part for part in parts if parts.count(part) > 1), None):
        problem = f"it has the {twice} twice"
    elif missing := [part for part in ("year", "month", "day") if part not in given]:
        problem = f"it has no {missing[0]}"
    elif ("hour12" in given) != ("half" in given):
        problem = "%I and %p go together"
    elif {"hour", "hour12"} <= given:
        problem = "it has the hour twice"
    elif "fraction" in given and "second" not in given:
        problem = "%f needs %S"
    elif data_type == "date" and given & _TIME_PARTS:
        problem = "a DATE has no time of day"
    elif data_type == "timestamp_ntz" and "zone" in given:
        problem = "a TIMESTAMP_NTZ has no zone"
    if problem is not None:
        raise SchemaError(f"{name!r}: {problem}; write it so that each text has one meaning")


def _check_ends(name: str, pieces: list[_Piece]) -> None:
    for piece, following in pairwise(pieces):
        is_colon = piece.part == "zone" and following.regex == ":"
        if piece.may_be_short and (following.starts_with_digit or is_colon):
            raise SchemaError(f"{name!r}: after the {piece.part} no digit may follow; nobody could tell where it ends")
