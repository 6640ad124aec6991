"""What keeping the record contract costs: clean data against the bare steps, and one bad line in a hundred against
clean data. One task, one core, no Spark; in turns, best of some rounds."""

from __future__ import annotations

import gzip
import os
import shutil
import time

from benchmarks.bare import TICKET, UNHURRIED, make_spec
from benchmarks.generators import NESTED_DDL, nested_lines
from blizzard.core.types import Budget, Slice, TaskPlan
from blizzard.source.decode import open_stream
from blizzard.source.lines import read_blocks
from blizzard.source.listing import list_source
from blizzard.source.uri import locate_source
from blizzard.store import open_store
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.partitioned import open_writer
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import run_task

_BAD_EVERY = 100
# What goes wrong in the field: a fraction in an integer, text in a number, half a line, a date that is none.
_DAMAGE = (
    lambda line: line.replace('{"id":', '{"id":0.5,"was":', 1),
    lambda line: line.replace('"total":', '"total":"n/a","was":', 1),
    lambda line: line[: len(line) // 2],
    lambda line: line.replace('"ts":"2', '"ts":"?', 1),
)


def write_pair(folder: str, records: int) -> tuple[str, str]:
    """The same records in two folders, in the second with one bad line in a hundred."""
    lines = list(nested_lines(0, records))
    dirty = [_DAMAGE[i // _BAD_EVERY % 4](line) if i % _BAD_EVERY == 50 else line for i, line in enumerate(lines)]
    folders = []
    for name, content in (("clean", lines), ("dirty", dirty)):
        folders.append(os.path.join(folder, name))
        os.makedirs(folders[-1])
        with gzip.open(os.path.join(folders[-1], "a.ndjson.gz"), "wt", encoding="utf-8", compresslevel=1) as file:
            file.writelines(line.rstrip("\n") + "\n" for line in content)
    return folders[0], folders[1]


def measure_dirt(records: int, rounds: int, folder: str) -> dict[str, float]:
    clean, dirty = write_pair(folder, records)
    best: dict[str, float] = {}
    for _ in range(rounds):
        for what, source, run in (
            ("bare_seconds", clean, _bare),
            ("clean_seconds", clean, _task),
            ("dirty_seconds", dirty, _task),
        ):
            table = os.path.join(folder, "table")
            os.makedirs(table)
            started = time.monotonic()
            rows, bad = run(make_spec(source, table, NESTED_DDL), source)
            seconds = time.monotonic() - started
            shutil.rmtree(table)
            shutil.rmtree(table + "_quarantine", ignore_errors=True)
            expected = records // _BAD_EVERY if source == dirty else 0
            if (rows, bad) != (records - expected, expected):
                raise RuntimeError(f"{what}: {rows} rows and {bad} bad ones of {records}")
            best[what] = min(seconds, best.get(what, seconds))
    return best | {
        "clean_cost": best["clean_seconds"] / best["bare_seconds"],
        "dirty_cost": best["dirty_seconds"] / best["clean_seconds"],
    }


def _piece(source: str) -> Slice:
    (file,) = list_source(locate_source(source, None))
    return Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)


def _task(spec: TaskSpec, source: str) -> tuple[int, int]:
    budget = Budget(output_bytes=1 << 62, max_records=None, seconds=UNHURRIED.interval_s)
    report = run_task(spec, TaskPlan(slot=0, slices=(_piece(source),), budget=budget), TICKET)
    return sum(s.rows for s in report.slices), sum(s.bad for s in report.slices)


def _bare(spec: TaskSpec, source: str) -> tuple[int, int]:
    """Decode, parse, encode: no policy, no accounting, no columns of our own."""
    parser = RecordParser(spec.layout.record_schema)
    writer = open_writer(
        spec.layout,
        store=open_store(spec.table_root),
        name_prefix="bare",
        indexed_columns=spec.indexed_columns,
        target_bytes=spec.target_file_bytes,
        codec=spec.codec,
    )
    rows = 0
    with open_stream(spec.source, _piece(source), spec.compression) as stream:
        for block in read_blocks(stream, block_bytes=spec.block_bytes, max_line_bytes=spec.max_record_bytes):
            table = parser.parse(block.data, first_of_file=block.first_line == 0).table
            rows += table.num_rows
            writer.write(table)
    writer.close()
    return rows, 0
