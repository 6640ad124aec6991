"""Forms of times: what each name reads, against the standard library, and that no text is read by two forms."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blizzard.errors import SchemaError
from blizzard.schema.automata import common_text
from blizzard.schema.formats import parse_format, parse_formats
from blizzard.tasks.values import read_day, read_epoch, read_time

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DAYS = ("%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d", "%d %b %Y", "%B %d, %Y", "%A %d %B %Y", "%a %d.%m.%Y")
CLOCKS = ("", " %H:%M", "T%H:%M:%S", " %I:%M:%S %p", " %H%M%S", " %H:%M:%S.%f", " at %H %%")
ZONES = ("", "%z", " %z")
PATTERNS = st.builds("".join, st.tuples(*map(st.sampled_from, (DAYS, CLOCKS, ZONES))))


def instant_of(name: str, text: str) -> int | None:
    form = parse_format(name, "timestamp")
    if form.regex is None:
        found = read_epoch(text, {"epoch_s": 6, "epoch_ms": 3}[name])
    else:
        match = form.regex.fullmatch(text)
        found = None if match is None else read_time(match)
    return None if found is None else found[0]


def by_stdlib(pattern: str, text: str) -> int | None:
    try:
        moment = datetime.strptime(text, pattern)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    difference = moment - EPOCH
    return (difference.days * 86_400 + difference.seconds) * 1_000_000 + difference.microseconds


@given(PATTERNS, st.datetimes(min_value=datetime(1000, 1, 2)), st.integers(-23 * 60, 23 * 60))
def test_what_the_standard_library_writes_is_read_as_it_reads_it(pattern: str, moment: datetime, ahead: int) -> None:
    sign, minutes = "-" if ahead < 0 else "+", abs(ahead)
    text = moment.strftime(pattern.replace("%z", f"{sign}{minutes // 60:02d}{minutes % 60:02d}"))
    expected = by_stdlib(pattern, text)
    assume(expected is not None and expected < 253402300800000000)
    assert instant_of(pattern, text) == expected


@given(PATTERNS, st.datetimes(min_value=datetime(1000, 1, 2)), st.integers(0, 40), st.sampled_from("0123459 -+:Z.a"))
def test_a_text_that_is_read_at_all_is_read_as_the_standard_library_does(
    pattern: str, moment: datetime, place: int, character: str
) -> None:
    written = moment.strftime(pattern.replace("%z", "+0130"))
    text = written[:place] + character + written[place + 1 :]
    found = instant_of(pattern, text)
    expected = by_stdlib(pattern, text)  # None also for ±HH, and for more than six digits of a fraction
    assert found == expected or found is None or expected is None


NAMES = ("iso", "epoch_s", "epoch_ms", "rfc1123", "clf", *DAYS, "%-d/%-m/%Y", "%e %b %Y", "%Y-%m-%dT%H:%M:%S%z")


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.text("0123456789-/ TZ:+.eE", max_size=12), st.data())
def test_two_forms_that_are_taken_together_never_read_one_text(
    one: str, other: str, text: str, data: st.DataObject
) -> None:
    first, second = parse_format(one, "timestamp"), parse_format(other, "timestamp")
    common = common_text(first.reads, second.reads)
    if common is not None:
        assert instant_of(one, common) is not None, "the text that the message shows is really read by both"
        assert instant_of(other, common) is not None
        return
    if first.regex is not None and data.draw(st.booleans()):
        text = data.draw(st.from_regex(re.compile(first.regex.pattern, re.ASCII), fullmatch=True))
    assert instant_of(one, text) is None or instant_of(other, text) is None


@pytest.mark.parametrize(
    ("names", "data_type"),
    [
        (("iso", "epoch_ms", "rfc1123", "clf"), "timestamp"),
        (("iso", "%d/%m/%Y"), "date"),
        (("%d/%m/%Y", "%d/%m/%Y %H:%M", "epoch_s"), "timestamp_ntz"),
        (("%d %b %Y", "%d %m %Y"), "date"),
    ],
)
def test_forms_that_can_be_told_apart(names: tuple[str, ...], data_type: str) -> None:
    assert [f.name for f in parse_formats(names, data_type)] == list(names)


@pytest.mark.parametrize(
    ("names", "data_type", "message"),
    [
        (("%d/%m/%Y", "%m/%d/%Y"), "date", "both '%d/%m/%Y' and '%m/%d/%Y' read the text '01/01/1000'"),
        (("iso", "%Y-%m-%d"), "timestamp", "both 'iso' and '%Y-%m-%d' read the text '1000-01-01'"),
        (("epoch_s", "epoch_ms"), "timestamp", "both 'epoch_s' and 'epoch_ms' read the text '0'"),
        (("epoch_s", "%Y%m%d"), "timestamp", "both 'epoch_s' and '%Y%m%d' read the text '10000101'"),
        (("%d-%b-%Y", "%d-%B-%Y"), "date", "both '%d-%b-%Y' and '%d-%B-%Y' read the text '01-MAY-1000'"),
        (("iso", "iso"), "date", "both 'iso' and 'iso'"),
        ((), "date", "no format is given"),
        (("iso",), "string", "formats are for dates and timestamps, not for string"),
        (("epoch_s",), "date", "epoch_s is a time and not a day"),
        (("epoch",), "timestamp", "'epoch' is no format"),
        (("%Y-%m",), "date", "it has no day"),
        (("%Y-%m-%d %d",), "date", "it has the day twice"),
        (("%Y-%m-%d %b",), "date", "it has the month twice"),
        (("%Y-%m-%d %I",), "timestamp", "%I and %p go together"),
        (("%Y-%m-%d %H %p",), "timestamp", "%I and %p go together"),
        (("%Y-%m-%d %H %I %p",), "timestamp", "it has the hour twice"),
        (("%Y-%m-%d .%f",), "timestamp", "%f needs %S"),
        (("%Y-%m-%d %H",), "date", "a DATE has no time of day"),
        (("%Y-%m-%d %H%z",), "timestamp_ntz", "a TIMESTAMP_NTZ has no zone"),
        (("rfc1123",), "timestamp_ntz", "a TIMESTAMP_NTZ has no zone"),
        (("%y-%m-%d",), "date", "%y is not known"),
        (("%Y-%m-%d %Z",), "timestamp", "%Z is not known"),
        (("%Y-%m-%d %",), "timestamp", "% is not known"),
        (("%-m%-d%Y",), "date", "after the month no digit may follow"),
        (("%Y-%m-%d %S.%f0",), "timestamp", "after the fraction no digit may follow"),
        (("%Y-%m-%d %z:",), "timestamp", "after the zone no digit may follow"),
    ],
)
def test_forms_that_are_refused(names: tuple[str, ...], data_type: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_formats(names, data_type)
    assert message in str(caught.value)


def test_a_day_that_does_not_exist_is_no_day() -> None:
    form = parse_format("%d.%m.%Y", "date")
    assert form.regex is not None
    matches = [form.regex.fullmatch(text) for text in ("29.02.2024", "29.02.2023", "01.13.2023", "01.01.0000")]
    assert [match and read_day(match) for match in matches] == [19782, None, None, None]
