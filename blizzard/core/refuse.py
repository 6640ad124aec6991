"""A refusal as a value, and words that several refusals share. A way out must never double or lose a record."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from blizzard.core.kinds import Kind
from blizzard.core.paths import Path
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
    read = [f"{path} ({p.records:,} records read)" for path, p in sorted(source.in_progress.items())]
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
    return f"{source.root} ({source.pattern}{marks})"


def options_of(pipeline: str, source: SourceIdentity, *, given: SourceIdentity | None = None) -> str:
    """The options of a run that goes on with this pipeline. The source is left out if it is the `given` one."""
    if source == given:
        return shlex.join(["--pipeline", pipeline])
    words, without = ["--source", source.root], []
    of_glob = "default" if given is None else given.pattern
    for key, wanted, is_given in (
        ("source.pattern", source.pattern if source.pattern != "default" else None, of_glob != "default"),
        ("source.marks_per", source.marks_per, given is not None and given.marks_per is not None),
    ):
        if wanted is not None:
            words += ["--set", f"{key}={wanted}"]
        elif is_given:
            without.append(key)
    left_out = f" (without {' and '.join(without)})" if without else ""
    return shlex.join([*words, "--pipeline", pipeline]) + left_out


def import_commands(pipeline: str, sequence: int) -> str:
    """The commands to go on from a position after a person has checked that it fits the table."""
    name = shlex.quote(pipeline)
    return (
        f"blizzard checkpoint export --pipeline {name} --sequence {sequence} --out position.json, then blizzard"
        f" checkpoint import --in position.json --replace --unverified"
    )
