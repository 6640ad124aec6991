"""Which lines of a block are for a target, and which are for none: judges `where` before the schema.

A line is judged on the fields that the condition names, whatever else is wrong with it: one that is missing or holds
what its type cannot hold is NULL. What is not selected is filtered, never bad. A line that is no JSON object cannot be
judged, nor one that has such a field twice: those are bad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.schema import DeltaType
from blizzard.schema.where_tree import Where
from blizzard.source.lines import Positions
from blizzard.tasks.parsed import NO_LINES, BadLine, ParsedBlock
from blizzard.tasks.parsings import Parsing
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.spec import Route, TaskSpec
from blizzard.tasks.where import Mask, selects

# The bytes of one line of the block, without its newline and without a byte order mark.
LineBytes: TypeAlias = Callable[[int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A block after the lines that are not for the target were taken out. `unrouted` are those of them that are for no
    target."""

    parsed: ParsedBlock
    unrouted: Positions = field(default_factory=lambda: NO_LINES, compare=False)


class Routing:
    """The `where` of one target. On one thread."""

    def __init__(self, where: Where, spec: TaskSpec) -> None:
        self._judge = _Judge(Route(where=where, parsing=spec.parsing), spec)
        self._others = _other_judges(spec)

    @property
    def parsing(self) -> Parsing | None:
        """How all lines must be parsed beside the target's own parsing. None: that is enough."""
        return None if self._judge.on_rows else self._judge.parsing

    def apply(self, parsed: ParsedBlock, judged: ParsedBlock | None, line_bytes: LineBytes) -> Routed:
        """`judged` is the block in the parsing of this routing."""
        selected, unknown = self._judge.lines(parsed, judged, line_bytes)
        row_lines = parsed.lines_of_rows
        is_row, is_bad, is_taken = (np.zeros(parsed.lines, bool) for _ in range(3))
        is_row[row_lines] = True
        is_bad[[line.number for line in parsed.bad]] = True
        is_taken |= selected
        is_taken[list(unknown)] = True
        filtered = np.flatnonzero((is_row | is_bad) & ~is_taken)
        is_bad[list(unknown)] = True
        if not len(filtered) and not (is_row & is_bad).any():
            return Routed(parsed=parsed)
        kept = (selected & ~is_bad)[row_lines]
        bad = [line for line in parsed.bad if is_taken[line.number]]
        bad += [line for number, line in unknown.items() if is_row[number]]
        routed = replace(
            parsed,
            table=parsed.table.filter(pa.array(kept)),
            row_lines=row_lines[kept],
            bad=tuple(sorted(bad, key=lambda line: line.number)),
            filtered=filtered,
        )
        return Routed(parsed=routed, unrouted=self._unrouted(filtered, parsed, line_bytes))

    def _unrouted(self, filtered: Positions, parsed: ParsedBlock, line_bytes: LineBytes) -> Positions:
        if self._others is None:
            return NO_LINES
        left = filtered
        for judge in self._others:
            if not len(left):
                break
            left = left[~judge.takes(left, parsed, line_bytes)]
        return left


def _other_judges(spec: TaskSpec) -> list[_Judge] | None:
    """Of the targets that may take what this one leaves. None: nobody asks which records are for none."""
    wheres = [route.where for route in spec.routes]
    if not wheres or None in wheres:
        return None  # without `where` a target takes every record
    return [_Judge(route, spec) for route in spec.routes if route.where != spec.where or route.parsing != spec.parsing]


class _Judge:
    """One condition, on blocks that are parsed as the target `spec` has them parsed."""

    def __init__(self, route: Route, spec: TaskSpec) -> None:
        assert route.where is not None
        self._where = route.where
        self.parsing = lenient(route.where, route.parsing, spec.parser)
        # Without a second parsing, if the rows have its fields, read in the same way.
        self.on_rows = _is_part(route.where.schema, spec.record_schema) and (
            self.parsing.policy == lenient(route.where, spec.parsing, spec.parser).policy
        )
        self._parser = self.parsing.make()

    def lines(
        self, parsed: ParsedBlock, judged: ParsedBlock | None, line_bytes: LineBytes
    ) -> tuple[Mask, Mapping[int, BadLine]]:
        """Whether it selects each line of the block, and the lines that cannot be judged."""
        selected = np.zeros(parsed.lines, bool)
        if not self.on_rows:
            assert judged is not None
            selected[judged.lines_of_rows] = selects(self._where, judged.table)
            return selected, {line.number: line for line in judged.bad}
        selected[parsed.lines_of_rows] = selects(self._where, parsed.table)
        if not parsed.bad:
            return selected, {}
        numbers = np.array([line.number for line in parsed.bad])
        chosen, unknown = self._apart(numbers, line_bytes)
        selected[numbers] = chosen
        return selected, {line.number: line for line in parsed.bad if line.number in unknown}

    def takes(self, numbers: Positions, parsed: ParsedBlock, line_bytes: LineBytes) -> Mask:
        """Whether its target takes these lines, as rows or as bad ones."""
        taken = np.zeros(len(numbers), bool)
        is_row = np.isin(numbers, parsed.lines_of_rows) if self.on_rows else np.zeros(len(numbers), bool)
        if is_row.any():
            rows = np.searchsorted(parsed.lines_of_rows, numbers[is_row])
            taken[is_row] = selects(self._where, parsed.table.take(pa.array(rows)))
        if not is_row.all():
            chosen, unknown = self._apart(numbers[~is_row], line_bytes)
            taken[~is_row] = chosen | np.isin(numbers[~is_row], list(unknown))
        return taken

    def _apart(self, numbers: Positions, line_bytes: LineBytes) -> tuple[Mask, set[int]]:
        """Parses these lines by themselves. Whether it selects each, and which cannot be judged."""
        data = b"".join(line_bytes(number) + b"\n" for number in numbers.tolist())
        judged = self._parser.parse(data, first_of_file=False)
        chosen = np.zeros(len(numbers), bool)
        chosen[judged.lines_of_rows] = selects(self._where, judged.table)
        return chosen, {int(numbers[line.number]) for line in judged.bad}


def lenient(where: Where, policy: ParsePolicy, parser: str) -> Parsing:
    """How the lines are parsed for the fields of a condition alone: nothing in a JSON object makes the line bad, but
    one of these fields twice."""
    judging = replace(policy, unknown=Unknown.IGNORE, rescue_values=True, keeps_rest=False)
    return Parsing(schema=where.schema, policy=judging, parser=parser)


def _is_part(part: DeltaType, whole: DeltaType) -> bool:
    """Whether the whole has all fields of the part, with their types. Whether they may be null does not matter."""
    match part, whole:
        case {"type": "struct", "fields": inner}, {"type": "struct", "fields": outer}:
            types = {field["name"]: field["type"] for field in outer}
            return all(field["name"] in types and _is_part(field["type"], types[field["name"]]) for field in inner)
        case {"type": "array", "elementType": one}, {"type": "array", "elementType": other}:
            return _is_part(one, other)
        case {"type": "map", "valueType": one}, {"type": "map", "valueType": other}:
            return _is_part(one, other)
        case str(), str():
            return bool(part == whole)
        case _:
            return False


def line_bytes_of(data: Callable[[], bytes]) -> LineBytes:
    """The lines of a block, split when the first of them is asked for."""
    lines: list[bytes] = []

    def line(number: int) -> bytes:
        if not lines:
            lines.extend(data().split(b"\n"))
        return lines[number]

    return line
