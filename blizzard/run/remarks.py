"""What a person should know about the batches of a run. Each thing is said once, however many batches show it.

It only speaks. No decision may depend on what was said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from blizzard.core.bad import BadPolicy
from blizzard.core.events import Emit, Noted, UnknownFields, Warned
from blizzard.core.framing import LINES
from blizzard.core.lists import count, some
from blizzard.core.pause import describe_pause
from blizzard.core.position import Paused
from blizzard.core.reasons import told
from blizzard.core.types import BatchResult
from blizzard.run.reasons import Advisor
from blizzard.schema import show_path
from blizzard.schema.evolve import RESCUED_COLUMN

MAX_NAMES = 20


@dataclass(slots=True)
class Remarks:
    """Lives as long as the process: a run that follows has many cycles."""

    _said: dict[str, set[str]] = field(default_factory=dict)
    _of_targets: dict[str, Remarks] = field(default_factory=dict)

    def of(self, target: str) -> Remarks:
        """Those about one of several targets."""
        return self._of_targets.setdefault(target, Remarks())

    def _new(self, topic: str, names: Iterable[str], at_most: int = MAX_NAMES) -> list[str]:
        """Those that were not said yet, up to a limit for all of them together. They count as said."""
        said = self._said.setdefault(topic, set())
        new = [name for name in dict.fromkeys(names) if name not in said][: max(at_most - len(said), 0)]
        said.update(new)
        return new

    def left_out(self, columns: Iterable[str]) -> None:
        """The inference has said that these fields held no value."""
        self._said.setdefault("null", set()).update(columns)

    def refused(self, fields: Collection[str], emit: Emit) -> None:
        if new := self._new("refused", fields):
            emit(Warned(message=f"fields that cannot become columns go to {RESCUED_COLUMN}: {some(new, MAX_NAMES)}"))

    def paused(self, pipeline: str, paused: Paused, emit: Emit) -> None:
        """A run that follows looks again and again."""
        said = f"pipeline {pipeline} is {describe_pause(paused)}: nothing is read; blizzard resume lets it go on"
        if self._new("paused", [said], at_most=1_000):
            emit(Noted(message=said))

    def once(self, emit: Emit) -> Emit:
        """For what each look of a run that follows would say again."""
        return lambda event: emit(event) if self._new("look", [repr(event)], at_most=1_000) else None

    def about(self, result: BatchResult, policy: BadPolicy, advisor: Advisor, emit: Emit) -> None:
        self._unknown(result, emit)
        self._bad(result, policy, advisor, emit)
        self._cut(result, emit)
        self._framings(result, emit)

    def about_parsers(self, remarks: Iterable[str], emit: Emit) -> None:
        for remark in self._new("parser", remarks):
            emit(Warned(message=remark))

    def _unknown(self, result: BatchResult, emit: Emit) -> None:
        held = [
            path for report in result.reports if report.observed is not None for path in report.observed.kinds.items()
        ]
        with_value = {show_path(path) for path, kinds in held if kinds != {"null"}}
        always_null = {show_path(path) for path, _ in held} - with_value
        names = list(map(show_path, result.undeclared.paths))
        if empty := self._new("null", (name for name in names if name in always_null)):
            emit(UnknownFields(names=tuple(empty)))
            emit(Noted(message=f"no column yet, as only null was seen: {some(empty, MAX_NAMES)}"))
        if new := self._new("unknown", (name for name in names if name not in always_null)):
            emit(UnknownFields(names=tuple(new)))
            emit(Warned(message=f"the table has no column for these fields: {some(new, MAX_NAMES)}"))

    def _bad(self, result: BatchResult, policy: BadPolicy, advisor: Advisor, emit: Emit) -> None:
        became = "go to quarantine" if policy.keeps_bad_records else "are dropped"
        of = result.bad + result.rows
        if not result.slices:  # no file was read: records are replayed, and those that are still bad stay
            became, of = "stay in quarantine", sum(f.rows for f in result.files) + result.reasons.records
        advisor = replace(advisor, has_table=True)  # after this batch there is one
        sentences = {
            repr(reason): told(reason, met, of=of, became=became, remedies=advisor.remedies(reason))
            for reason, met in result.reasons.commonest(MAX_NAMES)
        }
        for reason in self._new("bad", sentences):
            emit(Warned(message=sentences[reason]))

    def _cut(self, result: BatchResult, emit: Emit) -> None:
        counts = {show_path(path): result.cut_times.counts[path] for path in result.cut_times.paths}
        for column in self._new("cut", counts):
            emit(
                Noted(
                    message=f"{column}: {count(counts[column], 'timestamp')} had digits beyond a microsecond; they were"
                    f" cut (schema.timestamps: exact makes them bad)"
                )
            )

    def _framings(self, result: BatchResult, emit: Emit) -> None:
        first = {piece.framing: piece.path for piece in reversed(result.slices) if piece.framing != LINES}
        for framing in self._new("framing", first):
            emit(Noted(message=f"not one record a line: {first[framing]} is read as {framing}"))
        if new := self._new("siblings", map(show_path, result.siblings.paths)):
            emit(Warned(message=f"nothing reads what stands beside the array of records: {some(new, MAX_NAMES)}"))
