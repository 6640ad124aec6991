"""Turns commits, newest first, into the rows and positions of their pipelines. Pure. Keeps no ledger after counting it:
five hundred of them may name millions of files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from blizzard.core.codec import FENCE_PREFIX
from blizzard.core.history import Superseded
from blizzard.core.kinds import CommitKind
from blizzard.core.ledger import SKIPPED, Ledger, LedgerEntry, decode_ledger
from blizzard.core.log import CommitFacts, decode_payloads, payloads
from blizzard.core.position import Position
from blizzard.report.facts import CommitRow


@dataclass(slots=True, kw_only=True)
class PipelineRows:
    rows: list[CommitRow] = field(default_factory=list)
    newest: tuple[CommitFacts, Position] | None = None  # the newest readable position
    remembered: Position | None = None  # from a Delta checkpoint, if no commit has one
    # Files that the last row's commit began to read. Only the position before that commit shows which were late.
    begun: tuple[str, ...] = ()
    made_at_ms: int | None = None  # when the pipeline made the table


@dataclass(slots=True, kw_only=True)
class Gathered:
    pipelines: dict[str, PipelineRows] = field(default_factory=dict)
    foreign: int = 0
    rust_versions: list[int] = field(default_factory=list)  # commits with a position of the Rust program

    def of(self, pipeline: str) -> PipelineRows:
        return self.pipelines.setdefault(pipeline, PipelineRows())


def gather(commits: Iterable[CommitFacts]) -> Gathered:
    gathered, superseded = Gathered(), Superseded()
    for commit in commits:
        ledger, found = decode_ledger(commit.user_metadata), decode_payloads(commit.txns)
        taken_back = ledger is not None and superseded.meets(ledger)
        fences = {t.app_id.removeprefix(FENCE_PREFIX): t.version for t in commit.txns if _is_fence(t.app_id)}
        positions = {position.pipeline: position for position in found.positions}
        problem = next((f"the payload is damaged ({e.kind}): {e}" for e in reversed(found.damaged)), None)
        names = {*fences, *positions, *((ledger.pipeline,) if ledger else ())}
        if found.of_rust:
            gathered.rust_versions.append(commit.version)
        if not names:
            gathered.foreign += 1
        for name in sorted(names):
            mine = ledger if ledger is not None and ledger.pipeline == name else None
            _take(gathered.of(name), commit, positions.get(name), mine, fences.get(name), taken_back, problem)
    return gathered


def _take(
    pipeline: PipelineRows,
    commit: CommitFacts,
    position: Position | None,
    ledger: Ledger | None,
    fence: int | None,
    taken_back: bool,
    problem: str | None,
) -> None:
    if position is not None:
        pipeline.newest = pipeline.newest or (commit, position)
        _count_late(pipeline, position)
    if fence == 0 and position is None and ledger is None:
        pipeline.made_at_ms = commit.timestamp_ms
        return  # it made the table and ingested nothing
    if position is None:
        problem = problem or "the commit has no payload"
    elif ledger is None:
        problem = "the ledger is missing or damaged: what the commit ingested is not known"
    else:
        problem = None
    sequences = (fence, position.sequence if position else None, ledger.sequence if ledger else None)
    pipeline.rows.append(
        replace(
            _row(commit, ledger, taken_back),
            sequence=next((s for s in sequences if s is not None), None),
            run_id=position.run_id if position else ledger.run_id if ledger else None,
            problem=problem,
        )
    )
    pipeline.begun = tuple(e.path for e in _read(ledger) if e.from_record == 0) if _reads_files(ledger) else ()


def _count_late(pipeline: PipelineRows, before: Position) -> None:
    """`before` is the position before the commit of the last row."""
    source = before.marks
    late = sum(1 for path in pipeline.begun if source.is_passed(path) and path not in source.files)
    if late and pipeline.rows:
        pipeline.rows[-1] = replace(pipeline.rows[-1], late_files=late)
    pipeline.begun = ()


def _read(ledger: Ledger | None) -> tuple[LedgerEntry, ...]:
    """What a ledger says of files that were read. One that was skipped on purpose is not among them."""
    return tuple(e for e in ledger.entries if e.broken != SKIPPED) if ledger else ()


def _reads_files(ledger: Ledger | None) -> bool:
    return ledger is not None and ledger.kind == CommitKind.BATCH


def _row(commit: CommitFacts, ledger: Ledger | None, taken_back: bool) -> CommitRow:
    entries = _read(ledger)
    return CommitRow(
        version=commit.version,
        at_ms=commit.timestamp_ms,
        sequence=None,
        kind=ledger.kind if ledger else "unknown",
        run_id=None,
        files=len(entries),
        finished_files=sum(e.finished for e in entries),
        records=ledger.records if ledger else 0,
        bytes=sum(e.size_bytes for e in entries if e.finished),
        bad=sum(e.bad for e in entries),
        dropped=sum(ledger.dropped.values()) if ledger else 0,
        broken_files=sum(e.broken is not None for e in entries),
        skipped_files=len(ledger.entries) - len(entries) if ledger else 0,
        began_ms=ledger.began_ms if ledger else None,
        late_files=0,
        payload_bytes=max((len(app_id) for app_id in payloads(commit)), default=0),
        is_superseded=taken_back,
        superseded=ledger.superseded if ledger else (),
        rolled_back_to=ledger.rolled_back_to if ledger else None,
        problem=None,
    )


def _is_fence(app_id: str) -> bool:
    return app_id.startswith(FENCE_PREFIX)
