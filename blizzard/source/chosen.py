"""Decides which files of a folder belong to a source: by name (pattern, `source.ignore`) and by time of last change.

All listings ask here. Names that begin with `_` or `.` never belong to it, at any level, unless the source is that one
file; so no name with `..` in it does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from wcmatch import glob

from blizzard.core.kinds import Kind
from blizzard.core.patterns import COMPRESSION_SUFFIXES, DATA_SUFFIXES, DEFAULT, FIRST_DEFAULT
from blizzard.core.types import Filters, SourceFile
from blizzard.errors import ConfigError
from blizzard.source.uri import SourceLocation
from blizzard.store.uri import is_local

NS_PER_MS = 1_000_000
_FLAGS = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
# These say the same as the globs of the default patterns, and are five times faster.
_FAST = {
    FIRST_DEFAULT: re.compile(r"(?s:.*)\.(?:ndjson|jsonl)(?:\.(?:gz|zst))?\Z"),
    DEFAULT: re.compile(
        rf"(?s:.*)\.(?:{'|'.join(DATA_SUFFIXES)})(?:\.(?:{'|'.join(COMPRESSION_SUFFIXES)}))?\Z",
        re.IGNORECASE | re.ASCII,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One choice of files."""

    pattern: re.Pattern[str]
    ignored: re.Pattern[str] | None
    filters: Filters

    def takes_name(self, name: str) -> bool:
        return self.pattern.match(name) is not None and not self.ignores(name)

    def ignores(self, name: str) -> bool:
        return self.ignored is not None and self.ignored.match(name) is not None

    def takes_time(self, modified_ms: int) -> bool:
        after_ms, before_ms = self.filters.modified_after_ms, self.filters.modified_before_ms
        return (after_ms is None or modified_ms >= after_ms) and (before_ms is None or modified_ms < before_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The files that one of the rules takes. There is one rule, unless two choices are compared."""

    rules: tuple[_Rule, ...]
    only: str | None
    is_local: bool

    def is_hidden(self, name: str) -> bool:
        """Some stores list an object for a folder. Its name ends with a slash."""
        if name.endswith("/"):
            return True
        return name != self.only and (name[:1] in "_." or "/_" in name or "/." in name)

    def matches(self, name: str) -> bool:
        """Whether a pattern matches the name. A filter may still leave it out."""
        return not self.is_hidden(name) and any(rule.pattern.match(name) is not None for rule in self.rules)

    def takes_name(self, name: str) -> bool:
        """Whether a file of this name belongs to the source, if its time does."""
        return not self.is_hidden(name) and any(rule.takes_name(name) for rule in self.rules)

    def ignores_folder(self, path: str) -> bool:
        return all(rule.ignores(f"{path}/") for rule in self.rules)

    @property
    def has_times(self) -> bool:
        """Whether the time of a file matters."""
        times = ((rule.filters.modified_after_ms, rule.filters.modified_before_ms) for rule in self.rules)
        return any(pair != (None, None) for pair in times)

    def takes(self, file: SourceFile) -> bool:
        """Whether the file belongs to the source. On local disk its time is not `seen_ms`, which moves when a file is
        renamed or its rights change."""
        modified_ms = int(file.etag) // NS_PER_MS if self.is_local else file.seen_ms
        return self.takes_at(file.path, modified_ms)

    def takes_at(self, name: str, modified_ms: int) -> bool:
        return not self.is_hidden(name) and any(
            rule.takes_name(name) and rule.takes_time(modified_ms) for rule in self.rules
        )


def chosen_by(source: SourceLocation, *others: SourceLocation) -> Chosen:
    """What the source chooses; and what others at the same place choose."""
    rules = (_rule(one.identity.pattern, one.filters) for one in (source, *others))
    return Chosen(rules=tuple(rules), only=source.only, is_local=is_local(source.root))


def _rule(pattern: str, filters: Filters) -> _Rule:
    ignored = compile_ignored(filters.ignore) if filters.ignore else None
    return _Rule(pattern=compile_pattern(pattern), ignored=ignored, filters=filters)


@lru_cache(maxsize=8)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A glob over names relative to the root (`**` crosses folders, `{a,b}` is either), or the name of a default."""
    return _FAST.get(pattern) or re.compile("|".join(_regexes(pattern, _FLAGS, "source.pattern")))


@lru_cache(maxsize=8)
def compile_ignored(globs: tuple[str, ...]) -> re.Pattern[str]:
    """Globs of names to leave out. Without a slash, a glob is about the name of a file in any folder. With one at its
    end it is about a folder, and all that is in it."""
    regexes = []
    for text in globs:
        folder = text.rstrip("/")
        below = f"{folder}/**" if "/" in folder else f"**/{folder}/**"
        regexes += _regexes(below if text.endswith("/") else text, _FLAGS | glob.MATCHBASE, "source.ignore")
    return re.compile("|".join(regexes))


def _regexes(text: str, flags: int, key: str) -> list[str]:
    try:
        positive, negative = glob.translate(text, flags=flags)
    except Exception as e:
        raise ConfigError(f"{key} {text!r} is not a glob: {e}", kind=Kind.USAGE) from e
    if negative or not positive:
        raise ConfigError(f"{key} {text!r} is not a glob", kind=Kind.USAGE)
    return [f"(?:{regex})" for regex in positive]
