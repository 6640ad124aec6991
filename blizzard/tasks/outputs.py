"""Where an attempt of a task writes, and the file that asks it to end early."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from blizzard.core.types import BatchTicket
from blizzard.store import open_store
from blizzard.store.files import Folder
from blizzard.tasks.partitioned import RowWriter, open_writer
from blizzard.tasks.quarantine import BadRowWriter, QuarantineWriter
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.target import Target
from blizzard.tasks.tee import open_tee


class Outputs(Protocol):
    """Where an attempt of a task writes, and how it is asked to end early."""

    def open(self, targets: Sequence[Target], part: str) -> Sequence[tuple[RowWriter, BadRowWriter]]:
        """For each target, writers for its rows and its bad records."""

    def end_marker(self, target: Target) -> str | None: ...


@dataclass(frozen=True, slots=True)
class TableOutputs:
    """Files in the folders of the tables and of their quarantines. Targets whose files would have the same bytes get
    them from one encoder."""

    def open(self, targets: Sequence[Target], part: str) -> Sequence[tuple[RowWriter, BadRowWriter]]:
        opened: dict[str, tuple[RowWriter, BadRowWriter]] = {}
        for group in _groups(targets):
            opened |= zip((target.name for target in group), _open_group(group, part), strict=True)
        return [opened[target.name] for target in targets]

    def end_marker(self, target: Target) -> str | None:
        return end_marker(target.spec, target.ticket)


def open_outputs(spec: TaskSpec, ticket: BatchTicket, part: str) -> tuple[RowWriter, QuarantineWriter]:
    """Writers for the rows and the bad records of one attempt, with a name that no other attempt has."""
    name = _new_name(spec, ticket, part)
    return _open_rows(spec, _table(spec), name), _open_quarantine(spec, ticket, name)


def end_marker(spec: TaskSpec, ticket: BatchTicket) -> str:
    """While a file of this name is in the table's folder, tasks of the batch stop at the next record boundary."""
    return f"_blizzard-end-{spec.run_id}-{ticket.sequence:08d}"


def _groups(targets: Sequence[Target]) -> list[list[Target]]:
    groups: list[list[Target]] = []
    for target in targets:
        same = next((group for group in groups if group[0].has_same_files(target)), None)
        if same is None:
            groups.append([target])
        else:
            same.append(target)
    return groups


def _open_group(targets: Sequence[Target], part: str) -> Iterator[tuple[RowWriter, BadRowWriter]]:
    if len(targets) == 1:
        yield open_outputs(targets[0].spec, targets[0].ticket, part)
        return
    names = [_new_name(target.spec, target.ticket, part) for target in targets]
    places = [(_table(target.spec), name) for target, name in zip(targets, names, strict=True)]
    writers = open_tee(places, partial(_open_rows, targets[0].spec))
    for target, name, writer in zip(targets, names, writers, strict=True):
        yield writer, _open_quarantine(target.spec, target.ticket, name)


def _new_name(spec: TaskSpec, ticket: BatchTicket, part: str) -> str:
    return f"blizzard-{spec.run_id}-{ticket.sequence:08d}-{part}-{os.urandom(6).hex()}"


def _table(spec: TaskSpec) -> Folder:
    return open_store(spec.table_root, spec.table_access)


def _open_rows(spec: TaskSpec, folder: Folder, name: str) -> RowWriter:
    return open_writer(
        spec.layout,
        store=folder,
        name_prefix=name,
        indexed_columns=spec.indexed_columns,
        target_bytes=spec.target_file_bytes,
        codec=spec.codec,
    )


def _open_quarantine(spec: TaskSpec, ticket: BatchTicket, name: str) -> QuarantineWriter:
    return QuarantineWriter(
        store=spec.quarantine,
        name=f"{name}.parquet",
        pipeline=spec.pipeline,
        table_id=ticket.table_id,
        sequence=ticket.sequence,
        run_id=spec.run_id,
        batch_id=ticket.batch_id or None,
    )
