"""Turns what the user named as the source into one identity and one place to read from.

The identity is part of the position, so the same folder must always give the same text.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from urllib.parse import unquote

from blizzard.core.compression import COMPRESSION_SUFFIXES
from blizzard.core.kinds import Kind
from blizzard.core.overlap import DEFAULT_PATTERN
from blizzard.core.types import SourceIdentity
from blizzard.errors import ConfigError
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.store.uri import is_local, locate, show_uri

_GLOB = re.compile(r"[*?\[{]")
_DATA_FILE = re.compile(rf"(?:\.ndjson|\.jsonl|\.json|{'|'.join(map(re.escape, COMPRESSION_SUFFIXES))})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    root: str  # local path, or a URI in its normal form
    pattern: str
    identity: SourceIdentity
    only: str | None = None  # the source is this one file
    access: Access = NO_ACCESS

    @property
    def store(self) -> Store:
        return open_store(self.root, self.access)


def locate_source(
    uri: str, pattern: str | None = None, access: Access = NO_ACCESS, *, marks_per: str | None = None
) -> SourceLocation:
    """A folder, one file, or a glob below a folder."""
    path = locate(uri, what="source")
    only = None
    if _GLOB.search(path) and not _exists(path, access):
        if pattern is not None:
            raise ConfigError("the source already has a pattern; leave source.pattern out", kind=Kind.USAGE)
        folder, pattern = _split_glob(path)
    elif _is_file(path, access):
        if pattern is not None:
            raise ConfigError(f"source {uri!r} is one file; leave source.pattern out", kind=Kind.USAGE)
        folder, only = path.rsplit("/", 1)
        folder = folder or "/"
        pattern = re.sub(r"([*?\[\]{}!\\])", r"\\\1", only)
    else:
        folder = path
    # The default pattern is written as "default": if it gets a new file ending, pipelines must stay the same.
    identity = SourceIdentity(root=show_uri(folder), pattern=pattern or "default", marks_per=marks_per)
    return SourceLocation(root=folder, pattern=pattern or DEFAULT_PATTERN, identity=identity, only=only, access=access)


def location_of(identity: SourceIdentity, access: Access = NO_ACCESS) -> SourceLocation:
    """The source that a position belongs to."""
    pattern = DEFAULT_PATTERN if identity.pattern == "default" else identity.pattern
    root = locate(identity.root, what="source")
    return SourceLocation(root=root, pattern=pattern, identity=identity, access=access)


def _exists(path: str, access: Access) -> bool:
    return os.path.exists(path) if is_local(path) else _is_file(path, access)


def _is_file(path: str, access: Access) -> bool:
    if is_local(path):
        return os.path.isfile(path)
    folder, name = path.rsplit("/", 1)
    # Most sources are folders: make a request only if the name looks like a file.
    return folder.count("/") >= 2 and _DATA_FILE.search(name) is not None and _is_object(folder, name, access)


def _is_object(folder: str, name: str, access: Access) -> bool:
    return open_store(folder, access).stat(name) is not None


def _split_glob(path: str) -> tuple[str, str]:
    scheme, rest = ("", path) if is_local(path) else path.split("://", 1)
    parts = rest.split("/")
    first = next(i for i, part in enumerate(parts) if _GLOB.search(part))
    if scheme and first == 0:
        raise ConfigError(f"source {path!r}: a bucket cannot be a pattern", kind=Kind.USAGE)
    folder = "/".join(parts[:first])
    return (f"{scheme}://{folder}" if scheme else folder or "/"), "/".join(parts[first:])


def default_pipeline(identity: SourceIdentity) -> str:
    """A readable name, different for every source: the folder's name and a digest of root and pattern."""
    folder = unquote(identity.root.rstrip("/").rsplit("/", 1)[-1])
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder).strip("-.").lstrip("-._")[:40] or "root"
    digest = hashlib.sha256(f"{identity.root}\n{identity.pattern}".encode()).hexdigest()
    return f"{slug}-{digest[:8]}"
