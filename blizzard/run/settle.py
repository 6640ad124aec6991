"""Makes the quarantine follow a committed position. Never calls it out of step when another run was only faster."""

from __future__ import annotations

from contextlib import suppress

from blizzard.core.log import TableFacts, fence_version
from blizzard.core.position import Position
from blizzard.core.recover import Recovery, Resume, decide_recovery
from blizzard.core.refuse import Refuse
from blizzard.errors import OutOfStep, Refused
from blizzard.run.ports import Quarantine, Table


def recovery_with_quarantine(
    table: Table, pipeline: str, *, scan_commits: int, quarantine: Quarantine | None
) -> tuple[TableFacts, Recovery]:
    """How the next run would begin, for commands that only look. Refuses a position whose quarantine is out of step."""
    facts = table.observe(pipeline, scan_commits=scan_commits)
    recovery = decide_recovery(facts, pipeline=pipeline, source=None, start_from=None)
    if quarantine is not None and isinstance(recovery, Resume):
        try:
            quarantine.check_pending(recovery.position)
        except Refused as e:
            if not _is_overtaken(table, recovery.position, since=recovery.version):
                return facts, Refuse(kind=e.kind, message=str(e))
    return facts, recovery


def settle(quarantine: Quarantine, table: Table, position: Position, *, since: int) -> None:
    """Make the quarantine hold what this position named. `since` is the version in which the position was found.

    A run that commits on top of it settles it first. Then the quarantine is ahead, and nothing is left to do.
    """
    try:
        quarantine.settle(position)
    except OutOfStep:
        if not _is_overtaken(table, position, since=since):
            raise


def _is_overtaken(table: Table, position: Position, *, since: int) -> bool:
    later = (fence_version(commit, position.pipeline) for commit in table.commits_after(since))
    return any(sequence is not None and sequence > position.sequence for sequence in later)


def settle_replaced(quarantine: Quarantine, table: Table, position: Position) -> None:
    """Settle what a position left pending that is about to be replaced. Does not refuse a quarantine that is out of
    step; the next run says so. Refusing here would leave no way out: realigning needs a position that can be used."""
    with suppress(OutOfStep):
        settle(quarantine, table, position, since=table.version)
