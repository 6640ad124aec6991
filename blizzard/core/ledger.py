"""The ledger: what one commit took from which file, as JSON in `commitInfo.userMetadata`.

Used for audit, late files, rollback, and archiving or deleting source files. Recovery does not need it while the
payload is sound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import orjson

from blizzard.core.fields import MAX_INTEGER, CodecError, WrongType, integer, object_of, text
from blizzard.core.framing import LINES, UTF8, is_framing
from blizzard.core.kinds import STANDING, CommitKind
from blizzard.core.names import is_below, is_name
from blizzard.core.pause_json import pause_of, pause_to_json
from blizzard.core.position import Paused
from blizzard.core.source_json import source_of, source_to_json
from blizzard.core.types import SliceReport, SourceIdentity

MAX_LEDGER_BYTES = 4 * 1024 * 1024
_VERSION = 1
# The quarantine table has the full reason why a file broke.
MAX_BROKEN_BYTES = 80
SKIPPED = "skipped"  # instead of why a file broke: a person left it, or its rest, out
_ENTRY_FIELDS = 7
_ENTRY = itemgetter("path", "size", "etag", "from", "to", "finished", "bad")


class LedgerTooLarge(Exception):
    """A ledger this large would slow down every reader of the log."""


class _NotALedger(WrongType):
    """A field that blizzard would never have written like this."""


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
    # How many of the bad records only the source file has whole. None: an older version did not count them.
    cut: int | None = 0
    framing: str = LINES  # what `from_record` and `to_record` count
    encoding: str = UTF8
    filtered: int = 0  # records that the table does not take
    unrouted: int = 0  # how many of them no target of the pipeline takes


def entry_of_skipped(path: str, size_bytes: int, etag: str) -> LedgerEntry:
    """Says that nothing of the file was taken, and that it was not forgotten."""
    return LedgerEntry(
        path=path, size_bytes=size_bytes, etag=etag, from_record=0, to_record=0, finished=True, bad=0, broken=SKIPPED
    )


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
    quarantined: int | None = None  # how many records these files hold; None: there is none, or an older version
    # Batches whose records this commit takes out of quarantine to make room, and how many each had there then.
    dropped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    # batch; renewal: the same position once more; replay: records from the quarantine table, so no file is named;
    # edit: a person moved the position; rollback: back to an older sequence, what came after it is taken back; pause,
    # resume: the same position once more, and nothing is read after it, or is read again
    kind: CommitKind = CommitKind.BATCH
    rolled_back_to: int | None = None
    superseded: tuple[int, ...] = ()  # sequences that this commit took back: they no longer count
    paused: Paused | None = None  # whether the pipeline is paused after this commit
    began_ms: int | None = None  # when what it holds was planned, before anything was read; None: nothing was, or older


def ledger_entry_bytes(path: str, etag: str) -> int:
    """About how many bytes one file costs in the ledger. The commit's own JSON quotes the ledger once more."""
    return 2 * len(orjson.dumps(path)) + 2 * len(etag) + 280 + MAX_BROKEN_BYTES


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
            cut=r.cut,
            framing=r.framing,
            encoding=r.encoding,
            filtered=r.filtered,
            unrouted=r.unrouted,
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
            "source": source_to_json(ledger.source),
            "records": ledger.records,
            **({"quarantine": ledger.quarantine} if ledger.quarantine else {}),
            **({"quarantined": ledger.quarantined} if ledger.quarantined is not None else {}),
            **({"dropped": dict(ledger.dropped)} if ledger.dropped else {}),
            **({"kind": _written(ledger.kind)} if ledger.kind != CommitKind.BATCH else {}),
            **({"command": ledger.kind} if _written(ledger.kind) != ledger.kind else {}),
            **({"paused": pause_to_json(ledger.paused)} if ledger.paused is not None else {}),
            **({"began_ms": ledger.began_ms} if ledger.began_ms is not None else {}),
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
                    # Always written with bad records: without it nobody knows whether they were counted.
                    **({"cut": e.cut} if (e.bad or e.cut) and e.cut is not None else {}),
                    **({"framing": e.framing} if e.framing != LINES else {}),
                    **({"encoding": e.encoding} if e.encoding != UTF8 else {}),
                    **({"filtered": e.filtered} if e.filtered else {}),
                    **({"unrouted": e.unrouted} if e.unrouted else {}),
                }
                for e in ledger.entries
            ],
        }
    )
    if len(text) > MAX_LEDGER_BYTES:
        raise LedgerTooLarge(f"the ledger is {len(text)} bytes, the limit is {MAX_LEDGER_BYTES}")
    return text.decode()


def decode_ledger(user_metadata: str | None) -> Ledger | None:
    """The ledger in a commit's userMetadata. None if there is none, or if one field is not as blizzard writes it. A
    caller that needs the ledger must refuse on None."""
    fields = _fields(user_metadata)
    try:
        return _ledger(fields) if fields is not None else None
    except CodecError:
        return None


def ledger_versions(
    user_metadata: str | None, pipeline: str, superseded: set[int]
) -> list[tuple[str, tuple[int, str]]] | None:
    """Only names, sizes and etags in a ledger of this pipeline, because there may be a million; None: no ledger. Call
    it for ledgers newest first: it adds to `superseded` what each took back. A ledger taken back names nothing."""
    fields = _fields(user_metadata)
    if fields is None or fields.get("pipeline") != pipeline:
        return None
    try:
        ledger = _ledger_without_files(fields)
        files = _checked_files(fields)
    except CodecError:
        return None
    if ledger.sequence in superseded:
        return []
    superseded.update(ledger.superseded)
    return [(entry["path"], (entry["size"], entry["etag"])) for entry in files]


def _fields(user_metadata: str | None) -> dict[str, Any] | None:
    if not user_metadata or '"blizzard"' not in user_metadata:
        return None
    try:
        fields = orjson.loads(user_metadata)
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) and _is_integer(fields.get("blizzard"), _VERSION, _VERSION) else None


def _ledger(fields: dict[str, Any]) -> Ledger:
    return replace(_ledger_without_files(fields), entries=tuple(map(_entry, _checked_files(fields))))


def _ledger_without_files(fields: dict[str, Any]) -> Ledger:
    sequence, source = integer(fields, "sequence", at_least=1), fields.get("source")
    rolled_back_to = fields.get("rolled_back_to")
    superseded, quarantine = fields.get("superseded", []), fields.get("quarantine", [])
    quarantined, dropped = fields.get("quarantined", 0), fields.get("dropped", {})
    kind = _kind(fields)
    if not (
        isinstance(source, dict)
        and (rolled_back_to is None or _is_integer(rolled_back_to, 0, sequence - 1))
        and type(superseded) is list
        and all(_is_integer(number, 1, sequence - 1) for number in superseded)
        and type(quarantine) is list
        and all(map(is_below, quarantine))
        and _is_integer(quarantined, 0, MAX_INTEGER)
        and _is_integer(fields.get("began_ms", 0), 0, MAX_INTEGER)
        and type(dropped) is dict
        and all(name and _is_integer(rows, 0, MAX_INTEGER) for name, rows in dropped.items())
        and kind is not None
    ):
        raise _NotALedger
    return Ledger(
        pipeline=text(fields, "pipeline"),
        sequence=sequence,
        run_id=text(fields, "run_id"),
        batch_id=text(fields, "batch_id"),
        base_version=integer(fields, "base_version"),
        source=source_of(source),
        records=integer(fields, "records"),
        quarantine=tuple(quarantine),
        quarantined=fields.get("quarantined"),
        dropped=dropped,
        kind=kind,
        rolled_back_to=rolled_back_to,
        superseded=tuple(superseded),
        paused=pause_of(object_of(fields, "paused")) if "paused" in fields else None,
        began_ms=fields.get("began_ms"),
        entries=(),
    )


def _written(kind: CommitKind) -> CommitKind:
    """An older release takes a ledger of an unknown kind for damaged, and would refuse after a pause that is over. For
    it a pause is a renewal, which it is too; only the field `command` says more."""
    return CommitKind.RENEWAL if kind in STANDING else kind


def _kind(fields: dict[str, Any]) -> CommitKind | None:
    written = fields.get("kind", CommitKind.BATCH)
    meant = fields.get("command", written)
    return next((known for known in CommitKind if (known, _written(known)) == (meant, written)), None)


def _checked_files(fields: dict[str, Any]) -> list[dict[str, Any]]:
    files = fields.get("files")
    if type(files) is not list or not all(map(_is_entry, files)):
        raise _NotALedger
    return files


def _is_entry(fields: Any) -> bool:
    """Written for speed: it runs for a million names."""
    try:
        path, size, etag, start, end, finished, bad = _ENTRY(fields)
    except (KeyError, TypeError, IndexError):
        return False
    return (
        type(size) is type(start) is type(end) is type(bad) is int
        and type(etag) is str
        and type(finished) is bool
        and 0 <= size <= MAX_INTEGER
        and 0 <= start <= end <= MAX_INTEGER
        and 0 <= bad <= end - start
        and is_name(path)
        and (len(fields) == _ENTRY_FIELDS or _has_sound_options(fields, bad, end - start - bad))
    )


def _has_sound_options(fields: dict[str, Any], bad: int, good: int) -> bool:
    get = fields.get
    framing, encoding = get("framing", LINES), get("encoding", UTF8)
    filtered, unrouted = get("filtered", 0), get("unrouted", 0)
    return (
        _is_integer(filtered, 0, good)
        and _is_integer(unrouted, 0, filtered)
        and _is_integer(get("cut", 0), 0, bad + unrouted)
        and type(get("late", False)) is bool
        and type(get("broken", "")) is type(framing) is type(encoding) is str
        and is_framing(framing)
    )


def _entry(fields: dict[str, Any]) -> LedgerEntry:
    return LedgerEntry(
        path=fields["path"],
        size_bytes=fields["size"],
        etag=fields["etag"],
        from_record=fields["from"],
        to_record=fields["to"],
        finished=fields["finished"],
        bad=fields["bad"],
        broken=fields.get("broken"),
        late=fields.get("late", False),
        cut=fields.get("cut", None if fields["bad"] else 0),
        framing=fields.get("framing", LINES),
        encoding=fields.get("encoding", UTF8),
        filtered=fields.get("filtered", 0),
        unrouted=fields.get("unrouted", 0),
    )


def _is_integer(value: Any, at_least: int, at_most: int) -> bool:
    return type(value) is int and at_least <= value <= at_most  # a bool does not count as a number
