"""Why records are bad, in lines for people: each reason with its first record and the settings that would take it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blizzard.core.lists import count
from blizzard.core.reasons import Met, Reason, Reasons, advice_for, explain

_HINTS, _COERCE = "schema.hints", "schema.coerce."
NO_SETTING = "no setting takes them: fix or move the files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Settings, `key=value`, that together would take such records; and, where the schema was given, how it would have
    to declare a column."""

    settings: tuple[str, ...]
    declare: str | None = None

    def __str__(self) -> str:
        options = [f"--set {shlex.quote(setting)}" for setting in self.settings]
        return " ".join([*([f"--schema with {self.declare}"] if self.declare else []), *options])


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisor:
    """What is set already. `gives_schema`: hints do nothing beside a given schema."""

    rescues: bool = False
    gives_schema: bool = False

    def remedies(self, reason: Reason) -> list[Advice]:
        """The best first; none if only the source can change it."""
        return [self._fitting(remedy.settings) for remedy in advice_for(reason, rescues=self.rescues)]

    def _fitting(self, settings: tuple[str, ...]) -> Advice:
        if not self.gives_schema:
            return Advice(settings=settings)
        hints = [setting.removeprefix(f"{_HINTS}=") for setting in settings if setting.startswith(f"{_HINTS}=")]
        others = tuple(setting for setting in settings if not setting.startswith(f"{_HINTS}="))
        return Advice(settings=others, declare=", ".join(hints) or None)

    def lines(self, reasons: Reasons, at_most: int) -> list[str]:
        """Two lines for each of the commonest reasons; then the best of all settings at once, if there are several."""
        lines, best = [], []
        for reason, met in reasons.commonest(at_most):
            remedies = self.remedies(reason)
            best += remedies[:1]
            lines += [f"  {self.sentence(reason, met)}", f"    {' or '.join(map(str, remedies)) or NO_SETTING}"]
        return [*lines, f"  All at once: {together(best)}"] if len(best) > 1 else lines

    @staticmethod
    def sentence(reason: Reason, met: Met) -> str:
        return f"{count(met.records, 'record')}: {explain(reason)} (the first: {met.path} line {met.line})"


def together(advice: Sequence[Advice]) -> Advice:
    """One setting for each key: hints and coercions of one column are joined, of others the last one holds."""
    joined: dict[str, list[str]] = {}
    for key, value in _pairs(advice):
        values = joined.setdefault(key, [])
        if key != _HINTS and not key.startswith(_COERCE):
            values.clear()
        values += [one for one in ([value] if key == _HINTS else value.split(",")) if one not in values]
    settings = (f"{key}={(', ' if key == _HINTS else ',').join(values)}" for key, values in joined.items())
    declared = dict.fromkeys(one.declare for one in advice if one.declare is not None)
    return Advice(settings=tuple(settings), declare=", ".join(declared) or None)


def _pairs(advice: Iterable[Advice]) -> Iterable[tuple[str, str]]:
    for one in advice:
        for setting in one.settings:
            key, _, value = setting.partition("=")
            yield key, value
