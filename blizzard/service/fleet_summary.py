"""What a fleet did, as one value: the last line of `blizzard serve`, and its exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blizzard.errors import BlizzardError, Temporary
from blizzard.run.summary import OURS, Summary
from blizzard.text.json import json_text


@dataclass(slots=True, kw_only=True)
class FleetSummary:
    """What the process did, with a summary for each pipeline."""

    status: str = "running"  # then: done | idle | stopped | failed
    exit_code: int = 0
    error_kind: str | None = None
    error: str | None = None
    attempt: str | None = None
    seconds: float = 0.0
    pipelines: Mapping[str, Summary] = field(default_factory=dict)

    def fail(self, error: BlizzardError) -> None:
        self.status, self.exit_code = "failed", error.exit_code
        self.error_kind, self.error = error.kind, str(error)

    def judge(self, *, was_stopped: bool) -> None:
        """The status and the exit code of the whole: of the first pipeline, in the order of the file, that needs a
        person; 75 if whatever failed may pass by itself."""
        failed = {name: summary for name, summary in self.pipelines.items() if summary.exit_code}
        lasting = [name for name, summary in failed.items() if summary.exit_code != Temporary.exit_code]
        if failed:
            first = failed[name := (lasting or list(failed))[0]]
            self.status, self.exit_code, self.error_kind = "failed", first.exit_code, first.error_kind
            others = f" {len(failed) - 1} more failed." if len(failed) > 1 else ""
            self.error = f"pipeline {name!r}: {first.error}{others}"
        elif was_stopped:
            self.status = "stopped"
        else:
            self.status = "done" if any(summary.commits for summary in self.pipelines.values()) else "idle"

    def to_json(self) -> str:
        told = {
            "status": self.status,
            "exit_code": self.exit_code,
            "error_kind": self.error_kind,
            "error": self.error,
            "attempt": self.attempt,
            "seconds": round(self.seconds, 3),
            "pipelines": {name: summary.to_dict() for name, summary in self.pipelines.items()},
        }
        return json_text(told, verbatim=OURS)
