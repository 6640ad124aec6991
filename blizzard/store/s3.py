"""S3 through s3fs's client: lists after a key, reads one version of an object, writes conditionally and in parts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import s3fs
from botocore import exceptions as boto
from fsspec.asyn import sync

from blizzard.core.kinds import Kind
from blizzard.core.types import Slice, SourceFile
from blizzard.errors import BlizzardError, ConfigError, Temporary
from blizzard.store.access import Access
from blizzard.store.files import FileChanged, FileUnavailable, Page, Pages
from blizzard.store.objects import BODY_TIMEOUTS, CALL_TIMEOUTS, CHANGED, ObjectStore, PartSink, milliseconds
from blizzard.store.uri import split_bucket
from blizzard.text.redaction import redact

_CHUNK_BYTES = 1 << 20
# S3 takes 10,000 parts of at least 5 MiB.
_PART_BYTES = 8 * 1024 * 1024
_PARTS_IN_FLIGHT = 2

_PASSING_CODES = frozenset(
    [
        *("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "RequestTimeoutException", "Throttling"),
        *("ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded", "OperationAborted", "503", "500"),
        *("502", "504", "429", "408"),
    ]
)
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired")
_PASSING: tuple[type[BaseException], ...] = (
    boto.HTTPClientError,  # timeouts, closed connections
    boto.ConnectionError,  # unreachable endpoints
    boto.IncompleteReadError,
    boto.ResponseStreamingError,
    boto.CredentialRetrievalError,
    boto.MetadataRetrievalError,
    ConnectionError,
    TimeoutError,
)
_ADVICE = {
    "NoSuchBucket": (Kind.NO_BUCKET, "there is no such bucket. Check the name and the region."),
    "AccessDenied": (Kind.ACCESS_DENIED, "access is denied. Check the credentials and the rights of their role."),
    "403": (Kind.ACCESS_DENIED, "access is denied. Check the credentials and the rights of their role."),
    "AllAccessDisabled": (Kind.ACCESS_DENIED, "access is disabled."),
    "InvalidAccessKeyId": (Kind.BAD_CREDENTIALS, "the access key is not known there. Check the credentials."),
    "SignatureDoesNotMatch": (
        Kind.BAD_CREDENTIALS,
        "the secret key does not fit the access key. Check the credentials.",
    ),
    "InvalidToken": (Kind.BAD_CREDENTIALS, "the session token is not valid. Check the credentials."),
    "ExpiredToken": (Kind.BAD_CREDENTIALS, "the session token has expired. Renew the credentials."),
    "RequestTimeTooSkewed": (
        Kind.CLOCK_SKEW,
        "this machine's clock is more than 15 minutes away from the store's. Set it right.",
    ),
    "PermanentRedirect": (Kind.WRONG_REGION, "the bucket is in another region. Set AWS_REGION."),
    "301": (Kind.WRONG_REGION, "the bucket is in another region. Set AWS_REGION."),
    "AuthorizationHeaderMalformed": (Kind.WRONG_REGION, "the request was signed for another region. Set AWS_REGION."),
    "IllegalLocationConstraintException": (Kind.WRONG_REGION, "the bucket is in another region. Set AWS_REGION."),
    "InvalidBucketName": (Kind.NO_BUCKET, "this is no valid name of a bucket."),
}


def code_of(error: BaseException | None) -> str | None:
    """The store's error code, from the exception or one of its causes."""
    while error is not None:
        if isinstance(error, boto.ClientError):
            return str(error.response.get("Error", {}).get("Code") or "")
        error = error.__cause__
    return None


class S3Store(ObjectStore):
    def __init__(self, root: str, access: Access) -> None:
        super().__init__(root, access)
        self._bucket, prefix = split_bucket(root)
        self._prefix = prefix + "/" if prefix else ""

    def _connect(self) -> Any:
        fs = s3fs.S3FileSystem(**self._access.for_s3fs(), use_listings_cache=False, skip_instance_cache=True)
        fs.retries = 1
        return fs

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        whole_s = self._access.read_timeout_s * (BODY_TIMEOUTS if "Body" in arguments else CALL_TIMEOUTS)
        answer: dict[str, Any] = sync(
            self._fs.loop, self._fs._call_s3, method, timeout=whole_s, Bucket=self._bucket, **arguments
        )
        return answer

    def _key(self, name: str) -> str:
        return self._prefix + name

    def stat(self, name: str) -> SourceFile | None:
        try:
            head = self._ask(f"looking at {name}", lambda: self._call("head_object", Key=self._key(name)))
        except FileNotFoundError:
            return None
        return SourceFile(
            path=name,
            size_bytes=int(head["ContentLength"]),
            etag=str(head["ETag"]).strip('"'),
            seen_ms=milliseconds(head["LastModified"]),
        )

    def read(self, name: str) -> bytes | None:
        try:
            content: bytes = self._ask(f"reading {name}", lambda: self._get(name, {}, bytearray()))
            return content
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
        arguments: dict[str, Any] = {"Prefix": self._key(prefix)}
        if after:
            arguments["StartAfter"] = self._key(after)
        if delimiter:
            arguments["Delimiter"] = delimiter
        while True:
            page = self._ask("listing", lambda: self._call("list_objects_v2", **arguments))
            self._hear_clock(page)
            folders = [str(p["Prefix"]).removeprefix(self._prefix) for p in page.get("CommonPrefixes", ())]
            is_last = not page.get("IsTruncated")
            yield Page([self._entry(item) for item in page.get("Contents", ())], folders, is_last)
            if is_last:
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def put(self, name: str, content: bytes) -> None:
        self._ask(f"writing {name}", lambda: self._call("put_object", Key=self._key(name), Body=content))

    def put_if_absent(self, name: str, content: bytes) -> bool:
        try:
            self._call("put_object", Key=self._key(name), Body=content, IfNoneMatch="*")
        except Exception as e:
            if code_of(e) in ("PreconditionFailed", "412"):
                return False
            raise
        return True

    def delete(self, name: str) -> bool:
        there = self.stat(name) is not None
        self._ask(f"deleting {name}", lambda: self._call("delete_object", Key=self._key(name)))
        return there

    def delete_version(self, file: SourceFile) -> bool:
        there = self.stat(file.path)
        if there is None:
            return False
        arguments = {"Key": self._key(file.path), "IfMatch": f'"{file.etag}"'}
        try:
            self._ask(f"deleting {file.path}", lambda: self._call("delete_object", **arguments))
        except Exception as e:
            match code_of(e):
                case "PreconditionFailed" | "412":
                    raise FileChanged(CHANGED) from e
                case "NotImplemented" | "501":
                    return super().delete_version(file)
            raise
        return True

    def copy(self, name: str, target: str) -> None:
        """s3fs's own `copy` takes a `*` or a `[` in a name for a pattern. This is its step for one object."""
        source, there = f"{self._bucket}/{self._key(name)}", "/".join(split_bucket(target))
        self._ask(f"copying {name}", lambda: sync(self._fs.loop, self._fs._cp_file, source, there))

    def create(self, name: str) -> _MultipartSink:
        return _MultipartSink(self, self._key(name))

    def _touch(self) -> None:
        # With the prefix: rights may be limited to it.
        self._hear_clock(self._ask("listing", lambda: self._call("list_objects_v2", MaxKeys=1, Prefix=self._prefix)))

    def _hear_clock(self, answer: dict[str, Any]) -> None:
        self._hear_date(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))

    def _entry(self, item: dict[str, Any]) -> SourceFile:
        return SourceFile(
            path=str(item["Key"]).removeprefix(self._prefix),
            size_bytes=int(item["Size"]),
            etag=str(item["ETag"]).strip('"'),
            seen_ms=milliseconds(item["LastModified"]),
        )

    def _fetch(self, piece: Slice, start: int, end: int) -> bytes:
        got = bytearray()

        def fetch() -> bytes:
            # Bytes that came before a connection broke are kept: the next attempt continues after them.
            if len(got) == end - start:
                return bytes(got)
            wanted = {"Range": f"bytes={start + len(got)}-{end - 1}", "IfMatch": f'"{piece.etag}"'}
            whole = self._get(piece.path, wanted, got)
            if len(whole) != end - start:
                raise ConnectionError(f"{len(whole)} of {end - start} bytes came")
            return whole

        try:
            content: bytes = self._ask(f"reading {piece.path}", fetch)
            return content
        except Exception as e:
            match code_of(e):
                case "PreconditionFailed" | "412":
                    raise FileChanged(CHANGED) from e
                case "InvalidObjectState":
                    raise FileUnavailable(
                        Kind.ARCHIVED, "the object is in an archive tier. Restore it; every run tries it again"
                    ) from e
            raise

    def _get(self, name: str, wanted: dict[str, str], got: bytearray) -> bytes:
        whole_s = self._access.read_timeout_s * BODY_TIMEOUTS
        return bytes(sync(self._fs.loop, self._download, self._key(name), wanted, got, timeout=whole_s))

    async def _download(self, key: str, wanted: dict[str, str], got: bytearray) -> bytearray:
        answer = await self._fs._call_s3("get_object", Bucket=self._bucket, Key=key, **wanted)
        async with answer["Body"] as body:
            while chunk := await body.read(_CHUNK_BYTES):
                got += chunk
        return got

    def _check_unchanged(self, piece: Slice) -> None:
        """Not needed: every range is requested with the etag that was listed."""

    def _about_one_file(self, error: BlizzardError) -> FileUnavailable:
        if code_of(error) in ("PreconditionFailed", "412"):
            raise FileChanged(CHANGED) from error
        return super()._about_one_file(error)

    def _is_passing(self, error: BaseException) -> bool:
        code = code_of(error)
        if code in _EXPIRED and not self._access.get("AWS_ACCESS_KEY_ID"):
            self._fs.connect(refresh=True)  # renews the credentials of a role; given ones would stay expired
            return True
        if code is not None:
            return code in _PASSING_CODES
        while error is not None:
            if isinstance(error, _PASSING) or type(error).__module__.startswith("aiohttp"):
                return True
            error = error.__cause__  # type: ignore[assignment]
        return False

    def _ask(self, what: str, call: Any) -> Any:
        try:
            return super()._ask(what, call)
        except FileNotFoundError as e:
            if code_of(e) == "NoSuchBucket":
                raise self._explain(what, e) from e
            raise

    def _explain(self, what: str, error: Exception) -> BlizzardError:
        code = code_of(error)
        where = f"{what} at {self._root}"
        if code in _ADVICE:
            kind, advice = _ADVICE[code]
            return ConfigError(f"{where}: {advice}", kind=kind)
        if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
            return ConfigError(
                f"{where}: no credentials were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE,"
                f" storage_options, or run under a role.",
                kind=Kind.NO_CREDENTIALS,
            )
        said = redact(str(error))
        if self._is_passing(error):
            return Temporary(
                f"{where}: {said}. Tried {self._access.retry.attempts} times. Run again.", kind=Kind.STORE_UNAVAILABLE
            )
        return ConfigError(f"{where}: {said}", kind=Kind.STORE)


class _MultipartSink(PartSink):
    """Parts are sent while the next ones are written. A small file is one PUT. Names are never used twice, so every
    request may be repeated."""

    def __init__(self, store: S3Store, key: str) -> None:
        super().__init__()
        self._store, self._key = store, key
        self._upload: str | None = None
        self._parts: list[Future[dict[str, Any]]] = []

    def write(self, data: Any) -> int:
        size = len(data)
        self._buffer += data
        while len(self._buffer) >= _PART_BYTES:
            self._send(bytes(self._buffer[:_PART_BYTES]))
            del self._buffer[:_PART_BYTES]
        return size

    def close(self) -> None:
        if self.closed:
            return
        if self._upload is None:
            body = bytes(self._buffer)
            self._ask("put_object", Body=body)
        else:
            if self._buffer:
                self._send(bytes(self._buffer))
            parts = [part.result() for part in self._parts]
            self._complete(parts)
        super().close()

    def abort(self) -> None:
        """Delete the parts: parts left behind cost money until somebody finds them."""
        if self.closed:
            return
        super().close()
        for part in self._parts:
            part.cancel()
        if self._upload is not None:
            try:
                self._ask("abort_multipart_upload", UploadId=self._upload)
            except (BlizzardError, OSError):  # the reason for aborting matters more
                return

    def _send(self, body: bytes) -> None:
        if self._upload is None:
            self._upload = self._ask("create_multipart_upload")["UploadId"]
        in_flight = [part for part in self._parts if not part.done()]
        if len(in_flight) >= _PARTS_IN_FLIGHT:
            in_flight[0].result()
        number = len(self._parts) + 1
        self._parts.append(self._store._pool.submit(self._send_part, number, body))
        self._sent_bytes += len(body)

    def _send_part(self, number: int, body: bytes) -> dict[str, Any]:
        sent = self._ask("upload_part", UploadId=self._upload, PartNumber=number, Body=body)
        return {"PartNumber": number, "ETag": sent["ETag"]}

    def _complete(self, parts: list[dict[str, Any]]) -> None:
        try:
            self._ask("complete_multipart_upload", UploadId=self._upload, MultipartUpload={"Parts": parts})
        except FileNotFoundError:
            # An attempt whose answer was lost may have completed it: then the object is there, with all its bytes.
            head = self._ask("head_object")
            if int(head["ContentLength"]) != self._sent_bytes:
                raise

    def _ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._store._ask(
            f"writing {self._key}", lambda: self._store._call(method, Key=self._key, **arguments)
        )
        return answer
