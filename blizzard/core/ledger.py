"""The ledger: what one commit took from which file, as JSON in `commitInfo.userMetadata`.

It is for audit and for telling late files from known ones. Recovery does not need it while the payload is sound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from blizzard.core.types import SliceReport, SourceIdentity

MAX_LEDGER_BYTES = 4 * 1024 * 1024
_VERSION = 1
# Why a file broke is told in full in the quarantine table.
MAX_BROKEN_BYTES = 80


class LedgerTooLarge(Exception):
    """A ledger this large would slow down every reader of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    path: str
    size_bytes: int
    etag: str
    from_record: int
    to_record: int
    finished: bool
    bad: int
    broken: str | None = None  # why nothing after `to_record` could be read
    late: bool = False  # the mark had passed it before anything was taken of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    pipeline: str
    sequence: int
    run_id: str
    batch_id: str
    base_version: int
    source: SourceIdentity
    records: int
    entries: tuple[LedgerEntry, ...]
    quarantine: tuple[str, ...] = ()  # files of bad records, as the payload names them
    # batch; replay: records from the quarantine table, so that no file is named; edit: a person moved the position;
    # rollback: the position of an older sequence, and what came after it is taken back
    kind: str = "batch"
    rolled_back_to: int | None = None
    superseded: tuple[int, ...] = ()  # sequences whose rows this commit removed: as if they had never been


def ledger_entry_bytes(path: str, etag: str) -> int:
    """About what one file costs in the ledger, quoted once more inside the commit's own JSON."""
    return 2 * len(orjson.dumps(path)) + 2 * len(etag) + 180 + MAX_BROKEN_BYTES


def entries_of(reports: Iterable[SliceReport], late: Collection[str] = ()) -> tuple[LedgerEntry, ...]:
    return tuple(
        LedgerEntry(
            path=r.path,
            size_bytes=r.size_bytes,
            etag=r.etag,
            from_record=r.from_record,
            to_record=r.to_record,
            finished=r.finished,
            bad=r.bad,
            broken=None if r.broken is None else r.broken[:MAX_BROKEN_BYTES],
            late=r.path in late,
        )
        for r in sorted(reports, key=lambda r: r.path)
    )


def encode_ledger(ledger: Ledger) -> str:
    text = orjson.dumps(
        {
            "blizzard": _VERSION,
            "pipeline": ledger.pipeline,
            "sequence": ledger.sequence,
            "run_id": ledger.run_id,
            "batch_id": ledger.batch_id,
            "base_version": ledger.base_version,
            "source": {
                "root": ledger.source.root,
                "pattern": ledger.source.pattern,
                **({} if ledger.source.marks_per is None else {"marks_per": ledger.source.marks_per}),
            },
            "records": ledger.records,
            **({"quarantine": ledger.quarantine} if ledger.quarantine else {}),
            **({"kind": ledger.kind} if ledger.kind != "batch" else {}),
            **({"rolled_back_to": ledger.rolled_back_to} if ledger.rolled_back_to is not None else {}),
            **({"superseded": ledger.superseded} if ledger.superseded else {}),
            "files": [
                {
                    **({"broken": e.broken} if e.broken is not None else {}),
                    "path": e.path,
                    "size": e.size_bytes,
                    "etag": e.etag,
                    "from": e.from_record,
                    "to": e.to_record,
                    "finished": e.finished,
                    "bad": e.bad,
                    **({"late": True} if e.late else {}),
                }
                for e in ledger.entries
            ],
        }
    )
    if len(text) > MAX_LEDGER_BYTES:
        raise LedgerTooLarge(f"the ledger is {len(text)} bytes, the limit is {MAX_LEDGER_BYTES}")
    return text.decode()


def decode_ledger(user_metadata: str | None) -> Ledger | None:
    """The ledger in a commit's userMetadata, or None where the commit is not one of blizzard's."""
    fields = _fields(user_metadata)
    try:
        return _ledger(fields) if fields is not None else None
    except (KeyError, TypeError):
        return None


def ledger_versions(
    user_metadata: str | None, pipeline: str, superseded: set[int]
) -> list[tuple[str, tuple[int, str]]]:
    """Only names, sizes and etags in a ledger of this pipeline: there may be a million of them to go through. Ledgers
    are given newest first; `superseded` gathers what later ones took back, and such a one names nothing."""
    fields = _fields(user_metadata)
    if fields is None or fields.get("pipeline") != pipeline:
        return []
    try:
        if fields["sequence"] in superseded:
            return []
        superseded.update(fields.get("superseded", ()))
        return [(entry["path"], (entry["size"], entry["etag"])) for entry in fields["files"]]
    except (KeyError, TypeError):
        return []


def _fields(user_metadata: str | None) -> dict[str, Any] | None:
    if not user_metadata or '"blizzard"' not in user_metadata:
        return None
    try:
        fields = orjson.loads(user_metadata)
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) and fields.get("blizzard") == _VERSION else None


def _ledger(fields: dict[str, Any]) -> Ledger:
    return Ledger(
        pipeline=fields["pipeline"],
        sequence=fields["sequence"],
        run_id=fields["run_id"],
        batch_id=fields["batch_id"],
        base_version=fields["base_version"],
        source=SourceIdentity(
            root=fields["source"]["root"],
            pattern=fields["source"]["pattern"],
            marks_per=fields["source"].get("marks_per"),
        ),
        records=fields["records"],
        quarantine=tuple(fields.get("quarantine", ())),
        kind=fields.get("kind", "batch"),
        rolled_back_to=fields.get("rolled_back_to"),
        superseded=tuple(fields.get("superseded", ())),
        entries=tuple(
            LedgerEntry(
                path=e["path"],
                size_bytes=e["size"],
                etag=e["etag"],
                from_record=e["from"],
                to_record=e["to"],
                finished=e["finished"],
                bad=e["bad"],
                broken=e.get("broken"),
                late=e.get("late") is True,
            )
            for e in fields["files"]
        ),
    )
