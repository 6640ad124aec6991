"""Encodes rows once for several tables whose files have the same bytes, and writes them to each table's folder.

Every table has its own file, finished and durable like any other. If one place cannot be written, only the writer of
that table raises; the others go on.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from blizzard.core.types import DataFile
from blizzard.errors import BlizzardError
from blizzard.store.files import Folder, Sink
from blizzard.tasks.partitioned import RowWriter

# Stands for the beginning of the names, which is another one in each table.
_PREFIX = "tee"


def open_tee(places: Sequence[tuple[Folder, str]], open_one: Callable[[Folder, str], RowWriter]) -> list[RowWriter]:
    """A writer for each place, which is a folder and the beginning of the names there. Each gets the same tables, in
    the same order; they must not be more than one table apart. `open_one` opens a writer into one folder."""
    tee = _Tee([_Place(folder, prefix) for folder, prefix in places], open_one)
    return [_TeeWriter(tee, place) for place in tee.places]


class _Place:
    def __init__(self, folder: Folder, prefix: str) -> None:
        self.folder, self._prefix = folder, prefix
        self.error: OSError | BlizzardError | None = None
        self.is_abandoned = False
        self.tables = 0  # how many its writer was given

    @property
    def is_open(self) -> bool:
        return self.error is None and not self.is_abandoned

    def name(self, name: str) -> str:
        """A file of the tee, as it is called here."""
        folder, slash, last = name.rpartition("/")
        return f"{folder}{slash}{self._prefix}{last.removeprefix(_PREFIX)}"

    def attempt(self, step: Callable[[], Any]) -> Any:
        """Afterwards the place may have an error; then nothing more is written there."""
        try:
            return step()
        except (OSError, BlizzardError) as e:
            self.error = e
            return None


class _Tee:
    """What the writers of all tables have in common."""

    def __init__(self, places: list[_Place], open_one: Callable[[Folder, str], RowWriter]) -> None:
        self.places = places
        self._writer = open_one(_TeeFolder(places), _PREFIX)
        self._tables = self._rows = 0
        self._files: tuple[DataFile, ...] | None = None

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    def write(self, place: _Place, table: pa.Table) -> None:
        """The first that comes with a table has it written. For the others it is done."""
        if place.tables == self._tables:
            self._tables, self._rows = self._tables + 1, table.num_rows
            self._writer.write(table)
        elif place.tables != self._tables - 1 or table.num_rows != self._rows:
            raise RuntimeError(f"table {place.tables} has {table.num_rows} rows, and another target's had {self._rows}")
        place.tables += 1

    def close(self, place: _Place) -> tuple[DataFile, ...]:
        if self._files is None:
            self._files = self._writer.close()
        return tuple(replace(file, path=place.name(file.path)) for file in self._files)

    def abandon(self, place: _Place) -> None:
        place.is_abandoned = True
        if all(place.is_abandoned for place in self.places):
            self._writer.abandon()


class _TeeWriter:
    """The writer of one table."""

    def __init__(self, tee: _Tee, place: _Place) -> None:
        self._tee, self._place = tee, place

    @property
    def written_bytes(self) -> int:
        return self._tee.written_bytes

    def write(self, table: pa.Table) -> None:
        self._tee.write(self._place, table)
        self._check()

    def close(self) -> tuple[DataFile, ...]:
        files = self._tee.close(self._place)
        self._check()
        return files

    def abandon(self) -> None:
        self._tee.abandon(self._place)

    def _check(self) -> None:
        if self._place.error is not None:
            raise self._place.error


class _TeeFolder:
    def __init__(self, places: list[_Place]) -> None:
        self._places = places

    def create(self, name: str) -> _TeeSink:
        return _TeeSink(self._places, name)

    def sync(self, *names: str) -> None:
        for place in self._places:
            if place.is_open:
                place.attempt(partial(place.folder.sync, *names))


class _TeeSink(io.RawIOBase):
    """One file in every folder that is still written."""

    def __init__(self, places: list[_Place], name: str) -> None:
        self.target = self
        self._size_bytes = 0
        self._sinks: list[tuple[_Place, Sink]] = []
        for place in places:
            if place.is_open:
                sink = place.attempt(partial(place.folder.create, place.name(name)))
                if sink is not None:
                    self._sinks.append((place, sink))

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size_bytes

    def write(self, data: Any) -> int:
        for place, sink in self._open_sinks():
            place.attempt(partial(sink.target.write, data))
        self._size_bytes += len(data)
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        for place, sink in self._open_sinks():
            place.attempt(sink.close)
        self._open_sinks()  # those that could not be closed
        super().close()

    def abort(self) -> None:
        if self.closed:
            return
        super().close()
        for _, sink in self._sinks:
            sink.abort()

    def _open_sinks(self) -> list[tuple[_Place, Sink]]:
        """A file in a folder that is no longer written is taken away."""
        for place, sink in self._sinks:
            if not place.is_open:
                sink.abort()
        self._sinks = [(place, sink) for place, sink in self._sinks if place.is_open]
        return self._sinks

    def __del__(self) -> None:
        """Without this `io` would call `close`, which finishes the files."""
