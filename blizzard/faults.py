"""Named points where a test can stop a real process, kill it, or lose an answer. Off unless BLIZZARD_FAULT is set.

Its form is `point=ACTION[:ARG][@N]`, several joined with `;`. The point `*` is any of them; `point[NAME]` is the point
where it concerns the table or quarantine in the folder NAME. `hang:FILE` creates FILE and waits until it is gone;
`hold:FOLDER` puts a file named after the process id into FOLDER and waits for a file named `go` there. Both wait at
most BLIZZARD_HANG_S seconds (120). `kill` sends SIGKILL to this process, `raise` raises InjectedFault. `@N` acts on the
Nth visit only, `@N+` from the Nth visit on.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

_visits: Counter[str] = Counter()


class InjectedFault(Exception):
    """Stands for an answer that never came."""


def reach(point: str, root: str = "") -> None:
    """`root` is where the table is that the point concerns, if it concerns one."""
    spec = os.environ.get("BLIZZARD_FAULT")
    if not spec:
        return
    names = {point, "*", f"{point}[{root.rpartition('/')[2]}]"}
    _visits.update(names)
    for rule in spec.split(";"):
        name, _, action = rule.partition("=")
        action, _, nth = action.partition("@")
        if name in names and _is_due(nth, _visits[name]):
            _act(action, point)


def _is_due(nth: str, visit: int) -> bool:
    if not nth:
        return True
    return visit >= int(nth[:-1]) if nth.endswith("+") else visit == int(nth)


def _act(action: str, point: str) -> None:
    verb, _, argument = action.partition(":")
    match verb:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise InjectedFault(f"injected at {point}")
        case "hang":
            with open(argument, "w", encoding="utf-8") as marker:
                marker.write(f"{os.getpid()}\n")
            until = time.monotonic() + _hang_s()
            while time.monotonic() < until and os.path.exists(argument):
                time.sleep(0.02)
        case "hold":
            go, until = os.path.join(argument, "go"), time.monotonic() + _hang_s()
            if not os.path.exists(go):
                with open(os.path.join(argument, str(os.getpid())), "w", encoding="utf-8"):
                    pass
            while not os.path.exists(go) and time.monotonic() < until:
                time.sleep(0.05)
        case _:
            raise ValueError(f"BLIZZARD_FAULT: unknown action {verb!r}")


def _hang_s() -> float:
    return float(os.environ.get("BLIZZARD_HANG_S", "120"))
