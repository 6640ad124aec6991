"""A rollback as the command makes it."""

from __future__ import annotations

from dataclasses import replace

from blizzard.operate.rollback import apply_rollback, prepare_rollback
from tests.flows.in_process import Flow


def roll_back(flow: Flow, to: int, *, with_schema: bool = False, accepts_loss: bool = False) -> tuple[int, int]:
    table, listing = flow.open(), flow.source.list()
    prepared = prepare_rollback(
        table,
        pipeline=flow.pipeline,
        source=flow.source.identity,
        to=to,
        listing=listing,
        with_schema=with_schema,
    )
    return apply_rollback(
        table,
        prepared,
        replace(flow.quarantine, accepts_loss=accepts_loss),
        list_source=flow.source.list,
        scan_commits=100,
        clock=flow.clock,
        emit=flow.told.see,
    )
