"""A mirror of files, on disk or in a bucket: `PIPELINE/TABLE_ID/PLACE/SEQUENCE.json`, and `latest.json` beside them.

Each file is what `checkpoint export` writes, with a few fields more for people: `checkpoint import --in` takes it as it
is. Each appears whole or not at all. `latest.json` is written after the file that it repeats.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import orjson

from blizzard.core.mirror import Change, Held, Series, Version
from blizzard.store import open_store
from blizzard.store.files import Store
from blizzard.store.local import require_writable
from blizzard.store.uri import is_local, join, show_uri

_LATEST = "latest.json"
_NAME = re.compile(r"([0-9]{1,18})\.json")


class FileMirror:
    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def shown(self) -> str:
        return show_uri(self._store.root)

    @contextmanager
    def opened(self) -> Iterator[FileMirror]:
        yield self

    def look(self, series: Series) -> Held:
        sequences = [int(match[1]) for name in self._store.names(series.folder) if (match := _NAME.fullmatch(name))]
        batches: dict[int, str | None] = dict.fromkeys(sequences)
        latest = self._read(f"{series.folder}/{_LATEST}")
        if latest is None or latest.sequence != max(batches, default=0):
            return Held(batches=batches)
        return Held(batches=batches | {latest.sequence: latest.batch_id}, newest=latest.id)

    def batch_of(self, series: Series, sequence: int) -> str | None:
        found = self._read(f"{series.folder}/{sequence}.json")
        return None if found is None else found.batch_id

    def apply(self, series: Series, change: Change) -> None:
        if change.write and is_local(self._store.root):
            open_store(join(self._store.root, series.folder)).make_root()
        for version in change.write:
            self._store.put(f"{series.folder}/{version.sequence}.json", _to_json(version))
        if change.newest is not None:
            self._store.put(f"{series.folder}/{_LATEST}", _to_json(change.newest))
        for gone in change.remove:
            self._store.delete(f"{series.folder}/{gone.sequence}.json")

    def read(self, series: Series, sequence: int | None = None) -> bytes | None:
        wanted = self.look(series).highest if sequence is None else sequence
        return self._store.read(f"{series.folder}/{wanted}.json")

    def newest_of_each(self) -> list[Version]:
        names = (file.path for file in self._store.walk() if file.path.endswith(f"/{_LATEST}"))
        return [found for name in sorted(names) if (found := self._read(name)) is not None]

    def check(self) -> None:
        if is_local(self._store.root):
            require_writable(_first_folder(self._store.root))
            return
        name = "blizzard-doctor"
        self._store.put(name, b"")
        self._store.delete(name)

    def _read(self, name: str) -> Version | None:
        """None: it is not there, or it is not what was written there."""
        content = self._store.read(name)
        with suppress(orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None if content is None else _from_json(orjson.loads(content))
        return None


def _first_folder(path: str) -> str:
    """The folder itself, or the first one above it that is there."""
    while not os.path.isdir(path):
        if os.path.lexists(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        path = os.path.dirname(path)
    return path


def _to_json(version: Version) -> bytes:
    fields = orjson.loads(version.payload) | {
        "table": version.series.table,
        "delta_version": version.delta_version,
        "taken_at_ms": version.taken_at_ms,
        "size_bytes": version.size_bytes,
        "run_id": version.run_id,
        "batch_id": version.batch_id,
    }
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _from_json(fields: dict[str, Any]) -> Version:
    """Raises KeyError, TypeError or ValueError if it is not what `_to_json` writes."""
    numbers = [fields[name] for name in ("sequence", "delta_version", "taken_at_ms")]
    texts = [fields[name] for name in ("pipeline", "table_id", "table", "batch_id", "run_id", "app_id")]
    if not all(type(number) is int for number in numbers) or not all(isinstance(text, str) for text in texts):
        raise TypeError("a field of the wrong type")
    exported = {name: fields[name] for name in ("blizzard_position", "pipeline", "table_id", "sequence", "app_id")}
    return Version(
        series=Series(pipeline=fields["pipeline"], table_id=fields["table_id"], table=fields["table"]),
        sequence=fields["sequence"],
        batch_id=fields["batch_id"],
        delta_version=fields["delta_version"],
        taken_at_ms=fields["taken_at_ms"],
        run_id=fields["run_id"],
        payload=orjson.dumps(exported, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
    )
