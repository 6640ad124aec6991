"""Normalises locations as people type them: one place must always give the same text, because positions hold it.

`s3://`, `s3a://` and `s3n://` are one place; so are `gs://` and `gcs://`. Keys are taken as they are: `%` and `?` are
ordinary characters in them.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote, urlsplit

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from blizzard.text.redaction import has_secret, learn_uri, redact

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}
_OBJECT_STORES = ("s3", "gs", "abfss", "az", "memory")


def locate(uri: str, *, what: str) -> str:
    """The root of a plain path or a URI: an absolute local path, or a URI in its one normal form."""
    if not uri:
        raise ConfigError(f"the {what} is empty", kind=Kind.USAGE)
    try:
        uri.encode()
    except UnicodeEncodeError as e:
        raise ConfigError(f"the {what} {os.fsencode(uri)!r} is not UTF-8", kind=Kind.USAGE) from e
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return os.path.abspath(os.path.expanduser(uri))
    name = scheme.group(1).lower()
    name = _SAME.get(name, name)
    if name == "file":
        return _local_path_of_uri(uri, scheme.group(0), what)
    if name not in _OBJECT_STORES:
        known = "file, s3 (s3a, s3n), gs, abfss, az"
        # `user:password@host` looks like a scheme too: do not show it.
        given = scheme.group(0) + "…" if "@" in uri and "://" not in uri else uri
        raise ConfigError(f"{what} {given!r}: {scheme.group(1)}: is not one of {known}", kind=Kind.UNSUPPORTED_SCHEME)
    rest = uri[len(scheme.group(0)) :].removeprefix("//").rstrip("/")
    if not uri.startswith(scheme.group(0) + "//") or not rest or rest.startswith("/"):
        raise ConfigError(f"{what} {uri!r}: such a URI has a bucket, {name}://bucket/path", kind=Kind.USAGE)
    authority = rest.split("/", 1)[0]
    if ("@" in authority and (name != "abfss" or ":" in authority.split("@")[0])) or has_secret(uri):
        learn_uri(uri)
        raise ConfigError(
            f"{what} {redact(uri)}: do not put credentials into a URI, because it is stored and shown. Use the"
            f" environment, a profile, a role, or storage_options.",
            kind=Kind.USAGE,
        )
    if name == "abfss":
        rest = rest.replace(".blob.core.windows.net", ".dfs.core.windows.net", 1)
        if "@" not in rest.split("/", 1)[0]:
            raise ConfigError(
                f"{what} {uri!r}: such a URI names container and account,"
                f" abfss://container@account.dfs.core.windows.net/path",
                kind=Kind.USAGE,
            )
    return f"{name}://{rest}"


def _local_path_of_uri(uri: str, scheme: str, what: str) -> str:
    if urlsplit(uri).netloc not in ("", "localhost"):
        raise ConfigError(f"{what} {uri!r}: a file URI has three slashes, file:///path", kind=Kind.USAGE)
    # urlsplit would cut a '?' or '#' off a file name; they are ordinary characters in one.
    return os.path.abspath(unquote(uri[len(scheme) :].removeprefix("//localhost").removeprefix("//")))


def local_path(uri: str, *, what: str) -> str:
    """For files that can only be on local disk."""
    root = locate(uri, what=what)
    if not is_local(root):
        raise ConfigError(f"{what} {uri!r}: this has to be a local path", kind=Kind.UNSUPPORTED_SCHEME)
    return root


def is_local(root: str) -> bool:
    return root.startswith("/")


def show_uri(root: str) -> str:
    """A root as a URI, for people and for identities."""
    return "file://" + quote(root) if is_local(root) else root


def delta_uri(root: str) -> str:
    """A root as delta-rs wants it: delta-rs decodes percent escapes in every URI."""
    if is_local(root):
        return "file://" + quote(root)
    scheme, rest = root.split("://", 1)
    authority, slash, key = rest.partition("/")
    return f"{scheme}://{authority}{slash}{quote(key)}"


def lies_in(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or below it. On local disk links are followed."""
    return _place(inner).startswith(_place(outer))


def name_below(inner: str, outer: str) -> str | None:
    """The name of `inner` relative to `outer`; None if it is not below it."""
    return _place(inner).removeprefix(_place(outer)).rstrip("/") or None if lies_in(inner, outer) else None


def _place(root: str) -> str:
    """One text for one place, with a slash at its end. For Azure the account is left out, since `az://` has none."""
    if is_local(root):
        return os.path.realpath(root).rstrip("/") + "/"
    scheme, rest = root.split("://", 1)
    if scheme in ("abfss", "az"):
        container, slash, path = rest.partition("/")
        scheme, rest = "az", container.split("@")[0] + slash + path
    return f"{scheme}://{rest.rstrip('/')}/"


def join(root: str, name: str) -> str:
    return f"{root.rstrip('/')}/{name}" if name else root


def split_bucket(root: str) -> tuple[str, str]:
    """Bucket and key prefix of an object store's root, the prefix without a slash at its end."""
    bucket, _, prefix = root.split("://", 1)[1].partition("/")
    return bucket, prefix
