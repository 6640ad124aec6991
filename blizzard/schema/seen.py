"""What the columns of sampled records have held. Memory grows with the columns seen, not with the records.

Pure. It only remembers: `schema/infer.py` decides what becomes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.errors import SchemaError
from blizzard.schema import MAX_DEPTH, ColumnPath, show_column
from blizzard.schema.names import fold_ascii
from blizzard.schema.time_forms import TimeForm, epoch_units, forms_of
from blizzard.schema.value_kinds import kind_of

# An object that has shown so many different keys is a map. From then on they are not kept apart.
MAX_KEYS = 5_000
_MAX_CLASHES = 20

# What a person calls the kinds of values that are one thing in JSON.
_JSON_NAMES = dict.fromkeys(("long", "large", "decimal", "double", "huge"), "number") | dict.fromkeys(
    ("date", "timestamp", "timestamp_ns", "local", "local_ns", "text"), "string"
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,24})(?:\.[0-9]{1,25})?")


@dataclass(slots=True, kw_only=True)
class TimesSeen:
    """Which forms of `schema.formats` read all values of a column so far."""

    is_possible: bool = True
    has_iso: bool = False
    forms: tuple[TimeForm, ...] | None = None  # of texts; None: none was seen
    units: frozenset[str] | None = None  # of numbers, and of numbers in texts; None: none was seen

    def see(self, value: Any, json_name: str, kind: str) -> None:
        if json_name == "number":
            self._see_number(float(value) if kind != "huge" else 0.0)
        elif json_name != "string":
            self.is_possible = False
        elif kind != "text":
            self.has_iso = True
        elif _NUMBER.fullmatch(value):
            self._see_number(float(value))
        else:
            self._keep_forms(forms_of(value) if self.forms is None else [f for f in self.forms if f.reads(value)])

    def add(self, other: TimesSeen) -> None:
        self.is_possible &= other.is_possible
        self.has_iso |= other.has_iso
        if other.units is not None:
            self._keep_units(other.units)
        if other.forms is not None:
            self._keep_forms(other.forms if self.forms is None else [f for f in self.forms if f in other.forms])

    def _see_number(self, number: float) -> None:
        self._keep_units(epoch_units(number))

    def _keep_units(self, units: frozenset[str]) -> None:
        self.units = units if self.units is None else self.units & units
        self.is_possible &= bool(self.units)

    def _keep_forms(self, forms: Iterable[TimeForm]) -> None:
        self.forms = tuple(forms)
        self.is_possible &= bool(self.forms)


@dataclass(slots=True, kw_only=True)
class Seen:
    """What one column has held so far."""

    values: int = 0
    kinds: set[str] = field(default_factory=set)
    examples: dict[str, Any] = field(default_factory=dict)  # the first value of each JSON type
    times: TimesSeen = field(default_factory=TimesSeen)
    fields: dict[str, Seen] = field(default_factory=dict)
    entries: Seen | None = None  # the values of all keys, if there were too many keys
    element: Seen | None = None
    too_deep: bool = False
    clashes: dict[tuple[str, ...], int] = field(default_factory=dict)  # spellings of one name in one object, how often

    def add(self, other: Seen) -> None:
        """The same column under another spelling."""
        self.values += other.values
        self.kinds |= other.kinds
        self.examples |= {kind: value for kind, value in other.examples.items() if kind not in self.examples}
        self.times.add(other.times)
        self.too_deep |= other.too_deep
        for spellings, count in other.clashes.items():
            self.clashes[spellings] = self.clashes.get(spellings, 0) + count
        for name, inner in other.fields.items():
            self.fields.setdefault(name, Seen()).add(inner)
        if other.entries is not None:
            self.entries = self.entries or Seen()
            self.entries.add(other.entries)
        if other.element is not None:
            self.element = self.element or Seen()
            self.element.add(other.element)

    def observe_object(self, record: Mapping[str, Any], path: ColumnPath) -> None:
        if len({fold_ascii(name) for name in record}) < len(record):
            self._note_clashes(record)
        for name, value in record.items():
            if self.entries is not None:
                self.entries.observe(value, (*path, "value"))
                continue
            seen = self.fields.get(name)
            if seen is None:
                seen = self.fields[name] = Seen()
            seen.observe(value, (*path, name))
            if path and len(self.fields) > MAX_KEYS:
                self.entries, self.fields = self.all_entries(), {}

    def all_entries(self) -> Seen:
        """The values of all keys, as if they had one."""
        together = Seen()
        for seen in (*self.fields.values(), *([] if self.entries is None else [self.entries])):
            together.add(seen)
        return together

    def observe(self, value: Any, path: ColumnPath) -> None:
        if value is None:
            return
        if len(path) > MAX_DEPTH:
            self.too_deep = True
            return
        # Once a column is plain text, nothing makes it a date again: no need to look.
        is_text = isinstance(value, str) and "text" in self.kinds and not self.times.is_possible
        try:
            kind = "text" if is_text else kind_of(value)
        except TypeError as e:
            raise SchemaError(f"{show_column(path)}: {e}") from None
        if kind == "object":
            self.observe_object(value, path)
        elif kind == "array":
            self.element = self.element or Seen()
            for item in value:
                self.element.observe(item, (*path, "element"))
        json_name = _JSON_NAMES.get(kind, kind)
        if self.times.is_possible:
            self.times.see(value, json_name, kind)
        self.values += 1
        self.kinds.add(kind)
        self.examples.setdefault(json_name, value)

    def _note_clashes(self, record: Mapping[str, Any]) -> None:
        spellings: dict[str, list[str]] = {}
        for name in record:
            spellings.setdefault(fold_ascii(name), []).append(name)
        for same in spellings.values():
            key = tuple(sorted(same))
            if len(same) > 1 and (key in self.clashes or len(self.clashes) < _MAX_CLASHES):
                self.clashes[key] = self.clashes.get(key, 0) + 1
