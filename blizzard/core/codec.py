"""Checkpoint state to and from the `blizzard:` appId of a Txn action.

Only the fields written out here are ever encoded: no option, no secret. Decoding accepts exactly what a known
version writes; anything else is an error with its own kind, never a guess and never "start fresh".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

import orjson

from blizzard.core.names import is_below, is_name
from blizzard.core.position import (
    FINISHED,
    Begun,
    Cleaned,
    FileProgress,
    Finished,
    ForQuarantine,
    Marks,
    PlannedOn,
    Position,
    QuarantineHead,
    RecordsRead,
    RustPosition,
    Seen,
)
from blizzard.core.types import SourceIdentity

PREFIX = "blizzard:"
FENCE_PREFIX = "blizzard-fence:"
QUARANTINE_PREFIX = "blizzard-dlq:"
HEAD_PREFIX = "blizzard-dlq-head:"
MAX_APP_ID_BYTES = 256 * 1024
_DIGEST = re.compile(r"[0-9a-f]{1,16}:[0-9a-f]{1,16}")
NEWEST_VERSION = 2
_MAX_INTEGER = 2**63 - 1  # more than that no column and no Txn can hold


class CodecError(Exception):
    """A payload that cannot be trusted. `kind` says which check it failed."""

    kind = "payload"


class PayloadTooLarge(CodecError):
    kind = "payload_too_large"


class NotAPayload(CodecError):
    kind = "payload_prefix"


class BadBase64(CodecError):
    kind = "payload_base64"


class BadJson(CodecError):
    kind = "payload_json"


class UnknownVersion(CodecError):
    kind = "payload_version"


class MissingField(CodecError):
    kind = "payload_missing_field"


class UnknownField(CodecError):
    kind = "payload_unknown_field"


class WrongType(CodecError):
    kind = "payload_wrong_type"


class BadChecksum(CodecError):
    kind = "payload_checksum"


def fence_app_id(pipeline: str) -> str:
    return FENCE_PREFIX + pipeline


def quarantine_app_id(pipeline: str, table_id: str) -> str:
    """In the quarantine table: the newest sequence whose bad records are there. The table's id is part of it: a table
    made anew begins at sequence 1 again, and the old quarantine table would take that for long settled."""
    return f"{QUARANTINE_PREFIX}{pipeline}:{table_id}"


def head_app_id(pipeline: str, table_id: str) -> str:
    """In the quarantine table: which batch changed it last, as `head_number` of its batch_id. One stable appId, so that
    snapshots keep it and Delta checkpoints do not grow with every batch that has bad records."""
    return f"{HEAD_PREFIX}{pipeline}:{table_id}"


def head_number(batch_id: str | None) -> int:
    """A batch_id as the version of a Txn: 63 bits of its digest. 0: no batch."""
    if batch_id is None:
        return 0
    return int.from_bytes(hashlib.sha256(batch_id.encode()).digest()[:8], "big") >> 1 or 1


def encode_position(position: Position) -> str:
    """The appId of this state; refused when it would be larger than a reader of the log should have to bear."""
    fields = _position_to_json(position)
    fields["checksum"] = checksum_of(fields)
    app_id = PREFIX + base64.b64encode(orjson.dumps(fields)).decode("ascii")
    if len(app_id) > MAX_APP_ID_BYTES:
        raise PayloadTooLarge(f"checkpoint payload is {len(app_id)} bytes, the limit is {MAX_APP_ID_BYTES}")
    return app_id


def decode_position(app_id: str) -> Position | RustPosition:
    fields = decode_json(app_id)
    match fields.get("schema_version"):
        case bool() | None:
            raise _missing_or_wrong(fields, "schema_version", "an integer")
        case 1:
            return _decode_v1(fields)
        case 2:
            return _decode_v2(fields)
        case int() as version:
            raise UnknownVersion(f"checkpoint schema_version {version} is not known; a newer blizzard wrote it")
        case _:
            raise WrongType("schema_version is not an integer")


def decode_json(app_id: str) -> dict[str, Any]:
    """The payload's JSON object, unchecked beyond that: for showing it to a person."""
    if not isinstance(app_id, str):
        raise WrongType("the payload is no text")
    if not app_id.startswith(PREFIX):
        raise NotAPayload(f"appId does not begin with {PREFIX!r}")
    if len(app_id) > MAX_APP_ID_BYTES:
        raise PayloadTooLarge(f"checkpoint payload is {len(app_id)} bytes, the limit is {MAX_APP_ID_BYTES}")
    encoded = app_id[len(PREFIX) :]
    try:
        if len(encoded) % 4:  # b64decode passes over surplus padding
            raise BadBase64("checkpoint payload is not base64: its length is not a multiple of four")
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as e:
        raise BadBase64(f"checkpoint payload is not base64: {e}") from e
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as e:
        raise BadJson(f"checkpoint payload is not JSON: {e}") from e
    if not isinstance(fields, dict):
        raise WrongType("checkpoint payload is not a JSON object")
    return fields


def _position_to_json(position: Position) -> dict[str, Any]:
    files: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    for path, progress in position.marks.files.items():
        match progress:
            case Finished():
                files[path] = "Finished"
            case RecordsRead(records=records, size_bytes=size, etag=etag):
                files[path] = {"RecordsRead": records}
                if size is not None:
                    versions[path] = {"size": size, "etag": etag}
    return {
        "schema_version": NEWEST_VERSION,
        "source_state": {"files": files, "last_committed_file": position.marks.last_committed_file},
        "delta_version": position.on.delta_version,
        "pipeline": position.pipeline,
        "sequence": position.sequence,
        "run_id": position.run_id,
        "batch_id": position.batch_id,
        "taken_at_ms": position.taken_at_ms,
        "table_id": position.on.table_id,
        "add_path": position.on.add_path,
        **({} if position.on.removed_path is None else {"removed_path": position.on.removed_path}),
        "source": {
            "root": position.source.root,
            "pattern": position.source.pattern,
            **({} if position.source.marks_per is None else {"marks_per": position.source.marks_per}),
        },
        "file_versions": versions,
        "schema_fingerprint": position.on.schema_fingerprint,
        "start_from": position.begun.start_from,
        "pending_quarantine": list(position.quarantine.pending),
        "replayed": dict(position.quarantine.replayed),
        "rolled_back": None if position.quarantine.rolled_back is None else list(position.quarantine.rolled_back),
        "held_back": dict(position.seen.held_back),
        "list_from": dict(position.seen.list_from),
        "relist_watermark_ms": position.seen.relist_watermark_ms,
        "relist_names": position.seen.relist_names,
        "young_names": position.seen.young_names,
        **({} if position.seen.settled_names is None else {"settled_names": position.seen.settled_names}),
        **({} if position.seen.names_compared_ms is None else {"names_compared_ms": position.seen.names_compared_ms}),
        "prefix_marks": dict(position.marks.prefix_marks),
        "late_from_ms": position.seen.late_from_ms,
        "cleaned_through": position.cleaned.done_through,
        "cleaning_through": position.cleaned.due_through,
        **({} if position.quarantine.head is None else {"quarantine_head": _head_to_json(position.quarantine.head)}),
        **({"reads_again": True} if position.begun.reads_again else {}),
    }


def _head_to_json(head: QuarantineHead) -> dict[str, Any]:
    return {
        "batch_id": head.batch_id,
        "sequence": head.sequence,
        "previous": head.previous,
        "table_id": head.table_id,
    }


def checksum_of(fields: Mapping[str, Any]) -> str:
    """A letter changed in base64 can leave a sound payload with another mark, which would double or lose records."""
    return hashlib.sha256(orjson.dumps(fields)).hexdigest()[:16]


def _decode_v1(fields: dict[str, Any]) -> RustPosition:
    return RustPosition(
        marks=_marks(fields, versions={}),
        delta_version=_integer(fields, "delta_version", at_least=-1),
    )


_V2_FIELDS = frozenset(
    [
        *("schema_version", "source_state", "delta_version", "pipeline", "sequence", "run_id", "batch_id"),
        *(
            "taken_at_ms",
            "table_id",
            "add_path",
            "removed_path",
            "source",
            "file_versions",
            "schema_fingerprint",
            "start_from",
        ),
        *("pending_quarantine", "replayed", "rolled_back", "held_back", "list_from", "relist_watermark_ms"),
        *("relist_names", "young_names", "prefix_marks", "late_from_ms", "cleaned_through", "cleaning_through"),
        *("settled_names", "names_compared_ms", "quarantine_head", "reads_again", "checksum"),
    ]
)


def _decode_v2(fields: dict[str, Any]) -> Position:
    _refuse_unknown(fields, _V2_FIELDS)
    checksum = _text(fields, "checksum")
    source, versions = _object(fields, "source"), _object(fields, "file_versions")
    _refuse_unknown(source, {"root", "pattern", "marks_per"}, "source.")
    _refuse_unknown(_object(fields, "source_state"), {"files", "last_committed_file"}, "source_state.")
    for version in versions.values():
        _refuse_unknown(version if isinstance(version, dict) else {}, {"size", "etag"}, "file_versions.")
    marks_per = _text(source, "marks_per") if "marks_per" in source else None
    position = Position(
        pipeline=_text(fields, "pipeline"),
        sequence=_integer(fields, "sequence", at_least=1),
        run_id=_text(fields, "run_id"),
        batch_id=_text(fields, "batch_id"),
        taken_at_ms=_integer(fields, "taken_at_ms"),
        source=SourceIdentity(root=_text(source, "root"), pattern=_text(source, "pattern"), marks_per=marks_per),
        marks=replace(
            _named_marks(_marks(fields, versions=versions)),
            prefix_marks=_text_map(fields, "prefix_marks"),
            marks_per=marks_per,
        ),
        on=PlannedOn(
            table_id=_text(fields, "table_id"),
            delta_version=_integer(fields, "delta_version"),
            schema_fingerprint=_text(fields, "schema_fingerprint"),
            add_path=_text_or_none(fields, "add_path"),
            removed_path=_text(fields, "removed_path") if "removed_path" in fields else None,
        ),
        begun=Begun(start_from=_text_or_none(fields, "start_from"), reads_again=_flag(fields, "reads_again")),
        seen=_seen(fields),
        quarantine=ForQuarantine(
            pending=_names_below(fields, "pending_quarantine"),
            replayed=_text_map(fields, "replayed"),
            rolled_back=_range_or_none(fields, "rolled_back"),
            head=_head_or_none(fields),
        ),
        cleaned=Cleaned(
            done_through=_integer(fields, "cleaned_through"), due_through=_integer(fields, "cleaning_through")
        ),
    )
    if checksum != checksum_of({name: value for name, value in fields.items() if name != "checksum"}):
        raise BadChecksum("checkpoint payload was changed after it was written: its checksum does not fit")
    return position


def _refuse_unknown(fields: Mapping[str, Any], known: Set[str], place: str = "") -> None:
    """A newer version wrote it. To read the rest without it would be a guess."""
    unknown = min(fields.keys() - known, default=None)
    if unknown is not None:
        raise UnknownField(f"checkpoint has a field this version does not know: {place}{unknown}")


def _seen(fields: dict[str, Any]) -> Seen:
    return Seen(
        held_back=_named(_text_map(fields, "held_back"), "held_back"),
        list_from=_text_map(fields, "list_from"),
        relist_watermark_ms=_integer_or_none(fields, "relist_watermark_ms"),
        relist_names=_integer_or_none(fields, "relist_names"),
        young_names=_digest_or_none(fields, "young_names"),
        settled_names=_digest_or_none(fields, "settled_names") if "settled_names" in fields else None,
        names_compared_ms=_integer(fields, "names_compared_ms") if "names_compared_ms" in fields else None,
        late_from_ms=_integer(fields, "late_from_ms"),
    )


def _head_or_none(fields: dict[str, Any]) -> QuarantineHead | None:
    if "quarantine_head" not in fields:
        return None  # nothing was ever bad, or an older version wrote it
    head = _object(fields, "quarantine_head")
    _refuse_unknown(head, {"batch_id", "sequence", "previous", "table_id"}, "quarantine_head.")
    return QuarantineHead(
        batch_id=_text(head, "batch_id"),
        sequence=_integer(head, "sequence", at_least=1),
        previous=_text_or_none(head, "previous"),
        table_id=_text_or_none(head, "table_id"),
    )


def _marks(fields: dict[str, Any], *, versions: Mapping[str, Any]) -> Marks:
    marks = _object(fields, "source_state")
    files = {path: _progress(path, value, versions.get(path)) for path, value in _object(marks, "files").items()}
    strays = versions.keys() - files.keys()
    if strays:
        raise WrongType(f"file_versions names {min(strays)!r}, which is not in files")
    return Marks(files=files, last_committed_file=_text_or_none(marks, "last_committed_file"))


def _progress(path: str, value: Any, version: Any) -> FileProgress:
    match value:
        case "Finished" if version is None:
            return FINISHED
        case {"RecordsRead": int() as records, **rest} if not rest and not isinstance(records, bool):
            if not 0 <= records <= _MAX_INTEGER:
                raise WrongType(f"RecordsRead of {path!r} is out of range")
            if version is None:
                return RecordsRead(records=records)
            if not isinstance(version, dict):
                raise WrongType(f"file_versions of {path!r} is not an object")
            return RecordsRead(records=records, size_bytes=_integer(version, "size"), etag=_text(version, "etag"))
        case _:
            raise WrongType(f'files[{path!r}] is neither "Finished" nor {{"RecordsRead": n}}')


def _missing_or_wrong(fields: Mapping[str, Any], name: str, wanted: str) -> CodecError:
    if name not in fields:
        return MissingField(f"checkpoint has no {name}")
    return WrongType(f"checkpoint field {name} is not {wanted}")


def _integer(fields: Mapping[str, Any], name: str, *, at_least: int = 0) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _missing_or_wrong(fields, name, "an integer")
    if not at_least <= value <= _MAX_INTEGER:
        raise WrongType(f"checkpoint field {name} is {value}, not from {at_least} to {_MAX_INTEGER}")
    return value


def _integer_or_none(fields: Mapping[str, Any], name: str) -> int | None:
    return None if name in fields and fields[name] is None else _integer(fields, name)


def _range_or_none(fields: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    match fields.get(name):
        case None if name in fields:
            return None
        case [int() as first, int() as last] if 0 < first <= last <= _MAX_INTEGER and type(first) is type(last) is int:
            return first, last
        case _:
            raise _missing_or_wrong(fields, name, "a first and a last sequence")


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    """True, or not there."""
    if fields.get(name, True) is not True:
        raise _missing_or_wrong(fields, name, "true")
    return name in fields


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _missing_or_wrong(fields, name, "a string")
    return value


def _text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    return None if name in fields and fields[name] is None else _text(fields, name)


def _digest_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    value = _text_or_none(fields, name)
    if value is not None and not _DIGEST.fullmatch(value):
        raise _missing_or_wrong(fields, name, "a count and a sum")
    return value


def _object(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise _missing_or_wrong(fields, name, "an object")
    return value


def _names_below(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """They are opened, and nobody lists them before."""
    value = fields.get(name)
    if not isinstance(value, list) or not all(map(is_below, value)):
        raise _missing_or_wrong(fields, name, "a list of names")
    return tuple(value)


def _named(files: dict[str, Any], name: str) -> dict[str, Any]:
    for path in files:
        if not is_name(path):
            raise WrongType(f"{name} names {path!r}, which is no file of a source")
    return files


def _named_marks(marks: Marks) -> Marks:
    _named(dict(marks.files), "files")
    return marks


def _text_map(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    value = _object(fields, name)
    if not all(isinstance(item, str) for item in value.values()):
        raise WrongType(f"checkpoint field {name} is not a map of strings")
    return value
