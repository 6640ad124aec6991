"""Azure Blob Storage and Data Lake Storage: adlfs finds the credentials, Azure's own client makes the requests.

A version of a file is known by its etag. adlfs's own calls are not used: they take a `?` in a name for a query, cache
folders, and let the client retry by its own policy.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice, SourceFile
from blizzard.errors import BlizzardError, ConfigError
from blizzard.store.access import Access
from blizzard.store.files import FileChanged, FileUnavailable
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

_PAGE_NAMES = 5000
_PART_BYTES = 8 * 1024 * 1024
_CONNECT_TIMEOUT_S = 10
_NO_BLOB = ("BlobNotFound", "ResourceNotFound", "PathNotFound")
_TAKEN = ("BlobAlreadyExists", "ConditionNotMet", "PathAlreadyExists")
_UNKNOWN_CALLER = ("ClientAuthenticationError", "CredentialUnavailableError")
_ADVICE = {
    "ContainerNotFound": (Kind.NO_BUCKET, "there is no such container. Check the name and the account."),
    "ContainerBeingDeleted": (Kind.NO_BUCKET, "the container is being deleted."),
    "InvalidResourceName": (Kind.NO_BUCKET, "this is no valid name of a container."),
    "AuthenticationFailed": (Kind.BAD_CREDENTIALS, "the credentials are not accepted. Check key, token and clock."),
    "InvalidAuthenticationInfo": (Kind.BAD_CREDENTIALS, "the credentials are not accepted. Check them."),
    "NoAuthenticationInformation": (Kind.NO_CREDENTIALS, "no credentials were given, and the container is not public."),
    "AuthorizationFailure": (Kind.ACCESS_DENIED, "access is denied. Check the rights and the account's firewall."),
    "AuthorizationPermissionMismatch": (Kind.ACCESS_DENIED, "access is denied. Check the rights of these credentials."),
    "AuthorizationProtocolMismatch": (Kind.ACCESS_DENIED, "the token is for https only."),
    "AuthorizationSourceIPMismatch": (Kind.ACCESS_DENIED, "the token is not for this machine's address."),
    "AccountIsDisabled": (Kind.ACCESS_DENIED, "the account is disabled."),
    "PublicAccessNotPermitted": (Kind.NO_CREDENTIALS, "no credentials were given, and the container is not public."),
}


def code_of(error: BaseException | None) -> str | None:
    """The store's error code, from the exception or one of its causes."""
    while error is not None:
        code = getattr(error, "error_code", None)
        if code:
            return str(getattr(code, "value", code))
        error = error.__cause__
    return None


def _while_it_is(etag: str) -> dict[str, Any]:
    from azure.core import MatchConditions

    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified}


class AzureStore(ObjectStore):
    def __init__(self, root: str, access: Access) -> None:
        super().__init__(root, access)
        authority, prefix = split_bucket(root)
        self._container, _, self._account = authority.partition("@")
        self._prefix = prefix + "/" if prefix else ""

    def _connect(self) -> Any:
        options = self._access.for_adlfs(self._root)
        fs = import_client("adlfs", self._root).AzureBlobFileSystem(
            **options, use_listings_cache=False, skip_instance_cache=True
        )
        account = self._account.split(".", 1)[0]
        found = fs.service_client.account_name
        if account and found != account:  # AZURE_STORAGE_CONNECTION_STRING overrides everything else
            raise ConfigError(
                f"{self._root} is in the account {account}, but the environment's connection string is for {found}",
                kind=Kind.BAD_CREDENTIALS,
            )
        return fs

    @cached_property
    def _client(self) -> Any:
        return self._fs.service_client.get_container_client(self._container)

    @property
    def _once(self) -> dict[str, Any]:
        """Arguments of every call. No retries by the client: `_ask` retries."""
        return {
            "retry_total": 0,
            "connection_timeout": _CONNECT_TIMEOUT_S,
            "read_timeout": self._access.read_timeout_s,
            "raw_response_hook": self._hear_answer,
        }

    def _hear_answer(self, answer: Any) -> None:
        self._hear_date(answer.http_response.headers.get("Date"))

    def _call(self, method: str, name: str, *given: Any, **named: Any) -> Any:
        blob = self._client.get_blob_client(self._prefix + name)
        return self._in_loop(getattr(blob, method), *given, times=BODY_TIMEOUTS, **self._once, **named)

    def stat(self, name: str) -> SourceFile | None:
        try:
            found = self._ask(f"looking at {name}", lambda: self._call("get_blob_properties", name))
        except FileNotFoundError:
            return None
        return None if _is_folder(found) else self._entry(found)

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._ask(f"reading {name}", lambda: self._download(name)))
        except FileNotFoundError:
            return None

    def _download(self, name: str, **named: Any) -> bytes:
        content: bytes = self._in_loop(self._read_all, name, named, times=BODY_TIMEOUTS)
        return content

    async def _read_all(self, name: str, named: dict[str, Any]) -> bytes:
        blob = self._client.get_blob_client(self._prefix + name)
        # The stored bytes: the size of a blob with Content-Encoding: gzip is that of its compressed form.
        stream = await blob.download_blob(decompress=False, **named, **self._once)
        return bytes(await stream.readall())

    def listed(self, prefix: str = "", *, after: str = "") -> Iterator[SourceFile]:
        """In no fixed order. The store cannot begin after a name, but folders that sort before it are not opened."""
        inside, slash, _ = after.removeprefix(prefix).partition("/")
        if not slash or not after.startswith(prefix):
            for files, _ in self._pages(prefix, ""):
                yield from (file for file in files if file.path > after)
            return
        open_folder = f"{prefix}{inside}/"
        later: list[str] = [open_folder]
        for files, folders in self._pages(prefix, "/"):
            yield from (file for file in files if file.path > after)
            later += [folder for folder in folders if folder > open_folder]
        for folder in later:
            yield from self.listed(folder, after=after)

    def _pages(self, prefix: str, delimiter: str) -> Iterator[tuple[list[SourceFile], list[str]]]:
        token: str | None = None
        while True:
            found, token = self._ask("listing", lambda token=token: self._page(prefix, delimiter, token))
            folders = [blob.name.removeprefix(self._prefix) for blob in found if not hasattr(blob, "etag")]
            files = [self._entry(blob) for blob in found if hasattr(blob, "etag") and not _is_folder(blob)]
            yield files, folders
            if not token:
                return

    def _page(self, prefix: str, delimiter: str, token: str | None) -> tuple[list[Any], str | None]:
        page: tuple[list[Any], str | None] = self._in_loop(
            self._list_page, self._prefix + prefix, delimiter, token, times=CALL_TIMEOUTS
        )
        return page

    async def _list_page(self, prefix: str, delimiter: str, token: str | None) -> tuple[list[Any], str | None]:
        how = {
            "name_starts_with": prefix or None,
            "include": ["metadata"],
            "results_per_page": _PAGE_NAMES,
            **self._once,
        }
        found = self._client.walk_blobs(delimiter=delimiter, **how) if delimiter else self._client.list_blobs(**how)
        pages = found.by_page(continuation_token=token)
        async for page in pages:
            return [blob async for blob in page], pages.continuation_token
        return [], None

    def put(self, name: str, content: bytes) -> None:
        self._ask(f"writing {name}", lambda: self._call("upload_blob", name, content, overwrite=True))

    def put_if_absent(self, name: str, content: bytes) -> bool:
        try:
            self._call("upload_blob", name, content, overwrite=False)
        except Exception as e:
            if code_of(e) in _TAKEN:
                return False
            raise
        return True

    def delete(self, name: str) -> bool:
        try:
            self._ask(f"deleting {name}", lambda: self._call("delete_blob", name))
        except FileNotFoundError:
            return False
        return True

    def delete_version(self, file: SourceFile) -> bool:
        condition = _while_it_is(file.etag)
        try:
            self._ask(f"deleting {file.path}", lambda: self._call("delete_blob", file.path, **condition))
        except FileNotFoundError:
            return False
        except FileChanged:  # a blob that is gone does not meet the condition either
            if self.stat(file.path) is None:
                return False
            raise
        return True

    def copy(self, name: str, target: str) -> None:
        """Within the account, through this machine. The store's own copy is not finished when it answers, and needs
        credentials in a URL."""
        container, key = split_bucket(target)
        folder, _, last = key.rpartition("/")
        there = AzureStore(f"{self._root.split('://', 1)[0]}://{container}/{folder}".rstrip("/"), self._access)
        sink = there.create(last)
        try:
            with self.open_seekable(name) as source:
                shutil.copyfileobj(source, sink, _PART_BYTES)
        except BaseException:
            sink.abort()
            raise
        sink.close()

    def create(self, name: str) -> _BlockSink:
        return _BlockSink(self, name)

    def _touch(self) -> None:
        next(self._pages("", "/"))

    def _entry(self, blob: Any) -> SourceFile:
        return SourceFile(
            path=str(blob.name).removeprefix(self._prefix),
            size_bytes=int(blob.size),
            etag=str(blob.etag).strip('"'),
            seen_ms=milliseconds(blob.last_modified),
        )

    def _fetch(self, piece: Slice, start: int, end: int) -> bytes:
        condition = _while_it_is(piece.etag)

        def fetch() -> bytes:
            content = self._download(piece.path, offset=start, length=end - start, **condition)
            if len(content) != end - start:
                raise ConnectionError(f"{len(content)} of {end - start} bytes came")
            return content

        return bytes(self._ask(f"reading {piece.path}", fetch))

    def _check_unchanged(self, piece: Slice) -> None:
        """Not needed: every range is requested with the etag that was listed."""

    def _ask(self, what: str, call: Any) -> Any:
        def translated() -> Any:
            try:
                return call()
            except Exception as e:
                code = code_of(e)
                if code in _NO_BLOB or (code is None and getattr(e, "status_code", None) == 404):
                    raise FileNotFoundError(what) from e
                if code == "ConditionNotMet":
                    raise FileChanged(CHANGED) from e
                if code == "BlobArchived":
                    raise FileUnavailable(
                        Kind.ARCHIVED, "the blob is in the archive tier. Rehydrate it; every run tries it again"
                    ) from e
                raise

        return super()._ask(what, translated)

    def _is_passing(self, error: BaseException) -> bool:
        if code_of(error) in _ADVICE or type(error).__name__ in (
            "ClientAuthenticationError",
            "CredentialUnavailableError",
        ):
            return False
        return super()._is_passing(error)

    def _explain(self, what: str, error: Exception) -> BlizzardError:
        where = f"{what} at {self._root}"
        code = code_of(error)
        if code in _ADVICE:
            kind, advice = _ADVICE[code]
            return ConfigError(f"{where}: {advice}", kind=kind)
        if type(error).__name__ in _UNKNOWN_CALLER:
            return ConfigError(
                f"{where}: no credentials were found, or they are not accepted. Set storage_options, the environment,"
                f" or run under a managed identity.",
                kind=Kind.NO_CREDENTIALS,
            )
        return super()._explain(what, error)


def _is_folder(blob: Any) -> bool:
    """With a hierarchical namespace, folders are listed as empty blobs with this metadata."""
    return ((blob.metadata or {}).get("hdi_isfolder") or "").lower() == "true"


class _BlockSink(PartSink):
    """A small file is one request. A larger one is sent in blocks, and the block list, sent last, makes it visible. The
    store deletes blocks that no list names after a week."""

    def __init__(self, store: AzureStore, name: str) -> None:
        super().__init__()
        self._store, self._name = store, name
        self._blocks: list[str] = []

    def write(self, data: Any) -> int:
        self._buffer += data
        while len(self._buffer) >= _PART_BYTES:
            self._send(bytes(self._buffer[:_PART_BYTES]))
            del self._buffer[:_PART_BYTES]
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        if not self._blocks:
            self._store.put(self._name, bytes(self._buffer))
        else:
            if self._buffer:
                self._send(bytes(self._buffer))
            self._commit()
        super().close()

    def abort(self) -> None:
        if not self.closed:
            super().close()

    def _send(self, block: bytes) -> None:
        block_id = base64.b64encode(b"%08d" % len(self._blocks)).decode()
        self._ask("stage_block", block_id, block)
        self._blocks.append(block_id)
        self._sent_bytes += len(block)

    def _commit(self) -> None:
        from azure.storage.blob import BlobBlock

        self._ask("commit_block_list", [BlobBlock(block_id=block_id) for block_id in self._blocks])

    def _ask(self, method: str, *given: Any) -> None:
        self._store._ask(f"writing {self._name}", lambda: self._store._call(method, self._name, *given))
