"""Decides what the end of an attempt means for its task. Pure: no Airflow, no I/O, no clock.

A retry is always safe, because a run goes on from the last commit. The question is only whether it can help.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_NOTHING_NEW, _TEMPORARY = 99, 75
_WORTH_NO_RETRY = {
    2: ("config", "the command or its configuration is wrong"),
    3: ("refused", "going on could lose or double data; a person has to decide"),
    4: ("fenced", "another run of this pipeline committed meanwhile; run one driver per pipeline"),
    5: ("bad_data", "bad data stopped the run"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What is known about an attempt that has ended. None: not known.

    `exit_code` is the driver's own. If the driver ran elsewhere, at most `service_ok` is known.
    """

    exit_code: int | None = None
    service_ok: bool | None = None
    summary: Mapping[str, Any] | None = None
    no_summary: str = "there is no summary"  # why there is none
    service_said: str = ""  # the service's own text, for a person
    tried_before: bool = False  # an earlier try of the same task may have committed before it was lost


@dataclass(frozen=True, slots=True)
class Success:
    reason: str


@dataclass(frozen=True, slots=True)
class Skip:
    reason: str


@dataclass(frozen=True, slots=True)
class Retry:
    reason: str
    kind: str


@dataclass(frozen=True, slots=True)
class Fail:
    reason: str
    kind: str


Decision = Success | Skip | Retry | Fail


def decide(ended: Ended, *, skips_when_idle: bool = True) -> Decision:
    """The summary counts more than any exit code: everything in it was committed, even if the driver was killed after
    writing it. A retry may then find nothing new; that must not skip the tasks that wait for those records."""
    nothing_new = Skip("nothing new") if skips_when_idle and not ended.tried_before else Success("nothing new")
    if ended.summary is not None:
        return _by_summary(ended.summary, nothing_new)
    if ended.exit_code is not None:
        return _by_exit_code(ended.exit_code, ended.no_summary, nothing_new)
    if ended.service_ok:
        # Kubernetes in cluster mode has reported failed drivers as successful. A retry would not show more.
        return Fail(
            f"the service says that the job succeeded, but {ended.no_summary}: what it did is not known", "no_summary"
        )
    said = f"; the service says: {ended.service_said}" if ended.service_said else ""
    return Retry(f"the driver ended before it could say why: {ended.no_summary}{said}", "driver_lost")


def _by_summary(summary: Mapping[str, Any], nothing_new: Decision) -> Decision:
    status, code = summary.get("status"), summary.get("exit_code")
    kind, error = summary.get("error_kind"), summary.get("error") or "no reason was given"
    match status:
        case "idle":
            return nothing_new
        case "paused" if not summary.get("commits"):
            return replace(nothing_new, reason=f"the pipeline is paused{_why(summary.get('paused'))}")
        case "done" | "stopped" | "paused":
            return Success(f"{status}: {summary.get('records')} records in {summary.get('commits')} commits")
        case "failed" if code == _TEMPORARY:
            return Retry(f"{error} [{kind}]", str(kind or "temporary"))
        case "failed" if code in _WORTH_NO_RETRY:
            return Fail(f"{error} [{kind}]", str(kind or _WORTH_NO_RETRY[code][0]))
        case "failed":
            return Fail(f"{error} [{kind}]; this is a bug in blizzard, please report it", str(kind or "internal"))
        case _:
            return Fail(f"the summary's status is {status!r}, which this version does not know", "unknown_status")


def _why(paused: Any) -> str:
    reason = paused.get("reason") if isinstance(paused, Mapping) else None
    return f": {reason}" if reason else ""


def _by_exit_code(code: int, no_summary: str, nothing_new: Decision) -> Decision:
    if code == 0:
        return Success(f"exit code 0, but {no_summary}")
    if code == _NOTHING_NEW:
        return nothing_new
    if code == _TEMPORARY:
        return Retry("exit code 75: a temporary failure", "temporary")
    if code in _WORTH_NO_RETRY:
        kind, meaning = _WORTH_NO_RETRY[code]
        return Fail(f"exit code {code}: {meaning}", kind)
    if code < 0 or code > 128:
        # -9 if spark-submit's own JVM was killed (from subprocess); 137 if its Python driver was (from the JVM).
        return Retry(f"killed by signal {-code if code < 0 else code - 128}", "killed")
    # spark-submit failed, or Python did before blizzard began: no master, no package, no memory.
    return Retry(f"exit code {code}: the driver did not start; {no_summary}", "not_started")


def failed_targets(summary: Mapping[str, Any] | None) -> list[str]:
    """What a person should know of a run that ended well: those of its targets that failed, and why."""
    targets = (summary or {}).get("targets")
    if not isinstance(targets, Mapping):
        return []
    return [
        f"target {name} failed, and the others went on: {one.get('error')} [{one.get('error_kind')}]"
        for name, one in targets.items()
        if isinstance(one, Mapping) and one.get("status") == "failed"
    ]


def summary_of(content: bytes | None, attempt: str, where: str) -> tuple[dict[str, Any] | None, str]:
    """The summary of this attempt; or None, and why there is none."""
    if content is None:
        return None, f"there is no summary at {where}"
    try:
        summary = json.loads(content)
    except ValueError:
        return None, f"what is at {where} is not JSON"
    if not isinstance(summary, dict) or "status" not in summary:
        return None, f"what is at {where} is not a summary"
    if summary.get("attempt") != attempt:
        return None, f"the summary at {where} is of another attempt, {summary.get('attempt')!r}"
    return summary, ""
