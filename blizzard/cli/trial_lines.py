"""What a trial found, as lines for people: `blizzard try` and `blizzard plan --validate` say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blizzard.core.framing import LINES
from blizzard.core.lists import count, some
from blizzard.run.reasons import without_setting

_SHOWN_REASONS = 5
_SHOWN_NAMES = 12


def trial_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in _rows(facts):
        yield f"{name:<12}{value}"


def _rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "records", count(facts["records"], "record") + _how_many(facts)
    if framings := [f"{count(n, 'file')} as {name}" for name, n in facts["framings"].items() if name != LINES]:
        yield "framing", f"not one record a line: {some(framings, _SHOWN_NAMES)}"
    if facts["sibling_fields"]:
        yield "siblings", f"beside the arrays, read by nothing: {some(list(facts['sibling_fields']), _SHOWN_NAMES)}"
    yield "rows", f"{facts['rows']:,}"
    yield "bad", f"{facts['bad']:,}"
    reasons = facts["bad_reasons"]
    for reason in reasons[:_SHOWN_REASONS]:
        yield "", reason["sentence"]
        yield (
            "",
            f"  {' or '.join(remedy['options'] for remedy in reason['remedies']) or without_setting(reason['kind'])}",
        )
    if len(reasons) > _SHOWN_REASONS:
        yield "", f"and {count(len(reasons) - _SHOWN_REASONS, 'other reason')} (--json has them)"
    for name, files in ("bad files", facts["bad_files"]), ("unreadable", facts["unreadable_files"]):
        if files:
            yield name, f"{count(len(files), 'file')}: {some([f'{path} ({why})' for path, why in files.items()])}"
    yield from _schema_rows(facts)
    if facts["parser"] is not None:
        doubtful = (
            f", {count(facts['doubtful_lines'], 'line')} left to the reference" if facts["doubtful_lines"] else ""
        )
        yield "parser", facts["parser"] + doubtful
    if facts["mb_per_s"] is not None:
        yield "speed", f"{facts['mb_per_s']:,} MB/s of JSON on one core, without writing"


def _schema_rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if facts["new_columns"]:
        yield "new columns", some(facts["new_columns"], _SHOWN_NAMES)
    if facts["unknown_fields"]:
        said = [f"{name} ({number:,})" for name, number in facts["unknown_fields"].items()]
        yield "no column", f"fields that have none, and how often they were met: {some(said, _SHOWN_NAMES)}"
    if facts["rescued"]:
        yield "rescued", f"{count(facts['rescued'], 'row')} with values in _rescued_data"
    if facts["cut_timestamps"]:
        said = [f"{name} ({number:,})" for name, number in facts["cut_timestamps"].items()]
        yield "cut", f"digits beyond a microsecond, in {some(said, _SHOWN_NAMES)}"
    if facts["never_filled"]:
        yield "empty", f"columns without a value: {some(facts['never_filled'], _SHOWN_NAMES)}"


def _how_many(facts: Mapping[str, Any]) -> str:
    blank = f", {count(facts['blank'], 'blank line')}" if facts["blank"] else ""
    left_out = f", {count(facts['filtered'], 'record')} left out by where or transform" if facts["filtered"] else ""
    said = f" of {count(facts['files'], 'file')}{blank}{left_out}"
    return said if facts["read_all"] else f"{said}; --records all reads everything"
