"""Decides which records a commit takes out of quarantine: replayed ones, those of batches taken back, or the oldest."""

from __future__ import annotations

from collections.abc import Mapping

from blizzard.core.kinds import Kind
from blizzard.core.position import Position
from blizzard.errors import Refused
from blizzard.tasks.quarantine import Selection


def leaving_rows(position: Position) -> Selection | None:
    """The records that the commit of this position takes out of quarantine. None: it takes out none."""
    if position.quarantine.rolled_back is not None:
        first, last = position.quarantine.rolled_back
        return Selection(
            pipeline=position.pipeline, table_id=position.on.table_id, from_sequence=first, through_sequence=last
        )
    if position.quarantine.replayed:
        return replayed_rows(position)
    if position.quarantine.dropped:
        return Selection(pipeline=position.pipeline, table_id=position.on.table_id, batches=position.quarantine.dropped)
    return None


def replay_marks(selection: Selection) -> dict[str, str]:
    """How the position of a replay names the records it took."""
    marks = {
        "from": selection.from_sequence,
        "through": selection.through_sequence,
        "source_file": selection.source_file,
        "error_kind": selection.error_kind,
        "but_not": selection.but_not,
    }
    return {name: str(value) for name, value in marks.items() if value is not None}


def replayed_rows(position: Position) -> Selection:
    return rows_of_replay(
        position.quarantine.replayed,
        pipeline=position.pipeline,
        table_id=position.on.table_id,
        sequence=position.sequence,
    )


def rows_of_replay(marks: Mapping[str, str], *, pipeline: str, table_id: str, sequence: int) -> Selection:
    """The records a replay took. Those that are still bad come back with the replay's own, higher sequence."""
    unknown = marks.keys() - {"from", "through", "source_file", "error_kind", "but_not"}
    if unknown or "through" not in marks:
        raise Refused(
            f"the position of sequence {sequence} took records from quarantine in a way this version of blizzard does"
            f" not know ({', '.join(sorted(unknown)) or 'no through'}). Run the version that wrote it.",
            kind=Kind.NEWER_CHECKPOINT,
        )
    return Selection(
        pipeline=pipeline,
        table_id=table_id,
        complete=True,
        from_sequence=int(marks["from"]) if "from" in marks else None,
        through_sequence=int(marks["through"]),
        source_file=marks.get("source_file"),
        error_kind=marks.get("error_kind"),
        but_not=marks.get("but_not"),
    )
