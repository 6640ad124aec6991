"""Encodes a position as the `blizzard:` appId of a Txn action, and decodes it.

Only the fields written out here are ever encoded: no option, no secret. Decoding accepts exactly what a known
version writes. Anything else is an error with its own kind, never a guess and never "start fresh".
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

from blizzard.core.fields import (
    MAX_INTEGER,
    CodecError,
    WrongType,
    flag,
    integer,
    integer_or_none,
    missing_or_wrong,
    object_of,
    range_or_none,
    text,
    text_map,
    text_or_none,
)
from blizzard.core.framing import AUTO, LINES, UTF8, is_framing
from blizzard.core.names import is_below, is_name
from blizzard.core.pause_json import PAUSE_FIELDS, pause_of, pause_to_json
from blizzard.core.position import (
    FINISHED,
    Begun,
    CleanedThrough,
    FileProgress,
    Finished,
    ForQuarantine,
    Marks,
    Paused,
    PlannedOn,
    Position,
    QuarantineHead,
    RecordsRead,
    RustPosition,
    Seen,
)
from blizzard.core.source_json import SOURCE_FIELDS, source_of, source_to_json
from blizzard.core.types import NO_FILTERS, SourceIdentity

PREFIX = "blizzard:"
FENCE_PREFIX = "blizzard-fence:"
QUARANTINE_PREFIX = "blizzard-dlq:"
HEAD_PREFIX = "blizzard-dlq-head:"
MAX_APP_ID_BYTES = 256 * 1024
_PLAIN_VERSION = 2
NEWEST_VERSION = 3
_AND = "+"  # between the fingerprint of the schema and that of the settings
_DIGEST = re.compile(r"[0-9a-f]{1,16}:[0-9a-f]{1,16}")


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


class UnknownField(CodecError):
    kind = "payload_unknown_field"


class BadChecksum(CodecError):
    kind = "payload_checksum"


def fence_app_id(pipeline: str) -> str:
    return FENCE_PREFIX + pipeline


def quarantine_app_id(pipeline: str, table_id: str) -> str:
    """In the quarantine table: the newest sequence whose bad records are there. It includes the table's id: a new table
    at the same place begins at sequence 1 again, which the old quarantine table would take for settled long ago."""
    return f"{QUARANTINE_PREFIX}{pipeline}:{table_id}"


def head_app_id(pipeline: str, table_id: str) -> str:
    """In the quarantine table: which batch changed it last, as `head_number` of its batch_id. The appId never changes:
    snapshots keep it, and Delta checkpoints do not grow with every batch that has bad records."""
    return f"{HEAD_PREFIX}{pipeline}:{table_id}"


def head_number(batch_id: str | None) -> int:
    """A batch_id as the version of a Txn: 63 bits of its digest. 0: no batch."""
    if batch_id is None:
        return 0
    return int.from_bytes(hashlib.sha256(batch_id.encode()).digest()[:8], "big") >> 1 or 1


def encode_position(position: Position) -> str:
    """The appId of this position. PayloadTooLarge if it would burden every reader of the log."""
    fields = _position_to_json(position)
    fields["checksum"] = checksum_of(fields)
    app_id = PREFIX + base64.b64encode(orjson.dumps(fields)).decode("ascii")
    if len(app_id) > MAX_APP_ID_BYTES:
        raise PayloadTooLarge(f"the payload is {len(app_id)} bytes, the limit is {MAX_APP_ID_BYTES}")
    return app_id


def decode_position(app_id: str) -> Position | RustPosition:
    fields = decode_json(app_id)
    match fields.get("schema_version"):
        case bool() | None:
            raise missing_or_wrong(fields, "schema_version", "an integer")
        case 1:
            return _decode_v1(fields)
        case 2 | 3 as version:
            return _decode_v2(fields, version)
        case int() as version:
            raise UnknownVersion(f"schema_version {version} is not known; a newer blizzard wrote it")
        case _:
            raise WrongType("schema_version is not an integer")


def decode_json(app_id: str) -> dict[str, Any]:
    """The payload's JSON object. Its fields are not checked: this is for showing them to a person."""
    if not isinstance(app_id, str):
        raise WrongType("the payload is no text")
    if not app_id.startswith(PREFIX):
        raise NotAPayload(f"appId does not begin with {PREFIX!r}")
    if len(app_id) > MAX_APP_ID_BYTES:
        raise PayloadTooLarge(f"the payload is {len(app_id)} bytes, the limit is {MAX_APP_ID_BYTES}")
    encoded = app_id[len(PREFIX) :]
    try:
        if len(encoded) % 4:  # b64decode accepts surplus padding
            raise BadBase64("the payload is not base64: its length is not a multiple of four")
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as e:
        raise BadBase64(f"the payload is not base64: {e}") from e
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as e:
        raise BadJson(f"the payload is not JSON: {e}") from e
    if not isinstance(fields, dict):
        raise WrongType("the payload is not a JSON object")
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
                    versions[path] = {"size": size, "etag": etag, **_reading_to_json(progress)}
    return {
        "schema_version": _version_of(position),
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
        "source": source_to_json(position.source),
        **({"chosen_before": [*map(source_to_json, position.chosen_before)]} if position.chosen_before else {}),
        "file_versions": versions,
        "schema_fingerprint": _fingerprints(position.on),
        "start_from": position.begun.start_from,
        **({} if position.begun.since_ms is None else {"since_ms": position.begun.since_ms}),
        "pending_quarantine": list(position.quarantine.pending),
        "replayed": dict(position.quarantine.replayed),
        "rolled_back": None if position.quarantine.rolled_back is None else list(position.quarantine.rolled_back),
        **({"dropped": list(position.quarantine.dropped)} if position.quarantine.dropped else {}),
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
        **({"framing": position.framing} if position.framing != LINES else {}),
        **({} if position.paused is None else {"paused": pause_to_json(position.paused)}),
        **({} if position.on.transform is None else {"transform": position.on.transform}),
    }


def _version_of(position: Position) -> int:
    """2, as long as an older release that reads version 2 would go on as this one does. It would read what is not one
    record a line, or not UTF-8, wrongly, and files that were left out; it would not know of a pause or a transform; and
    it would leave in quarantine what must leave it. So it must refuse, and version 3 makes it."""
    is_plain = position.framing == LINES and not any(map(_reading_to_json, position.marks.in_progress.values()))
    reads_chosen_files = (
        position.source.filters != NO_FILTERS or bool(position.chosen_before) or position.begun.since_ms is not None
    )
    is_new = position.paused is not None or position.on.transform is not None or bool(position.quarantine.dropped)
    return NEWEST_VERSION if is_new or reads_chosen_files or not is_plain else _PLAIN_VERSION


def _reading_to_json(progress: RecordsRead) -> dict[str, str]:
    """How the file is read, if it is not as ever."""
    return {
        **({} if progress.framing == LINES else {"framing": progress.framing}),
        **({} if progress.encoding == UTF8 else {"encoding": progress.encoding}),
    }


def _fingerprints(on: PlannedOn) -> str:
    """In one field, because older versions refuse fields that they do not know, and only show this one."""
    return on.schema_fingerprint + ("" if on.settings_fingerprint is None else _AND + on.settings_fingerprint)


def _head_to_json(head: QuarantineHead) -> dict[str, Any]:
    return {
        "batch_id": head.batch_id,
        "sequence": head.sequence,
        "previous": head.previous,
        "table_id": head.table_id,
    }


def checksum_of(fields: Mapping[str, Any]) -> str:
    """One changed letter of base64 can give a valid payload with another mark. That would double or lose records."""
    return hashlib.sha256(orjson.dumps(fields)).hexdigest()[:16]


def _decode_v1(fields: dict[str, Any]) -> RustPosition:
    return RustPosition(
        marks=_marks(fields, versions={}),
        delta_version=integer(fields, "delta_version", at_least=-1),
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
        *("chosen_before", "since_ms"),
    ]
)


_V3_FIELDS = _V2_FIELDS | {"framing", "paused", "dropped", "transform"}


def _decode_v2(fields: dict[str, Any], version: int) -> Position:
    has_readings = version > _PLAIN_VERSION
    _refuse_unknown(fields, _V3_FIELDS if has_readings else _V2_FIELDS)
    checksum = text(fields, "checksum")
    source, versions = object_of(fields, "source"), object_of(fields, "file_versions")
    _refuse_unknown(object_of(fields, "source_state"), {"files", "last_committed_file"}, "source_state.")
    of_version = {"size", "etag", *(("framing", "encoding") if has_readings else ())}
    for file in versions.values():
        _refuse_unknown(file if isinstance(file, dict) else {}, of_version, "file_versions.")
    identity = _source(source)
    schema_fingerprint, has_settings, settings_fingerprint = text(fields, "schema_fingerprint").partition(_AND)
    position = Position(
        pipeline=text(fields, "pipeline"),
        sequence=integer(fields, "sequence", at_least=1),
        run_id=text(fields, "run_id"),
        batch_id=text(fields, "batch_id"),
        taken_at_ms=integer(fields, "taken_at_ms"),
        source=identity,
        chosen_before=_sources(fields, "chosen_before"),
        marks=replace(
            _named_marks(_marks(fields, versions=versions)),
            prefix_marks=text_map(fields, "prefix_marks"),
            marks_per=identity.marks_per,
        ),
        on=PlannedOn(
            table_id=text(fields, "table_id"),
            delta_version=integer(fields, "delta_version"),
            schema_fingerprint=schema_fingerprint,
            add_path=text_or_none(fields, "add_path"),
            removed_path=text(fields, "removed_path") if "removed_path" in fields else None,
            settings_fingerprint=settings_fingerprint if has_settings else None,
            transform=text(fields, "transform") if "transform" in fields else None,
        ),
        begun=Begun(
            start_from=text_or_none(fields, "start_from"),
            since_ms=integer(fields, "since_ms") if "since_ms" in fields else None,
            reads_again=flag(fields, "reads_again"),
        ),
        seen=_seen(fields),
        quarantine=ForQuarantine(
            pending=_names_below(fields, "pending_quarantine"),
            replayed=text_map(fields, "replayed"),
            rolled_back=range_or_none(fields, "rolled_back"),
            dropped=_texts(fields, "dropped"),
            head=_head_or_none(fields),
        ),
        cleaned=CleanedThrough(
            done_through=integer(fields, "cleaned_through"), due_through=integer(fields, "cleaning_through")
        ),
        framing=_framing(fields, or_auto=True),
        paused=_paused_or_none(fields),
    )
    if checksum != checksum_of({name: value for name, value in fields.items() if name != "checksum"}):
        raise BadChecksum("the payload was changed after it was written: its checksum does not fit")
    if fields["schema_version"] < _version_of(position):
        raise WrongType(f"schema_version is {fields['schema_version']}, but it says what only a later one can say")
    return position


def _source(fields: dict[str, Any]) -> SourceIdentity:
    _refuse_unknown(fields, SOURCE_FIELDS, "source.")
    if "marks_per" in fields:
        text(fields, "marks_per")  # a null is a mistake
    return source_of(fields)


def _sources(fields: dict[str, Any], name: str) -> tuple[SourceIdentity, ...]:
    sources = fields.get(name, [])
    if not isinstance(sources, list) or not all(isinstance(source, dict) for source in sources):
        raise missing_or_wrong(fields, name, "a list of sources")
    return tuple(map(_source, sources))


def _refuse_unknown(fields: Mapping[str, Any], known: Set[str], place: str = "") -> None:
    """A newer version wrote it. To read the rest without it would be a guess."""
    unknown = min(fields.keys() - known, default=None)
    if unknown is not None:
        raise UnknownField(f"it has a field that this version does not know: {place}{unknown}")


def _seen(fields: dict[str, Any]) -> Seen:
    return Seen(
        held_back=_named(text_map(fields, "held_back"), "held_back"),
        list_from=text_map(fields, "list_from"),
        relist_watermark_ms=integer_or_none(fields, "relist_watermark_ms"),
        relist_names=integer_or_none(fields, "relist_names"),
        young_names=_digest_or_none(fields, "young_names"),
        settled_names=_digest_or_none(fields, "settled_names") if "settled_names" in fields else None,
        names_compared_ms=integer(fields, "names_compared_ms") if "names_compared_ms" in fields else None,
        late_from_ms=integer(fields, "late_from_ms"),
    )


def _head_or_none(fields: dict[str, Any]) -> QuarantineHead | None:
    if "quarantine_head" not in fields:
        return None  # nothing was ever bad, or an older version wrote it
    head = object_of(fields, "quarantine_head")
    _refuse_unknown(head, {"batch_id", "sequence", "previous", "table_id"}, "quarantine_head.")
    return QuarantineHead(
        batch_id=text(head, "batch_id"),
        sequence=integer(head, "sequence", at_least=1),
        previous=text_or_none(head, "previous"),
        table_id=text_or_none(head, "table_id"),
    )


def _paused_or_none(fields: dict[str, Any]) -> Paused | None:
    if "paused" not in fields:
        return None
    paused = object_of(fields, "paused")
    _refuse_unknown(paused, PAUSE_FIELDS, "paused.")
    return pause_of(paused)


def _marks(fields: dict[str, Any], *, versions: Mapping[str, Any]) -> Marks:
    marks = object_of(fields, "source_state")
    files = {path: _progress(path, value, versions.get(path)) for path, value in object_of(marks, "files").items()}
    strays = versions.keys() - files.keys()
    if strays:
        raise WrongType(f"file_versions names {min(strays)!r}, which is not in files")
    return Marks(files=files, last_committed_file=text_or_none(marks, "last_committed_file"))


def _progress(path: str, value: Any, version: Any) -> FileProgress:
    match value:
        case "Finished" if version is None:
            return FINISHED
        case {"RecordsRead": int() as records, **rest} if not rest and not isinstance(records, bool):
            if not 0 <= records <= MAX_INTEGER:
                raise WrongType(f"RecordsRead of {path!r} is out of range")
            if version is None:
                return RecordsRead(records=records)
            if not isinstance(version, dict):
                raise WrongType(f"file_versions of {path!r} is not an object")
            return RecordsRead(
                records=records,
                size_bytes=integer(version, "size"),
                etag=text(version, "etag"),
                framing=_framing(version),
                encoding=text(version, "encoding") if "encoding" in version else UTF8,
            )
        case {"RecordsRead": _, **rest} if not rest:
            raise WrongType(f"RecordsRead of {path!r} is not an integer")
        case str() | dict() if value != "Finished":  # a newer version may know more than two
            raise UnknownField(f'files[{path!r}] is neither "Finished" nor {{"RecordsRead": n}}')
        case _:
            raise WrongType(f'files[{path!r}] is neither "Finished" nor {{"RecordsRead": n}}')


def _framing(fields: Mapping[str, Any], *, or_auto: bool = False) -> str:
    if "framing" not in fields:
        return LINES
    framing = text(fields, "framing")
    if not is_framing(framing) and not (or_auto and framing == AUTO):
        raise UnknownField(f"it has a framing that this version does not know: {framing!r}")
    return framing


def _digest_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    value = text_or_none(fields, name)
    if value is not None and not _DIGEST.fullmatch(value):
        raise missing_or_wrong(fields, name, "a count and a sum")
    return value


def _names_below(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """These files are opened without being listed first, so their names must be checked here."""
    value = fields.get(name)
    if not isinstance(value, list) or not all(map(is_below, value)):
        raise missing_or_wrong(fields, name, "a list of names")
    return tuple(value)


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list that is written only if there is something in it."""
    if name not in fields:
        return ()
    value = fields[name]
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        raise missing_or_wrong(fields, name, "a list of texts")
    return tuple(value)


def _named(files: dict[str, Any], name: str) -> dict[str, Any]:
    for path in files:
        if not is_name(path):
            raise WrongType(f"{name} names {path!r}, which is no file of a source")
    return files


def _named_marks(marks: Marks) -> Marks:
    _named(dict(marks.files), "files")
    return marks
