"""Looks at a mirror: where it stands beside the log. Nothing is decided by what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from blizzard.core.mirror import Series
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import known_failure
from blizzard.mirror import StoredMirror, open_mirror
from blizzard.run.assemble import Assembly
from blizzard.store.uri import show_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """Where the mirror of one pipeline stands. `sequence` None: it holds nothing of it, or `error` says why not."""

    mirror: str
    sequence: int | None = None
    behind: int | None = None  # by how many sequences; below 0: the log has lost some, or was put back
    error: str | None = None

    @property
    def sentence(self) -> str:
        if self.error is not None:
            return f"cannot be read: {self.error}"
        if self.behind == 0:
            return "up to date"
        if self.sequence is None:
            return "holds nothing of this pipeline and table; the next run makes up for it"
        if self.behind is not None and self.behind < 0:
            return f"at sequence {self.sequence}, ahead of the log: was the table put back from a backup?"
        return f"at sequence {self.sequence}, {self.behind} behind; the next run makes up for it"


def mirror_of(assembly: Assembly) -> StoredMirror | None:
    root = assembly.request.mirror_root
    return None if root is None else open_mirror(root, assembly.request.mirror_access(root))


def mirror_status(assembly: Assembly, table: DeltaRsTable, pipeline: str, newest: int) -> MirrorStatus | None:
    """`newest` is the newest sequence in the log. None: there is no mirror."""
    mirror = mirror_of(assembly)
    if mirror is None:
        return None
    try:
        held = mirror.look(series_of(table, pipeline))
    except Exception as e:
        failure = known_failure(e)
        if failure is None:
            raise
        return MirrorStatus(mirror=mirror.shown, error=f"{failure} [{failure.kind}]")
    return MirrorStatus(mirror=mirror.shown, sequence=held.highest or None, behind=newest - held.highest)


def series_of(table: DeltaRsTable, pipeline: str) -> Series:
    return Series(pipeline=pipeline, table_id=table.table_id, table=show_uri(table.root))
