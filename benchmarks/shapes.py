"""Shapes of records that were slow once, each as a small data set: the records of `clean` with one thing that real
producers do. And the measurement: blizzard's own task over one set, in one process.

A task in one process, not the whole product: starting Spark and its jobs take as long as the task itself here, and vary
by more than a shape costs.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from benchmarks.bare import TICKET, UNHURRIED, make_spec
from benchmarks.generators import NESTED_DDL, Generator, nested_lines
from blizzard.core.types import Budget, Slice, TaskPlan, TaskReport
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.task import run_task

CLEAN = "clean"
BLANK = "blank"
_RESCUING_DDL = f"{NESTED_DDL}, {RESCUED_COLUMN} STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str
    title: str
    lines: Generator
    ddl: str = NESTED_DDL
    parsing: ParsePolicy = field(default_factory=ParsePolicy)
    # What the task must say about every so many records: a shape that is not met would be measured as fast.
    bad_every: int | None = None
    undeclared: int = 0  # values a record
    cut: int = 0
    rescued: int = 0
    blank: bool = False  # no records at all


def _each(change: Callable[[str, int], str], first_id: int, count: int) -> Iterator[str]:
    return (change(line, first_id + i) for i, line in enumerate(nested_lines(first_id, count)))


def _with(field_of: Callable[[int], str]) -> Generator:
    """The records with one more field at the end."""
    return partial(_each, lambda line, record_id: f"{line[:-2]},{field_of(record_id)}}}\n")


def _labels(record_id: int) -> str:
    entries = (f'"label-{(record_id + i) % 50}":"value {record_id * 7 % 1000 + i}"' for i in range(3 + record_id % 4))
    return f'"labels":{{{",".join(entries)}}}'


def _object_in_text(line: str, record_id: int) -> str:
    start = line.index('"note":')
    return f'{line[:start]}"note":{{"by":"agent {record_id % 97}","score":{record_id % 1000 / 8},"tags":["a","b"]}}}}\n'


def _nine_digits(line: str, record_id: int) -> str:
    return line.replace('Z","kind"', f'{1 + record_id % 999:03d}Z","kind"', 1)


def _epoch(line: str, _: int) -> str:
    end = line.index(',"kind"')
    start = line.index('"ts":') + len('"ts":')
    text = line[start + 1 : end - 2]
    seconds = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return f"{line[:start]}{seconds * 1000 + int(text[20:23])}{line[end:]}"


def _other_case(line: str, _: int) -> str:
    """As another producer spells them, the nested ones too."""
    return _KEY.sub(lambda key: f'"{key[1].upper() if len(key[1]) < 4 else key[1].title()}":', line)


_KEY = re.compile('"(id|ts|kind|user|name|country|items|sku|quantity|price|total|tax|note)":')

# What goes wrong in the field: a fraction in an integer, text in a number, half a line, a date that is none.
_DAMAGE = (
    lambda line: line.replace('{"id":', '{"id":0.5,"was":', 1),
    lambda line: line.replace('"total":', '"total":"n/a","was":', 1),
    lambda line: line[: len(line) // 2] + "\n",
    lambda line: line.replace('"ts":"2', '"ts":"?', 1),
)


def _damaged(every: int, first_id: int, count: int) -> Iterator[str]:
    for i, line in enumerate(nested_lines(first_id, count), first_id):
        yield _DAMAGE[i // every % 4](line) if i % every == every // 2 else line


def _blank_lines(_: int, count: int) -> Iterator[str]:
    """800 blank lines in the place of each record: 200 MB of them."""
    return ("\n" * 800 for _ in range(count))


_UNKNOWN = _with(lambda n: f'"session":"s-{n % 1000:04d}","experiment":{{"arm":{n % 3},"name":"checkout"}}')

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(name=CLEAN, title="the records as they should be", lines=nested_lines),
        Shape(
            name="map",
            title="a MAP column with 3 to 6 entries",
            lines=_with(_labels),
            ddl=f"{NESTED_DDL}, labels MAP<STRING, STRING>",
        ),
        Shape(name="json_text", title="a STRING column that holds an object", lines=partial(_each, _object_in_text)),
        Shape(
            name="rescue",
            title="`rescue`, two unknown fields",
            lines=_UNKNOWN,
            ddl=_RESCUING_DDL,
            parsing=ParsePolicy(unknown=Unknown.RESCUE),
            undeclared=2,
            rescued=1,
        ),
        Shape(name="nanos", title="timestamps with 9 digits", lines=partial(_each, _nine_digits), cut=1),
        Shape(
            name="epoch",
            title="milliseconds since 1970 in a TIMESTAMP column",
            lines=partial(_each, _epoch),
            parsing=ParsePolicy(formats={("ts",): ("epoch_ms",)}),
        ),
        Shape(name="case", title="keys in another case", lines=partial(_each, _other_case)),
        Shape(name="ignored", title="`ignore`, two unknown fields", lines=_UNKNOWN, undeclared=2),
        Shape(
            name="add_columns",
            title="`add_columns`, an unknown field that is always `[]`",
            lines=_with(lambda _: '"tags":[]'),
            ddl=_RESCUING_DDL,
            parsing=ParsePolicy(unknown=Unknown.REPORT, keeps_rest=True),
            undeclared=1,
            rescued=1,
        ),
        Shape(name="bad_1", title="one bad line in a hundred", lines=partial(_damaged, 100), bad_every=100),
        Shape(name="bad_10", title="one bad line in ten", lines=partial(_damaged, 10), bad_every=10),
        Shape(name=BLANK, title="nothing but blank lines", lines=_blank_lines, blank=True),
    )
}


def measure_shape(shape: str, source: str, records: int, table: str) -> dict[str, float | str]:
    """One task over all files of one set. Raises if it did not find what the set holds."""
    wanted = SHAPES[shape]
    os.makedirs(table)
    spec = replace(make_spec(source, table, wanted.ddl), parsing=wanted.parsing)
    pieces = tuple(
        Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
        for file in list_source(locate_source(source, None))
    )
    budget = Budget(output_bytes=1 << 62, max_records=None, seconds=UNHURRIED.interval_s)
    # Once before the clock: what a task imports when it needs it takes longer than some of these tasks.
    run_task(spec, TaskPlan(slot=0, slices=pieces[:1], budget=replace(budget, max_records=100)), TICKET)
    started = time.monotonic()
    report = run_task(spec, TaskPlan(slot=0, slices=pieces, budget=budget), TICKET)
    seconds = time.monotonic() - started
    if report.failure is not None:
        raise RuntimeError(f"{shape}: {report.failure.message}")
    found, expected = _found(report), _expected(wanted, records)
    if found != expected:
        raise RuntimeError(f"{shape}: {found} instead of {expected}")
    share = report.doubtful / max(1, found["rows"] + found["bad"])
    return {"seconds": seconds, "doubtful_share": share, "parser": report.parser}


def _found(report: TaskReport) -> dict[str, int]:
    return {
        "rows": sum(s.rows for s in report.slices),
        "bad": sum(s.bad for s in report.slices),
        "undeclared": report.undeclared.total,
        "cut": report.cut_times.total,
        "rescued": report.rescued,
    }


def _expected(shape: Shape, records: int) -> dict[str, int]:
    every = shape.bad_every
    bad = (records + every - 1 - every // 2) // every if every else 0
    good = 0 if shape.blank else records - bad
    return {
        "rows": good,
        "bad": bad,
        "undeclared": shape.undeclared * good,
        "cut": shape.cut * good,
        "rescued": shape.rescued * good,
    }
