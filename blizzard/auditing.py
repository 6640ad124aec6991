"""`blizzard audit`: the source, the ledgers, and the table itself where it says which file a row is from."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc
import pyarrow.parquet as pq

from blizzard.core.audit import Audit, audit
from blizzard.core.recover import Fresh
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError
from blizzard.job import Job, open_existing
from blizzard.schema.derived import Provenance, derived_columns
from blizzard.starting import state_to_go_on_from
from blizzard.store import open_store


def audit_job(job: Job, *, counts_rows: bool) -> Audit:
    """Changes nothing. With `counts_rows`, every data file of the table is read, one column of it."""
    table = open_existing(job.config)
    recovery = state_to_go_on_from(
        table,
        pipeline=job.pipeline,
        source=job.source.identity,
        scan_commits=job.config["checkpoint.scan_commits"],
    )
    if isinstance(recovery, Fresh):
        raise ConfigError(
            f"pipeline {job.pipeline!r} has committed nothing to this table; blizzard status shows which have",
            kind="usage",
        )
    rows_of = _rows_by_file(job, table) if counts_rows else None
    return audit(job.source.list(), recovery.state, table.scan_back(), rows_of)


def _rows_by_file(job: Job, table: DeltaRsTable) -> Counter[str] | None:
    column = next(
        (c.name for c in derived_columns(table.schema["fields"]) if c.derivation == Provenance(fact="source_file")),
        None,
    )
    if column is None:
        return None
    found = Counter[str]()
    store = open_store(table.root, job.table_access)
    for path in table.active_files():
        with store.open_seekable(path) as content, pq.ParquetFile(content) as file:
            if column not in file.schema_arrow.names:
                continue  # written by somebody else
            for batch in file.iter_batches(columns=[column]):
                for counted in pc.value_counts(batch.column(0).drop_null()).to_pylist():
                    found[counted["values"]] += counted["counts"]
    return found
