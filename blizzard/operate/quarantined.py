"""What the calls on a quarantine share, those of the command line and those from Python: whose records are meant, how
many there are, and which of them a purge deletes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.errors import ConfigError
from blizzard.quarantine import contents
from blizzard.run.assemble import Assembly
from blizzard.store.uri import show_uri
from blizzard.tasks.quarantine import Selection

_NO_TABLE = ""  # the id of no table: nothing is its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many records are in quarantine, by pipeline, file and kind of error."""

    quarantine: str
    records: int
    complete: int  # those with all their bytes, so that they can be exported and replayed
    of_other_tables: int
    groups: tuple[contents.Group, ...]


def choose(
    *,
    pipeline: str | None = None,
    sequence: int | None = None,
    file: str | None = None,
    kind: str | None = None,
    orphans: bool = False,
) -> Selection:
    return Selection(
        pipeline=pipeline,
        source_file=file,
        error_kind=kind,
        from_sequence=sequence,
        through_sequence=sequence,
        orphaned=orphans,
    )


def own(assembly: Assembly, selection: Selection, target: str | None) -> Selection:
    """Of a target only its own: others of the configuration may share its quarantine."""
    return selection if target is None else replace(selection, table_id=_own_id(assembly) or _NO_TABLE)


def count_chosen(assembly: Assembly, selection: Selection, target: str | None) -> Counted:
    quarantine = assembly.quarantine
    groups = contents.count_groups(quarantine, own(assembly, selection, target))
    return Counted(
        quarantine=show_uri(quarantine.root),
        records=sum(g.records for g in groups),
        complete=sum(g.complete for g in groups),
        of_other_tables=contents.count_of_others(quarantine, selection, _own_id(assembly)),
        groups=tuple(groups),
    )


def purge_chosen(
    assembly: Assembly, selection: Selection, *, older_than: str | None, takes_all: bool, applies: bool
) -> int:
    """Deletes for ever; how many. Without `applies` it raises if there is something to delete."""
    quarantine = assembly.quarantine
    if older_than is not None:
        selection = replace(selection, before=contents.moment_before(quarantine.clock, contents.parse_age(older_than)))
    if selection == Selection(orphaned=selection.orphaned) and not takes_all:
        raise ConfigError("purge needs --older-than or a filter; --all deletes everything", kind=Kind.USAGE)
    selection = replace(selection, table_id=_table_to_purge(assembly))
    if applies:
        return contents.purge(quarantine, selection)
    found = contents.count_records(quarantine, selection)
    if found:
        raise ConfigError(
            f"{count(found, 'record')} of {quarantine.root} would be deleted for ever. Look at them with dlq show,"
            f" keep them with dlq export, and repeat the command with --yes to delete them.",
            kind=Kind.NOT_CONFIRMED,
        )
    return 0


def _own_id(assembly: Assembly) -> str | None:
    """The id of the table that was named. None: none was named, or there is none."""
    if assembly.config.table.path is None:
        return None
    try:
        return assembly.open_table().table_id
    except ConfigError as e:
        if e.kind != Kind.TABLE_NOT_FOUND:
            raise
        return None


def _table_to_purge(assembly: Assembly) -> str | None:
    """The id of the table that was named; None: none was. Others may share its quarantine: their records stay."""
    table_id = _own_id(assembly)
    if table_id is None and assembly.config.table.path is not None:
        raise ConfigError(
            f"there is no Delta table at {assembly.request.table_root}, so it is not known which records are its own."
            f" Nothing was deleted. To purge the records of a table that was dropped, leave the table out and give"
            f" --quarantine URI: that purges for all tables.",
            kind=Kind.TABLE_NOT_FOUND,
        )
    return table_id
