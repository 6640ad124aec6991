"""Takes a position from a mirror, for `checkpoint import`. It replaces only the file: the judgement is that of any
import."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from blizzard.config.places import locate_mirror
from blizzard.core.kinds import Kind
from blizzard.core.lists import some
from blizzard.core.log import fence_version
from blizzard.core.mirror import Series, Version
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, Refused, Temporary
from blizzard.mirror import StoredMirror, open_mirror
from blizzard.operate.mirrors import series_of
from blizzard.operate.transfer import exported_position
from blizzard.run.assemble import Assembly

_SHOWN = 5
_OUR_FILE = re.compile(r"blizzard-\w+-([0-9]{8,18})-")


def read_export(
    assembly: Assembly,
    table: DeltaRsTable,
    *,
    uri: str | None,
    pipeline: str | None,
    table_id: str | None,
    sequence: int | None,
) -> bytes:
    """An exported position, the newest or that of a sequence. `uri` None: from the configured mirror. Without a
    pipeline, that of the only one that the mirror has of this table."""
    root = assembly.request.mirror_root if not uri else locate_mirror(uri)
    if root is None:
        raise ConfigError(
            "--from-mirror needs the URI of a mirror, or the key checkpoint.mirror in the configuration",
            kind=Kind.USAGE,
        )
    mirror = open_mirror(root, assembly.request.mirror_access(root))
    with _reading(mirror):
        series = _find(mirror, table, pipeline, table_id)
        found = mirror.read(series, sequence)
    if found is None:
        asked = "any position" if sequence is None else f"sequence {sequence}"
        raise ConfigError(
            f"the mirror {mirror.shown} does not have {asked} of pipeline {series.pipeline!r} and the table"
            f" {series.table} (id {series.table_id})",
            kind=Kind.CHECKPOINT_NOT_FOUND,
        )
    _require_asked_for(found, mirror, series, sequence)
    return found


def _require_asked_for(content: bytes, mirror: StoredMirror, series: Series, sequence: int | None) -> None:
    """Somebody may have copied a file of the mirror over another. An import that is not verified would not see it."""
    position = exported_position(content)
    wanted = series.pipeline, series.table_id, position.sequence if sequence is None else sequence
    if (position.pipeline, position.on.table_id, position.sequence) != wanted:
        raise Refused(
            f"in the place of sequence {wanted[2]} of pipeline {series.pipeline!r} and the table id {series.table_id},"
            f" the mirror {mirror.shown} has a position of sequence {position.sequence}, pipeline {position.pipeline!r}"
            f" and table id {position.on.table_id}: somebody changed it. Nothing was changed. Take another sequence.",
            kind=Kind.IMPORT_MISMATCH,
        )


def require_newest(table: DeltaRsTable, content: bytes) -> None:
    """For an import that is not verified, of whatever the mirror has: raises if the table shows a newer sequence. A
    mirror may have been down when that was committed."""
    position = exported_position(content)
    committed, others = 0, table.standings().keys() - {position.pipeline}
    if position.on.table_id == table.table_id:
        fences = (fence_version(commit, position.pipeline) for commit in table.scan_back())
        committed = max([table.fence(position.pipeline) or 0, *(fence or 0 for fence in fences)])
    elif others:
        return  # a table of others, that this pipeline is to join
    what = f"pipeline {position.pipeline!r} has committed sequence {committed} to this table"
    if not committed:  # no Txn of this pipeline is left, but names of files have the sequence
        names = (_OUR_FILE.match(path.rsplit("/", 1)[-1]) for path in table.active_files())
        committed = max((int(match[1]) for match in names if match is not None), default=0)
        whose = f", of this pipeline or of {some(sorted(others), at_most=_SHOWN)}" if others else ""
        what = f"the table holds a file of sequence {committed}{whose}"
    if committed > position.sequence:
        raise Refused(
            f"the newest position in the mirror is sequence {position.sequence}, but {what}: the mirror was behind."
            f" Going on from there would double what came after it. Nothing was changed. If you know that the table"
            f" holds exactly what sequence {position.sequence} says, add --sequence {position.sequence}.",
            kind=Kind.IMPORT_MISMATCH,
        )


def _find(mirror: StoredMirror, table: DeltaRsTable, pipeline: str | None, table_id: str | None) -> Series:
    here, asked_id = series_of(table, pipeline or ""), table_id or table.table_id
    if pipeline is not None and asked_id == here.table_id and mirror.look(here).highest:
        return here
    newest = mirror.newest_of_each()
    of_table = [v for v in newest if v.series.table_id == asked_id and pipeline in (None, v.series.pipeline)]
    fitting = [v for v in of_table if v.series.table == here.table] or of_table
    if len(fitting) == 1:
        return fitting[0].series
    if fitting:
        raise ConfigError(
            f"the mirror {mirror.shown} has several positions for this table: {_listed(fitting)}. Say which one:"
            f" --pipeline NAME, or copy one of them and give it with --in",
            kind=Kind.USAGE,
        )
    others = f" It has: {_listed(newest)}. --table-id ID takes the one of another table." if newest else ""
    raise ConfigError(
        f"the mirror {mirror.shown} has no position of {'any pipeline' if pipeline is None else repr(pipeline)} and the"
        f" table id {asked_id}.{others}",
        kind=Kind.CHECKPOINT_NOT_FOUND,
    )


@contextmanager
def _reading(mirror: StoredMirror) -> Iterator[None]:
    try:
        yield
    except Temporary as e:
        raise Temporary(f"the mirror {mirror.shown} cannot be read: {e}. Nothing was changed.", kind=e.kind) from e


def _listed(versions: Sequence[Version]) -> str:
    return some(
        [f"{v.series.pipeline} of {v.series.table} (id {v.series.table_id}, sequence {v.sequence})" for v in versions],
        at_most=_SHOWN,
    )
