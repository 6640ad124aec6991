"""Secrets, taken out of every text that leaves: values that were given as one, and what a URI may carry.

A value is learned where it comes in (options, configuration, environment), so that no message has to think of it. What
prints, writes or answers calls `redact`. What was learned stays known to the end of the command, or of the process: it
has few secrets.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import quote, unquote

HIDDEN = "***"
# A shorter value is hidden only where its name stands beside it: as text it is in too many words.
_SHORTEST, _LONG = 4, 8

_SECRET_NAME = re.compile(r"(?i)secret|token|passw|private|(?:^|[._-])(?:sas|sig|pwd|key)(?:$|[._-])|apikey")
_ASSIGNED = re.compile(
    r"(?P<name>\b(?:api|(?:source\.|table\.)?storage_options|spark)\.[\w.-]+|\b(?:AWS|AZURE|GOOGLE)_\w+"
    r"|\bAccountKey|\bSharedAccessSignature)(?P<equals>\s*=\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s'\",;]+)"
)
_ALWAYS_SECRET = ("AccountKey", "SharedAccessSignature")
_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_")
_QUERY = (
    r"sig|sas|signature|token|access_token|id_token|auth|password|passwd|pwd|secret|client_secret|key|api_?key|access_key"
    r"|account_key|awsaccesskeyid|x-amz-[a-z-]+|x-goog-[a-z-]+"
)
_PARAMETER = re.compile(rf"(?i)((?:[?&;]|%3F|%26|%3B)(?:{_QUERY})(?:=|%3D))(?:(?!%26|%3B)[^&;\s'\"])+")
# A password may hold an @; a port with a path behind it is none.
_PASSWORD = re.compile(r"(:/{1,2}[^/\s:@'\"]*):(?!\d{1,5}(?:[/\s'\"]|$))[^\s'\"]*@")
_USER = re.compile(r"(?i)(?<![a-z0-9+.-])((?!abfss?:|wasbs?:)[a-z][a-z0-9+.-]*://)[^\s/@:'\"]+@")


class _Known:
    """Set anew, never changed: whoever prints meanwhile has a whole one."""

    values: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None


_known, _lock = _Known(), threading.Lock()


def is_secret(name: str) -> bool:
    """Whether the value under this name is one: a key, a storage option, a setting of Spark, a variable."""
    return _SECRET_NAME.search(name) is not None


def learn(value: object) -> None:
    """Hide this value from now on, in every form in which a message may repeat it. A tree is refused by whoever takes
    the value, and never shown; its text may have no end."""
    if not isinstance(value, str | int | float):
        return
    try:
        text = str(value)
    except ValueError:  # more digits than Python prints, or any message
        return
    if len(text) < _SHORTEST or text in _known.values:
        return
    forms = set(_forms(text))
    for part in _parts(text):
        forms.update(_forms(part))
    with _lock:
        if not forms <= _known.values:
            _known.values |= forms
            _known.pattern = _compiled(_known.values)


def learn_named(values: Mapping[str, object]) -> None:
    for name, value in values.items():
        if is_secret(name):
            learn(value)


def learn_uri(text: str) -> None:
    """What a URI holds before its last @, and the values of its query that are secrets by their place. By its structure
    and not by a pattern: a password may hold quotes and spaces."""
    scheme, found, rest = text.partition("://")
    authority, at, _ = rest.rpartition("@")
    if found and at and not scheme.lower().startswith(("abfs", "wasb")):
        learn(authority.partition(":")[2])
    for part in re.split(r"[?&;]", text)[1:]:
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(_QUERY, name, re.IGNORECASE):
            learn(value)


def learn_arguments(arguments: Sequence[str]) -> None:
    """Before they are understood: what cannot be understood is repeated in an error."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, value = _assignment(word)
        learn_uri(word if value is None else value)
        if value is not None and is_secret(name):
            learn(value)
            learn(os.path.expandvars(value))
        elif value is None and word.startswith("--") and is_secret(word):
            learn(following)


def redact_argument(word: str) -> str:
    """One word of a command, without the secret that it sets."""
    name, value = _assignment(word)
    if value and is_secret(name):
        return word.removesuffix(value) + HIDDEN
    return redact(word)


@contextmanager
def of_one_command() -> Iterator[None]:
    """What a command learns is known to the end of it, together with the secrets of the environment."""
    before = _known.values, _known.pattern
    try:
        learn_named({name: value for name, value in os.environ.items() if name.startswith(_OF_STORES)})
        yield
    finally:
        _known.values, _known.pattern = before


def redact(text: str) -> str:
    if _known.pattern is not None:
        text = _known.pattern.sub(HIDDEN, text)
    if ":/" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))
    if "=" in text or "%3D" in text or "%3d" in text:
        text = _ASSIGNED.sub(_hide_assigned, _PARAMETER.sub(rf"\1{HIDDEN}", text))
    return text


def has_secret(uri: str) -> bool:
    """Whether a URI carries a password or a signature. What it is in such a place is known by the place alone."""
    return any(pattern.search(uri) for pattern in (_PASSWORD, _USER, _PARAMETER))


def _hide_assigned(match: re.Match[str]) -> str:
    name = match["name"]
    return f"{name}{match['equals']}{HIDDEN}" if name in _ALWAYS_SECRET or is_secret(name) else match[0]


def _assignment(word: str) -> tuple[str, str | None]:
    """Name and value of `key=value`, `--set=key=value` or `--flag=value`; the value is None where there is none."""
    if word.startswith("--") and word.count("=") > 1:
        word = word.partition("=")[2]
    name, equals, value = word.partition("=")
    return name, value if equals else None


def _parts(text: str) -> Iterator[str]:
    """What of a composed secret may be told alone: the signature of a shared access token, a key inside JSON."""
    for match in re.finditer(r"(?:^|[?&;])(?:sig|AccountKey|SharedAccessSignature)=([^&;\s]+)", text):
        yield match[1]
        yield unquote(match[1])
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            inside = json.loads(text)
            yield from (str(v) for k, v in inside.items() if is_secret(k) and isinstance(v, str))


def _forms(text: str) -> Iterator[str]:
    """As it is, and as quoting for a URI, for JSON, for Python and for a shell make it."""
    if len(text) < _SHORTEST:
        return
    yield text
    yield from (quote(text), quote(text, safe=""), text.strip())
    yield from (repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    yield text.replace("'", "'\"'\"'")


def _compiled(values: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(_alternative(value) for value in sorted(values, key=len, reverse=True)))


def _alternative(value: str) -> str:
    """A short one only as a word of its own, not as a part of names."""
    return re.escape(value) if len(value) >= _LONG else rf"(?<![\w./-]){re.escape(value)}(?![\w/-])"
