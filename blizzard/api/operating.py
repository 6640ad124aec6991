"""`status`, `audit`, `files` and `rollback`: what the commands of these names do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from blizzard.api.given import given, spoken
from blizzard.api.results import Audit, Files, IngestedFile, RolledBack, Status
from blizzard.core.events import Event, Noted
from blizzard.operate.audit import audit_source
from blizzard.operate.rollback import roll_back
from blizzard.operate.status import ingested_files, table_status
from blizzard.run.stream import Stream
from blizzard.text.arguments import in_python


@spoken
def status(
    table: str | None = None,
    *,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    target: str | None = None,
    config: str | None = None,
    source: str | None = None,
    pattern: str | None = None,
    explain: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Status:
    """Which pipelines write to a table, where each stands, and how the next start would recover. Changes nothing.

    With `source` only the pipelines that read it, and their backlog. With `explain` also why the next start would
    recover like that. With `targets`, as for `ingest`, `target` is the name of the one to look at. `config` is a
    configuration file; `options` takes its keys, such as `storage_options.AWS_REGION`.
    """
    keys = {"table.path": table, "source.path": source, "source.pattern": pattern}
    gave = given(keys, config=config, options=options, targets=targets, target=target)
    with gave.looking() as assembly:
        return Status.of(table_status(assembly, explain=explain))


@spoken
def audit(
    *,
    source: str | None = None,
    table: str | None = None,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    target: str | None = None,
    config: str | None = None,
    pipeline: str | None = None,
    no_rows: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Audit:
    """Compare the whole source with what was ingested, the quarantine, and the table's rows. Changes nothing.

    `ok` is False if there is anything that a person should look at; `problems` names it. With `no_rows` the table's own
    column `source_file`, if it has one, is not read.
    """
    keys = {"table.path": table, "source.path": source}
    gave = given(keys, config=config, options=options, targets=targets, target=target, pipeline=pipeline)
    with gave.ingesting() as assembly:
        return Audit.of(audit_source(assembly, counts_rows=not no_rows))


@spoken
def files(
    table: str | None = None,
    *,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    target: str | None = None,
    config: str | None = None,
    pipeline: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Files:
    """Which source file went in at which version, from the ledgers in the log, the newest commit first."""
    gave = given({"table.path": table}, config=config, options=options, targets=targets, target=target)
    notes: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Noted):
            notes.append(in_python(event.message))

    with gave.looking() as assembly:
        rows = ingested_files(assembly.open_table(), pipeline or gave.pipeline, Stream(assembly.emit, note))
        return Files(table=assembly.request.table_shown, files=tuple(map(IngestedFile.of, rows)), notes=tuple(notes))


@spoken
def rollback(
    table: str | None = None,
    *,
    to: int,
    source: str | None = None,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    target: str | None = None,
    config: str | None = None,
    pipeline: str | None = None,
    committer: Literal["delta-rs", "delta-spark"] | None = None,
    with_schema: bool = False,
    dry_run: bool = False,
    accept_quarantine_loss: bool = False,
    options: Mapping[str, Any] | None = None,
) -> RolledBack:
    """Go back to sequence `to`, in one commit: what later sequences added leaves the table, and the next run reads it
    again. 0 is before the first commit. With `dry_run` nothing is changed.

    `source` is that of the pipeline, as for `ingest`. With `with_schema` columns that were added since are removed too.
    Raises Refused, and changes nothing, if source files that would have to be read again are gone or have changed.
    """
    keys = {"table.path": table, "source.path": source, "table.committer": committer}
    gave = given(keys, config=config, options=options, targets=targets, target=target, pipeline=pipeline)
    with gave.ingesting(accepts_quarantine_loss=accept_quarantine_loss) as assembly:
        return RolledBack.of(roll_back(assembly, to=to, with_schema=with_schema, applies=not dry_run))
