"""The quarantine follows a committed position. Never taken for out of step: what another run did meanwhile."""

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
    """How a run would begin, for whoever only looks: a position whose quarantine is out of step is refused too."""
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
    """Make the quarantine hold what this position named. `since` is the version that it was found in.

    Whoever commits on top of it has settled it first: then there is nothing left to do, and the quarantine is ahead.
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
    """What a position that is about to be replaced left pending. If the quarantine is out of step, the next run says
    so: to refuse here would leave no way out where the position cannot be used, since realigning needs one."""
    with suppress(OutOfStep):
        settle(quarantine, table, position, since=table.version)
