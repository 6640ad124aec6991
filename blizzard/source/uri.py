"""Source and table locations: what the user typed, as one normalised identity and one local path.

The identity goes into the checkpoint, so the same folder must always give the same text.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from blizzard.core.types import SourceIdentity
from blizzard.errors import ConfigError

DEFAULT_PATTERN = "**/*.{ndjson,jsonl}{,.gz,.zst}"
_GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    root: str  # local path
    pattern: str
    identity: SourceIdentity
    only: str | None = None  # the source is this one file


def local_path(uri: str, *, what: str) -> str:
    """The absolute local path of a plain path or a file: URI."""
    if not uri:
        raise ConfigError(f"the {what} is empty", kind="usage")
    try:
        uri.encode()
    except UnicodeEncodeError as e:
        raise ConfigError(f"the {what} {os.fsencode(uri)!r} is not UTF-8", kind="usage") from e
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", uri)
    if scheme is None:
        return os.path.abspath(os.path.expanduser(uri))
    if scheme.group(1).lower() != "file":
        raise ConfigError(
            f"{what} {uri!r}: this version reads and writes local disk only; {scheme.group(1)}: is not supported yet",
            kind="unsupported_scheme",
        )
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise ConfigError(f"{what} {uri!r}: a file URI has three slashes, file:///path", kind="usage")
    # urlsplit would cut a '?' or '#' off a file name; they are ordinary characters in one.
    return os.path.abspath(unquote(uri[len(scheme.group(0)) :].removeprefix("//localhost").removeprefix("//")))


def file_uri(path: str) -> str:
    return "file://" + quote(path)


def locate_source(uri: str, pattern: str | None = None) -> SourceLocation:
    """A folder, one file, or a glob below a folder."""
    path = local_path(uri, what="source")
    only = None
    if _GLOB.search(path) and not os.path.exists(path):
        if pattern is not None:
            raise ConfigError("the source already has a pattern; leave source.pattern out", kind="usage")
        folder, pattern = _split_glob(path)
    elif os.path.isfile(path):
        if pattern is not None:
            raise ConfigError(f"source {uri!r} is one file; leave source.pattern out", kind="usage")
        folder, only = os.path.split(path)
        pattern = re.sub(r"([*?\[\]{}!\\])", r"\\\1", only)
    else:
        folder = path
    # The default goes by its name: adding an ending to it must not make every pipeline another one.
    identity = SourceIdentity(root=file_uri(folder), pattern=pattern or "default")
    return SourceLocation(root=folder, pattern=pattern or DEFAULT_PATTERN, identity=identity, only=only)


def _split_glob(path: str) -> tuple[str, str]:
    parts = path.split(os.sep)
    first = next(i for i, part in enumerate(parts) if _GLOB.search(part))
    return os.sep.join(parts[:first]) or os.sep, "/".join(parts[first:])


def default_pipeline(identity: SourceIdentity) -> str:
    """A name that is readable and differs for every source: the folder's name and a digest of the identity."""
    folder = unquote(identity.root.rstrip("/").rsplit("/", 1)[-1])
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder).strip("-.")[:40] or "root"
    digest = hashlib.sha256(f"{identity.root}\n{identity.pattern}".encode()).hexdigest()
    return f"{slug}-{digest[:8]}"
