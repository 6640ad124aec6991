"""Looking at a table without changing it: pipelines, positions, ledgers. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.core.codec import CodecError, decode_json
from blizzard.core.explain import explain_recovery
from blizzard.core.history import Superseded, ledgers_of
from blizzard.core.late import compare_with_ledgers
from blizzard.core.ledger import decode_ledger
from blizzard.core.log import CommitFacts, payloads, pipelines_of, states_in
from blizzard.core.plan import count_backlog
from blizzard.core.recover import Refuse, decide_recovery
from blizzard.core.state import CheckpointState
from blizzard.core.types import SourceFile, SourceIdentity
from blizzard.delta.table import DeltaRsTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """Where one pipeline stands and how a start would recover."""

    pipeline: str
    source: str
    pattern: str
    sequence: int
    delta_version: int
    committed_at_ms: int
    run_id: str
    mark: str | None
    in_progress: dict[str, int]
    recovery: str
    recovery_message: str | None
    backlog_files: int | None = None
    backlog_bytes: int | None = None
    late_files: int | None = None
    rewritten_files: int | None = None
    explanation: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    table: str
    table_id: str
    version: int
    pipelines: tuple[PipelineStatus, ...]


def read_status(
    table: DeltaRsTable,
    *,
    uri: str,
    scan_commits: int,
    source: SourceIdentity | None = None,
    listing: Sequence[SourceFile] | None = None,
    explain: bool = False,
) -> TableStatus:
    """`source` keeps the pipelines that read it; with a `listing` of it their backlog is told, too."""
    statuses = tuple(
        _pipeline_status(table, commit, state, scan_commits, listing, explain)
        for _, (commit, state) in sorted(pipelines_of(table.scan_back()).items())
        if source is None or source == state.source
    )
    return TableStatus(table=uri, table_id=table.table_id, version=table.version, pipelines=statuses)


def _pipeline_status(
    table: DeltaRsTable,
    commit: CommitFacts,
    state: CheckpointState,
    scan_commits: int,
    listing: Sequence[SourceFile] | None,
    explain: bool,
) -> PipelineStatus:
    facts = table.observe(state.pipeline, scan_commits=scan_commits)
    recovery = decide_recovery(facts, pipeline=state.pipeline, source=None, start_from=None)
    unexpected = None if listing is None else compare_with_ledgers(listing, state, table.scan_back())
    backlog = count_backlog(state.source_state, listing) if listing is not None else (None, None)
    return PipelineStatus(
        pipeline=state.pipeline,
        source=state.source.root,
        pattern=state.source.pattern,
        sequence=state.sequence,
        delta_version=commit.version,
        committed_at_ms=commit.timestamp_ms,
        run_id=state.run_id,
        mark=state.source_state.last_committed_file,
        in_progress={path: p.records for path, p in state.source_state.in_progress.items()},
        recovery=recovery.path,
        recovery_message=recovery.message if isinstance(recovery, Refuse) else None,
        backlog_files=backlog[0],
        backlog_bytes=backlog[1],
        late_files=None if unexpected is None else len(unexpected.late),
        rewritten_files=None if unexpected is None else len(unexpected.rewritten),
        explanation=explain_recovery(facts, recovery, state.pipeline) if explain else None,
    )


def newest_payloads(table: DeltaRsTable, pipeline: str | None) -> list[dict[str, Any]]:
    """The newest payload of each pipeline, decoded for a person, even where recovery would refuse it."""
    found: dict[str, dict[str, Any]] = {}
    for commit in table.scan_back():
        for app_id in payloads(commit):
            try:
                fields = decode_json(app_id)
            except CodecError as e:
                fields = {"error": f"{e.kind}: {e}"}
            name = str(fields.get("pipeline", f"(version {fields.get('schema_version', '?')} payload)"))
            if pipeline in (None, name):
                found.setdefault(name, {"delta_commit": commit.version, "payload_bytes": len(app_id)} | fields)
    return list(found.values())


def ingested_files(table: DeltaRsTable, pipeline: str | None) -> Iterator[dict[str, Any]]:
    """Which source file went in at which version, newest commit first, from the ledgers."""
    for commit, ledger in ledgers_of(table.scan_back(), pipeline):
        for entry in ledger.entries:
            yield {
                "path": entry.path,
                "from": entry.from_record,
                "to": entry.to_record,
                "finished": entry.finished,
                "bad": entry.bad,
                "size": entry.size_bytes,
                "etag": entry.etag,
                "delta_version": commit.version,
                "sequence": ledger.sequence,
                "pipeline": ledger.pipeline,
                "run_id": ledger.run_id,
            }


def checkpoints(table: DeltaRsTable, pipeline: str | None) -> Iterator[dict[str, Any]]:
    """Every checkpoint in the log's JSON commits, newest first."""
    superseded = Superseded()
    for commit in table.scan_back():
        ledger = decode_ledger(commit.user_metadata)
        is_taken_back = ledger is not None and superseded.meets(ledger)
        sizes = {txn.app_id: len(txn.app_id) for txn in commit.txns}
        for txn in commit.txns:
            for state in states_in([txn]):
                if pipeline in (None, state.pipeline):
                    yield {
                        "pipeline": state.pipeline,
                        "sequence": state.sequence,
                        "delta_version": commit.version,
                        "committed_at_ms": commit.timestamp_ms,
                        "files": len(ledger.entries) if ledger else None,
                        "records": ledger.records if ledger else None,
                        "bytes": sum(entry.size_bytes for entry in ledger.entries) if ledger else None,
                        "run_id": state.run_id,
                        "payload_bytes": sizes[txn.app_id],
                        "in_progress": len(state.source_state.in_progress),
                        "kind": ledger.kind if ledger else None,
                        "superseded": is_taken_back,
                    }


def payload_of(table: DeltaRsTable, pipeline: str | None, sequence: int) -> list[dict[str, Any]]:
    """The payloads of this sequence, with the schema of the table as it was after their commit."""
    found = []
    for commit in table.scan_back():
        for txn in commit.txns:
            for state in states_in([txn]):
                if state.sequence == sequence and pipeline in (None, state.pipeline):
                    schema = table.ddl_at(commit.version)
                    found.append(
                        {"delta_commit": commit.version, "payload_bytes": len(txn.app_id), "schema": schema}
                        | decode_json(txn.app_id)
                    )
    return found
