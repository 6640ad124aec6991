"""Decides when a run with several targets goes on, and whose error ends it.

What a target has committed stands, whatever becomes of the others: no policy takes anything back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One target as the policy sees it."""

    name: str
    is_required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPolicy:
    """`required`: the run ends when a required target fails. `all`: when any does. `quorum`: when fewer than `quorum`
    are left. A run of which no target is left has failed, whatever the policy."""

    kind: Literal["required", "all", "quorum"] = "required"
    quorum: int = 0

    @classmethod
    def parse(cls, text: str) -> CommitPolicy:
        """`required`, `all` or `quorum:N`."""
        if text in ("required", "all"):
            return cls(kind="all" if text == "all" else "required")
        return cls(kind="quorum", quorum=int(text.removeprefix("quorum:")))

    def cause_of_end(self, members: Sequence[Member], failed: Collection[str]) -> str | None:
        """The target whose failure ends the run; None: the run goes on. `members` are in the configured order."""
        failures = [member for member in members if member.name in failed]
        if not failures:
            return None
        match self.kind:
            case "required":
                left = len(members) - len(failures)
                return next((m.name for m in failures if m.is_required), None if left else failures[0].name)
            case "all":
                return failures[0].name
            case "quorum":
                return failures[0].name if len(members) - len(failures) < self.quorum else None
