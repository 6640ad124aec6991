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
from blizzard.core.patterns import COMPRESSION_SUFFIXES, DATA_SUFFIXES, glob_of, ignores_case
from blizzard.core.types import Filters, SourceFile
from blizzard.errors import ConfigError
from blizzard.source.uri import SourceLocation
from blizzard.store.uri import is_local

_FLAGS = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
# Says the same as the glob of the default pattern, and is several times faster.
_DEFAULT = re.compile(
    rf"(?s:.*)\.(?:{'|'.join(DATA_SUFFIXES)})(?:\.(?:{'|'.join(COMPRESSION_SUFFIXES)}))?\Z", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    pattern: re.Pattern[str]
    ignored: re.Pattern[str] | None
    filters: Filters
    only: str | None
    is_local: bool

    def matches(self, name: str) -> bool:
        """Whether the pattern takes a file of this name, if it is not hidden."""
        return not self.is_hidden(name) and self.pattern.match(name) is not None

    def is_hidden(self, name: str) -> bool:
        """Some stores list an object for a folder. Its name ends with a slash."""
        if name.endswith("/"):
            return True
        return name != self.only and (name[:1] in "_." or "/_" in name or "/." in name)

    def ignores(self, name: str) -> bool:
        return self.ignored is not None and self.ignored.match(name) is not None

    def is_in_time(self, modified_ms: int) -> bool:
        after_ms, before_ms = self.filters.modified_after_ms, self.filters.modified_before_ms
        return (after_ms is None or modified_ms >= after_ms) and (before_ms is None or modified_ms < before_ms)

    def takes(self, file: SourceFile) -> bool:
        """Whether the file belongs to the source."""
        return self.matches(file.path) and not self.ignores(file.path) and self.is_in_time(self.modified_ms(file))

    def modified_ms(self, file: SourceFile) -> int:
        """On local disk not `seen_ms`, which moves when a file is renamed or its rights change."""
        return int(file.etag) // 1_000_000 if self.is_local else file.seen_ms


def chosen_by(source: SourceLocation) -> Chosen:
    return Chosen(
        pattern=compile_pattern(source.identity.pattern),
        ignored=compile_ignored(source.filters.ignore) if source.filters.ignore else None,
        filters=source.filters,
        only=source.only,
        is_local=is_local(source.root),
    )


@lru_cache(maxsize=8)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A glob over names relative to the root (`**` crosses folders, `{a,b}` is either), or the name of a default."""
    if ignores_case(pattern):
        return _DEFAULT
    return re.compile("|".join(_regexes(glob_of(pattern), _FLAGS, "source.pattern")))


@lru_cache(maxsize=8)
def compile_ignored(globs: tuple[str, ...]) -> re.Pattern[str]:
    """Globs of names to leave out. Without a slash, a glob is about the name of a file in any folder. With one at its
    end it is about a folder, and all that is in it."""
    regexes = []
    for text in globs:
        folder = text.rstrip("/") if text.endswith("/") else None
        if folder is not None:
            text = f"{folder}/**" if "/" in folder else f"**/{folder}/**"
        regexes += _regexes(text, _FLAGS | glob.MATCHBASE, "source.ignore")
    return re.compile("|".join(regexes))


def _regexes(text: str, flags: int, key: str) -> list[str]:
    try:
        positive, negative = glob.translate(text, flags=flags)
    except Exception as e:
        raise ConfigError(f"{key} {text!r} is not a glob: {e}", kind=Kind.USAGE) from e
    if negative or not positive:
        raise ConfigError(f"{key} {text!r} is not a glob", kind=Kind.USAGE)
    return [f"(?:{regex})" for regex in positive]
