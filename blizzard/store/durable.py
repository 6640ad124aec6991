"""Forces written data onto the disk. Without it a power cut may keep a commit and lose the files that it names."""

from __future__ import annotations

import os


def sync(path: str) -> None:
    """The bytes of a file, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
