"""Counts, shows, exports and deletes records in quarantine. Needs no Spark, and holds only a few records at a time.

Replaying them is in `operate/replay.py`.
"""

from __future__ import annotations

import base64
import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import IO, Any, TypeAlias

import orjson
import pyarrow as pa

from blizzard.core.clock import Clock
from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.store.outputs import open_output
from blizzard.tasks.quarantine import Selection
from blizzard.text.json import printable_json

_PURGE_APP_ID = "blizzard-dlq-purge"
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_EPOCH = datetime.fromtimestamp(0, tz=timezone.utc)

Record: TypeAlias = dict[str, Any]  # a row of the quarantine table


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The records of one pipeline and file that are bad in the same way."""

    pipeline: str
    source_file: str
    error_kind: str
    records: int
    complete: int  # those with all their bytes, so that they can be exported and replayed
    first_sequence: int
    last_sequence: int
    oldest: datetime
    newest: datetime

    def merge(self, other: Group) -> Group:
        return replace(
            self,
            records=self.records + other.records,
            complete=self.complete + other.complete,
            first_sequence=min(self.first_sequence, other.first_sequence),
            last_sequence=max(self.last_sequence, other.last_sequence),
            oldest=min(self.oldest, other.oldest),
            newest=max(self.newest, other.newest),
        )


_GROUP_KEYS = ["pipeline", "source_file", "error_kind"]
_GROUP_VALUES = ["sequence", "quarantined_at", "complete"]


def count_groups(quarantine: DeltaRsQuarantine, selection: Selection) -> list[Group]:
    groups: dict[tuple[str, str, str], Group] = {}
    for rows in quarantine.read(selection, [*_GROUP_KEYS, *_GROUP_VALUES]):
        for group in _groups_of(rows):
            key = (group.pipeline, group.source_file, group.error_kind)
            groups[key] = groups[key].merge(group) if key in groups else group
    return [group for _, group in sorted(groups.items())]


def _groups_of(rows: pa.Table) -> Iterator[Group]:
    ends = [(name, end) for name in ("sequence", "quarantined_at") for end in ("min", "max")]
    for found in rows.group_by(_GROUP_KEYS).aggregate([([], "count_all"), ("complete", "sum"), *ends]).to_pylist():
        yield Group(
            pipeline=found["pipeline"],
            source_file=found["source_file"],
            error_kind=found["error_kind"],
            records=found["count_all"],
            complete=found["complete_sum"],
            first_sequence=found["sequence_min"],
            last_sequence=found["sequence_max"],
            oldest=found["quarantined_at_min"],
            newest=found["quarantined_at_max"],
        )


def count_records(quarantine: DeltaRsQuarantine, selection: Selection) -> int:
    return sum(rows.num_rows for rows in quarantine.read(selection, ["sequence"]))


def count_of_others(quarantine: DeltaRsQuarantine, selection: Selection, table_id: str | None) -> int:
    """How many of these records belong to other tables: a replay into this table does not take them."""
    if table_id is None:
        return 0
    return count_records(quarantine, selection) - count_records(quarantine, replace(selection, table_id=table_id))


def records(quarantine: DeltaRsQuarantine, selection: Selection) -> Iterator[Record]:
    for rows in quarantine.read(selection):
        yield from rows.to_pylist()


def to_json(record: Record) -> bytes:
    return printable_json(orjson.dumps(as_json(record)).decode()).encode()


def as_json(record: Record) -> dict[str, Any]:
    """One object. Bytes that are not UTF-8 are in `raw_base64` instead of `raw`."""
    raw = record["raw"]
    fields = record | {"raw": None, "quarantined_at": time_text(record["quarantined_at"])}
    if raw is not None:
        try:
            fields["raw"] = raw.decode()
        except UnicodeDecodeError:
            fields["raw_base64"] = base64.b64encode(raw).decode()
    return fields


def time_text(time: datetime) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    written: int
    cut: int = 0  # lines that were too long to be kept whole
    files: int = 0  # files that could not be read: there is no line to write


def export_records(quarantine: DeltaRsQuarantine, selection: Selection, out: IO[bytes], *, raw: bool) -> Exported:
    """Write the lines as they were, or with `raw` False all that is known about each record, as JSON."""
    written = cut = files = 0
    for record in records(quarantine, selection):
        if raw and not record["complete"]:
            cut, files = cut + (record["raw"] is not None), files + (record["raw"] is None)
            continue
        out.write((_line(record) if raw else to_json(record)) + b"\n")
        written += 1
    return Exported(written=written, cut=cut, files=files)


def _line(record: Record) -> bytes:
    """The line without a byte order mark: in the middle of another file it would be an error."""
    line: bytes = record["raw"]
    return line.removeprefix(BOM_UTF8) if record["line"] == 1 else line


@contextmanager
def new_file(path: str, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """A file that appears only when it is complete and on disk."""
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise ConfigError(f"--out {path}: not a file in a folder that exists", kind=Kind.USAGE)
    try:
        with open_output(path, overwrites=overwrite) as file:
            yield file
    except FileExistsError as e:
        raise ConfigError(
            f"--out {path} is already there. Choose another name, or use --force.", kind=Kind.FILE_EXISTS
        ) from e
    except PermissionError as e:
        raise ConfigError(f"--out {path} cannot be written: {e.strerror}", kind=Kind.USAGE) from e


def parse_age(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,6})([dhm])", text.strip())
    if match is None:
        raise ConfigError(f"--older-than takes an age such as 30d, 12h or 90m, not {text[:20]!r}", kind=Kind.USAGE)
    return timedelta(**{_UNITS[match.group(2)]: int(match.group(1))})


def moment_before(clock: Clock, age: timedelta) -> datetime:
    return _EPOCH + max(timedelta(0), timedelta(milliseconds=clock.now_ms()) - age)


def purge_app_id(table_id: str | None) -> str:
    """The Txn that says that records of this table, or of all tables, were purged."""
    return _PURGE_APP_ID if table_id is None else f"{_PURGE_APP_ID}:{table_id}"


def purge(quarantine: DeltaRsQuarantine, selection: Selection) -> int:
    """Delete the selected records for ever. Pending records are not in the table yet and are not touched."""
    return quarantine.delete(selection, app_id=purge_app_id(selection.table_id))


def purge_older(quarantine: DeltaRsQuarantine, days: int, *, pipeline: str, table_id: str) -> int:
    """Delete the records of this pipeline and table that are in quarantine for more than this many days. Records of
    others stay."""
    before = moment_before(quarantine.clock, timedelta(days=days))
    return purge(quarantine, Selection(pipeline=pipeline, table_id=table_id, before=before))
