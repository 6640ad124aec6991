"""The data sets: what each is for, its exact size, and its files on disk, written once and used again.

A folder appears under its name only when it is complete; one whose manifest does not fit is written anew.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.pool import Pool
from typing import Any

from isal import igzip

from benchmarks import events, generators
from benchmarks.generators import Generator
from benchmarks.shapes import SHAPES
from blizzard.schema.load import load_schema

FORMAT = 2  # raise it when a generator's output changes
FILE_PATTERN = "*.ndjson.gz"  # of every data set
_MANIFEST = "_manifest.json"  # begins with "_": no reader takes it for data
_SEGMENT_RECORDS = 50_000

_GENERATORS: dict[str, Generator] = {
    "nested": generators.nested_lines,
    "flat": generators.flat_lines,
    "wide": generators.wide_lines,
    "events": events.event_lines,
    **{name: shape.lines for name, shape in SHAPES.items()},
}
# Those that a bar needs. The others take minutes on a large set.
_PEERS = ("blizzard", "floor", "structured_streaming", "duckdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """What to write. File i holds the ids from i × records_per_file on, so that every id occurs exactly once."""

    name: str
    title: str
    lines: str  # which generator
    ddl: str
    files: int
    records_per_file: int
    nullable: tuple[str, ...] = ()  # top-level columns with nulls; every other one has a value in every record
    contenders: tuple[str, ...] = _PEERS  # unless the command line names others

    @property
    def rows(self) -> int:
        return self.files * self.records_per_file

    def scaled(self, scale: float) -> DataSet:
        """The same with fewer records: of small files fewer files, of large ones shorter ones."""
        values = asdict(self)
        if self.records_per_file < 1000:
            values["files"] = max(2, round(self.files * scale))
        else:
            values["records_per_file"] = max(10, round(self.records_per_file * scale))
        return DataSet(**values)


DATASETS: dict[str, DataSet] = {
    d.name: d
    for d in (
        DataSet(
            name="nested",
            title="large nested: records with a struct and an array of structs",
            lines="nested",
            ddl=generators.NESTED_DDL,
            files=16,
            records_per_file=250_000,
            nullable=("note",),
            contenders=(*_PEERS, "blizzard_pyarrow", "spark_read_json", "polars"),
        ),
        DataSet(
            name="small",
            title="many small files of 50 nested records each",
            lines="nested",
            ddl=generators.NESTED_DDL,
            files=5_000,
            records_per_file=50,
            nullable=("note",),
        ),
        DataSet(
            name="huge",
            title="one huge file: the same records as a single gzip stream",
            lines="nested",
            ddl=generators.NESTED_DDL,
            files=1,
            records_per_file=4_000_000,
            nullable=("note",),
            contenders=("blizzard", "floor", "duckdb"),
        ),
        DataSet(
            name="wide",
            title="wide: 200 columns of mixed types",
            lines="wide",
            ddl=generators.WIDE_DDL,
            files=8,
            records_per_file=6_250,
            nullable=generators.WIDE_NULLABLE,
        ),
        DataSet(
            name="flat",
            title="flat: 10 scalar columns",
            lines="flat",
            ddl=generators.FLAT_DDL,
            files=8,
            records_per_file=312_500,
        ),
        DataSet(
            name="events",
            title="a real-world mix: 118 columns, nested and mixed ones among them, of which a record has 17 to 48",
            lines="events",
            ddl=events.ddl(),
            files=8,
            records_per_file=21_000,
            nullable=tuple(f["name"] for f in load_schema(events.ddl())["fields"] if f["name"] not in events.ALWAYS),
        ),
    )
}
# Measured by blizzard's own task alone, see shapes.py.
SHAPE_SETS: dict[str, DataSet] = {
    shape.name: DataSet(
        name=shape.name,
        title=shape.title,
        lines=shape.name,
        ddl=shape.ddl,
        files=4,
        records_per_file=62_500,
        nullable=("note",),
        contenders=(),
    )
    for shape in SHAPES.values()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A data set on disk."""

    dataset: DataSet
    folder: str
    scale: float
    json_bytes: int
    stored_bytes: int

    @property
    def paths(self) -> list[str]:
        return [os.path.join(self.folder, _file_name(i)) for i in range(self.dataset.files)]


def prepare(name: str, data_dir: str, *, scale: float = 1.0, cores: int = 1) -> Prepared:
    """The data set, from disk if it is there as wanted, else written now."""
    whole = DATASETS[name] if name in DATASETS else SHAPE_SETS[name]
    dataset = whole if scale == 1 else whole.scaled(scale)
    folder = os.path.join(data_dir, name if scale == 1 else f"{name}-x{scale:g}")
    wanted = _manifest_key(dataset, scale)
    manifest = _read_manifest(folder)
    if manifest is None or manifest.get("key") != wanted:
        manifest = _write(dataset, folder, key=wanted, scale=scale, cores=cores)
    return Prepared(
        dataset=dataset,
        folder=folder,
        scale=scale,
        json_bytes=manifest["json_bytes"],
        stored_bytes=manifest["stored_bytes"],
    )


def _manifest_key(dataset: DataSet, scale: float) -> str:
    parameters = {"format": FORMAT, "scale": scale, **asdict(dataset)}
    parameters.pop("contenders")  # who reads it changes nothing in it
    return hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()


def _read_manifest(folder: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(folder, _MANIFEST), encoding="utf-8") as file:
            manifest: dict[str, Any] = json.load(file)
            return manifest
    except (OSError, ValueError):
        return None


def _write(dataset: DataSet, folder: str, *, key: str, scale: float, cores: int) -> dict[str, Any]:
    unfinished = f"{folder}.unfinished-{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    try:
        with multiprocessing.get_context("spawn").Pool(min(cores, 8)) as pool:
            json_bytes = _write_files(dataset, unfinished, pool)
        stored = sum(os.path.getsize(os.path.join(unfinished, _file_name(i))) for i in range(dataset.files))
        manifest = {"key": key, "format": FORMAT, "scale": scale, "json_bytes": json_bytes, "stored_bytes": stored}
        manifest["parameters"] = asdict(dataset)
        with open(os.path.join(unfinished, _MANIFEST), "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return manifest


def _write_files(dataset: DataSet, folder: str, pool: Pool) -> int:
    """Every file, on all cores; the JSON bytes written."""
    if dataset.files == 1:
        segments = pool.imap(_segment, list(_segments(dataset, 0)))
        return _compress(os.path.join(folder, _file_name(0)), segments)
    jobs = [(dataset, folder, number) for number in range(dataset.files)]
    return sum(pool.imap_unordered(_write_file, jobs, chunksize=max(1, dataset.files // 100)))


def _write_file(job: tuple[DataSet, str, int]) -> int:
    dataset, folder, number = job
    return _compress(os.path.join(folder, _file_name(number)), map(_segment, _segments(dataset, number)))


def _compress(path: str, segments: Iterator[bytes]) -> int:
    json_bytes = 0
    with open(path, "wb") as raw, igzip.IGzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as out:
        for segment in segments:
            out.write(segment)
            json_bytes += len(segment)
    return json_bytes


def _segments(dataset: DataSet, number: int) -> Iterator[tuple[str, int, int]]:
    """(generator, first id, count): each is generated on its own, so that cores can share one file's work."""
    first, end = number * dataset.records_per_file, (number + 1) * dataset.records_per_file
    for start in range(first, end, _SEGMENT_RECORDS):
        yield dataset.lines, start, min(_SEGMENT_RECORDS, end - start)


def _segment(job: tuple[str, int, int]) -> bytes:
    lines, first_id, count = job
    return "".join(_GENERATORS[lines](first_id, count)).encode()


def _file_name(number: int) -> str:
    return f"part-{number:05d}.ndjson.gz"


def read_once(prepared: Prepared) -> None:
    """Bring the stored bytes into the page cache, so that no contender is the one that waits for the disk."""
    for path in prepared.paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass
