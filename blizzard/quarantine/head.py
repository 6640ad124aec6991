"""What a quarantine table says about a pipeline and a table, and the error if that does not fit the position."""

from __future__ import annotations

import shlex

from deltalake import DeltaTable

from blizzard.core.codec import head_app_id, quarantine_app_id
from blizzard.core.kinds import Kind
from blizzard.core.position import Position
from blizzard.core.quarantine import QuarantineFacts
from blizzard.delta.errors import txn_version
from blizzard.errors import OutOfStep
from blizzard.quarantine.kept import KeptHandle


def lost_app_id(pipeline: str, table_id: str, sequence: int) -> str:
    """The Txn that says that bad records of a sequence were given up. Txns stay when their commits are cleaned up."""
    return f"blizzard-dlq-lost:{pipeline}:{table_id}:{sequence}"


def facts_of(table: DeltaTable | None, pipeline: str, table_id: str, kept: KeptHandle | None = None) -> QuarantineFacts:
    """With `kept`, the handle is the one kept there."""
    if table is None:
        return QuarantineFacts()
    asked = quarantine_app_id(pipeline, table_id), head_app_id(pipeline, table_id)
    sequence, head = (txn_version(table, i) for i in asked) if kept is None else kept.txn_versions(table, *asked)
    return QuarantineFacts(table_id=str(table.metadata().id), sequence=sequence, head=head)


def out_of_step(kind: Kind, message: str, root: str, position: Position) -> OutOfStep:
    way_out = {
        Kind.QUARANTINE_MOVED: "Set quarantine.path back to where it was; or, to go on with this one and leave those"
        " records where they are, run:",
        Kind.QUARANTINE_AHEAD: "If two tables share this quarantine, give each its own quarantine.path. Else bring them"
        " together; nothing is deleted:",
        Kind.QUARANTINE_BEHIND: "Put the newer quarantine table back if you have it. Else bring them together; nothing"
        " is deleted:",
    }[kind]
    return OutOfStep(
        f"the quarantine table at {root} does not fit this table's position of pipeline {position.pipeline!r}:"
        f" {message}. Nothing was read. {way_out} blizzard dlq realign --pipeline {shlex.quote(position.pipeline)},"
        f" with the same --table and configuration.",
        kind=kind,
    )
