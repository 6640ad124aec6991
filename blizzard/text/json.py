"""JSON for people and scripts: valid, without secrets, and without characters that control a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson

from blizzard.text.redaction import redact


def json_text(value: Any, *, indented: bool = False, verbatim: Sequence[str] = ()) -> str:
    """The value as JSON, without secrets. Fields in `verbatim` are the user's data and stay as they are.

    JSON itself escapes only the first 32 characters. A terminal obeys more of them, so they are escaped too.
    """
    options = orjson.OPT_INDENT_2 if indented else 0
    return printable_json(orjson.dumps(_cleaned(value, frozenset(verbatim)), option=options).decode())


def printable_json(text: str) -> str:
    """The same JSON, with an escape for every character that may control a terminal."""
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    """Only strings can hold such characters, and there an escape means the same."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def _cleaned(value: Any, verbatim: frozenset[str], *, is_data: bool = False) -> Any:
    match value:
        case str():
            return _whole(value if is_data else redact(value))
        case dict():
            return {
                _cleaned(name, verbatim): _cleaned(of_it, verbatim, is_data=is_data or name in verbatim)
                for name, of_it in value.items()
            }
        case list() | tuple():
            return [_cleaned(item, verbatim, is_data=is_data) for item in value]
        case _:
            return value


def _whole(text: str) -> str:
    """Names may hold bytes that are not UTF-8. JSON must be written all the same."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
