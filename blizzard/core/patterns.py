"""The default patterns of a source, and the names that positions have for them.

A default pattern never changes once a position has its name: a mark would pass files that nobody has read. A wider
default gets another name, and only new pipelines get it.
"""

from __future__ import annotations

# The second default is made of these. So they never change, even if a compression is added.
DATA_SUFFIXES = ("json", "ndjson", "jsonl")
COMPRESSION_SUFFIXES = ("gz", "zst", "zstd", "bz2", "xz", "lz4")

# The default of the first releases. Its name in positions is also the word that people write.
FIRST_DEFAULT = "default"
FIRST_DEFAULT_GLOB = "**/*.{ndjson,jsonl}{,.gz,.zst}"

# The default of new pipelines, in any letter case. Older releases take this name for a glob: it has an open brace, so
# that they think that it may match every file and refuse a second pipeline over the same folder; and it ends with a
# slash, so that it matches no file.
DEFAULT = "{default-2/"
DEFAULT_GLOB = f"**/*.{{{','.join(DATA_SUFFIXES)}}}{{,.{',.'.join(COMPRESSION_SUFFIXES)}}}"

DEFAULTS = (FIRST_DEFAULT, DEFAULT)
_WORDS = {FIRST_DEFAULT: "default", DEFAULT: "default-2"}
_GLOBS = {FIRST_DEFAULT: FIRST_DEFAULT_GLOB, DEFAULT: DEFAULT_GLOB}


def pattern_of(text: str) -> str:
    """What a position says for a pattern as a person writes it: a glob, `default` or `default-2`."""
    return next((pattern for pattern, word in _WORDS.items() if word == text), text)


def word_for(pattern: str) -> str:
    """The opposite: what a person would write."""
    return _WORDS.get(pattern, pattern)


def glob_of(pattern: str) -> str:
    """The glob itself, for a default too."""
    return _GLOBS.get(pattern, pattern)


def ignores_case(pattern: str) -> bool:
    return pattern == DEFAULT
