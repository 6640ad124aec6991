"""Reads the values of configuration keys: text from the command line, and values from YAML and Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from blizzard.core.framing import ARRAY, AUTO, CONCATENATED, LINES, MAX_KEY_BYTES, is_framing
from blizzard.core.moments import parse_moment
from blizzard.errors import ConfigError
from blizzard.schema.derived import PartitionSpec, parse_partition_by, parse_provenance
from blizzard.text.nearest import nearest
from blizzard.text.redaction import is_secret

Parser = Callable[[str, Any], Any]


# No sensible count or size is larger, and no sensible time: three hundred years.
_LARGEST = 10**15
LONGEST_S = 10**10
_SHOWN_CHARS = 60


def shown(value: Any) -> str:
    """A value for a message. A value that is endless or cannot be printed must not make the message fail."""
    try:
        text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    except ValueError:  # more digits than Python prints
        return "a number without end"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def require_plain(name: str, value: Any, *, or_list: bool) -> None:
    """Keys take texts, numbers and, with `or_list`, lists of them; never a tree."""
    items = value if or_list and isinstance(value, list | tuple) else (value,)
    for item in items:
        if not isinstance(item, str | int | float | None):
            kind = "tree" if isinstance(item, dict | list | tuple) else type(item).__name__
            raise ConfigError(f"{name} takes a text, a number{' or a list of these' if or_list else ''}, not a {kind}")
    if any(isinstance(item, int) and abs(item) >= 2**64 for item in items):
        raise ConfigError(f"{name}: the number is too large")


def text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        # Redaction does not hide short secrets.
        given = "; put it in quotes" if is_secret(name) else f", not {shown(value)}"
        raise ConfigError(f"{name} must be text{given}")
    return value


def flag(name: str, value: Any) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, not {shown(value)}")
    return word == "true"


def choice(*allowed: str) -> Parser:
    def parse(name: str, value: Any) -> str:
        if value not in allowed:
            near = nearest(value, allowed) if isinstance(value, str) else ""
            raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {shown(value)}{near}")
        return str(value)

    return parse


def framing(name: str, value: Any) -> str:
    if not isinstance(value, str) or not (value == AUTO or is_framing(value)):
        known = (
            f"{AUTO}, {LINES}, {CONCATENATED}, {ARRAY}, or {ARRAY}:KEY with a plain key of up to {MAX_KEY_BYTES} bytes"
        )
        raise ConfigError(f"{name} must be one of {known}, not {shown(value)}")
    return value


def commit_policy(name: str, value: Any) -> str:
    match = re.fullmatch(r"required|all|quorum: *[0-9]{1,4}", value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(f"{name} must be one of required, all or quorum:N, not {shown(value)}")
    return match[0].replace(" ", "")


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# The length is limited: Python reads no number of more than 4,300 digits.
_NUMBER = re.compile(r"\s*([0-9](?:_?[0-9]){0,29})\s*([A-Za-z]*)\s*")


def number(*, at_least: int, at_most: int = _LARGEST, optional: bool = False, unit_bytes: bool = False) -> Parser:
    def parse(name: str, value: Any) -> int | None:
        if optional and value in (None, "", "none", "null"):
            return None
        match = _NUMBER.fullmatch(str(value)) if isinstance(value, int | str) and value is not True else None
        unit = match.group(2).lower() if match else "?"
        if match is None or unit not in _UNITS or (unit and not unit_bytes):
            raise ConfigError(
                f"{name} must be a whole number{' of bytes, such as 128MiB' if unit_bytes else ''}, not {shown(value)}"
            )
        found = int(match.group(1)) * _UNITS[unit]
        if not at_least <= found <= at_most:
            raise ConfigError(f"{name} must be from {at_least} to {at_most}, not {shown(value)}")
        return found

    return parse


def textfile(name: str, value: Any) -> str:
    path = text(name, value)
    if not path.endswith(".prom"):
        raise ConfigError(f"{name} must end in .prom, not {shown(path)}: the textfile collector reads no other file")
    return path


def _float(value: Any) -> float:
    """The number, or -1.0, which is never in range."""
    try:
        return -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return -1.0


def seconds(name: str, value: Any) -> float | None:
    """None for zero and null: no time is set."""
    if value in (None, "", "none", "null"):
        return None
    found = _float(value)
    if not 0 <= found <= LONGEST_S:
        raise ConfigError(f"{name} must be a number of seconds from 0 to {LONGEST_S}, not {shown(value)}")
    return found or None


def ratio(name: str, value: Any) -> float | None:
    if value in (None, "", "none", "null"):
        return None
    found = _float(value)
    if not 0 <= found <= 1:
        raise ConfigError(f"{name} must be a share from 0 to 1, such as 0.01, not {shown(value)}")
    return found


def partitions(name: str, value: Any) -> tuple[PartitionSpec, ...] | None:
    if value in (None, "", "none", "null"):
        return None
    if not isinstance(value, str | list | tuple):
        raise ConfigError(f"{name} must be text or a list, not {shown(value)}")
    return parse_partition_by(value)


def provenance(name: str, value: Any) -> tuple[str, ...] | None:
    if value in (None, ""):
        return None
    if not isinstance(value, str | list | tuple):
        raise ConfigError(f"{name} must be text or a list, not {shown(value)}")
    return parse_provenance(value)


def names(name: str, value: Any) -> tuple[str, ...]:
    """One name, or several: a list, or a text with commas. A text with a `%` is one pattern, which may have commas."""
    if isinstance(value, str):
        value = _listed(value)
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) and item for item in value):
        raise ConfigError(f"{name} takes a name or a list of names, not {shown(value)}")
    return tuple(value)


_MAX_GLOBS_CHARS = 4_000  # every position holds them


def globs(name: str, value: Any) -> tuple[str, ...] | None:
    """One glob, or a list of them. Sorted: their order does not matter, and must not look like a change."""
    if value in (None, ""):
        return None
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError):  # a glob may begin with a bracket too
            value = json.loads(value)
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(item, str) and item.strip("/") for item in found):
        raise ConfigError(f"{name} takes a glob or a list of globs, not {shown(value)}")
    if sum(map(len, found)) > _MAX_GLOBS_CHARS:
        raise ConfigError(f"{name}: the globs have more than {_MAX_GLOBS_CHARS:,} characters")
    return tuple(sorted(set(found))) or None


def moment(name: str, value: Any) -> int | None:
    """Milliseconds since 1970."""
    if value in (None, "", "none", "null"):
        return None
    found = parse_moment(value) if isinstance(value, str) else None
    if found is None:
        raise ConfigError(
            f"{name} must be a date or a time from 1970 on, such as 2026-01-31 or 2026-01-31T08:00:00Z (UTC without a"
            f" zone, milliseconds at most), not {shown(value)}"
        )
    return found


def _listed(value: str) -> Any:
    if value.startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            pass  # a pattern may begin with a bracket too
    return [value] if "%" in value else [item.strip() for item in value.split(",")]
