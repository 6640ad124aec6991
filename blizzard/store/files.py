"""What a store can do, as the rest of blizzard needs it, and what may go wrong with one file of it.

Names are relative to the store's root, with `/` between folders. Trouble that is not about one file is a BlizzardError:
`Temporary` once the retries are used up, `ConfigError` where a retry would not help.
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
    """This one file cannot be had now, and nothing says that its bytes are damaged. `kind` is stable."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Sink(Protocol):
    """A file being written. Nobody sees it before `close`, and after `abort` nobody ever does."""

    @property
    def target(self) -> Any:
        """What a Parquet writer writes to."""

    def tell(self) -> int: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Page(NamedTuple):
    """Some names of a listing. With a delimiter, `folders` too; `is_last`: no page follows."""

    files: list[SourceFile]
    folders: list[str]
    is_last: bool


class Pages(Protocol):
    def __call__(self, prefix: str = "", *, after: str = "", delimiter: str = "") -> Iterator[Page]:
        """The names that begin with `prefix` and sort after `after`, in the order of the store."""


class Store(Protocol):
    @property
    def root(self) -> str: ...

    @property
    def paging(self) -> Pages | None:
        """How it is listed page by page, from a name or a folder on; None where it cannot be."""

    def listed(self, prefix: str = "", *, after: str = "") -> Iterator[SourceFile]:
        """Files whose names begin with `prefix` and sort after `after`; all of them may be gone through for that."""

    def stat(self, name: str) -> SourceFile | None:
        """One file as a listing would show it; None where there is none."""

    def identity(self, name: str) -> tuple[Any, ...] | None:
        """What tells a file from another one written under the same name."""

    def read(self, name: str) -> bytes | None:
        """A small file, whole; None where there is none."""

    def names(self, folder: str, *, after: str = "") -> list[str]:
        """The files right in a folder whose names sort after `after`, sorted. None if there is no such folder."""

    def walk(self, folder: str = "") -> Iterator[SourceFile]:
        """Every file below a folder, in any order, as it is found."""

    def open_seekable(self, name: str) -> AbstractContextManager[BinaryIO]:
        """For reading parts of a file. FileNotFoundError if it is not there."""

    def open_pinned(self, piece: Slice) -> AbstractContextManager[BufferedReader]:
        """The bytes of exactly the file that was listed, in order. FileChanged or FileUnavailable otherwise."""

    def prefetch(self, pieces: Sequence[Slice]) -> None:
        """These are read next; their beginnings may be fetched meanwhile."""

    def create(self, name: str) -> Sink: ...

    def put(self, name: str, content: bytes) -> None:
        """A small file, whole or not at all, in place of the one before it."""

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Atomic: False, and nothing written, where the name is taken. An exception means that nobody knows."""

    def reserve(self, name: str) -> bool:
        """Take a name with an empty file, folders and all; False where it is taken."""

    def copy(self, name: str, target: str) -> None:
        """To a place below another root of the same kind, given whole; what is there is replaced."""

    def delete(self, name: str) -> bool:
        """Whether there was such a file."""

    def delete_version(self, file: SourceFile) -> bool:
        """Only while it is the very file that was looked at; FileChanged, and nothing deleted, where it is another."""

    def sync(self, *names: str) -> None:
        """Put files and folders on the disk itself. A store that answers only when it has them needs nothing."""

    def make_root(self) -> None: ...

    def age_s(self, name: str) -> float:
        """How long ago the file was written to, by the store's clock; for ever if it is gone."""

    def now_ms(self) -> int:
        """By the store's clock."""
