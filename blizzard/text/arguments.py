"""What a message says to a caller from Python: arguments and functions where it has flags and commands.

Messages are written once, in the words of the command line. This is the only place that knows both languages. A command
that has no function stays as it is, and so does a flag that is no argument. A file name that looks like a flag
(` --table `) is taken for one: that changes how the name is shown, and nothing else.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

# Flags that take a value, and flags that do not, by the functions that have an argument for them. tests/text holds them
# against the functions.
_PLACE = ("table", "target", "config")
_READ = ("source", "pipeline", "schema", "infer", "hints", "variant", "committer", "start-from", "adopt", "reads-again")
_CHOSEN = (*_PLACE, "quarantine", "pipeline", "sequence", "file", "kind")
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "run": ("table", "config", *_READ, "max-batches", "accept-quarantine-loss"),
    "plan": (*_PLACE, *_READ, "validate", "records"),
    "status": (*_PLACE, "source", "pattern", "explain"),
    "audit": (*_PLACE, "source", "pipeline", "no-rows"),
    "files": (*_PLACE, "pipeline"),
    "checkpoint rollback": (
        *(*_PLACE, "source", "pipeline", "committer"),
        *("to", "with-schema", "dry-run", "accept-quarantine-loss"),
    ),
    "dlq list": (*_CHOSEN, "orphans"),
    "dlq show": (*_CHOSEN, "orphans", "limit"),
    "dlq export": (*_CHOSEN, "orphans", "out", "format", "force"),
    "dlq replay": (*_CHOSEN, "source", "committer", "accept-quarantine-loss"),
    "dlq purge": (*_CHOSEN, "orphans", "older-than", "all"),
}
NAMES = {"run": "ingest", "checkpoint rollback": "rollback", "dlq list": "quarantine"}
_SWITCHES = {"infer", "variant", "adopt", "reads-again", "accept-quarantine-loss", "validate", "explain", "no-rows"}
_SWITCHES |= {"with-schema", "dry-run", "orphans", "force", "all"}
_KNOWN = {flag for flags in FUNCTIONS.values() for flag in flags} | {"set"}
# Of commands that have no function: a value follows these too.
_VALUES = (_KNOWN - _SWITCHES) | {"from-record", "in", "table-id", "below", "from-mirror", "reason"}
# After a flag that is only mentioned the sentence goes on with one of these.
PROSE = frozenset(("and", "as", "at", "if", "is", "must", "name", "or", "out", "say", "takes", "to", "with", "goes"))

_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s()'\"])+?(?=[.,:;)]*(?:\s|$))"
# Not the beginning of a name, such as --table.json.
_FLAG = r"--(?P<flag>[a-z][a-z0-9-]*)(?![\w/-]|\.\w)"
_OPTION = re.compile(rf"{_FLAG}(?:[= ](?P<value>(?!--){_VALUE}))?")
_COMMAND = re.compile(r"\bblizzard (?P<words>(?:checkpoint|dlq|schema) [a-z]+|[a-z]+(?:-[a-z]+)*)")
_START = re.compile(rf"{_COMMAND.pattern}|(?<![\w/-]){_FLAG}")
_PLACEHOLDER = re.compile(r"[A-Z]+(?:#[A-Z]+)?|\d+|…")


def in_python(text: str) -> str:
    """The same message for a caller from Python."""
    parts, at = [], 0
    while (found := _START.search(text, at)) is not None:
        parts.append(text[at : found.start()])
        words = found["words"]
        options, at = _options(text, found.start() if words is None else found.end(), is_command=words is not None)
        said = text[found.start() : at]
        parts.append(_call(words, options, said) if words is not None else _arguments(options, said))
    return "".join([*parts, text[at:]])


def _options(text: str, at: int, *, is_command: bool) -> tuple[list[tuple[str, str | None]], int]:
    """Flags and values that follow one another, and where they end."""
    options: list[tuple[str, str | None]] = []
    while (found := _OPTION.match(text, at + (text[at : at + 1] == " "))) is not None:
        flag, value = found["flag"], found["value"]
        if value is not None and not _is_value(flag, value, is_command=is_command):
            value = None
        options.append((flag, value))
        at = found.end() if value is not None else found.end("flag")
        if not is_command and flag not in _KNOWN:
            break
    return options, at


def _is_value(flag: str, value: str, *, is_command: bool) -> bool:
    if flag == "set":
        return "=" in value
    return flag in _VALUES and (is_command or value not in PROSE)


def _arguments(options: Iterable[tuple[str, str | None]], said: str) -> str:
    options = list(options)
    if any(flag not in _KNOWN or (flag == "set" and value is None) for flag, value in options):
        return said
    return ", ".join(_shown(options))


def _call(words: str, options: list[tuple[str, str | None]], said: str) -> str:
    flags = FUNCTIONS.get(words)
    options = [(flag, value) for flag, value in options if flag not in ("yes", "json")]
    if flags is None or any(flag not in (*flags, "set") for flag, _ in options):
        return said
    if not words.startswith("dlq "):
        return f"blizzard.{NAMES.get(words, words)}({', '.join(['…', *_shown(options)])})"
    chosen = [option for option in options if option[0] in (*_CHOSEN, "orphans", "set")]
    call = f"blizzard.quarantine({', '.join(['…', *_shown(chosen)])})"
    others = [option for option in options if option not in chosen]
    method = words.removeprefix("dlq ")
    return call if method == "list" else f"{call}.{method}({', '.join(_shown(others)) or '…'})"


def _shown(options: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    settings: dict[str, str] = {}
    for flag, value in options:
        if flag == "set" and value is not None:
            key, _, setting = _unquoted(value).partition("=")
            settings[key] = _literal(setting)
        elif flag in _SWITCHES:
            yield f"{flag.replace('-', '_')}=True"
        else:
            yield f"{flag.replace('-', '_')}={'' if value is None else _text(_unquoted(value))}"
    if settings:
        yield f"options={{{', '.join(f'{_text(key)}: {value}' for key, value in settings.items())}}}"


def _text(plain: str) -> str:
    """A placeholder or a number stays bare."""
    return plain if _PLACEHOLDER.fullmatch(plain) else json.dumps(plain, ensure_ascii=False)


def _literal(setting: str) -> str:
    """Of a configuration key: a number, a list or true as they are in Python."""
    try:
        parsed: Any = json.loads(setting)
    except ValueError:
        return _text(setting)
    return repr(parsed) if not isinstance(parsed, str) else _text(setting)


def _unquoted(value: str) -> str:
    try:
        return "".join(shlex.split(value)[:1])
    except ValueError:
        return value
