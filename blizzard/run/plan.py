"""Step three: plans the next batch. The decision itself is pure, in `core/plan.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from blizzard.core.kinds import Kind
from blizzard.core.plan import Limits, TooManyPrefixes, plan_batch
from blizzard.core.position import Marks
from blizzard.core.share import Want, choose_together, share_read, whose_turn
from blizzard.core.types import ONE_CORE, BatchPlan, Cores, SharedPlan, SourceFile
from blizzard.errors import Refused
from blizzard.run.ports import Ingestor, StopRequest


def plan_read(
    wants: Sequence[Want], parts_of: Callable[[str], tuple[Limits, Ingestor]], stop: StopRequest
) -> tuple[tuple[Want, ...], SharedPlan]:
    """The next read of several targets: those that share it, and what is read. `parts_of` gives the limits and the
    ingestor of a target: those of the one whose turn it is count."""
    limits, ingestor = parts_of(whose_turn(wants).name)
    together = choose_together(wants, limits)
    return together, share_read(together, limits, slots=ingestor.start(stop), cores=ingestor.cores)


def plan(
    marks: Marks,
    files: Sequence[SourceFile],
    limits: Limits,
    *,
    slots: int,
    cores: Cores = ONE_CORE,
    held: Mapping[str, str],
    given_up: Mapping[str, str],
    framing: str,
) -> BatchPlan:
    try:
        return plan_batch(marks, files, limits, slots=slots, cores=cores, held=held, given_up=given_up, framing=framing)
    except TooManyPrefixes as e:
        way_out = (
            "The key of a pipeline that has begun cannot be changed. Move the parts that it has not begun into another"
            " folder, and read that folder as another source, with another --pipeline name"
            if marks.prefix_marks
            else "Choose a key with fewer values, or leave source.marks_per out"
        )
        raise Refused(f"{e}. Nothing more was read. {way_out}.", kind=Kind.TOO_MANY_PREFIXES) from e
