"""What each `commit_policy` makes of failures: the table in docs/targets.md, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "targets.md"
_CELL = r" ([a-c, –]+) \|"
_ROW = re.compile(rf"^\| `([\w:]+)` \|{_CELL}{_CELL} (\d+) \|{_CELL}{_CELL}$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of a run with the targets a, b and c, some of which fail in batch 2. Under `required`, c is not required."""

    policy: str
    failing: tuple[str, ...]
    cause: str | None  # whose error ends the run
    exit_code: int
    second: tuple[str, ...]  # whose tables have the second batch
    third: tuple[str, ...]  # for whom the next one is planned

    def __str__(self) -> str:
        return f"{self.policy} without {' '.join(self.failing) or 'a failure'}"


def outcomes() -> list[Outcome]:
    found = [
        Outcome(
            policy=policy,
            failing=_names(failing),
            cause=next(iter(_names(cause)), None),
            exit_code=int(exit_code),
            second=_names(second),
            third=_names(third),
        )
        for policy, failing, cause, exit_code, second, third in _ROW.findall(DOCS.read_text(encoding="utf-8"))
    ]
    assert len(found) == 19, "rows of the table in docs/targets.md"
    return found


def _names(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-c]", cell))
