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
COMPRESSIONS = tuple(dict.fromkeys(SUFFIXES.values()))


def compression_by_name(name: str) -> str:
    lowered = name.lower()
    return next((codec for suffix, codec in SUFFIXES.items() if lowered.endswith(suffix)), NONE)


# The first releases did not know these, and took the bytes of such a file for lines. So positions name them.
_NOT_ALWAYS_KNOWN = ("bzip2", "xz", "lz4")
_IN = "+"


def name_reading(encoding: str, compression: str) -> str:
    """How the text of a file was made from its bytes, as positions say it: `utf-8`, `utf-16-le`, `utf-8+bzip2`."""
    return f"{encoding}{_IN}{compression}" if compression in _NOT_ALWAYS_KNOWN else encoding


def encoding_in(reading: str) -> str:
    return reading.partition(_IN)[0]
