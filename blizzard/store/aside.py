"""Deleting a local file only while it is the very version that was looked at.

It is taken aside first: whoever writes under the name from then on writes another file. Then it is looked at again, and
deleted or put back. A process that dies in between leaves a hidden `.NAME.….aside`; the next run's listing finds it,
and `finish` deletes it or puts it back. Nothing is left that nobody tells.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress

from blizzard.core.types import SourceFile
from blizzard.store.durable import sync
from blizzard.store.files import FileChanged

# The name, what was to be deleted, and a random part. Older versions had only the last.
_ASIDE = re.compile(r"\.(.+?)\.([0-9a-f]{16})?[0-9a-f]{8}\.aside", re.DOTALL)


def name_before(aside: str) -> str | None:
    """The path of a file before it was taken aside; None where this is no such file."""
    folder, slash, name = aside.rpartition("/")
    match = _ASIDE.fullmatch(name)
    return None if match is None else f"{folder}{slash}{match[1]}"


def delete_version(path: str, file: SourceFile) -> bool:
    folder, name = os.path.split(path)
    version = (file.size_bytes, file.etag)
    aside = os.path.join(folder, f".{name}.{_digest(version)}{os.urandom(4).hex()}.aside")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return False
    if _version_of(aside) == version:
        os.unlink(aside)
        return True
    try:
        _put_back(aside, path)
    except FileExistsError:
        raise FileChanged(f"it was written twice meanwhile, and what it was first is {aside} now") from None
    raise FileChanged("the file changed after it was looked at")


def finish(aside: str) -> str | None:
    """What a process that died has left. A sentence about it where a person has to look at it, and else None."""
    path = name_before(aside)
    match = _ASIDE.fullmatch(os.path.basename(aside))
    if path is None or match is None:
        return None
    try:
        # A put-back that was interrupted has both names for one file.
        if _digest(_version_of(aside)) == match[2] or _is_same(aside, path):
            with suppress(FileNotFoundError):
                os.unlink(aside)
            return None
        _put_back(aside, path)
    except FileExistsError:
        return (
            f"{path} was written twice while blizzard deleted an older version of it. What it was first is in {aside},"
            f" and is not ingested. Move that to a name of its own, which is then ingested, or delete it"
        )
    except FileNotFoundError:
        return None  # another process was faster
    except OSError as e:
        return f"{aside} was {path} and cannot be put back ({e.strerror}). It is not ingested. Move it yourself"
    return None


def _put_back(aside: str, path: str) -> None:
    """Raises FileExistsError where there is a new file of that name by now."""
    try:
        os.link(aside, path)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # no hard links here
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        os.rename(aside, path)
    else:
        os.unlink(aside)
    sync(os.path.dirname(path))


def _version_of(path: str) -> tuple[int, str]:
    info = os.stat(path)
    return info.st_size, str(info.st_mtime_ns)


def _digest(version: tuple[int, str]) -> str:
    size_bytes, etag = version
    return hashlib.blake2b(f"{size_bytes}\n{etag}".encode(), digest_size=8).hexdigest()


def _is_same(aside: str, path: str) -> bool:
    return os.path.exists(path) and os.path.samefile(aside, path)
