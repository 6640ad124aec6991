"""What every task of a run gets. It travels to the executors, with the credentials that were given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from blizzard.core.bad import BadPolicy
from blizzard.schema import DeltaSchema
from blizzard.schema.evolve import has_rescued_column
from blizzard.schema.layout import TableLayout
from blizzard.schema.where_tree import Where
from blizzard.store import open_store
from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.transform_code import Transform

_BLOCK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which records one target of the pipeline takes. `parsing`: how that target reads them."""

    where: Where | None  # None: all
    parsing: ParsePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    source_root: str
    compression: str
    table_root: str
    layout: TableLayout
    pipeline: str
    run_id: str
    target_file_bytes: int
    codec: str
    max_record_bytes: int
    indexed_columns: int
    quarantine_root: str
    encoding: str = "auto"
    parsing: ParsePolicy = field(default_factory=ParsePolicy)
    bad: BadPolicy = field(default_factory=BadPolicy)
    parser: str = "auto"  # or native, pyarrow, reference: no other may read the lines
    block_bytes: int = _BLOCK_BYTES
    source_access: Access = NO_ACCESS
    table_access: Access = NO_ACCESS
    quarantine_access: Access | None = None  # None: the same as for the table
    transform: Transform | None = None  # what becomes of the records before they are rows
    # Of the other targets of the pipeline: all of them must see the same records in a file, also alone.
    wrapper_columns: tuple[str, ...] = ()
    where: Where | None = None  # which records are for this target; None: all
    # For the first target alone: those of all configured targets, also of targets that this task does not write. What
    # none of them takes is counted, and kept in this target's quarantine or dropped.
    routes: tuple[Route, ...] = ()
    unrouted: str = "drop"  # or quarantine

    def with_schema(self, schema: DeltaSchema) -> TaskSpec:
        """The same task for the table as it is now. Where it has `_rescued_data`, what has no column goes there."""
        keeps_rest = self.parsing.unknown is Unknown.REPORT and has_rescued_column(schema)
        return replace(
            self, layout=self.layout.with_schema(schema), parsing=replace(self.parsing, keeps_rest=keeps_rest)
        )

    @property
    def record_schema(self) -> DeltaSchema:
        """The schema that lines are parsed under."""
        return self.layout.record_schema if self.transform is None else self.transform.reads

    @property
    def source(self) -> Store:
        return open_store(self.source_root, self.source_access)

    @property
    def quarantine(self) -> Store:
        access = self.table_access if self.quarantine_access is None else self.quarantine_access
        return open_store(self.quarantine_root, access)
