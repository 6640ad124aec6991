"""What the stores S3, GCS and Azure have in common. Used as it is, it is fsspec's in-memory store.

Requests go through `_ask`: it retries temporary failures, and turns others into errors that say what to do. Never so
`put_if_absent`: after a failure nobody knows whether the file was written.
"""

from __future__ import annotations

import importlib
import io
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from typing import Any, BinaryIO, TypeVar

from fsspec.asyn import sync

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice, SourceFile
from blizzard.errors import BlizzardError, ConfigError, Temporary
from blizzard.store.access import Access
from blizzard.store.files import FileChanged, FileUnavailable, Pages
from blizzard.store.ranges import RANGE_BYTES, RangeStream, first_range_end
from blizzard.store.retry import retried
from blizzard.store.uri import join
from blizzard.text.redaction import redact

_T = TypeVar("_T")
_THREADS = 8
# Prefetched beginnings of the next files: enough for many small files, little enough for a worker's memory.
_PREFETCH_BYTES = 4 * RANGE_BYTES
_PREFETCH_FILES = 16
# A retry would not help: the answer is clear.
_STAYS = (PermissionError, FileNotFoundError, FileExistsError, ValueError, TypeError, FileChanged, FileUnavailable)
_HTTP_PASSING = (408, 425, 429, 500, 502, 503, 504)
# A client's timeouts are for connecting and for each part of an answer. A whole call also has a limit: this many times
# the timeout of a read.
CALL_TIMEOUTS = 4
BODY_TIMEOUTS = 20
CHANGED = "the file changed after it was listed; is it still being written?"
GONE = "the file is gone since it was listed"
_EXTRAS = {"gs": "gcs", "abfss": "azure", "az": "azure"}
_creating = threading.Lock()


class ObjectStore:
    def __init__(self, root: str, access: Access) -> None:
        self._root, self._access = root, access
        self._prefetched: dict[tuple[str, str], Future[bytes]] = {}
        self._lock = threading.Lock()
        self._clock: tuple[int, float] | None = None  # the store's time, and our monotonic time when it said so

    @property
    def root(self) -> str:
        return self._root

    # What subclasses replace.

    def _connect(self) -> Any:
        return import_client("fsspec", self._root).filesystem(self._root.split(":", 1)[0])

    def _touch(self) -> None:
        """Make any request: its answer has the store's time."""

    @cached_property
    def _base(self) -> str:
        """The root as a path of fsspec."""
        return str(self._fs._strip_protocol(self._root)).rstrip("/")

    def stat(self, name: str) -> SourceFile | None:
        try:
            info = self._ask(f"looking at {name}", lambda: self._fs.info(self._path(name)))
        except FileNotFoundError:
            return None
        return self._listed(info) if info["type"] == "file" else None

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._ask(f"reading {name}", lambda: self._fs.cat_file(self._path(name))))
        except FileNotFoundError:
            return None

    @property
    def paging(self) -> Pages | None:
        return None

    def listed(self, prefix: str = "", *, after: str = "") -> Iterator[SourceFile]:
        found = self._ask("listing", lambda: self._fs.find(self._path(""), detail=True, withdirs=False))
        files = (self._listed(info) for info in found.values())
        return (f for f in files if f.path.startswith(prefix) and f.path > after)

    def put(self, name: str, content: bytes) -> None:
        self._ask(f"writing {name}", lambda: self._fs.pipe_file(self._path(name), content))

    def put_if_absent(self, name: str, content: bytes) -> bool:
        with _creating:  # fsspec has no atomic create
            if self.stat(name) is not None:
                return False
            self._fs.pipe_file(self._path(name), content)
        return True

    def reserve(self, name: str) -> bool:
        return self.put_if_absent(name, b"")

    def delete(self, name: str) -> bool:
        try:
            self._ask(f"deleting {name}", lambda: self._fs.rm_file(self._path(name)))
        except FileNotFoundError:
            return False
        return True

    def delete_version(self, file: SourceFile) -> bool:
        """Look, then delete: for a store that cannot do both in one request."""
        now = self.stat(file.path)
        if now is not None and (now.size_bytes, now.etag) != (file.size_bytes, file.etag):
            raise FileChanged(CHANGED)
        return self.delete(file.path)

    def copy(self, name: str, target: str) -> None:
        """To another root that the same credentials open."""
        self._ask(f"copying {name}", lambda: self._fs.cp_file(self._path(name), self._fs._strip_protocol(target)))

    def create(self, name: str) -> Any:
        return _BufferSink(partial(self.put, name))

    def _fetch(self, piece: Slice, start: int, end: int) -> bytes:
        def fetch() -> bytes:
            content = bytes(self._fs.cat_file(self._path(piece.path), start=start, end=end))
            if len(content) != end - start:
                raise ConnectionError(f"{len(content)} of {end - start} bytes came")
            return content

        return self._ask(f"reading {piece.path}", fetch)

    def _is_passing(self, error: BaseException) -> bool:
        status = _status_of(error)
        if status is not None:
            return status in _HTTP_PASSING
        return not isinstance(error, _STAYS)

    def _explain(self, what: str, error: Exception) -> BlizzardError:
        said = redact(str(error)) or type(error).__name__
        text = f"{what} at {self._root}: {said}"
        if isinstance(error, PermissionError) or _status_of(error) in (401, 403):
            return ConfigError(f"{text}. Check the credentials and their rights.", kind=Kind.ACCESS_DENIED)
        if self._is_passing(error):
            return Temporary(
                f"{text}. Tried {self._access.retry.attempts} times. Run again.", kind=Kind.STORE_UNAVAILABLE
            )
        return ConfigError(text, kind=Kind.STORE)

    # What all stores share.

    def identity(self, name: str) -> tuple[Any, ...] | None:
        file = self.stat(name)
        return None if file is None else (file.etag, file.size_bytes, file.seen_ms)

    def names(self, folder: str, *, after: str = "") -> list[str]:
        prefix = folder + "/"
        with suppress(FileNotFoundError):
            found = (file.path.removeprefix(prefix) for file in self.listed(prefix, after=prefix + after))
            return sorted(name for name in found if "/" not in name)
        return []

    def walk(self, folder: str = "") -> Iterator[SourceFile]:
        try:
            yield from self.listed(f"{folder}/" if folder else "")
        except FileNotFoundError:
            return

    @contextmanager
    def open_seekable(self, name: str) -> Iterator[BinaryIO]:
        file = self.stat(name)
        if file is None:
            raise FileNotFoundError(join(self._root, name))
        piece = Slice(path=name, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
        yield io.BufferedReader(_SeekableRanges(partial(self._fetch, piece), file.size_bytes), 1 << 16)

    @contextmanager
    def open_pinned(self, piece: Slice) -> Iterator[io.BufferedReader]:
        self._check_unchanged(piece)
        with self._lock:
            first = self._prefetched.pop((piece.path, piece.etag), None)
        stream = RangeStream(partial(self._fetch_pinned, piece), piece.size_bytes, self._pool, first)
        # No error is caught here: while the file is open the caller writes to other places, and that can fail too.
        with io.BufferedReader(stream, 1 << 17) as file:
            yield file  # type: ignore[misc]
        self._check_unchanged(piece)

    def _fetch_pinned(self, piece: Slice, start: int, end: int) -> bytes:
        try:
            return self._fetch(piece, start, end)
        except (Temporary, ConfigError) as e:
            raise self._about_one_file(e) from e
        except FileNotFoundError as e:
            raise FileChanged(GONE) from e

    def prefetch(self, pieces: Sequence[Slice]) -> None:
        wanted = {(piece.path, piece.etag): piece for piece in pieces[:_PREFETCH_FILES]}
        with self._lock:
            for key in self._prefetched.keys() - wanted.keys():
                self._prefetched.pop(key).cancel()
            room = _PREFETCH_BYTES
            for key, piece in wanted.items():
                end = first_range_end(piece.size_bytes)
                room -= end
                if room < 0:
                    break
                if end and key not in self._prefetched:
                    self._prefetched[key] = self._pool.submit(self._fetch_pinned, piece, 0, end)

    def age_s(self, name: str) -> float:
        file = self.stat(name)
        return float("inf") if file is None else (self.now_ms() - file.seen_ms) / 1000

    def now_ms(self) -> int:
        if self._clock is None:
            self._touch()
        if self._clock is None:
            return time.time_ns() // 1_000_000
        said_ms, heard_at = self._clock
        return said_ms + int((time.monotonic() - heard_at) * 1000)

    def _hear_date(self, said: str | None) -> None:
        if said:
            self._clock = int(parsedate_to_datetime(said).timestamp() * 1000), time.monotonic()

    def sync(self, *names: str) -> None:
        """Nothing to do: a store answers only when it has the bytes."""

    def make_root(self) -> None:
        """Nothing to do: there are no folders."""

    @cached_property
    def _fs(self) -> Any:
        """The client. An error here is about the credentials, never about a file: a missing key file is not a missing
        object."""
        try:
            return self._connect()
        except BlizzardError:
            raise
        except Exception as e:
            said = redact(str(e))
            raise ConfigError(
                f"no connection to {self._root} can be made: {said}. Check the credentials and storage_options.",
                kind=Kind.BAD_CREDENTIALS,
            ) from e

    def _in_loop(self, coroutine: Callable[..., Any], *given: Any, times: int, **named: Any) -> Any:
        """fsspec runs one event loop for all clients, in its own thread."""
        return sync(self._fs.loop, coroutine, *given, timeout=self._access.read_timeout_s * times, **named)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="blizzard-store")

    def _check_unchanged(self, piece: Slice) -> None:
        """Stores that can read one version of a file do not need this."""
        try:
            now = self.stat(piece.path)
        except (Temporary, ConfigError) as e:
            raise self._about_one_file(e) from e
        if now is None:
            raise FileChanged(GONE)
        if (now.size_bytes, now.etag) != (piece.size_bytes, piece.etag):
            raise FileChanged(CHANGED)

    def _about_one_file(self, error: BlizzardError) -> FileUnavailable:
        return FileUnavailable(Kind.UNAVAILABLE if isinstance(error, Temporary) else Kind.UNREADABLE, str(error))

    def _ask(self, what: str, call: Callable[[], _T]) -> _T:
        try:
            return retried(call, self._access.retry, what=what, is_passing=self._is_passing)
        except (FileNotFoundError, FileExistsError, FileChanged, FileUnavailable, BlizzardError):
            raise
        except Exception as e:
            raise self._explain(what, e) from e

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base

    def _listed(self, info: dict[str, Any]) -> SourceFile:
        # As a number, because `info` and `find` give it in different types.
        created_s = _seconds(info["created"])
        return SourceFile(
            path=str(info["name"]).removeprefix(self._base + "/"),
            size_bytes=int(info["size"]),
            etag=str(created_s),
            seen_ms=int(created_s * 1000),
        )


def import_client(module: str, root: str) -> Any:
    """Import an optional package."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        scheme = root.split(":", 1)[0]
        package = module.partition(".")[0]
        asked = f"blizzard-delta[{_EXTRAS[scheme]}]" if scheme in _EXTRAS else package
        raise ConfigError(f"{scheme}:// needs the package {package}: pip install '{asked}'", kind=Kind.USAGE) from e


def milliseconds(moment: Any) -> int:
    return int(_seconds(moment) * 1000)


def _seconds(moment: Any) -> float:
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    return float(moment)


def _status_of(error: BaseException) -> int | None:
    """The HTTP status in an exception of Azure's or Google's client."""
    for name in ("status_code", "code", "status"):
        value = getattr(error, name, None)
        if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            return int(value)
    return None


class _SeekableRanges(io.RawIOBase):
    """Random access, one request per read: for the footer and a few columns of a Parquet file."""

    def __init__(self, fetch: Callable[[int, int], bytes], size_bytes: int) -> None:
        self._fetch, self._size, self._position = fetch, size_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        end = min(self._size, self._position + len(buffer))
        if end <= self._position:
            return 0
        content = self._fetch(self._position, end)
        buffer[: len(content)] = content
        self._position = end
        return len(content)


class PartSink(io.RawIOBase):
    """A file that is sent part by part while it is written. Only `close` makes it visible."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._sent_bytes = 0
        self.target = self

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._sent_bytes + len(self._buffer)

    def __del__(self) -> None:
        """Without this `io` would call `close`, which finishes the file."""


class _BufferSink(io.BytesIO):
    """A file that is written in one request when it is closed."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        super().__init__()
        self._put, self.target = put, self

    def close(self) -> None:
        if not self.closed:
            self._put(self.getvalue())
        super().close()

    def abort(self) -> None:
        super().close()

    def __del__(self) -> None:
        """Without this `io` would call `close`, which writes the file."""
