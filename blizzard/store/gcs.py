"""Google Cloud Storage: gcsfs gives credentials and connections, the requests are those of the JSON API.

A version of a file is known by its generation, which changes with every write and with nothing else. gcsfs's own calls
are not used: they take a `#` in a name for a version, cache folders, and retry by their own policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import quote

import orjson

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice, SourceFile
from blizzard.errors import BlizzardError, ConfigError
from blizzard.store.files import FileChanged, Page, Pages
from blizzard.store.objects import (
    BODY_TIMEOUTS,
    CALL_TIMEOUTS,
    CHANGED,
    ObjectStore,
    PartSink,
    import_client,
    milliseconds,
)
from blizzard.store.uri import split_bucket

_CHUNK_BYTES = 1 << 20
_PART_BYTES = 8 * 1024 * 1024  # has to be a multiple of 256 KiB
_CONNECT_TIMEOUT_S = 10
_LISTED = "nextPageToken,prefixes,items(name,size,generation,updated)"
_UNFINISHED = 308  # of an upload: more bytes are expected


class GcsAnswer(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        try:
            said = orjson.loads(body)["error"]
            self.said = str(said["message"] if isinstance(said, dict) else said)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            self.said = ""
        super().__init__(f"status {status} {self.said}".rstrip())


class GcsStore(ObjectStore):
    def __init__(self, root: str, access: Any) -> None:
        super().__init__(root, access)
        self._bucket, prefix = split_bucket(root)
        self._prefix = prefix + "/" if prefix else ""

    def _connect(self) -> Any:
        core = import_client("gcsfs.core", self._root)
        return core.GCSFileSystem(
            **self._access.for_gcsfs(),
            use_listings_cache=False,
            skip_instance_cache=True,
            # The stored bytes: the size of an object with Content-Encoding: gzip is that of its compressed form.
            session_kwargs={"auto_decompress": False},
        )

    @cached_property
    def _host(self) -> str:
        return str(self._fs._location).rstrip("/")

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
        got: bytearray | None = None,
        generation: str | None = None,
    ) -> tuple[int, Any, bytes]:
        """Status, headers and body. With `got` the body is added there, even if only a part of it arrives."""
        times = CALL_TIMEOUTS if data is None and got is None else BODY_TIMEOUTS
        answer: tuple[int, Any, bytes] = self._in_loop(
            self._request, method, path, params or {}, headers or {}, data, got, generation, times=times
        )
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        params: dict[str, str],
        headers: dict[str, str],
        data: bytes | None,
        got: bytearray | None,
        generation: str | None,
    ) -> tuple[int, Any, bytes]:
        import aiohttp
        from yarl import URL

        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=self._access.read_timeout_s
        )
        url = path if path.startswith("http") else self._host + path
        # With gzip accepted, the store does not decompress a gzip object before sending it.
        headers = {"Accept-Encoding": "identity" if got is None else "gzip", **headers}
        session = await self._fs._set_session()
        asked = URL(url, encoded=True).update_query(params)
        async with session.request(
            method, asked, headers=self._fs._get_headers(headers), data=data, timeout=timeout, allow_redirects=False
        ) as answer:
            self._hear_date(answer.headers.get("Date"))
            if answer.status >= 400:
                raise GcsAnswer(answer.status, await answer.read())
            # Some servers ignore conditions, and answer with the newest version.
            if generation is not None and answer.headers.get("x-goog-generation", generation) != generation:
                raise FileChanged(CHANGED)
            if got is None:
                return answer.status, answer.headers, await answer.read()
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                got += chunk
            return answer.status, answer.headers, b""

    def _json(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        answer: dict[str, Any] = orjson.loads(self._call(method, path, **how)[2] or b"{}")
        return answer

    @property
    def _objects(self) -> str:
        return f"/storage/v1/b/{quote(self._bucket, safe='')}/o"

    def _object(self, name: str) -> str:
        return f"{self._objects}/{quote(self._prefix + name, safe='')}"

    def stat(self, name: str) -> SourceFile | None:
        try:
            return self._entry(self._ask(f"looking at {name}", lambda: self._json("GET", self._object(name))))
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes | None:
        def read() -> bytes:
            got = bytearray()
            self._call("GET", "/download" + self._object(name), params={"alt": "media"}, got=got)
            return bytes(got)

        try:
            return bytes(self._ask(f"reading {name}", read))
        except FileNotFoundError:
            return None

    def listed(self, prefix: str = "", *, after: str = "") -> Iterator[SourceFile]:
        for files, _, _ in self.pages(prefix, after=after):
            yield from files

    @property
    def paging(self) -> Pages:
        return self.pages

    def pages(self, prefix: str = "", *, after: str = "", delimiter: str = "") -> Iterator[Page]:
        """At most 1,000 names each."""
        params = {"prefix": self._prefix + prefix, "maxResults": "1000", "fields": _LISTED}
        if after:
            params["startOffset"] = self._prefix + after  # this name itself is listed too
        if delimiter:
            params["delimiter"] = delimiter
        while True:
            page = self._ask("listing", lambda: self._json("GET", self._objects, params=params), in_bucket=True)
            files = [self._entry(item) for item in page.get("items", ())]
            folders = [str(folder).removeprefix(self._prefix) for folder in page.get("prefixes", ())]
            token = page.get("nextPageToken")
            files = [file for file in files if file.path > after]
            if files or folders or not token:  # a page may be empty although others follow
                yield Page(files, folders, not token)
            if not token:
                return
            params["pageToken"] = str(token)

    def put(self, name: str, content: bytes) -> None:
        self._ask(f"writing {name}", lambda: self._upload(name, content), in_bucket=True)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        try:
            self._upload(name, content, ifGenerationMatch="0")
        except GcsAnswer as e:
            if e.status == 412:
                return False
            raise
        return True

    def _upload(self, name: str, content: bytes, **conditions: str) -> None:
        params = {"uploadType": "media", "name": self._prefix + name, **conditions}
        self._call("POST", "/upload" + self._objects, params=params, data=content)

    def delete(self, name: str) -> bool:
        try:
            self._ask(f"deleting {name}", lambda: self._call("DELETE", self._object(name)))
        except FileNotFoundError:
            return False
        return True

    def delete_version(self, file: SourceFile) -> bool:
        now = self.stat(file.path)
        if now is not None and now.etag != file.etag:  # some servers of this API ignore conditions
            raise FileChanged(CHANGED)
        params = {"ifGenerationMatch": file.etag}
        try:
            self._ask(f"deleting {file.path}", lambda: self._call("DELETE", self._object(file.path), params=params))
        except FileNotFoundError:
            return False
        except FileChanged:  # an object that is gone does not meet the condition either
            if self.stat(file.path) is None:
                return False
            raise
        return True

    def copy(self, name: str, target: str) -> None:
        bucket, key = split_bucket(target)
        path = f"{self._object(name)}/rewriteTo/b/{quote(bucket, safe='')}/o/{quote(key, safe='')}"
        headers = {"Content-Type": "application/json"}
        params: dict[str, str] = {}
        while True:  # the store copies a part of a large object at a time
            how: dict[str, Any] = {"params": dict(params), "headers": headers, "data": b"{}"}
            answer = self._ask(f"copying {name}", lambda how=how: self._json("POST", path, **how))
            if answer.get("done", True):
                return
            params["rewriteToken"] = str(answer["rewriteToken"])

    def create(self, name: str) -> _ResumableSink:
        return _ResumableSink(self, name)

    def _touch(self) -> None:
        next(self.pages())

    def _entry(self, item: dict[str, Any]) -> SourceFile:
        return SourceFile(
            path=str(item["name"]).removeprefix(self._prefix),
            size_bytes=int(item.get("size", 0)),
            etag=str(item["generation"]),
            seen_ms=milliseconds(item["updated"]),
        )

    def _fetch(self, piece: Slice, start: int, end: int) -> bytes:
        got = bytearray()

        def fetch() -> bytes:
            # Bytes that came before a connection broke are kept: the next attempt continues after them.
            self._call(
                "GET",
                "/download" + self._object(piece.path),
                params={"alt": "media", "ifGenerationMatch": piece.etag},
                headers={"Range": f"bytes={start + len(got)}-{end - 1}"},
                got=got,
                generation=piece.etag,
            )
            if len(got) != end - start:
                raise ConnectionError(f"{len(got)} of {end - start} bytes came")
            return bytes(got)

        return bytes(self._ask(f"reading {piece.path}", fetch))

    def _check_unchanged(self, piece: Slice) -> None:
        """Not needed: every range is requested with the generation that was listed."""

    def _ask(self, what: str, call: Any, *, in_bucket: bool = False) -> Any:
        """`in_bucket`: the call is about the whole bucket, so a 404 means that the bucket is missing."""

        def translated() -> Any:
            try:
                return call()
            except GcsAnswer as e:
                if e.status == 404 and not in_bucket and "bucket" not in e.said:
                    raise FileNotFoundError(what) from e
                if e.status == 412:
                    raise FileChanged(CHANGED) from e
                raise

        return super()._ask(what, translated)

    def _explain(self, what: str, error: Exception) -> BlizzardError:
        where = f"{what} at {self._root}"
        match error:
            case GcsAnswer(status=404):
                return ConfigError(f"{where}: there is no such bucket. Check the name.", kind=Kind.NO_BUCKET)
            case GcsAnswer(status=401):
                return ConfigError(
                    f"{where}: no credentials were found, or they are not accepted. Set GOOGLE_APPLICATION_CREDENTIALS,"
                    f" storage_options, or run under a service account.",
                    kind=Kind.NO_CREDENTIALS,
                )
            case GcsAnswer(status=400, said=said) if "bucket" in said:
                return ConfigError(f"{where}: this is no valid name of a bucket.", kind=Kind.NO_BUCKET)
        if type(error).__module__.startswith("google.auth"):
            return ConfigError(f"{where}: the credentials are not accepted. Check them.", kind=Kind.BAD_CREDENTIALS)
        return super()._explain(what, error)

    def _is_passing(self, error: BaseException) -> bool:
        if type(error).__module__.startswith("google.auth"):
            return type(error).__name__ == "TransportError"
        return super()._is_passing(error)


class _ResumableSink(PartSink):
    """A small file is one request. A larger one is sent part by part, and the last part makes it visible."""

    def __init__(self, store: GcsStore, name: str) -> None:
        super().__init__()
        self._store, self._name = store, name
        self._session: str | None = None

    def write(self, data: Any) -> int:
        self._buffer += data
        # The last part carries the total size, so one part is always held back.
        while len(self._buffer) > _PART_BYTES:
            self._send(bytes(self._buffer[:_PART_BYTES]), is_last=False)
            del self._buffer[:_PART_BYTES]
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        if self._session is None:
            self._store.put(self._name, bytes(self._buffer))
        else:
            self._send(bytes(self._buffer), is_last=True)
        super().close()

    def abort(self) -> None:
        if self.closed:
            return
        super().close()
        if self._session is not None:
            try:
                self._store._call("DELETE", self._session)
            except Exception:  # the store answers 499; and it deletes old uploads itself after a week
                return

    def _send(self, part: bytes, *, is_last: bool) -> None:
        if self._session is None:
            self._session = self._store._ask(f"writing {self._name}", self._begin, in_bucket=True)
        begin = self._sent_bytes
        end = begin + len(part)
        total = str(end) if is_last else "*"
        tried = False

        def send() -> None:
            nonlocal tried
            have: int | None = self._received() if tried else begin
            tried = True
            while have is not None and (have < end or is_last):
                headers = {"Content-Range": f"bytes {have}-{end - 1}/{total}"}
                answer = self._store._call("PUT", str(self._session), headers=headers, data=part[have - begin :])
                before, have = have, _bytes_received(answer)
                if have is not None and (have <= before or (is_last and have == end)):
                    raise ConnectionError(f"{have} of {end} bytes were taken")
            if have is None and not is_last:
                raise ConfigError(f"{self._name} was finished by the store before its end", kind=Kind.STORE)

        try:
            self._store._ask(f"writing {self._name}", send)
        except FileNotFoundError:
            # An attempt whose answer was lost may have ended the upload: then the object is there, with all its bytes.
            file = self._store.stat(self._name)
            if not is_last or file is None or file.size_bytes != end:
                raise
        self._sent_bytes = end

    def _begin(self) -> str:
        params = {"uploadType": "resumable", "name": self._store._prefix + self._name}
        headers = {"Content-Type": "application/json"}
        _, answer, _ = self._store._call(
            "POST", "/upload" + self._store._objects, params=params, headers=headers, data=b"{}"
        )
        return str(answer["Location"])

    def _received(self) -> int | None:
        """How many bytes the store has so far; None once it has all of them and shows the object."""
        headers = {"Content-Range": "bytes */*"}
        return _bytes_received(self._store._call("PUT", str(self._session), headers=headers, data=b""))


def _bytes_received(answer: tuple[int, Any, bytes]) -> int | None:
    status, headers, _ = answer
    if status != _UNFINISHED:
        return None
    return int(headers["Range"].rpartition("-")[2]) + 1 if "Range" in headers else 0
