"""Lists a source; on local disk by itself, in an object store through `buckets.py`. Sorted by the bytes of the names.

Names that begin with `_` or `.` are ignored at every level, unless the source is that one file. No other file that
matches is left out silently.
"""

from __future__ import annotations

import os
import re
import stat
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache

from wcmatch import glob

from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING, Scope
from blizzard.core.names import is_below, is_name
from blizzard.core.types import Listing, SourceFile, seen_since
from blizzard.errors import BadFile, ConfigError, Temporary
from blizzard.source.buckets import is_wanted, list_bucket
from blizzard.source.uri import SourceLocation
from blizzard.store.aside import name_before
from blizzard.store.local import seen_ms_of
from blizzard.store.uri import is_local

_EMPTY_AGE_S = 60


def list_source(source: SourceLocation, scope: Scope = EVERYTHING) -> Listing:
    """The part that is asked for; everything on local disk."""
    if not is_local(source.root):
        return list_bucket(source, compile_pattern(source.pattern), scope)
    if not os.path.isdir(source.root):
        what = "is not a folder" if os.path.exists(source.root) else "does not exist"
        raise ConfigError(f"the source {source.root} {what}", kind=Kind.SOURCE_NOT_FOUND)
    matches = compile_pattern(source.pattern)
    paths: list[str] = []
    sizes, mtimes_ns, seen_ms = array("q"), array("q"), array("q")
    asides: list[str] = []
    try:
        path = source.root
        for path, info in _walk(source.root, "", matches, source.only):
            if info is None:
                asides.append(path)
                continue
            paths.append(path)
            sizes.append(info.st_size)
            mtimes_ns.append(info.st_mtime_ns)
            seen_ms.append(seen_ms_of(info))
    except PermissionError as e:
        raise ConfigError(f"the source cannot be listed: {e}", kind=Kind.SOURCE_NOT_READABLE) from e
    except FileNotFoundError as e:
        raise Temporary(f"the source changed while it was listed: {e}", kind=Kind.SOURCE_CHANGED) from e
    except OverflowError as e:
        raise BadFile(f"{path} has a modification time that is out of range", kind=Kind.SOURCE_NOT_READABLE) from e
    return Listing(paths, sizes, mtimes_ns, seen_ms, asides)


def find_listed(source: SourceLocation, name: str) -> SourceFile | None:
    """One file as it is now, if a listing of the source would show it. For names from the log, which may be any text:
    the name is checked before the store is asked."""
    if not is_name(name) or not is_wanted(name, compile_pattern(source.pattern), source.only):
        return None
    if is_local(source.root) and not _is_in_own_folder(source.root, name):
        return None
    return source.store.stat(name)


def _is_in_own_folder(root: str, name: str) -> bool:
    """Whether the name leads to a real folder below the root: no absolute path, and no link on the way."""
    folder = os.path.dirname(f"{os.path.realpath(root).rstrip('/')}/{name}")
    return is_below(name) and os.path.realpath(folder) == folder


def find_young(files: Sequence[SourceFile], at_ms: int, min_age_s: float) -> dict[str, str]:
    """Files that may still be written to, and why. A file that stays empty for 60 s counts as empty."""
    young: dict[str, str] = {}
    for file in seen_since(files, at_ms - int(max(min_age_s, _EMPTY_AGE_S) * 1000) + 1):
        age_s = (at_ms - file.seen_ms) / 1000
        if min_age_s and age_s < min_age_s:
            young[file.path] = f"younger than source.min_age_s ({min_age_s:g} s)"
        elif file.size_bytes == 0 and age_s < _EMPTY_AGE_S:
            young[file.path] = f"empty, and younger than {_EMPTY_AGE_S} s"
    return young


@lru_cache(maxsize=8)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A glob over names relative to the root: `**` crosses folders, `{a,b}` is either."""
    try:
        positive, negative = glob.translate(
            pattern, flags=glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
        )
    except Exception as e:
        raise ConfigError(f"source.pattern {pattern!r} is not a glob: {e}", kind=Kind.USAGE) from e
    if negative or not positive:
        raise ConfigError(f"source.pattern {pattern!r} is not a glob", kind=Kind.USAGE)
    return re.compile("|".join(f"(?:{p})" for p in positive))


def _walk(
    root: str, prefix: str, matches: re.Pattern[str], only: str | None
) -> Iterator[tuple[str, os.stat_result | None]]:
    """Files with their stat result; None for files that a dead process has taken aside (`store/aside.py`)."""
    with os.scandir(os.path.join(root, prefix)) as entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.name[0] in "_." and path != only:
                hidden = name_before(path) if entry.name.endswith(".aside") else None
                if hidden is not None and is_wanted(hidden, matches, only):
                    yield path, None
                continue
            if entry.is_dir():
                if entry.is_symlink():
                    raise BadFile(
                        f"{entry.path} is a link to a folder: following it could read files twice, or without end."
                        f" Remove it, or name the folder it points to as the source.",
                        kind=Kind.SOURCE_LINKED_FOLDER,
                    )
                inside = 0
                for file in _walk(root, path + "/", matches, only):
                    inside += 1
                    yield file
                if not inside and matches.match(path):
                    raise BadFile(
                        f"{os.path.join(root, path)} is a folder with the name of a data file and holds none."
                        f" Remove it, or narrow source.pattern.",
                        kind=Kind.SOURCE_IS_DIRECTORY,
                    )
            elif matches.match(path):
                yield path, _stat(entry, path)


def _stat(entry: os.DirEntry[str], path: str) -> os.stat_result:
    try:
        path.encode()
    except UnicodeEncodeError as e:
        raise BadFile(
            f"the name {os.fsencode(entry.path)!r} is not UTF-8, so no position can hold it. Rename the file.",
            kind=Kind.SOURCE_NAME,
        ) from e
    try:
        info = entry.stat()
    except OSError as e:
        raise BadFile(f"{entry.path} cannot be read: {e.strerror}", kind=Kind.SOURCE_NOT_READABLE) from e
    if not stat.S_ISREG(info.st_mode):
        raise BadFile(f"{entry.path} is not a regular file", kind=Kind.SOURCE_NOT_READABLE)
    return info
