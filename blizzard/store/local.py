"""Local disk. A file counts only when its bytes are on the disk: a power cut must not keep a commit and lose the files
that it names."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import Any, BinaryIO

import pyarrow as pa

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice, SourceFile
from blizzard.errors import failure_to_write
from blizzard.store import aside
from blizzard.store.durable import sync
from blizzard.store.files import FileChanged, FileUnavailable

# Errors of the machine or of a network file system, not of the file.
_PASSES = frozenset(
    getattr(errno, name)
    for name in ("EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EINTR", "EIO", "ESTALE", "ETIMEDOUT", "EBUSY", "EHOSTDOWN")
)


class LocalStore:
    def __init__(self, root: str) -> None:
        self._root = root

    @property
    def root(self) -> str:
        return self._root

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name)

    def stat(self, name: str) -> SourceFile | None:
        try:
            info = os.stat(self._path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if stat.S_ISDIR(info.st_mode) else _listed(name, info)

    def identity(self, name: str) -> tuple[Any, ...] | None:
        try:
            info = os.stat(self._path(name))
        except FileNotFoundError:
            return None
        return info.st_ino, info.st_mtime_ns, info.st_size

    def read(self, name: str) -> bytes | None:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def names(self, folder: str, *, after: str = "") -> list[str]:
        try:
            with os.scandir(self._path(folder)) as entries:
                return sorted(entry.name for entry in entries if entry.name > after and entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    @property
    def paging(self) -> None:
        return None

    def listed(self, prefix: str = "", *, after: str = "") -> Iterator[SourceFile]:
        return (file for file in self.walk() if file.path.startswith(prefix) and file.path > after)

    def walk(self, folder: str = "") -> Iterator[SourceFile]:
        for place, _, names in os.walk(self._path(folder)):
            for name in names:
                path = os.path.join(place, name)
                try:
                    yield _listed(os.path.relpath(path, self._root), os.stat(path))
                except FileNotFoundError:
                    continue

    @contextmanager
    def open_seekable(self, name: str) -> Iterator[BinaryIO]:
        with open(self._path(name), "rb", buffering=1 << 20) as file:
            yield file

    @contextmanager
    def open_pinned(self, piece: Slice) -> Iterator[BufferedReader]:
        """Leaving the block checks that the file did not change meanwhile."""
        try:
            file = open(self._path(piece.path), "rb")  # noqa: SIM115
        except FileNotFoundError as e:
            raise FileChanged("the file is gone since it was listed") from e
        except OSError as e:
            kind = Kind.UNAVAILABLE if e.errno in _PASSES else Kind.UNREADABLE
            raise FileUnavailable(kind, f"the file cannot be opened: {e.strerror}") from e
        with file:
            _check_unchanged(file, piece)
            yield file
            _check_unchanged(file, piece)

    def prefetch(self, pieces: Sequence[Slice]) -> None:
        """The operating system reads ahead by itself."""

    def create(self, name: str) -> _LocalSink:
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return _LocalSink(path)

    def put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        with _beside(path, content) as temporary:
            os.replace(temporary, path)
        sync(os.path.dirname(path))

    def put_if_absent(self, name: str, content: bytes) -> bool:
        path = self._path(name)
        try:
            with _beside(path, content) as temporary:
                os.link(temporary, path)  # fails if the name is taken, and never shows half a file
        except FileExistsError:
            return False
        sync(os.path.dirname(path))
        return True

    def reserve(self, name: str) -> bool:
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            return False
        return True

    def copy(self, name: str, target: str) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = f"{target}.{os.urandom(4).hex()}.tmp"
        shutil.copy2(self._path(name), temporary)
        sync(temporary)
        os.replace(temporary, target)
        sync(os.path.dirname(target))

    def delete(self, name: str) -> bool:
        try:
            os.unlink(self._path(name))
        except FileNotFoundError:
            return False
        return True

    def delete_version(self, file: SourceFile) -> bool:
        return aside.delete_version(self._path(file.path), file)

    def sync(self, *names: str) -> None:
        for name in names:
            sync(self._path(name))

    def make_root(self) -> None:
        os.makedirs(self._root, exist_ok=True)

    def age_s(self, name: str) -> float:
        try:
            return time.time() - os.stat(self._path(name)).st_mtime
        except OSError:
            return float("inf")

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class _LocalSink:
    def __init__(self, path: str) -> None:
        self._path, self.target = path, pa.OSFile(path, "wb")

    def tell(self) -> int:
        return int(self.target.tell())

    def close(self) -> None:
        self.target.close()
        sync(self._path)

    def abort(self) -> None:
        if self.target.closed:
            return  # it was finished, and a commit may name it
        with suppress(OSError):
            self.target.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)


def etag_of(info: os.stat_result) -> str:
    return str(info.st_mtime_ns)


def seen_ms_of(info: os.stat_result) -> int:
    """When the name appeared here, or its bytes changed. Not the mtime: `mv` and `cp -p` keep it, and it can be set."""
    return info.st_ctime_ns // 1_000_000


def _listed(name: str, info: os.stat_result) -> SourceFile:
    return SourceFile(path=name, size_bytes=info.st_size, etag=etag_of(info), seen_ms=seen_ms_of(info))


@contextmanager
def _beside(path: str, content: bytes) -> Iterator[str]:
    """A file with this content, to be put in its place. Nothing of it stays behind: a full disk must not get fuller."""
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _check_unchanged(file: BinaryIO, piece: Slice) -> None:
    info = os.fstat(file.fileno())
    if (info.st_size, etag_of(info)) != (piece.size_bytes, piece.etag):
        raise FileChanged("the file changed after it was listed; is it still being written?")


def require_writable(folder: str) -> None:
    """On local disk. Called before anything is read, so that no work is lost."""
    if not os.access(folder, os.W_OK | os.X_OK):
        number = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
        failure = failure_to_write(OSError(number, os.strerror(number)), folder)
        if failure is not None:
            raise failure
