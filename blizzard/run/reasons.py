"""Why records are bad, in lines for people: each reason with its first record and the settings that would take it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blizzard.core.kinds import LineKind
from blizzard.core.lists import count
from blizzard.core.reasons import Met, Reason, Reasons, Remedy, advice_for, explain

_HINTS, _COERCE = "schema.hints", "schema.coerce."
_NO_SETTING = "no setting takes them: fix or move the files"
_IN_TRANSFORM = "the transform fails for them: let it make null or another value of such records, or leave them out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Settings, `key=value`, that together would take such records; and, where the schema was given, how it would have
    to declare a column. `for_new_table`: the table that is there keeps its types, so it would have to be another."""

    settings: tuple[str, ...]
    declare: str | None = None
    for_new_table: bool = False

    def __str__(self) -> str:
        options = [f"--set {shlex.quote(setting)}" for setting in self.settings]
        declared = [f"--schema with {self.declare}"] if self.declare else []
        return " ".join([*declared, *options]) + (" for a new table" if self.for_new_table else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisor:
    """What is decided already. `gives_schema`: hints do nothing beside a given schema. `has_table`: there was a table
    before the run, and it keeps its types."""

    rescues: bool = False
    gives_schema: bool = False
    has_table: bool = False

    def remedies(self, reason: Reason) -> list[Advice]:
        """The best first; none if only the source can change it."""
        return [self._fitting(remedy) for remedy in advice_for(reason, rescues=self.rescues)]

    def _fitting(self, remedy: Remedy) -> Advice:
        settings, is_late = remedy.settings, remedy.for_new_table and self.has_table
        if not self.gives_schema:
            return Advice(settings=settings, for_new_table=is_late)
        hints = [setting.removeprefix(f"{_HINTS}=") for setting in settings if setting.startswith(f"{_HINTS}=")]
        others = tuple(setting for setting in settings if not setting.startswith(f"{_HINTS}="))
        return Advice(settings=others, declare=", ".join(hints) or None, for_new_table=is_late)

    def lines(self, reasons: Reasons, at_most: int) -> list[str]:
        """Two lines for each of the commonest reasons; then the best of all settings at once, if there are several."""
        lines, best = [], []
        for reason, met in reasons.commonest(at_most):
            remedies = self.remedies(reason)
            best += [remedy for remedy in remedies if not remedy.for_new_table][:1]
            lines += [
                f"  {self.sentence(reason, met)}",
                f"    {' or '.join(map(str, remedies)) or without_setting(reason.kind)}",
            ]
        return [*lines, f"  All at once: {together(best)}"] if len(best) > 1 else lines

    @staticmethod
    def sentence(reason: Reason, met: Met) -> str:
        return f"{count(met.records, 'record')}: {explain(reason)} (the first: {met.path} line {met.line})"


def without_setting(kind: str) -> str:
    """What to do about records of this kind that no setting takes."""
    return _IN_TRANSFORM if kind == LineKind.TRANSFORM else _NO_SETTING


def together(advice: Sequence[Advice]) -> Advice:
    """One setting for each key: hints and coercions of one column are joined, of others the last one holds."""
    joined: dict[str, list[str]] = {}
    for key, value in _pairs(advice):
        values = joined.setdefault(key, [])
        if key != _HINTS and not key.startswith(_COERCE):
            values.clear()
        parts = value.split(",") if key.startswith(_COERCE) else [value]
        values += [part for part in parts if part not in values]
    settings = (f"{key}={(', ' if key == _HINTS else ',').join(values)}" for key, values in joined.items())
    declared = dict.fromkeys(one.declare for one in advice if one.declare is not None)
    return Advice(settings=tuple(settings), declare=", ".join(declared) or None)


def _pairs(advice: Iterable[Advice]) -> Iterable[tuple[str, str]]:
    for one in advice:
        for setting in one.settings:
            key, _, value = setting.partition("=")
            yield key, value
