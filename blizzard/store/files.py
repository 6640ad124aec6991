"""The protocol of a store, and the errors about one file in it.

Names are relative to the store's root, with `/` between folders. Errors that are not about one file are BlizzardErrors:
`Temporary` after all retries, `ConfigError` if a retry would not help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from io import BufferedReader
from typing import Any, BinaryIO, NamedTuple, Protocol

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice, SourceFile


class FileChanged(Exception):
    """The file is no longer the one that was listed: another size, another etag, or gone."""


class FileUnavailable(Exception):
    """This file cannot be read now, but nothing says that its bytes are damaged. `kind` is stable."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Sink(Protocol):
    """A file being written. It counts only after `close`; after `abort` it is gone."""

    @property
    def target(self) -> Any:
        """The object that a Parquet writer writes to."""

    def tell(self) -> int: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Folder(Protocol):
    """Where files are written."""

    def create(self, name: str) -> Sink: ...

    def sync(self, *names: str) -> None:
        """Force files and folders onto the disk. Object stores need nothing: they answer only when they have them."""


class Page(NamedTuple):
    """A part of a listing. `folders` only with a delimiter; `is_last`: no page follows."""

    files: list[SourceFile]
    folders: list[str]
    is_last: bool


class Pages(Protocol):
    def __call__(self, prefix: str = "", *, after: str = "", delimiter: str = "") -> Iterator[Page]:
        """The names that begin with `prefix` and sort after `after`, in the store's order."""


class Store(Folder, Protocol):
    @property
    def root(self) -> str: ...

    @property
    def paging(self) -> Pages | None:
        """Lists page by page, after a name or in a folder; None if the store cannot."""

    def listed(self, prefix: str = "", *, after: str = "") -> Iterator[SourceFile]:
        """Files whose names begin with `prefix` and sort after `after`. This may go through all files."""

    def stat(self, name: str) -> SourceFile | None:
        """One file as a listing would show it; None if it does not exist."""

    def identity(self, name: str) -> tuple[Any, ...] | None:
        """Differs between two files written under the same name; None if there is none."""

    def read(self, name: str) -> bytes | None:
        """A small file, whole; None if it does not exist."""

    def names(self, folder: str, *, after: str = "") -> list[str]:
        """The names directly in a folder that sort after `after`, sorted. Empty if there is no such folder."""

    def walk(self, folder: str = "") -> Iterator[SourceFile]:
        """Every file below a folder, in any order."""

    def open_seekable(self, name: str) -> AbstractContextManager[BinaryIO]:
        """For reading parts of a file. FileNotFoundError if it is not there."""

    def open_pinned(self, piece: Slice) -> AbstractContextManager[BufferedReader]:
        """The bytes of exactly the file that was listed. Otherwise FileChanged or FileUnavailable."""

    def prefetch(self, pieces: Sequence[Slice]) -> None:
        """These are read next; their beginnings may be fetched already."""

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, whole or not at all. Replaces an old one."""

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Atomic: False, and nothing written, if the name is taken. After an exception nobody knows."""

    def reserve(self, name: str) -> bool:
        """Reserve a name with an empty file, and make its folders. False if the name is taken."""

    def copy(self, name: str, target: str) -> None:
        """`target` is a whole path or URI in a store of the same kind. Replaces what is there."""

    def delete(self, name: str) -> bool:
        """Returns whether there was such a file."""

    def delete_version(self, file: SourceFile) -> bool:
        """Only if it is still the file that was looked at; otherwise FileChanged, and nothing is deleted."""

    def make_root(self) -> None: ...

    def age_s(self, name: str) -> float:
        """How long ago the file was last written, by the store's clock; infinity if it is gone."""

    def now_ms(self) -> int:
        """By the store's clock."""
