"""Looks at a table: pipelines, positions, ledgers. Changes nothing. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from blizzard.core.changed import check_in_progress
from blizzard.core.codec import PREFIX, decode_json
from blizzard.core.events import Emit, Noted, unheard
from blizzard.core.explain import explain_recovery
from blizzard.core.fields import CodecError
from blizzard.core.history import Superseded, ledgers_of
from blizzard.core.late import EVERYTHING, LatePolicy, compare_with_ledgers, files_to_take_up
from blizzard.core.ledger import decode_ledger
from blizzard.core.log import CheckpointFacts, CommitFacts, Standing, Txn, fences_of, positions_in, standings_of
from blizzard.core.look import Listed
from blizzard.core.paths import Path
from blizzard.core.patterns import word_for
from blizzard.core.plan import count_backlog
from blizzard.core.position import Paused, Position
from blizzard.core.readers import is_meant
from blizzard.core.recover import Resume
from blizzard.core.refuse import Refuse, describe_position, filters_shown
from blizzard.core.types import SourceIdentity
from blizzard.delta.table import DeltaRsTable
from blizzard.operate.mirrors import MirrorStatus, mirror_status
from blizzard.run.assemble import Assembly
from blizzard.run.ports import Quarantine
from blizzard.run.settle import recovery_with_quarantine
from blizzard.source.listed import ListedSource
from blizzard.source.looked import Looks
from blizzard.store.uri import show_uri

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """Where one pipeline stands and how the next start would recover."""

    pipeline: str
    source: str
    pattern: str
    sequence: int
    delta_version: int
    committed_at_ms: int
    run_id: str
    mark: str | None
    in_progress: dict[str, int]
    held_back: dict[str, str]  # by the last run that committed: files that could not be read, and why
    recovery: Path
    recovery_message: str | None
    backlog_files: int | None = None
    backlog_bytes: int | None = None
    late_files: int | None = None
    rewritten_files: int | None = None
    unclear_files: int | None = None
    held_files: int | None = None
    # What is in the source's folder and is not read: it matches no pattern, or a filter leaves it out.
    unmatched_files: int | None = None
    unmatched_by_suffix: dict[str, int] | None = None
    filtered_files: int | None = None
    filters: dict[str, str] | None = None  # source.ignore, source.modified_…; None: unknown
    start_from: str | None = None
    explanation: tuple[str, ...] | None = None
    paused: Paused | None = None  # runs read nothing, since when and why
    mirror: MirrorStatus | None = None  # None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    table: str
    table_id: str
    version: int
    pipelines: tuple[PipelineStatus, ...]


def table_status(assembly: Assembly, *, explain: bool = False) -> TableStatus:
    config, table, looks = assembly.config, assembly.open_table(), assembly.looks or Looks()
    location = assembly.request.source_location if config.source.path is not None else None
    min_age_s = config.source.min_age_s or 0

    def look(position: Position) -> Listed:
        """At what the pipeline reads, whatever filters are given."""
        assert location is not None
        reads = location.reading(position.source, position.begun.since_ms)
        return looks.of(ListedSource(location=reads, min_age_s=min_age_s)).look(EVERYTHING)

    status = read_status(
        table,
        uri=show_uri(table.root),
        scan_commits=config.checkpoint.scan_commits,
        is_asked_for=None
        if location is None
        else lambda source: is_meant(source, location.identity, location.by_default),
        look=None if location is None else look,
        late=config.late_policy,
        quarantine=assembly.quarantine,
        explain=explain,
    )
    mirrored = [replace(p, mirror=mirror_status(assembly, table, p.pipeline, p.sequence)) for p in status.pipelines]
    return replace(status, pipelines=tuple(mirrored))


def read_status(
    table: DeltaRsTable,
    *,
    uri: str,
    scan_commits: int,
    is_asked_for: Callable[[SourceIdentity], bool] | None = None,
    look: Callable[[Position], Listed] | None = None,
    late: LatePolicy | None = None,
    quarantine: Quarantine | None = None,
    explain: bool = False,
) -> TableStatus:
    """With `is_asked_for`, only the pipelines that read such a source. With `look`, which lists the source of a
    position, also their backlog, counted as a run does."""
    commits = list(table.scan_back())
    checkpoint = older_txns(table, commits[-1] if commits else None)
    standings = standings_of(commits, checkpoint)
    statuses = []
    for _, found in sorted(standings.items()):
        if is_asked_for is None or is_asked_for(found.position.source):
            listed = None if look is None else look(found.position)
            status = _pipeline_status(table, found, scan_commits, listed, quarantine, explain)
            backlog = {} if listed is None else _backlog(table, found.position, listed, late or LatePolicy())
            statuses.append(replace(status, **backlog))
    if is_asked_for is None:
        txns = [txn for commit in commits for txn in commit.txns] + list(checkpoint.txns if checkpoint else ())
        lost = [(name, fence) for name, fence in sorted(fences_of(txns).items()) if name not in standings]
        statuses += [_lost_status(table, name, fence, scan_commits, explain) for name, fence in lost]
    return TableStatus(table=uri, table_id=table.table_id, version=table.version, pipelines=tuple(statuses))


def older_txns(table: DeltaRsTable, oldest: CommitFacts | None) -> CheckpointFacts | None:
    """The newest Delta checkpoint, if the log no longer begins at version 0."""
    return None if oldest is not None and oldest.version == 0 else table.newest_checkpoint()


def _pipeline_status(
    table: DeltaRsTable,
    found: Standing,
    scan_commits: int,
    listed: Listed | None,
    quarantine: Quarantine | None,
    explain: bool,
) -> PipelineStatus:
    position = found.position
    next_start = _next_start(table, position.pipeline, scan_commits, explain, listed, quarantine)
    return PipelineStatus(
        pipeline=position.pipeline,
        source=position.source.root,
        pattern=word_for(position.source.pattern),
        filters=filters_shown(position.source),
        start_from=position.begun.start_from,
        sequence=position.sequence,
        delta_version=found.version,
        committed_at_ms=found.committed_at_ms,
        run_id=position.run_id,
        mark=position.marks.last_committed_file,
        in_progress={path: p.records for path, p in position.marks.in_progress.items()},
        held_back=dict(position.seen.held_back),
        **{"paused": position.paused} | next_start,
    )


def _backlog(table: DeltaRsTable, position: Position, listed: Listed, policy: LatePolicy) -> dict[str, Any]:
    """What a run would find in the source."""
    found = compare_with_ledgers(listed, position, table.scan_back(), policy)
    files, stored_bytes = count_backlog(position.marks, listed.files, files_to_take_up(found, policy))
    return {
        "backlog_files": files,
        "backlog_bytes": stored_bytes,
        "late_files": len(found.late),
        "rewritten_files": len(found.rewritten),
        "unclear_files": len(found.unclear),
        "held_files": len(listed.held),
        **listed.left_out.shown,
    }


def _lost_status(table: DeltaRsTable, name: str, fence: Txn, scan_commits: int, explain: bool) -> PipelineStatus:
    """A pipeline whose fence shows that it has committed, but whose position cannot be read."""
    return PipelineStatus(
        pipeline=name,
        source=_UNKNOWN,
        pattern=_UNKNOWN,
        sequence=fence.version,
        delta_version=table.version,
        committed_at_ms=fence.last_updated_ms or 0,
        run_id=_UNKNOWN,
        mark=None,
        in_progress={},
        held_back={},
        **_next_start(table, name, scan_commits, explain),
    )


def _next_start(
    table: DeltaRsTable,
    pipeline: str,
    scan_commits: int,
    explain: bool,
    listed: Listed | None = None,
    quarantine: Quarantine | None = None,
) -> dict[str, Any]:
    """How it would recover, as fields of a status; and whether it is paused, if the position can be used."""
    facts, recovery = recovery_with_quarantine(table, pipeline, scan_commits=scan_commits, quarantine=quarantine)
    paused = {"paused": recovery.position.paused} if isinstance(recovery, Resume) else {}
    if listed is not None and isinstance(recovery, Resume):
        recovery = check_in_progress(recovery.marks, listed.files) or recovery
    return paused | {
        "recovery": recovery.path,
        "recovery_message": recovery.message if isinstance(recovery, Refuse) else None,
        "explanation": explain_recovery(facts, recovery, pipeline) if explain else None,
    }


def newest_payloads(table: DeltaRsTable, pipeline: str | None) -> list[dict[str, Any]]:
    """The newest payload of each pipeline, decoded, even if recovery would refuse it."""
    found: dict[str, dict[str, Any]] = {}
    for held in _held_txns(table):
        if not held.txn.app_id.startswith(PREFIX):
            continue
        try:
            fields = decode_json(held.txn.app_id)
        except CodecError as e:
            fields = {"error": f"{e.kind}: {e}"}
        name = str(fields.get("pipeline", f"(version {fields.get('schema_version', '?')} payload)"))
        if pipeline in (None, name):
            found.setdefault(name, held.place | {"payload_bytes": len(held.txn.app_id)} | fields)
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeldTxn:
    """A Txn and where it is: in `commit`; or, if that is None, only in the Delta checkpoint of `version`."""

    txn: Txn
    version: int
    commit: CommitFacts | None = None

    @property
    def place(self) -> dict[str, Any]:
        return {"delta_commit": self.version} if self.commit is not None else {"delta_checkpoint": self.version}


def _held_txns(table: DeltaRsTable) -> Iterator[_HeldTxn]:
    """Every Txn that the log still has, newest first."""
    oldest: CommitFacts | None = None
    seen: set[str] = set()
    for commit in table.scan_back():
        oldest = commit
        for txn in commit.txns:
            seen.add(txn.app_id)
            yield _HeldTxn(txn=txn, version=commit.version, commit=commit)
    checkpoint = older_txns(table, oldest)
    if checkpoint is not None:
        older = [txn for txn in checkpoint.txns if txn.app_id not in seen]
        for txn in sorted(older, key=lambda txn: -txn.version):  # the version of a payload is its sequence
            yield _HeldTxn(txn=txn, version=checkpoint.version)


def ingested_files(table: DeltaRsTable, pipeline: str | None, emit: Emit = unheard) -> Iterator[dict[str, Any]]:
    """Which source file was ingested at which version, newest commit first, from the ledgers. A Delta checkpoint has
    positions but no ledgers: pipelines found only there are noted at the end."""
    oldest: CommitFacts | None = None

    def commits() -> Iterator[CommitFacts]:
        nonlocal oldest
        for commit in table.scan_back():
            oldest = commit
            yield commit

    for commit, ledger in ledgers_of(commits(), pipeline):
        for entry in ledger.entries:
            yield {
                "path": entry.path,
                "from": entry.from_record,
                "to": entry.to_record,
                "finished": entry.finished,
                "bad": entry.bad,
                "filtered": entry.filtered,
                "unrouted": entry.unrouted,
                "size": entry.size_bytes,
                "etag": entry.etag,
                "framing": entry.framing,
                "encoding": entry.encoding,
                "delta_version": commit.version,
                "sequence": ledger.sequence,
                "pipeline": ledger.pipeline,
                "run_id": ledger.run_id,
            }
    for name, found in sorted(standings_of((), older_txns(table, oldest)).items()):
        if pipeline in (None, name):
            message = (
                f"older commits are gone from the log, and the files they ingested are not listed. In the Delta"
                f" checkpoint pipeline {name} stands at sequence {found.position.sequence}"
                f" ({describe_position(found.position)})"
            )
            emit(Noted(message=message))


def checkpoints(table: DeltaRsTable, pipeline: str | None) -> Iterator[dict[str, Any]]:
    """Every position still in the log, newest first: in JSON commits, or in the Delta checkpoint before them."""
    superseded, taken_back = Superseded(), set[tuple[str, int]]()
    for held in _held_txns(table):
        ledger = decode_ledger(held.commit.user_metadata) if held.commit is not None else None
        is_taken_back = ledger is not None and superseded.meets(ledger)
        for position in positions_in([held.txn]):
            is_taken_back |= (position.pipeline, position.sequence) in taken_back
            if position.quarantine.rolled_back is not None and not is_taken_back:
                first, last = position.quarantine.rolled_back
                taken_back.update((position.pipeline, sequence) for sequence in range(first, last + 1))
            if pipeline in (None, position.pipeline):
                yield {
                    "pipeline": position.pipeline,
                    "sequence": position.sequence,
                    "delta_version": held.version,
                    "committed_at_ms": held.commit.timestamp_ms if held.commit is not None else position.taken_at_ms,
                    "files": len(ledger.entries) if ledger else None,
                    "records": ledger.records if ledger else None,
                    "bytes": sum(entry.size_bytes for entry in ledger.entries) if ledger else None,
                    "run_id": position.run_id,
                    "payload_bytes": len(held.txn.app_id),
                    "in_progress": len(position.marks.in_progress),
                    "kind": ledger.kind if ledger else None,
                    "superseded": is_taken_back,
                    "in_log": held.commit is not None,
                }


def payload_of(table: DeltaRsTable, pipeline: str | None, sequence: int) -> list[dict[str, Any]]:
    """The payloads of this sequence, with the schema of the table as it was after their commit."""
    found = []
    for held in _held_txns(table):
        for position in positions_in([held.txn]):
            if position.sequence == sequence and pipeline in (None, position.pipeline):
                schema = table.ddl_at(held.version) if held.commit is not None else None
                found.append(
                    held.place
                    | {"payload_bytes": len(held.txn.app_id), "schema": schema}
                    | decode_json(held.txn.app_id)
                )
    return found


def find_position(table: DeltaRsTable, pipeline: str, sequence: int) -> Position | None:
    """The position of this sequence, if it is still in the log."""
    positions = (position for held in _held_txns(table) for position in positions_in([held.txn]))
    return next((s for s in positions if (s.pipeline, s.sequence) == (pipeline, sequence)), None)
