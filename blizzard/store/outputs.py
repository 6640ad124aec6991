"""Writes files for the user of a command: a summary, a report, an export, metrics.

A regular file appears only when it is complete and on the disk; a link to one stays a link. Anything else (a pipe, a
terminal, /dev/null) is written in place: a rename would replace it by a file.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from blizzard.store import open_store
from blizzard.store.access import Access
from blizzard.store.durable import sync
from blizzard.store.uri import is_local, locate

_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self|\d+))/fd/(\d+)")


def write_output(uri: str, content: bytes, access: Callable[[str], Access], *, what: str) -> str:
    """Returns where it was written. `access` gives the access to a folder."""
    root = locate(uri, what=what)
    if is_local(root):
        with open_output(root) as file:
            file.write(content)
    else:
        folder, name = root.rsplit("/", 1)
        open_store(folder, access(folder)).put(name, content)
    return root


@contextmanager
def open_output(path: str, *, overwrites: bool = True, mode: int | None = None) -> Iterator[IO[bytes]]:
    """FileExistsError if it must not overwrite. `mode` sets the permissions regardless of the umask."""
    if not is_regular(path):
        with _open_in_place(path) as file:
            yield file
        return
    if not overwrites and os.path.lexists(path):
        raise FileExistsError(path)
    target = os.path.realpath(path)
    temporary = f"{target}.{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not overwrites and os.path.lexists(path):  # somebody may have made it meanwhile
            raise FileExistsError(path)
        os.replace(temporary, target)
        sync(os.path.dirname(target))
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def is_regular(path: str) -> bool:
    """Whether it is a regular file, or would become one."""
    if _descriptor(path) is not None:
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def is_writable(path: str) -> bool:
    """Whether a file can probably be written there. Writes nothing."""
    if os.path.isdir(path):
        return False
    if not is_regular(path):
        return os.access(path, os.W_OK)
    folder = os.path.dirname(os.path.realpath(path))
    return os.path.isdir(folder) and os.access(folder, os.W_OK)


@contextmanager
def _open_in_place(path: str) -> Iterator[IO[bytes]]:
    """For our own stdout and stderr the descriptor is used: opening by name would truncate a file behind it."""
    descriptor = _descriptor(path)
    if descriptor is None:
        with open(path, "wb") as file:
            yield file
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    with open(os.dup(descriptor), "wb") as file:
        yield file


def _descriptor(path: str) -> int | None:
    """The descriptor behind /dev/stdout, /dev/fd/1 and the like, and behind links to them."""
    for _ in range(8):
        match = _DESCRIPTOR.fullmatch(path)
        if match is not None:
            is_ours = re.search(r"\d+", path.split("/fd/", maxsplit=1)[0]) is None or f"/{os.getpid()}/" in path
            return int(match[1]) if is_ours else None
        if not os.path.islink(path):
            return None
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return None
