"""The compressions that source files may have, and the endings that their names have then.

A name never decides how a file is read: its first bytes do.
"""

from __future__ import annotations

NONE = "none"
SUFFIXES = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bzip2",
    ".xz": "xz",
    ".lz4": "lz4",
}
COMPRESSION_SUFFIXES = tuple(SUFFIXES)
COMPRESSIONS = tuple(dict.fromkeys(SUFFIXES.values()))


def compression_by_name(name: str) -> str:
    lowered = name.lower()
    return next((codec for suffix, codec in SUFFIXES.items() if lowered.endswith(suffix)), NONE)
