"""Takes secrets out of every text that leaves: values that were given as secrets, and secrets in URIs.

A value is learned where it comes in (options, configuration, environment), so that no message has to care. Code that
prints, writes or answers calls `redact`. A learned value stays known to the end of the command or of the process; there
are few of them.
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
# A shorter value is hidden only next to its name: as text it would be in too many words.
_SHORTEST, _LONG = 4, 8

_SECRET_NAME = re.compile(r"(?i)secret|token|passw|private|(?:^|[._-])(?:sas|sig|pwd|key)(?:$|[._-])|apikey")
_ASSIGNED = re.compile(
    r"(?P<name>\b(?:api|(?:source\.|table\.)?storage_options|spark)\.[\w.-]+|\b(?:AWS|AZURE|GOOGLE)_\w+"
    r"|\bAccountKey|\bSharedAccessSignature)(?P<equals>\s*=\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s'\",;]+)"
)
_ALWAYS_SECRET = ("AccountKey", "SharedAccessSignature")
_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_", "PGPASSWORD")
_QUERY = (
    r"sig|sas|signature|token|access_token|id_token|auth|(?:ssl)?password|passwd|pwd|secret|client_secret|key|api_?key|access_key"
    r"|account_key|awsaccesskeyid|x-amz-[a-z-]+|x-goog-[a-z-]+"
)
_PARAMETER = re.compile(rf"(?i)((?:[?&;]|%3F|%26|%3B)(?:{_QUERY})(?:=|%3D))(?:(?!%26|%3B)[^&;\s'\"])+")
# A password may have an @ in it. A port with a path after it is not a password.
_PASSWORD = re.compile(r"(:/{1,2}[^/\s:@'\"]*):(?!\d{1,5}(?:[/\s'\"]|$))[^\s'\"]*@")
_USER = re.compile(r"(?i)(?<![a-z0-9+.-])((?!abfss?:|wasbs?:)[a-z][a-z0-9+.-]*://)[^\s/@:'\"]+@")


class _Known:
    """The values are replaced, never changed: another thread that prints meanwhile sees a complete set."""

    values: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None


_known, _lock = _Known(), threading.Lock()


def is_secret(name: str) -> bool:
    """Whether the value under this name (a key, a storage option, a Spark setting, a variable) is a secret."""
    return _SECRET_NAME.search(name) is not None


def learn(value: object) -> None:
    """Hide this value from now on, in every form that a message may show. A list or tree is not learned: its text may
    be endless, and where a secret is expected it is refused without being shown."""
    if not isinstance(value, str | int | float):
        return
    try:
        text = str(value)
    except ValueError:  # more digits than Python prints
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
    """Learn the password before the last @ of a URI, and the values of its query that are secrets by their name. The
    URI is split and not matched by a pattern: a password may have quotes and spaces in it."""
    scheme, found, rest = text.partition("://")
    authority, at, _ = rest.rpartition("@")
    if found and at and not scheme.lower().startswith(("abfs", "wasb")):
        password = authority.partition(":")[2]
        learn(password)
        learn(unquote(password))  # as a driver of a database shows it
    for part in re.split(r"[?&;]", text)[1:]:
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(_QUERY, name, re.IGNORECASE):
            learn(value)


def learn_arguments(arguments: Sequence[str]) -> None:
    """Called before the arguments are parsed: an error of the parser may repeat them."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        name, value = _assignment(word)
        learn_uri(word if value is None or "://" in name else value)  # the = may be in the query of a URI
        if value is not None and is_secret(name):
            learn(value)
            learn(os.path.expandvars(value))
        elif value is None and word.startswith("--") and is_secret(word):
            learn(following)


def redact_argument(word: str) -> str:
    """One word of a command line, without the secret that it sets."""
    name, value = _assignment(word)
    if value and is_secret(name):
        return word.removesuffix(value) + HIDDEN
    return redact(word)


@contextmanager
def of_one_command() -> Iterator[None]:
    """What a command learns is forgotten at its end. The secrets of the environment are learned first."""
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
    """Whether a URI has a password or a signature in it. The place alone decides, not the value."""
    return any(pattern.search(uri) for pattern in (_PASSWORD, _USER, _PARAMETER))


def _hide_assigned(match: re.Match[str]) -> str:
    name = match["name"]
    return f"{name}{match['equals']}{HIDDEN}" if name in _ALWAYS_SECRET or is_secret(name) else match[0]


def _assignment(word: str) -> tuple[str, str | None]:
    """Name and value of `key=value`, `--set=key=value` or `--flag=value`. The value is None if there is no `=`."""
    if word.startswith("--") and word.count("=") > 1:
        word = word.partition("=")[2]
    name, equals, value = word.partition("=")
    return name, value if equals else None


def _parts(text: str) -> Iterator[str]:
    """Parts of a secret that a message may show alone: the signature of a shared access token, a key inside JSON."""
    for match in re.finditer(r"(?:^|[?&;])(?:sig|AccountKey|SharedAccessSignature)=([^&;\s]+)", text):
        yield match[1]
        yield unquote(match[1])
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            inside = json.loads(text)
            yield from (str(v) for k, v in inside.items() if is_secret(k) and isinstance(v, str))


def _forms(text: str) -> Iterator[str]:
    """The text as it is, and as it looks quoted for a URI, for JSON, for Python and for a shell."""
    if len(text) < _SHORTEST:
        return
    yield text
    yield from (quote(text), quote(text, safe=""), text.strip())
    yield from (repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    yield text.replace("'", "'\"'\"'")


def _compiled(values: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(_alternative(value) for value in sorted(values, key=len, reverse=True)))


def _alternative(value: str) -> str:
    """A short value is matched only as a whole word, not inside names."""
    return re.escape(value) if len(value) >= _LONG else rf"(?<![\w./-]){re.escape(value)}(?![\w/-])"
