"""A real S3 server for tests: versitygw over a folder, where a bucket is a subfolder and an object a file.

It differs from S3 where a file system differs: `a` and `a/b` cannot both be keys, `a//b` is `a/b`, a part of a key
between slashes has at most 255 bytes, and a HEAD during an overwrite can mix the old object with the new one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.s3.endpoint import ACCESS_KEY, REGION, SECRET_KEY, S3Endpoint
from tests.s3.processes import ServerProcess


class Bucket:
    """One bucket and the folder behind it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    def uri(self, key: str = "", scheme: str = "s3") -> str:
        return f"{scheme}://{self.name}/{key}"

    def keys(self) -> list[str]:
        """Every key in the order of S3, by UTF-8 bytes. Read from the folder, so without keys that end with a slash."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        names = (path.relative_to(self.folder).as_posix() for path in files)
        return sorted((name for name in names if not name.startswith(".sgwtmp/")), key=str.encode)

    def put_files(self, objects: Iterable[tuple[str, bytes]]) -> None:
        """Objects written past the server, for sources of many thousand keys: 100,000 take a few seconds."""
        for key, body in objects:
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            # Where the server keeps the ETag; without it, it would report an empty one.
            os.setxattr(path, "user.etag", etag_of(body).encode())


def etag_of(body: bytes) -> str:
    """The ETag of an object that was put in one request."""
    return f'"{hashlib.md5(body).hexdigest()}"'


class S3Server(S3Endpoint):
    """versitygw on a free loopback port, with its buckets below `folder`."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.root = folder / "buckets"
        self.root.mkdir(parents=True)
        _require_extended_attributes(folder)
        self._process = ServerProcess(
            lambda port: [
                str(binary),
                *("--port", f"127.0.0.1:{port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION),
                *("--quiet", "--keep-alive", "--health", "/health", "posix", str(self.root)),
            ],
            health="/health",
            log=folder / "versitygw.log",
        )
        self.port = self._process.port
        super().__init__(f"http://127.0.0.1:{self.port}")

    def make_bucket(self, name: str) -> Bucket:
        folder = self.root / name
        folder.mkdir()
        return Bucket(name, folder)

    def remove_bucket(self, bucket: Bucket) -> None:
        shutil.rmtree(bucket.folder, ignore_errors=True)  # a late request of the test may still write into it

    def stop(self) -> None:
        self._process.stop()


def _require_extended_attributes(folder: Path) -> None:
    """ETags live in extended attributes: only there are they published in the same instant as the object."""
    try:
        os.setxattr(folder, "user.blizzard", b"1")
    except OSError as error:
        raise RuntimeError(f"{folder} has no extended attributes; give pytest another --basetemp") from error
