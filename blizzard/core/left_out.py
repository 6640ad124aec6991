"""Files that are in the folder of a source and are not read: they match no pattern, or a filter leaves them out.

They are counted by suffix as a listing passes them, so that a person sees that they are there. Hidden names are not
counted.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.core.lists import count
from blizzard.core.patterns import COMPRESSION_SUFFIXES

_SUFFIX = re.compile(rf"\.[A-Za-z][A-Za-z0-9_-]{{0,15}}(?:\.(?:{'|'.join(COMPRESSION_SUFFIXES)}))?\Z", re.I | re.ASCII)
_NO_SUFFIX = ""
_MAX_SUFFIXES = 200  # a name per file, such as app.log.x1, must not fill the memory
_SHOWN = 3
# Kinds that hold no JSON records, whatever the settings.
_OTHER_FORMATS = {".csv", ".tsv", ".parquet", ".avro", ".orc", ".xml", ".xlsx", ".zip", ".tar", ".tgz", ".arrow"}


def suffix_of(name: str) -> str:
    """`.csv`, `.log.gz`; empty if the name has none that a person would know a kind of file by."""
    found = _SUFFIX.search(name.rsplit("/", 1)[-1])
    return found[0] if found is not None and found.start() > 0 else _NO_SUFFIX


def _split(suffix: str) -> tuple[str, str]:
    """`.log.gz` is `.log` and `.gz`."""
    base, dot, ending = suffix.rpartition(".")
    is_compressed = bool(base) and ending.lower() in COMPRESSION_SUFFIXES
    return (base, dot + ending) if is_compressed else (suffix, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    by_suffix: Mapping[str, int] = field(default_factory=dict)  # of those that match no pattern; most first
    filtered: int = 0  # they match the pattern, and source.ignore or source.modified_… leaves them out

    @property
    def unmatched(self) -> int:
        return sum(self.by_suffix.values())

    @property
    def kinds(self) -> str:
        """`12 .log.gz, 5 .csv`."""
        shown = list(self.by_suffix.items())[:_SHOWN]
        more = self.unmatched - sum(number for _, number in shown)
        kinds = [f"{number:,} {suffix or 'without a suffix'}" for suffix, number in shown]
        return ", ".join([*kinds, *([f"{more:,} of other kinds"] if more else [])])

    @property
    def sentence(self) -> str:
        return (
            f"{count(self.unmatched, 'file')} {'matches' if self.unmatched == 1 else 'match'} no pattern: {self.kinds}"
        )

    @property
    def way_to_read(self) -> str:
        """The setting that reads the commonest kind, compressed or not: `.log` and `.log.gz` are one kind."""
        by_kind = Counter[str]()
        for suffix, number in self.by_suffix.items():
            by_kind[_split(suffix)[0]] += number
        readable = {kind: number for kind, number in by_kind.items() if kind.lower() not in _OTHER_FORMATS}
        if by_kind and not readable:
            return f"blizzard reads JSON records, and no {' and no '.join(list(by_kind)[:_SHOWN])}"
        kind = max(readable, key=lambda name: readable[name]) if readable else _NO_SUFFIX
        endings = sorted(ending for base, ending in map(_split, self.by_suffix) if base == kind)
        suffix = kind + (endings[0] if len(endings) == 1 else f"{{{','.join(endings)}}}" if endings else "")
        what = f"the {suffix}" if suffix else "them"
        return f"to read {what}: --set {shlex.quote(f'source.pattern=**/*{suffix}')}"

    @property
    def shown(self) -> dict[str, Any]:
        """For JSON."""
        return {"unmatched_files": self.unmatched, "unmatched_by_suffix": dict(self.by_suffix)} | {
            "filtered_files": self.filtered
        }


NONE_LEFT_OUT = LeftOut()


class LeftOutCount:
    """Counts while a source is listed."""

    def __init__(self) -> None:
        self._by_suffix = Counter[str]()
        self.filtered = 0

    def add_unmatched(self, name: str) -> None:
        suffix = suffix_of(name)
        if suffix not in self._by_suffix and len(self._by_suffix) >= _MAX_SUFFIXES:
            suffix = _NO_SUFFIX
        self._by_suffix[suffix] += 1

    @property
    def total(self) -> LeftOut:
        ordered = sorted(self._by_suffix.items(), key=lambda item: (-item[1], item[0]))
        return LeftOut(by_suffix=dict(ordered), filtered=self.filtered)
