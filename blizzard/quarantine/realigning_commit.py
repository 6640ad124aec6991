"""Compares the quarantine table with a table's history: marks orphaned records and adds missing ones.

Marks are in a column, so that they survive log cleanup and rewrites of files. No record is ever deleted here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable

from blizzard.core.quarantine import Chain
from blizzard.faults import reach
from blizzard.quarantine.files import read_rows
from blizzard.quarantine.head import facts_of
from blizzard.quarantine.selected import rows_of_replay
from blizzard.quarantine.table import HOOKS, DeltaRsQuarantine
from blizzard.tasks.quarantine import ARROW_SCHEMA, Selection, literal, read_footer

_BATCH = ["sequence", "batch_id", "run_id"]
_PLACE = [*_BATCH, "source_file", "line", "byte_offset", "error_kind"]
_JUDGED_BY = [*_PLACE, "pipeline", "table_id", "complete", "orphaned"]


@dataclass(frozen=True, kw_only=True)
class QuarantineView:
    """One version of the quarantine table, and the history of one pipeline and table."""

    quarantine: DeltaRsQuarantine
    table: DeltaTable
    chain: Chain
    pipeline: str
    table_id: str

    @property
    def own(self) -> Selection:
        return Selection(pipeline=self.pipeline, table_id=self.table_id, orphaned=None)

    @property
    def replays(self) -> list[Selection]:
        """The records that replays of this history turned into rows. Each took only records from before it."""
        given = {"pipeline": self.pipeline, "table_id": self.table_id}
        return [
            replace(rows_of_replay(link.replayed, **given, sequence=link.sequence), orphaned=None)
            for link in self.chain.links
            if link.replayed
        ]

    def rows(self) -> Iterator[pa.Table]:
        return self.quarantine.read(self.own, _JUDGED_BY, table=self.table)


def count_batches(view: QuarantineView) -> Counter[tuple[int, str]]:
    """How many records there are of each batch, orphans included. By the run if an older version wrote them."""
    found: Counter[tuple[int, str]] = Counter()
    for rows in view.rows():
        found.update((sequence, batch_id or run_id) for sequence, batch_id, run_id in _tuples(rows, _BATCH))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How the marks must change, in SQL: which records become orphans, and which are no longer orphans."""

    orphaned: int = 0
    live_again: int = 0
    condition: str = ""
    is_orphan: str = "false"

    def __bool__(self) -> bool:
        return bool(self.orphaned or self.live_again)


@dataclass
class _Found:
    orphaned: int = 0
    live_again: int = 0
    dead: set[tuple[int, str | None, str]] = field(default_factory=set)
    revived: set[tuple[int, str | None, str]] = field(default_factory=set)


def find_marks(view: QuarantineView) -> Marks:
    is_live, replays, found = view.chain.liveness(), view.replays, _Found()
    for rows in view.rows():
        live = _live(rows, is_live, replays)
        marked = pc.fill_null(rows["orphaned"], False)
        dying, reviving = rows.filter(pc.invert(pc.or_(live, marked))), rows.filter(pc.and_(live, marked))
        found.orphaned += dying.num_rows
        found.live_again += reviving.num_rows
        found.dead |= {key for key in _tuples(dying, _BATCH) if not is_live(*key)}
        found.revived |= set(_tuples(reviving, _BATCH))
    if not found.orphaned and not found.live_again:
        return Marks()
    taken = " OR ".join(f"({selection.predicate})" for selection in replays) or "false"
    orphan = f"({_of_batches(found.dead)} OR {taken})"
    revived = f"({_of_batches(found.revived)} AND ({taken}) IS NOT TRUE)"
    return Marks(
        orphaned=found.orphaned,
        live_again=found.live_again,
        condition=f"{view.own.predicate} AND ({orphan} OR {revived})",
        is_orphan=orphan,
    )


def _live(rows: pa.Table, is_live: Any, replays: Sequence[Selection]) -> Any:
    """Marks the rows whose batch counts and that no replay has turned into rows of the table."""
    keys = list(_tuples(rows, _BATCH))
    known = {key: is_live(*key) for key in set(keys)}
    live = pa.array([known[key] for key in keys], pa.bool_())
    for taken in replays:
        live = pc.and_not(live, pc.fill_null(taken.mask(rows), False))
    return live


def _of_batches(keys: Iterable[tuple[int, str | None, str]]) -> str:
    """Two IN lists, however many batches there are: a chain of ORs would nest too deep."""
    keys = sorted(keys, key=str)
    named = [literal(batch_id) for _, batch_id, _ in keys if batch_id is not None]
    older = [literal(f"{sequence}/{run_id}") for sequence, batch_id, run_id in keys if batch_id is None]
    parts = [f"batch_id IN ({', '.join(named)})"] if named else []
    if older:
        parts.append(f"(batch_id IS NULL AND concat(CAST(sequence AS VARCHAR), '/', run_id) IN ({', '.join(older)}))")
    return f"({' OR '.join(parts) or 'false'})"


def commit_marks(view: QuarantineView, marks: Marks, head: CommitProperties | None) -> None:
    """One commit, with the new head if it is the last one of a realignment."""
    quarantine, table, stamp = view.quarantine, view.table, head or _same_head(view)
    reach("realign.marks")
    if marks:
        table.update(
            updates={"orphaned": f"CASE WHEN {marks.is_orphan} THEN true ELSE false END"},
            predicate=marks.condition,
            commit_properties=stamp,
            post_commithook_properties=HOOKS,
        )
        quarantine.make_durable(table)
    else:
        quarantine.append(table, [], stamp)


def add_missing(view: QuarantineView, files: Sequence[str], head: CommitProperties) -> int:
    """Copy records that are live and missing from these files into a new one. Commit it together with the new head."""
    is_live, replays, store = view.chain.liveness(), view.replays, view.quarantine.store
    there: Counter[tuple[Any, ...]] = Counter()
    for rows in view.rows():
        there.update(_tuples(rows, _PLACE))
    name, added = f"blizzard-realign-{os.urandom(6).hex()}.parquet", 0
    sink = store.create(name)
    with pq.ParquetWriter(sink.target, ARROW_SCHEMA, compression="zstd") as writer:
        for file in files:
            for rows in read_rows(store, file, ARROW_SCHEMA.names):
                live = rows.filter(pc.and_(view.own.mask(rows), _live(rows, is_live, replays)))
                new = live.filter(pa.array([_is_new(key, there) for key in _tuples(live, _PLACE)], pa.bool_()))
                writer.write_table(new)
                added += new.num_rows
    sink.close()
    store.sync("")
    reach("realign.adds")
    view.quarantine.append(view.table, [read_footer(store, name)], head)
    return added


def _is_new(key: tuple[Any, ...], there: Counter[tuple[Any, ...]]) -> bool:
    there[key] -= 1
    return there[key] < 0


def _same_head(view: QuarantineView) -> CommitProperties:
    """The head, written once more unchanged: a settle at the same time then conflicts with it."""
    facts = facts_of(view.table, view.pipeline, view.table_id)
    return view.quarantine.stamp_of(view.pipeline, view.table_id, facts.sequence or 0, facts.head or 0)


def _tuples(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)
