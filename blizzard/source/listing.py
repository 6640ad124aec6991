"""Lists a source; on local disk by itself, in an object store through `buckets.py`. Sorted by the bytes of the names.

`chosen.py` decides which files belong to it. The others are counted as they pass by: none is left out silently.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice

from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING, Scope
from blizzard.core.left_out import NONE_LEFT_OUT, LeftOutCount
from blizzard.core.names import is_below, is_name
from blizzard.core.types import Listing, SourceFile, seen_since
from blizzard.errors import BadFile, ConfigError, Temporary
from blizzard.source.buckets import list_bucket
from blizzard.source.chosen import NS_PER_MS, Chosen, chosen_by
from blizzard.source.uri import SourceLocation
from blizzard.store.aside import name_before
from blizzard.store.local import seen_ms_of
from blizzard.store.uri import is_local
from blizzard.text.nearest import nearest

_EMPTY_AGE_S = 60
_LOOKED_AT = 1_000  # names, for the one that was meant


def list_source(source: SourceLocation, scope: Scope = EVERYTHING, chosen: Chosen | None = None) -> Listing:
    """The part that is asked for; everything on local disk."""
    chosen = chosen or chosen_by(source)
    if not is_local(source.root):
        return list_bucket(source, chosen, scope)
    if not os.path.isdir(source.root):
        raise _no_folder(source.root)
    paths: list[str] = []
    sizes, mtimes_ns, seen_ms = array("q"), array("q"), array("q")
    asides: list[str] = []
    left_out, has_times = LeftOutCount(), chosen.has_times
    try:
        path = source.root
        for path, info in _walk(source.root, "", chosen, left_out):
            if info is None:
                asides.append(path)
                continue
            if has_times and not chosen.takes_at(path, info.st_mtime_ns // NS_PER_MS):
                left_out.filtered += 1
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
    return Listing(paths, sizes, mtimes_ns, seen_ms, asides, left_out.total if source.only is None else NONE_LEFT_OUT)


def _no_folder(root: str) -> ConfigError:
    """What is wrong with the path, found on the way to it: somebody looks for the reason in the last part of it."""
    try:
        os.stat(root)
    except PermissionError as e:
        said = f"the source {root} cannot be looked at: {e.strerror}. Ask for the right to enter its folder, or choose"
        return ConfigError(f"{said} another source.", kind=Kind.SOURCE_NOT_READABLE)
    except OSError:
        missing, parent = root, os.path.dirname(root)
        while parent != missing and not os.path.isdir(parent):
            missing, parent = parent, os.path.dirname(parent)
        below = "" if missing == root else f": {missing} is not there"
        near = nearest(os.path.basename(missing), _names_in(parent), called=f"{parent.rstrip('/')}/{{}}")
        return ConfigError(f"the source {root} does not exist{below}{near}", kind=Kind.SOURCE_NOT_FOUND)
    return ConfigError(f"the source {root} is not a folder", kind=Kind.SOURCE_NOT_FOUND)


def _names_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _LOOKED_AT)]
    except OSError:
        return []


def find_listed(source: SourceLocation, name: str) -> SourceFile | None:
    """One file as it is now, if a listing of the source would show it. For names from the log, which may be any text:
    the name is checked before the store is asked."""
    chosen = chosen_by(source)
    if not is_name(name) or not chosen.takes_name(name):
        return None
    if is_local(source.root) and not _is_in_own_folder(source.root, name):
        return None
    file = source.store.stat(name)
    return file if file is not None and chosen.takes(file) else None


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


def _walk(
    root: str, prefix: str, chosen: Chosen, left_out: LeftOutCount
) -> Iterator[tuple[str, os.stat_result | None]]:
    """Files with their stat result; None for files that a dead process has taken aside (`store/aside.py`)."""
    with os.scandir(os.path.join(root, prefix)) as entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.name[0] in "_." and path != chosen.only:
                hidden = name_before(path) if entry.name.endswith(".aside") else None
                if hidden is not None and chosen.takes_name(hidden):
                    yield path, None
                continue
            if entry.is_dir():
                yield from _walk_folder(root, path, entry, chosen, left_out)
            elif chosen.takes_name(path):
                yield path, _stat(entry, path)
            elif chosen.matches(path):
                left_out.filtered += 1
            else:
                left_out.add_unmatched(path)


def _walk_folder(
    root: str, path: str, entry: os.DirEntry[str], chosen: Chosen, left_out: LeftOutCount
) -> Iterator[tuple[str, os.stat_result | None]]:
    if entry.is_symlink():
        if chosen.ignores_folder(path):
            return
        raise BadFile(
            f"{entry.path} is a link to a folder: following it could read files twice, or without end."
            f" Remove it, leave it out with source.ignore, or name the folder it points to as the source.",
            kind=Kind.SOURCE_LINKED_FOLDER,
        )
    inside = 0
    for file in _walk(root, path + "/", chosen, left_out):
        inside += 1
        yield file
    if not inside and chosen.takes_name(path) and not chosen.ignores_folder(path):
        raise BadFile(
            f"{os.path.join(root, path)} is a folder with the name of a data file and holds none."
            f" Remove it, or narrow source.pattern.",
            kind=Kind.SOURCE_IS_DIRECTORY,
        )


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
