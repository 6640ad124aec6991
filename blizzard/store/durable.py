"""Putting what was written on the disk itself. Without it a power cut may keep a commit and lose what it names."""

from __future__ import annotations

import os


def sync(path: str) -> None:
    """A file's bytes, or a folder's names."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
