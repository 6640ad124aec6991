"""What a contender has really written: rows, ids and nulls from the Parquet files that its Delta log names.

A contender whose table does not hold every record exactly once is disqualified, whatever it says itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.datasets import DataSet
from blizzard.schema.fit import schema_differences
from blizzard.schema.load import load_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    rows: int = 0
    files: int = 0
    stored_bytes: int = 0
    problems: tuple[str, ...]  # each of them disqualifies
    remarks: tuple[str, ...] = ()  # these do not


def verify(table: str, dataset: DataSet) -> Verdict:
    """Compare the table, or plain Parquet files where there is no Delta log, with what the data set holds."""
    is_delta = os.path.isdir(os.path.join(table, "_delta_log"))
    paths = _active_files(table) if is_delta else sorted(_parquet_files(table))
    counts = np.zeros(dataset.rows, dtype=np.int64)
    rows, outside, nulls = 0, 0, dict[str, int]()
    for path in paths:
        with pq.ParquetFile(path) as file:
            rows += file.metadata.num_rows
            _add_nulls(file.metadata, nulls)
            outside += _count_ids(file, counts)
    return Verdict(
        rows=rows,
        files=len(paths),
        stored_bytes=sum(map(os.path.getsize, paths)),
        problems=tuple(_problems(dataset, rows, outside, counts, nulls)),
        remarks=_schema_remarks(table, dataset) if is_delta else (),
    )


def _problems(
    dataset: DataSet, rows: int, outside: int, counts: npt.NDArray[np.int64], nulls: dict[str, int]
) -> Iterator[str]:
    if rows != dataset.rows:
        yield f"{rows:,} rows instead of {dataset.rows:,}"
    ids, expected = np.arange(dataset.rows, dtype=np.int64), dataset.rows * (dataset.rows - 1) // 2
    total = int((ids * counts).sum())
    if total != expected:
        yield f"sum(id) is {total:,} instead of {expected:,}"
    # Lost and doubled rows can cancel in a sum, so every id is looked at as well.
    missing, doubled = int((counts == 0).sum()), int((counts > 1).sum())
    if missing or doubled or outside:
        yield f"{missing:,} ids missing, {doubled:,} more than once, {outside:,} null or unknown"
    for column, count in nulls.items():
        if count and column.split(".")[0] not in dataset.nullable:
            yield f"column {column} has {count:,} nulls, the data has none"
            return


def _count_ids(file: pq.ParquetFile, counts: npt.NDArray[np.int64]) -> int:
    """Add the file's ids to `counts`; how many are not ids of the data set."""
    outside = 0
    for group in range(file.metadata.num_row_groups):
        column = file.read_row_group(group, columns=["id"])["id"]
        ids = column.drop_null().to_numpy()
        known = ids[(ids >= 0) & (ids < len(counts))]
        outside += len(column) - len(known)
        counts += np.bincount(known, minlength=len(counts))
    return outside


def _add_nulls(footer: pq.FileMetaData, nulls: dict[str, int]) -> None:
    """Null counts of the leaves outside arrays (inside one, an empty array counts as a null)."""
    for group in range(footer.num_row_groups):
        for i in range(footer.num_columns):
            leaf, chunk = footer.schema.column(i), footer.row_group(group).column(i)
            statistics = chunk.statistics
            if leaf.max_repetition_level == 0 and statistics is not None and statistics.has_null_count:
                nulls[leaf.path] = nulls.get(leaf.path, 0) + statistics.null_count


def _schema_remarks(table: str, dataset: DataSet) -> tuple[str, ...]:
    written = orjson.loads(DeltaTable(table).schema().to_json())
    differences = schema_differences(load_schema(dataset.ddl), written)
    return (f"other types: {differences[0]}" + ("; …" if len(differences) > 1 else ""),) if differences else ()


def _active_files(table: str) -> list[str]:
    return [_local(uri) for uri in DeltaTable(table).file_uris()]


def _local(uri: str) -> str:
    return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri


def _parquet_files(folder: str) -> Iterator[str]:
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        yield from (os.path.join(path, n) for n in names if n.endswith(".parquet") and not n.startswith(("_", ".")))
