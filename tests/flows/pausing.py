"""A pause and a resume as another process makes them."""

from __future__ import annotations

from blizzard.core.position import Paused
from blizzard.operate.pause import PauseDone, Pausing
from tests.flows.in_process import Flow


def pausing(flow: Flow) -> Pausing:
    return Pausing(
        table=flow.open(),
        quarantine=flow.quarantine,
        pipeline=flow.pipeline,
        clock=flow.clock,
        emit=flow.told.see,
    )


def pause(flow: Flow, reason: str | None = None) -> PauseDone:
    return pausing(flow).pause(reason)


def resume(flow: Flow) -> PauseDone:
    return pausing(flow).resume()


def paused_in(flow: Flow) -> Paused | None:
    """As the newest position in the log says."""
    position = flow.open().newest_position(flow.pipeline)
    return None if position is None else position.paused
