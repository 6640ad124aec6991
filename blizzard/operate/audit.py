"""`blizzard audit`: compares the source with the ledgers of all pipelines, the quarantine, and, if it has a source_file
column, the table. Changes nothing."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc

from blizzard.core.audit import Audit, audit
from blizzard.core.balance import InQuarantine
from blizzard.core.kinds import Kind
from blizzard.core.late import EVERYTHING
from blizzard.core.position import Position
from blizzard.core.recover import Fresh
from blizzard.delta.errors import txn_version
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.quarantine.contents import purge_app_id
from blizzard.run.assemble import Assembly
from blizzard.run.recover import decide_start
from blizzard.schema.derived import Provenance, derived_columns
from blizzard.tasks.quarantine import Selection


def audit_source(assembly: Assembly, *, counts_rows: bool) -> Audit:
    """With `counts_rows`, one column of every data file of the table is read."""
    table = assembly.open_table()
    pipeline = assembly.pipeline_of(table)
    source = assembly.on(table, pipeline).source
    recovery = decide_start(
        table, pipeline=pipeline, source=source.identity, scan_commits=assembly.config.checkpoint.scan_commits
    )
    if isinstance(recovery, Fresh):
        raise ConfigError(
            f"pipeline {pipeline!r} has committed nothing to this table; blizzard status shows which have",
            kind=Kind.USAGE,
        )
    rows_of = _rows_by_file(table) if counts_rows else None
    listed = source.look(EVERYTHING)
    return audit(listed, recovery.position, table.scan_back(), rows_of, _in_quarantine(assembly, recovery.position))


def _in_quarantine(assembly: Assembly, position: Position) -> InQuarantine:
    quarantine, config, table_id = assembly.quarantine, assembly.config, position.on.table_id
    rows, table = Counter[int](), quarantine.open()
    own = Selection(pipeline=position.pipeline, table_id=table_id)
    for batch in quarantine.read(own, ["sequence"], table=table):
        rows.update(batch.column("sequence").to_pylist())
    # The next run adds what the newest commit left pending, if the files are there.
    is_pending = all(quarantine.store.stat(name) is not None for name in position.quarantine.pending)
    keeps_all = config.bad_records.policy == "quarantine" and config.quarantine.overflow == "block"
    return InQuarantine(
        rows=rows,
        was_purged=table is not None and any(txn_version(table, purge_app_id(i)) is not None for i in (None, table_id)),
        keeps_all=keeps_all,
        unsettled=position.sequence if is_pending and not quarantine.is_settled(position) else None,
    )


def _rows_by_file(table: DeltaRsTable) -> Counter[str] | None:
    column = next(
        (c.name for c in derived_columns(table.schema["fields"]) if c.derivation == Provenance(fact="source_file")),
        None,
    )
    if column is None:
        return None
    found = Counter[str]()
    for values in table.read_column(column):
        for counted in pc.value_counts(values.drop_null()).to_pylist():
            found[counted["values"]] += counted["counts"]
    return found
