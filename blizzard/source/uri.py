"""Turns what the user named as the source into one identity and one place to read from.

The identity is part of the position, so the same folder must always give the same text.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from urllib.parse import unquote

from blizzard.core.kinds import Kind
from blizzard.core.left_out import suffix_of
from blizzard.core.patterns import (
    COMPRESSION_SUFFIXES,
    DATA_SUFFIXES,
    DEFAULT,
    DEFAULTS,
    FIRST_DEFAULT,
    glob_of,
    pattern_of,
)
from blizzard.core.position import Position
from blizzard.core.types import NO_FILTERS, Filters, SourceIdentity
from blizzard.errors import ConfigError
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.store.uri import is_local, locate, show_uri

_GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """`identity` is what positions say. `filters` are those in force: also files from before the moment that a pipeline
    began at (`--start-from date:…`) are left out."""

    root: str  # local path, or a URI in its normal form
    identity: SourceIdentity
    filters: Filters = NO_FILTERS
    since_ms: int | None = None
    only: str | None = None  # the source is this one file
    access: Access = NO_ACCESS
    by_default: bool = False  # nobody gave a pattern

    @property
    def pattern(self) -> str:
        """The glob."""
        return glob_of(self.identity.pattern)

    @property
    def store(self) -> Store:
        return open_store(self.root, self.access)

    def reading(self, identity: SourceIdentity, since_ms: int | None = None) -> SourceLocation:
        """The same place, but the files that this identity chooses."""
        filters = identity.filters.since(since_ms)
        return replace(self, identity=identity, filters=filters, since_ms=since_ms, by_default=False)


def locate_source(
    uri: str,
    pattern: str | None = None,
    access: Access = NO_ACCESS,
    *,
    marks_per: str | None = None,
    filters: Filters = NO_FILTERS,
) -> SourceLocation:
    """A folder, one file, or a glob below a folder."""
    path, by_default = locate(uri, what="source"), False
    only = None
    if _GLOB.search(path) and not _exists(path, access):
        if pattern is not None:
            raise ConfigError(
                "the source already has a pattern; leave source.pattern out, or name the folder as the source",
                kind=Kind.USAGE,
            )
        folder, pattern = _split_glob(path)
    elif _is_file(path, access):
        if pattern is not None:
            raise ConfigError(f"source {uri!r} is one file; leave source.pattern out", kind=Kind.USAGE)
        folder, only = path.rsplit("/", 1)
        folder = folder or "/"
        pattern = re.sub(r"([*?\[\]{}!\\])", r"\\\1", only)
    else:
        folder, by_default = path, pattern is None
        if pattern == DEFAULT:
            raise ConfigError(
                f"source.pattern {pattern!r} is a name that positions use; write default-2", kind=Kind.USAGE
            )
        pattern = DEFAULT if pattern is None else pattern_of(pattern)
    identity = SourceIdentity(root=show_uri(folder), pattern=pattern, marks_per=marks_per, filters=filters)
    return SourceLocation(
        root=folder, identity=identity, filters=filters, only=only, access=access, by_default=by_default
    )


def identity_by_name(uri: str, pattern: str | None = None) -> SourceIdentity:
    """What `locate_source` would probably say. Makes no request, so it takes a name like a file's for a file."""
    path = locate(uri, what="source")
    if _GLOB.search(path):
        folder, pattern = _split_glob(path)
        return SourceIdentity(root=show_uri(folder), pattern=pattern)
    folder, _, name = path.rpartition("/")
    if pattern is None and (suffix := suffix_of(name)) and _is_known(suffix):
        return SourceIdentity(root=show_uri(folder or "/"), pattern=name)
    return SourceIdentity(root=show_uri(path), pattern=DEFAULT if pattern is None else pattern_of(pattern))


def location_of(position: Position, access: Access = NO_ACCESS) -> SourceLocation:
    """The source that a position belongs to."""
    root = locate(position.source.root, what="source")
    location = SourceLocation(root=root, identity=position.source, access=access)
    return location.reading(position.source, position.begun.since_ms)


def _exists(path: str, access: Access) -> bool:
    return os.path.exists(path) if is_local(path) else _is_file(path, access)


def _is_file(path: str, access: Access) -> bool:
    if is_local(path):
        return os.path.isfile(path)
    folder, name = path.rsplit("/", 1)
    # Most sources are folders: make a request only if the name has a suffix.
    if folder.count("/") < 2 or not (suffix := suffix_of(name)):
        return False
    try:
        return _is_object(folder, name, access)
    except ConfigError as e:
        # A role may see only what is below a folder, and a folder may be called v1.b.
        if e.kind != Kind.ACCESS_DENIED or _is_known(suffix):
            raise
        return False


def _is_known(suffix: str) -> bool:
    return not set(suffix.lower().split(".")).isdisjoint((*DATA_SUFFIXES, *COMPRESSION_SUFFIXES))


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
    """A readable name, different for every source: the folder's name and a digest of root and pattern. It is the same
    for all default patterns: a run without a pattern goes on with the one that the pipeline began with."""
    folder = unquote(identity.root.rstrip("/").rsplit("/", 1)[-1])
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder).strip("-.").lstrip("-._")[:40] or "root"
    pattern = FIRST_DEFAULT if identity.pattern in DEFAULTS else identity.pattern
    digest = hashlib.sha256(f"{identity.root}\n{pattern}".encode()).hexdigest()
    return f"{slug}-{digest[:8]}"
