"""The payload codec: what the Rust program wrote decodes for ever, what cannot be trusted has an error of its own."""

from __future__ import annotations

import base64
import string
from dataclasses import fields, replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core import codec
from blizzard.core.codec import decode_json, decode_position, encode_position
from blizzard.core.fields import CodecError, MissingField, WrongType
from blizzard.core.names import is_below, is_name
from blizzard.core.position import (
    FINISHED,
    Begun,
    CleanedThrough,
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
from blizzard.core.types import Filters, SourceIdentity
from blizzard.testing.positions import changed

# Exactly the bytes serde_json gives for the state in the seed document.
RUST_JSON = (
    b'{"schema_version":1,"source_state":{"files":{"s3://bucket/file3.ndjson.gz":{"RecordsRead":5000},'
    b'"s3://bucket/file4.ndjson.gz":"Finished"},"last_committed_file":"s3://bucket/file2.ndjson.gz"},'
    b'"delta_version":42}'
)


def app_id(json: bytes) -> str:
    return "blizzard:" + base64.b64encode(json).decode()


EXAMPLE = Position(
    pipeline="p",
    sequence=7,
    run_id="r",
    batch_id="b",
    taken_at_ms=1,
    source=SourceIdentity(root="file:///s", pattern="*"),
    marks=Marks(files={"a": RecordsRead(records=5, size_bytes=9, etag="e"), "z": FINISHED}, last_committed_file="c"),
    on=PlannedOn(table_id="t", delta_version=6, schema_fingerprint="f", add_path="x.parquet"),
)


def example(**changes: Any) -> Position:
    return changed(EXAMPLE, **changes)


def test_the_rust_programs_payload_decodes_byte_for_byte() -> None:
    position = decode_position(app_id(RUST_JSON))
    assert position == RustPosition(
        marks=Marks(
            files={
                "s3://bucket/file3.ndjson.gz": RecordsRead(records=5000),
                "s3://bucket/file4.ndjson.gz": FINISHED,
            },
            last_committed_file="s3://bucket/file2.ndjson.gz",
        ),
        delta_version=42,
    )


def test_a_rust_payload_without_a_mark_decodes() -> None:
    position = decode_position(
        app_id(b'{"schema_version":1,"source_state":{"files":{},"last_committed_file":null},"delta_version":-1}')
    )
    assert position.marks.last_committed_file is None


def test_version_two_keeps_the_seeds_shape_for_files() -> None:
    fields = decode_json(encode_position(example()))
    assert fields["source_state"] == {"files": {"a": {"RecordsRead": 5}, "z": "Finished"}, "last_committed_file": "c"}
    assert fields["schema_version"] == 2


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("other:abc", codec.NotAPayload),
        ("blizzard:" + "A" * codec.MAX_APP_ID_BYTES, codec.PayloadTooLarge),
        ("blizzard:not base64!", codec.BadBase64),
        ("blizzard:QUJD=", codec.BadBase64),
        (app_id(b'{"schema_version":'), codec.BadJson),
        (app_id(b"[]"), WrongType),
        (app_id(b"{}"), MissingField),
        (app_id(b'{"schema_version":4}'), codec.UnknownVersion),
        (app_id(b'{"schema_version":0}'), codec.UnknownVersion),
        (app_id(b'{"schema_version":true}'), WrongType),
        (app_id(b'{"schema_version":"2"}'), WrongType),
        (app_id(b'{"schema_version":1,"delta_version":1}'), MissingField),
        (app_id(RUST_JSON.replace(b"5000", b"-1")), WrongType),
        (app_id(RUST_JSON.replace(b"5000", b"1.5")), WrongType),
        (app_id(RUST_JSON.replace(b'"Finished"', b'"Done"')), codec.UnknownField),
        (app_id(RUST_JSON.replace(b"42", b'"42"')), WrongType),
    ],
)
def test_each_kind_of_damage_has_its_own_error(payload: str, error: type[CodecError]) -> None:
    with pytest.raises(error):
        decode_position(payload)


def test_error_kinds_are_distinct() -> None:
    kinds = [c.kind for c in CodecError.__subclasses__()]
    assert len(set(kinds)) == len(kinds) == 9


def test_every_field_of_version_two_is_required_and_typed() -> None:
    fields = decode_json(encode_position(example()))
    for name in fields:
        without = {k: v for k, v in fields.items() if k != name}
        with pytest.raises(MissingField):
            decode_position(app_id(orjson.dumps(without)))
        with pytest.raises((WrongType, codec.UnknownVersion)):
            decode_position(app_id(orjson.dumps(fields | {name: 3.5})))


@pytest.mark.parametrize("name", ["", "../x", "a/../../x", "a/..", "..", "a\0b", "/etc/x"])
@pytest.mark.parametrize("field", ["pending_quarantine", "held_back", "files"])
def test_a_name_that_leads_out_of_its_folder_is_refused(field: str, name: str) -> None:
    """They are opened or asked for, and whoever can write to the table can write any name."""
    fields = decode_json(encode_position(example()))
    match field:
        case "pending_quarantine":
            fields |= {field: [name]}
        case "held_back":
            fields |= {field: {name: "late"}}
        case _:
            fields |= {"source_state": {"files": {name: {"RecordsRead": 0}}, "last_committed_file": None}}
    fields |= {"file_versions": {}, "checksum": ""}
    if name.startswith("/") and field != "pending_quarantine":
        return  # an object store may have such a name, and none of these is opened without a listing
    with pytest.raises(WrongType, match="name"):
        decode_position(app_id(orjson.dumps(fields)))


def test_a_field_nobody_knows_is_refused() -> None:
    fields = decode_json(encode_position(example()))
    with pytest.raises(codec.UnknownField):
        decode_position(app_id(orjson.dumps(fields | {"password": "x"})))


def test_a_state_too_large_for_the_log_is_not_encoded() -> None:
    files = {f"{i:0200d}": FINISHED for i in range(2000)}
    with pytest.raises(codec.PayloadTooLarge):
        encode_position(example(marks=Marks(files=files)))


def test_the_fingerprint_of_the_settings_is_in_a_field_that_older_versions_read() -> None:
    plain, marked = example(), example(settings_fingerprint="1234abcd")
    assert decode_position(encode_position(marked)) == marked
    assert decode_json(encode_position(plain))["schema_fingerprint"] == plain.on.schema_fingerprint
    said = decode_json(encode_position(marked))["schema_fingerprint"]
    assert said == f"{plain.on.schema_fingerprint}+1234abcd"


def test_an_older_version_refuses_a_position_with_a_transform() -> None:
    """It would go on without it."""
    plain, transformed = example(), example(transform="3210abcd")
    assert decode_json(encode_position(plain))["schema_version"] == 2
    assert "transform" not in decode_json(encode_position(plain))
    said = decode_json(encode_position(transformed))
    assert (said["schema_version"], said["transform"]) == (3, "3210abcd")
    assert decode_position(encode_position(transformed)) == transformed


def test_only_the_listed_fields_are_ever_encoded() -> None:
    # A field added to the state must be added to the codec by hand, with a look at what it could leak.
    head = QuarantineHead(batch_id="b", sequence=7)
    optional = {
        "settled_names": "0:0",
        "names_compared_ms": 1,
        "reads_again": True,
        "head": head,
        "removed_path": "r",
        "since_ms": 1,
        "chosen_before": (SourceIdentity(root="file:///s", pattern="*"),),
        "framing": "auto",
        "paused": Paused(at_ms=1),
        "dropped": ("b1", "sequence:2"),
        "transform": "0123abcd",
    }
    encoded = set(decode_json(encode_position(example(**optional))))
    parts = (PlannedOn, Begun, Seen, ForQuarantine, CleanedThrough)
    own = {f.name for f in fields(Position)} - {"marks", "on", "begun", "seen", "quarantine", "cleaned"}
    names = own | {f.name for part in parts for f in fields(part)} - {"settings_fingerprint"}  # see the test below
    other_names = {
        "pending": "pending_quarantine",
        "head": "quarantine_head",
        "done_through": "cleaned_through",
        "due_through": "cleaning_through",
    }
    of_marks = {"source_state", "file_versions", "prefix_marks"}
    assert encoded == {other_names.get(name, name) for name in names} | of_marks | {"schema_version", "checksum"}


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
digests = st.integers(0, 2**53).map(lambda n: f"{n:x}:{n:x}")
paths = names.filter(is_name)
progress = st.one_of(
    st.just(FINISHED),
    st.builds(RecordsRead, records=st.integers(0, 2**53)),
    st.builds(
        RecordsRead,
        records=st.integers(0, 2**53),
        size_bytes=st.integers(0, 2**53),
        etag=names,
        framing=st.sampled_from(["lines", "concatenated", "array", "array:Records"]),
        encoding=st.sampled_from(["utf-8", "utf-16"]),
    ),
)
moments = st.none() | st.integers(0, 2**53)
sources = st.builds(
    SourceIdentity,
    root=names,
    pattern=names,
    marks_per=st.none() | names,
    filters=st.builds(
        Filters,
        modified_after_ms=moments,
        modified_before_ms=moments,
        ignore=st.lists(names, max_size=2).map(tuple),
    ),
)
states = st.builds(
    Position,
    pipeline=names,
    sequence=st.integers(1, 2**53),
    run_id=names,
    batch_id=names,
    taken_at_ms=st.integers(0, 2**53),
    source=sources,
    chosen_before=st.lists(sources, max_size=2).map(tuple),
    marks=st.builds(
        Marks,
        files=st.dictionaries(paths, progress, max_size=5),
        last_committed_file=st.none() | names,
        prefix_marks=st.dictionaries(names, names, max_size=3),
    ),
    on=st.builds(
        PlannedOn,
        table_id=names,
        delta_version=st.integers(0, 2**53),
        schema_fingerprint=names.filter(lambda name: "+" not in name),
        settings_fingerprint=st.none() | st.just("0123abcd"),
        transform=st.none() | st.just("3210abcd"),
        add_path=st.none() | names,
    ),
    begun=st.builds(Begun, start_from=st.none() | names, since_ms=moments, reads_again=st.booleans()),
    seen=st.builds(
        Seen,
        held_back=st.dictionaries(paths, names, max_size=3),
        list_from=st.dictionaries(names, names, max_size=3),
        relist_watermark_ms=st.none() | st.integers(0, 2**53),
        relist_names=st.none() | st.integers(0, 2**53),
        young_names=st.none() | digests,
        settled_names=st.none() | digests,
        names_compared_ms=st.none() | st.integers(0, 2**53),
        late_from_ms=st.integers(0, 2**53),
    ),
    quarantine=st.builds(
        ForQuarantine,
        pending=st.lists(names.filter(is_below), max_size=3).map(tuple),
        replayed=st.dictionaries(names, names, max_size=3),
        rolled_back=st.none() | st.integers(1, 2**50).map(lambda n: (n, n + 3)),
        dropped=st.lists(names, max_size=3).map(tuple),
        head=st.none()
        | st.builds(
            QuarantineHead,
            batch_id=names,
            sequence=st.integers(1, 2**53),
            previous=st.none() | names,
            table_id=st.none() | names,
        ),
    ),
    cleaned=st.builds(CleanedThrough, done_through=st.integers(0, 2**53), due_through=st.integers(0, 2**53)),
    framing=st.sampled_from(["lines", "auto", "array"]),
    paused=st.none() | st.builds(Paused, at_ms=st.integers(0, 2**53), reason=st.none() | names),
).map(lambda position: replace(position, marks=replace(position.marks, marks_per=position.source.marks_per)))


def test_a_payload_without_the_optional_fields_decodes_and_has_none_of_them() -> None:
    position = example()
    assert not {"settled_names", "names_compared_ms"} & decode_json(encode_position(position)).keys()
    assert decode_position(encode_position(position)) == position


@pytest.mark.parametrize("name", ["young_names", "settled_names"])
@pytest.mark.parametrize("digest", ["", "1", "x:y", "1:2:3", "-1:0", "1:" + 17 * "f"])
def test_a_digest_that_is_none_is_refused(name: str, digest: str) -> None:
    with pytest.raises(WrongType):
        decode_position(encode_position(example(**{name: digest})))


@given(states)
def test_what_is_encoded_decodes_to_the_same(position: Position) -> None:
    assert decode_position(encode_position(position)) == position


@given(states, st.data())
def test_a_mutated_payload_is_an_error_or_another_whole_state_and_never_a_crash(
    position: Position, data: st.DataObject
) -> None:
    payload = list(encode_position(position))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.sampled_from(string.printable))
    try:
        decoded = decode_position("".join(payload))
    except CodecError as e:
        assert e.kind.startswith("payload")
    else:
        assert isinstance(decoded, Position | RustPosition)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    ),
    st.sampled_from(sorted(codec._V3_FIELDS)),
)
def test_any_json_in_any_field_is_an_error_or_a_state(value: Any, name: str) -> None:
    fields = decode_json(encode_position(example()))
    try:
        raw = orjson.dumps(fields | {name: value})
    except (orjson.JSONEncodeError, TypeError):
        return
    try:
        decode_position(app_id(raw))
    except CodecError:
        pass


@given(place=st.integers(0, 10**6), character=st.characters(codec="ascii"))
def test_no_changed_character_leads_to_another_state(place: int, character: str) -> None:
    whole = encode_position(example())
    place = len(codec.PREFIX) + place % (len(whole) - len(codec.PREFIX))
    changed = whole[:place] + character + whole[place + 1 :]
    try:
        assert decode_position(changed) == example()
    except CodecError:
        assert changed != whole
