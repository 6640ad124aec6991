"""A refusal as a value, and words that several refusals share. A way out must never double or lose a record."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import orjson

from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.core.moments import moment_text
from blizzard.core.paths import Path
from blizzard.core.patterns import DEFAULTS, word_for
from blizzard.core.position import Position
from blizzard.core.types import SourceIdentity

_MAX_NAMES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Going on could lose or double data. `kind` is stable, `message` says what to do."""

    kind: Kind
    message: str
    path: Path = Path.REFUSED


def describe_position(position: Position) -> str:
    """Mark and exceptions. With the mark alone a person would lose the rest of files in progress, or read it twice."""
    source = position.marks
    marks = [source.last_committed_file] if source.last_committed_file is not None else []
    marks += [mark for _, mark in sorted(source.prefix_marks.items())]
    read = [f"{path} ({count(p.records, 'record')} read)" for path, p in sorted(source.in_progress.items())]
    above = sorted(path for path in source.files if path not in source.in_progress)
    parts = [f"mark {_some(marks)}" if marks else "no mark"]
    parts.append(f"in progress: {_some(read)}" if read else "nothing in progress")
    if above:
        parts.append(f"finished after the mark: {_some(above)}")
    return "; ".join(parts)


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = len(names) - _MAX_NAMES
    return ", ".join(islice(names, _MAX_NAMES)) + (
        f" and {more:,} more (blizzard checkpoint show has all)" if more > 0 else ""
    )


def describe_source(source: SourceIdentity) -> str:
    marks = f", marks per {source.marks_per}" if source.marks_per is not None else ""
    filters = "".join(f", {key} {value}" for key, value in filters_shown(source).items())
    return f"{source.root} ({word_for(source.pattern)}{marks}{filters})"


_FILTER_KEYS = ("modified_after", "modified_before", "ignore")


def filters_shown(source: SourceIdentity) -> dict[str, str]:
    return {key: value for key, value in settings_of(source).items() if key in _FILTER_KEYS}


def settings_of(source: SourceIdentity) -> dict[str, str]:
    """What a person sets below `source.` to choose these files. A default pattern is left out: nobody has to set it."""
    filters = source.filters
    settings = {
        "pattern": None if source.pattern in DEFAULTS else source.pattern,
        "marks_per": source.marks_per,
        "modified_after": None if filters.modified_after_ms is None else moment_text(filters.modified_after_ms),
        "modified_before": None if filters.modified_before_ms is None else moment_text(filters.modified_before_ms),
        "ignore": orjson.dumps(filters.ignore).decode() if filters.ignore else None,
    }
    return {key: value for key, value in settings.items() if value is not None}


def options_of(pipeline: str, source: SourceIdentity, *, given: SourceIdentity | None = None) -> str:
    """The options of a run that goes on with this pipeline. The source is left out if it is the `given` one."""
    if source == given:
        return shlex.join(["--pipeline", pipeline])
    wanted, is_given = settings_of(source), settings_of(given) if given is not None else {}
    if (
        given is not None
        and given.pattern in DEFAULTS
        and source.pattern in DEFAULTS
        and given.pattern != source.pattern
    ):
        wanted = {"pattern": word_for(source.pattern), **wanted}  # somebody has set the other default by its name
    words = ["--source", source.root]
    for key, value in wanted.items():
        words += ["--set", f"source.{key}={value}"]
    without = [f"source.{key}" for key in is_given if key not in wanted]
    left_out = f" (without {' and '.join(without)})" if without else ""
    return shlex.join([*words, "--pipeline", pipeline]) + left_out


def choose_command(pipeline: str, source: SourceIdentity) -> str:
    """The command after which the pipeline reads the files that this source chooses."""
    words = ["blizzard", "checkpoint", "choose", "--source", source.root, "--pattern", word_for(source.pattern)]
    for key, value in settings_of(source).items():
        words += ["--set", f"source.{key}={value}"] if key in (*_FILTER_KEYS, "marks_per") else []
    return shlex.join([*words, "--pipeline", pipeline])


def import_commands(pipeline: str, sequence: int) -> str:
    """The commands to go on from a position after a person has checked that it fits the table."""
    name = shlex.quote(pipeline)
    return (
        f"blizzard checkpoint export --pipeline {name} --sequence {sequence} --out position.json, then blizzard"
        f" checkpoint import --in position.json --replace --unverified"
    )
