"""Deletes a local file only if it is still the version that was looked at.

The file is first renamed to a hidden `.NAME.….aside`: whoever writes under the name from then on makes another file.
Then it is looked at again, and deleted or put back. If the process dies in between, the next run's listing finds the
hidden file, and `finish` deletes it, puts it back, or says what a person has to do.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress

from blizzard.core.types import SourceFile
from blizzard.store.durable import sync
from blizzard.store.files import FileChanged

# The name, a digest of the version to delete, and a random part. Older releases had no digest.
_ASIDE = re.compile(r"\.(.+?)\.([0-9a-f]{16})?[0-9a-f]{8}\.aside", re.DOTALL)


def name_before(aside: str) -> str | None:
    """The path of a file before it was taken aside; None if the name is not one of ours."""
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
        raise FileChanged(f"it was written twice meanwhile; its first content is now in {aside}") from None
    raise FileChanged("the file changed after it was looked at")


def finish(aside: str) -> str | None:
    """Finish the deletion of a process that died. Returns a sentence if a person has to look at it, else None."""
    path = name_before(aside)
    match = _ASIDE.fullmatch(os.path.basename(aside))
    if path is None or match is None:
        return None
    try:
        # After an interrupted put-back one file has both names.
        if _digest(_version_of(aside)) == match[2] or _is_same(aside, path):
            with suppress(FileNotFoundError):
                os.unlink(aside)
            return None
        _put_back(aside, path)
    except FileExistsError:
        return (
            f"{path} was written twice while blizzard deleted an older version of it. Its first content is in {aside}"
            f" and is not ingested. Give that file a new name, and it is ingested; or delete it"
        )
    except FileNotFoundError:
        return None  # another process was faster
    except OSError as e:
        return f"{aside} was {path} and cannot be put back ({e.strerror}). It is not ingested. Move it yourself"
    return None


def _put_back(aside: str, path: str) -> None:
    """Raises FileExistsError if there is a new file of that name."""
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
