"""Writes bad records into Parquet files of the quarantine table. Like data files they count only once committed.

Every row says where its bytes came from and why they are bad. The bytes are kept as they were.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blizzard.core.overflow import batch_name
from blizzard.core.types import DataFile, Slice
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.store.files import Sink, Store
from blizzard.tasks.write import give_up

_COLUMNS = {
    "pipeline": "string",
    "table_id": "string",
    "sequence": "long",
    "run_id": "string",
    "source_file": "string",
    "source_etag": "string",
    "line": "long",
    "byte_offset": "long",
    "raw": "binary",
    "raw_bytes": "long",
    "complete": "boolean",
    "error_kind": "string",
    "message": "string",
    "column": "string",
    "quarantined_at": "timestamp",
    "batch_id": "string",
    "orphaned": "boolean",
}
# Quarantine tables made by an older version lack these columns; they are added before anything is written.
LATER_COLUMNS = frozenset(["batch_id", "orphaned"])
# Not parsed from DDL: that would take 0.15 s in each task's process.
QUARANTINE_SCHEMA: DeltaSchema = {
    "type": "struct",
    "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS.items()],
}
ARROW_SCHEMA: pa.Schema = to_arrow(QUARANTINE_SCHEMA)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FLUSH_BYTES = 8 * 1024 * 1024
_FLUSH_ROWS = 10_000
# Added at once: few enough that the buffer stays near these limits.
_STEP_ROWS = 500
# The other columns hardly ever repeat, and a dictionary of them costs half of the time to write them.
_REPEATING = [name for name in _COLUMNS if name not in ("raw", "line", "byte_offset", "raw_bytes")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """One bad record, or one broken file (then without bytes). `line` is 1-based."""

    source_file: str
    source_etag: str
    line: int | None
    byte_offset: int | None
    raw: bytes | None
    raw_bytes: int | None  # the length of the line; more than that of `raw` if it was cut
    kind: str
    message: str
    column: str | None = None
    since: datetime | None = None  # when it first came into quarantine; None: now

    @property
    def complete(self) -> bool:
        """Whether all bytes are there, so that the line can be replayed."""
        return self.raw is not None and len(self.raw) == self.raw_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRows:
    """Bad lines of one file, column by column: a value for each of them. All their bytes are there."""

    source_file: str
    source_etag: str
    lines: Sequence[int]  # 1-based
    byte_offsets: Sequence[int]
    raws: Sequence[bytes]
    kinds: Sequence[str]
    messages: Sequence[str]
    columns: Sequence[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which records in quarantine; None: any. It has two forms: for Arrow to read, and SQL to delete. Both must select
    the same records: what is replayed is what is deleted."""

    pipeline: str | None = None
    table_id: str | None = None
    source_file: str | None = None
    error_kind: str | None = None
    but_not: str | None = None  # none of this kind
    from_sequence: int | None = None
    through_sequence: int | None = None
    before: datetime | None = None  # only those that came into quarantine before this
    complete: bool = False  # only those whose bytes are all there
    batches: tuple[str, ...] | None = None  # only those of these batches, by the names that `batch_name` gives
    # Orphans are of a batch that is no longer part of the table's history. True: only them; False: all others; None:
    # both.
    orphaned: bool | None = False

    @property
    def columns(self) -> tuple[str, ...]:
        flags = (("complete",) if self.complete else ()) + (("orphaned",) if self.orphaned is not None else ())
        of_batch = () if self.batches is None else ("batch_id", "sequence")
        return tuple(dict.fromkeys([*(name for name, _, _ in self._conditions()), *of_batch])) + flags

    @property
    def predicate(self) -> str | None:
        """For DELETE. None: every record."""
        parts = ["complete"] if self.complete else []
        parts += [f"{name} {operator} {literal(value)}" for name, operator, value in self._conditions()]
        if self.batches is not None:
            name = f"coalesce(batch_id, concat({literal(batch_name(None, ''))}, CAST(sequence AS VARCHAR)))"
            parts.append(f"{name} IN ({', '.join(map(literal, self.batches))})" if self.batches else "false")
        if self.orphaned is not None:
            parts.append("orphaned IS TRUE" if self.orphaned else "orphaned IS NOT TRUE")
        return " AND ".join(parts) or None

    def mask(self, rows: pa.Table) -> Any:
        mask = rows["complete"] if self.complete else pa.repeat(pa.scalar(True), rows.num_rows)
        if self.orphaned is not None:
            mask = pc.and_(mask, pc.equal(pc.fill_null(rows["orphaned"], False), pa.scalar(self.orphaned)))
        for name, operator, value in self._conditions():
            mask = pc.and_(mask, _COMPARE[operator](rows[name], pa.scalar(value, ARROW_SCHEMA.field(name).type)))
        if self.batches is not None:
            mask = pc.and_(mask, pc.is_in(batch_names(rows), value_set=pa.array(self.batches, pa.string())))
        return mask

    def _conditions(self) -> list[tuple[str, str, Any]]:
        conditions = [
            ("pipeline", "=", self.pipeline),
            ("table_id", "=", self.table_id),
            ("source_file", "=", self.source_file),
            ("error_kind", "=", self.error_kind),
            ("error_kind", "<>", self.but_not),
            ("sequence", ">=", self.from_sequence),
            ("sequence", "<=", self.through_sequence),
            ("quarantined_at", "<", self.before),
        ]
        return [condition for condition in conditions if condition[2] is not None]


_COMPARE = {"=": pc.equal, "<>": pc.not_equal, ">=": pc.greater_equal, "<=": pc.less_equal, "<": pc.less}


def batch_names(rows: pa.Table) -> Any:
    """`batch_name` of each row."""
    by_sequence = pc.binary_join_element_wise(batch_name(None, ""), pc.cast(rows["sequence"], pa.string()), "")
    return pc.coalesce(rows["batch_id"], by_sequence)


def literal(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    # A text is compared as a timestamp without loss. TIMESTAMP '…' has another type in delta-rs and fails.
    if isinstance(value, datetime):
        value = value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return "'" + str(value).replace("'", "''") + "'"


def broken_file(piece: Slice, *, line: int | None, kind: str, message: str) -> BadRow:
    return BadRow(
        source_file=piece.path,
        source_etag=piece.etag,
        line=line,
        byte_offset=None,
        raw=None,
        raw_bytes=None,
        kind=kind,
        message=message,
    )


class BadRowWriter(Protocol):
    """Where the bad records of a task go."""

    def add(self, row: BadRow) -> None: ...
    def add_lines(self, rows: BadRows) -> None: ...
    def close(self) -> tuple[DataFile, ...]: ...
    def abandon(self) -> None: ...


class QuarantineWriter:
    """At most one file per task; none if there is no bad record."""

    def __init__(
        self,
        *,
        store: Store,
        name: str,
        pipeline: str,
        table_id: str,
        sequence: int,
        run_id: str,
        batch_id: str | None = None,
    ) -> None:
        self._store, self._name = store, name
        self._stamp: dict[str, Any] = {
            "pipeline": pipeline,
            "table_id": table_id,
            "sequence": sequence,
            "run_id": run_id,
        }
        self._stamp |= {"batch_id": batch_id, "orphaned": None}
        self._buffer: dict[str, list[Any]] = {name: [] for name in _COLUMNS if name not in self._stamp}
        self._buffer_bytes = 0
        self._writer: Any = None
        self._sink: Sink | None = None
        self.rows = 0

    def add(self, row: BadRow) -> None:
        values = {
            "source_file": row.source_file,
            "source_etag": row.source_etag,
            "line": row.line,
            "byte_offset": row.byte_offset,
            "raw": row.raw,
            "raw_bytes": row.raw_bytes,
            "complete": row.complete,
            "error_kind": row.kind,
            "message": row.message,
            "column": row.column,
            "quarantined_at": _in_us(row.since) if row.since is not None else _now_us(),
        }
        self._append({name: [value] for name, value in values.items()}, len(row.raw or b""))

    def add_lines(self, rows: BadRows) -> None:
        for start in range(0, len(rows.lines), _STEP_ROWS):
            step = slice(start, start + _STEP_ROWS)
            raws = rows.raws[step]
            sizes, count = list(map(len, raws)), len(raws)
            columns: dict[str, Sequence[Any]] = {
                "source_file": [rows.source_file] * count,
                "source_etag": [rows.source_etag] * count,
                "line": rows.lines[step],
                "byte_offset": rows.byte_offsets[step],
                "raw": raws,
                "raw_bytes": sizes,
                "complete": [True] * count,
                "error_kind": rows.kinds[step],
                "message": rows.messages[step],
                "column": rows.columns[step],
                "quarantined_at": [_now_us()] * count,
            }
            self._append(columns, sum(sizes))

    def _append(self, columns: Mapping[str, Sequence[Any]], size_bytes: int) -> None:
        for name, values in columns.items():
            self._buffer[name].extend(values)
        self._buffer_bytes += size_bytes
        self.rows += len(columns["line"])
        if self._buffer_bytes >= _FLUSH_BYTES or len(self._buffer["line"]) >= _FLUSH_ROWS:
            self._flush()

    def close(self) -> tuple[DataFile, ...]:
        self._flush()
        if self._sink is None:
            return ()
        self._writer.close()
        self._sink.close()
        self._writer = self._sink = None
        self._store.sync("")
        return (read_footer(self._store, self._name),)

    def abandon(self) -> None:
        """No commit will name what was written."""
        if self._sink is not None:
            give_up(self._writer, self._sink)
            self._writer = self._sink = None

    def _flush(self) -> None:
        count = len(self._buffer["line"])
        if not count:
            return
        if self._writer is None:
            self._sink = self._store.create(self._name)
            self._writer = pq.ParquetWriter(
                self._sink.target, ARROW_SCHEMA, compression="zstd", use_dictionary=_REPEATING
            )
        columns = self._buffer | {name: [value] * count for name, value in self._stamp.items()}
        arrays = [pa.array(columns[field.name], field.type) for field in ARROW_SCHEMA]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA))
        self._buffer, self._buffer_bytes = {name: [] for name in self._buffer}, 0


def _now_us() -> int:
    return time.time_ns() // 1000


def _in_us(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def read_footer(store: Store, name: str) -> DataFile:
    """What a commit needs to know about an existing file. FileNotFoundError if there is none."""
    info = store.stat(name)
    if info is None:
        raise FileNotFoundError(name)
    with store.open_seekable(name) as content:
        footer = pq.read_metadata(content)
    return DataFile(
        path=name,
        size_bytes=info.size_bytes,
        rows=footer.num_rows,
        stats=orjson.dumps(_stats(footer)).decode(),
        modified_ms=info.seen_ms,
    )


_COUNTED_BY = ("pipeline", "table_id", "sequence", "batch_id")


def _stats(footer: pq.FileMetaData) -> dict[str, Any]:
    """Enough to count the records of one pipeline, table and batch without opening the file."""
    stats: dict[str, Any] = {"numRecords": footer.num_rows}
    found = {name: _column_stats(footer, name) for name in (*_COUNTED_BY, "orphaned")}
    ends = {name: ends for name in _COUNTED_BY if (ends := found[name][0]) is not None}
    if ends:
        stats["minValues"] = {name: low for name, (low, _) in ends.items()}
        stats["maxValues"] = {name: high for name, (_, high) in ends.items()}
    stats["nullCount"] = {name: nulls for name, (_, nulls) in found.items() if nulls is not None}
    return stats


def _column_stats(footer: pq.FileMetaData, name: str) -> tuple[tuple[Any, Any] | None, int | None]:
    """Smallest and largest value, and how often it is null; None if the footer does not say."""
    if name not in footer.schema.names or not footer.num_row_groups:
        return None, None
    index = footer.schema.names.index(name)
    groups = [footer.row_group(i).column(index).statistics for i in range(footer.num_row_groups)]
    if any(group is None or not group.has_null_count for group in groups):
        return None, None
    nulls = sum(group.null_count for group in groups)
    if any(not group.has_min_max for group in groups):
        return None, nulls
    return (min(group.min for group in groups), max(group.max for group in groups)), nulls
