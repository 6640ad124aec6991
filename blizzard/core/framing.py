"""How the records of a file lie in it, by name. What is not named is one record a line.

The name is part of the position: a count of records means nothing without it. So a name never changes its meaning.
"""

from __future__ import annotations

LINES = "lines"
CONCATENATED = "concatenated"
ARRAY = "array"
AUTO = "auto"  # a setting only: every file is read with one of the others
UTF8 = "utf-8"
# Names of keys are part of positions and ledgers, which must stay small.
MAX_KEY_BYTES = 100
_WITH_KEY = f"{ARRAY}:"


def key_of(framing: str) -> str | None:
    """The key of `array:KEY`."""
    return framing[len(_WITH_KEY) :] if framing.startswith(_WITH_KEY) else None


def with_key(key: str) -> str:
    return _WITH_KEY + key


def is_framing(text: str) -> bool:
    """Whether it names how records lie. `auto` does not."""
    key = key_of(text)
    if key is None:
        return text in (LINES, CONCATENATED, ARRAY)
    return 0 < len(key.encode(errors="replace")) <= MAX_KEY_BYTES and key.isprintable() and not set(key) & {'"', "\\"}


def framing_of_pipeline(configured: str | None, recorded: str | None) -> str:
    """The setting for files that are not begun. `recorded` is what the pipeline's position says; None: it has none."""
    return configured or recorded or AUTO
