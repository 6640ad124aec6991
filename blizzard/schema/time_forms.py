"""Recognises the form in which a text or a number writes a time, among those that `schema.formats` can name.

Pure. It only proposes: what a column takes is decided by its formats (`schema/formats.py`) alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from string import ascii_letters, digits

from blizzard.schema.formats import ISO, MONTHS, parse_format

# Forms that producers write, by meaning: `dmy` is day, month, year. Of one meaning the strictest form that reads all
# texts is proposed. A column whose texts fit two meanings (03/04/2024) gets no proposal: nothing says which one it is.
_DAYS = {
    "%d/%m/%Y": "dmy",
    "%-d/%-m/%Y": "dmy",
    "%m/%d/%Y": "mdy",
    "%-m/%-d/%Y": "mdy",
    "%d.%m.%Y": "dmy",
    "%-d.%-m.%Y": "dmy",
    "%d-%m-%Y": "dmy",
    "%m-%d-%Y": "mdy",
    "%Y/%m/%d": "ymd",
}
_NAMED_DAYS = ("%d-%b-%Y", "%d %b %Y", "%-d %b %Y", "%d %B %Y", "%-d %B %Y", "%b %-d, %Y", "%B %-d, %Y")
_CLOCKS = (" %H:%M:%S", " %H:%M", " %H:%M:%S.%f")
_TWELVE_HOURS = (" %I:%M:%S %p", " %-I:%M:%S %p", " %I:%M %p", " %-I:%M %p")
_TIMES = (
    *(day + clock for day in _DAYS for clock in _CLOCKS),
    *(day + clock for day in ("%d/%m/%Y", "%-d/%-m/%Y", "%m/%d/%Y", "%-m/%-d/%Y") for clock in _TWELVE_HOURS),
    *(f"{day} %H:%M:%S" for day in _NAMED_DAYS),
    "rfc1123",
    "clf",
    "%d/%b/%Y:%H:%M:%S",
    "%a %b %d %H:%M:%S %Y",
    "%a %b %e %H:%M:%S %Y",
    "%a %b %d %H:%M:%S %z %Y",
    "%a %b %d %H:%M:%S UTC %Y",
    "%Y-%m-%d %H:%M:%S,%f",
    "%Y-%m-%d %H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S.%f %z",
    "%Y-%m-%d %H:%M:%S UTC",
    "%Y-%m-%d %H:%M:%S.%f UTC",
    "%Y%m%dT%H%M%S%z",
    "%Y%m%dT%H%M%S",
)

# Times of our days, as seconds since 1970: the years 2000 to 2100.
_FIRST_S, _END_S = 946_684_800, 4_133_980_800
_EPOCH_SCALES = {"epoch_s": 1, "epoch_ms": 10**3, "epoch_us": 10**6, "epoch_ns": 10**9}
# One digit and one letter for all of them.
_SHAPE = str.maketrans(digits + ascii_letters, "0" * len(digits) + "a" * len(ascii_letters))
_LONGEST = 40
_MAX_SHAPES = 256
_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(MONTHS, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeForm:
    name: str
    meaning: str
    regex: re.Pattern[str]
    is_date: bool
    has_zone: bool

    def reads(self, text: str) -> bool:
        match = self.regex.fullmatch(text)
        return match is not None and exists(match)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsoTime:
    """A text that a TIMESTAMP takes. `is_cut`: it has a digit beyond a microsecond that is not 0."""

    is_date: bool
    has_zone: bool
    is_cut: bool


@lru_cache(maxsize=1)
def _iso() -> re.Pattern[str]:
    regex = parse_format(ISO, "timestamp").regex
    assert regex is not None
    return regex


def iso_time(text: str) -> IsoTime | None:
    """What the text is as a time in ISO form; None if a TIMESTAMP does not take it."""
    match = _iso().fullmatch(text)
    if match is None or not exists(match):
        return None
    return IsoTime(
        is_date=match["hour"] is None,
        has_zone=match["zone"] is not None,
        is_cut=bool((match["fraction"] or "")[6:].strip("0")),
    )


def exists(match: re.Match[str]) -> bool:
    """Whether there is such a day and such a time, in UTC between the years 1 and 9999."""
    part = match.groupdict().get
    hour, half = int(part("hour") or 0), part("half")
    if half is not None:
        hour12 = int(match["hour12"])
        hour = hour12 % 12 + (12 if half.lower() == "pm" else 0) if 1 <= hour12 <= 12 else 24
    month = match["month"]
    number = int(month) if month.isdigit() else _MONTH_NUMBERS[month[:3].lower()]
    try:
        moment = datetime(
            int(match["year"]), number, int(match["day"]), hour, int(part("minute") or 0), int(part("second") or 0)
        )
        zone = part("zone") or "Z"
        if zone[0] in "+-":
            hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
            if hours > 23 or minutes > 59:
                return False
            ahead = timedelta(hours=hours, minutes=minutes)
            moment = moment + ahead if zone[0] == "-" else moment - ahead
    except (ValueError, OverflowError):
        return False
    return True


def looks_iso(text: str) -> bool:
    """Whether the text is written as an ISO time, even if there is no such time."""
    return _iso().fullmatch(text) is not None


@lru_cache(maxsize=1)
def common_forms() -> tuple[TimeForm, ...]:
    """Compiled when first needed: a process that meets no such text does not pay for it."""
    days = [_form(name, meaning, "date") for name, meaning in _DAYS.items()]
    days += [_form(name, "", "date") for name in _NAMED_DAYS]
    return (*days, *(_form(name, _meaning(name), "timestamp") for name in _TIMES))


def _meaning(name: str) -> str:
    return _DAYS.get(name.partition(" ")[0], "")


def _form(name: str, meaning: str, data_type: str) -> TimeForm:
    regex = parse_format(name, data_type).regex
    assert regex is not None
    has_zone = "zone" in regex.groupindex or "UTC" in name
    return TimeForm(name=name, meaning=meaning, regex=regex, is_date=data_type == "date", has_zone=has_zone)


def forms_of(text: str) -> tuple[TimeForm, ...]:
    """The common forms that read this text, the strictest first."""
    if len(text) > _LONGEST or not any(character in "0123456789" for character in text):
        return ()
    return tuple(form for form in common_forms() if form.reads(text))


def one_form(forms: Iterable[TimeForm]) -> TimeForm | None:
    """The one to propose; None if they mean different things, or there is none."""
    found = tuple(forms)
    return found[0] if found and len({form.meaning for form in found}) == 1 else None


# The forms that may read texts of a shape.
_forms_by_shape: dict[str, tuple[TimeForm, ...]] = {}


def likely_form(text: str) -> TimeForm | None:
    """The one common form that texts of this shape have, if this text does not show another. For messages only, and
    cheap: few shapes are met, and many texts of each."""
    if len(text) > _LONGEST:
        return None
    shape = text.translate(_SHAPE)
    forms = _forms_by_shape.get(shape)
    if forms is None:
        forms = tuple(form for form in common_forms() if form.regex.fullmatch(text))
        if len(_forms_by_shape) < _MAX_SHAPES:
            _forms_by_shape[shape] = forms
    return one_form(forms) or one_form(form for form in forms if form.reads(text))


def epoch_units(number: float) -> frozenset[str]:
    """The units in which this number is a time of our days. At most one, but for numbers that are none."""
    return frozenset(unit for unit, scale in _EPOCH_SCALES.items() if _FIRST_S * scale <= number < _END_S * scale)
