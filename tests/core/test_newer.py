"""Which payloads a newer version wrote: they are refused, and never taken for damaged ones."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from blizzard.core.codec import checksum_of, decode_json, encode_position
from blizzard.core.kinds import Kind
from blizzard.core.newer import refuse_newer
from blizzard.core.refuse import Refuse
from tests.core.logs import DAMAGED
from tests.core.test_codec import RUST_JSON, app_id, example

NOW = encode_position(example())  # pipeline p, sequence 7
FIELDS = decode_json(NOW)


def whole(**changes: Any) -> str:
    """With a checksum that fits, as every version writes it."""
    fields = {name: value for name, value in (FIELDS | changes).items() if name != "checksum"}
    return app_id(orjson.dumps(fields | {"checksum": checksum_of(fields)}))


def torn(**changes: Any) -> str:
    return app_id(orjson.dumps(FIELDS | changes))


def head(**fields: Any) -> dict[str, Any]:
    return {"batch_id": "b", "sequence": 7, "previous": None, "table_id": None} | fields


MARK = {"last_committed_file": None}
CASES: dict[str, tuple[list[str], bool]] = {
    "none": ([], False),
    "what this version writes": ([NOW], False),
    "the next version": ([whole(schema_version=4)], True),
    "a much later version": ([whole(schema_version=2**40)], True),
    "the next version with other fields": ([whole(schema_version=4, source_state="elsewhere", table_id=7)], True),
    "a new field in this version": ([whole(new_field=1)], True),
    "a new field in a quarantine head": ([whole(quarantine_head=head(new_field=1))], True),
    "dropped batches, before they were known": ([whole(dropped=["b"])], True),
    "a new field of the source": ([whole(source=FIELDS["source"] | {"new_field": 1})], True),
    "a new field beside the mark": ([whole(source_state=FIELDS["source_state"] | {"new_field": None})], True),
    "a new field of a file's version": ([whole(file_versions={"a": {"size": 9, "etag": "e", "new_field": 1}})], True),
    "a new way to be in progress": ([whole(source_state={"files": {"a": {"Paused": 3}}, **MARK})], True),
    "a new word for a file": ([whole(source_state={"files": {"a": "Skipped"}, **MARK})], True),
    "a new field of a file": ([whole(source_state={"files": {"a": {"RecordsRead": 2, "new": 1}}, **MARK})], True),
    "a number of records that is none": ([whole(source_state={"files": {"a": {"RecordsRead": "2"}}, **MARK})], False),
    "the next version, behind others": ([NOW, DAMAGED, "spark-job", whole(schema_version=4)], True),
    "the next version, changed since": ([torn(schema_version=4)], False),
    "a new field, changed since": ([torn(new_field=1)], False),
    "the next version without a checksum": ([app_id(b'{"schema_version":4,"pipeline":"p","sequence":7}')], False),
    "a version that never was": ([whole(schema_version=0)], False),
    "a negative version": ([whole(schema_version=-3)], False),
    "no version": ([whole(schema_version=None)], False),
    "a known field of another type": ([whole(table_id=7)], False),
    "damaged": ([DAMAGED, "blizzard:not base64!", app_id(b"[]"), app_id(b"{")], False),
    "no payload at all": (["blizzard-fence:p", "other"], False),
    "the Rust program's": ([app_id(RUST_JSON)], False),
    "of another pipeline": ([whole(schema_version=4, pipeline="q")], False),
    "of an earlier sequence": ([whole(schema_version=4, sequence=6)], False),
    "of a later sequence": ([whole(schema_version=4, sequence=8)], False),
}


@pytest.mark.parametrize(("app_ids", "is_newer"), CASES.values(), ids=CASES)
def test_newer(app_ids: list[str], is_newer: bool) -> None:
    refusal = refuse_newer(app_ids, "p", 7)
    assert (refusal is not None) == is_newer
    if refusal is not None:
        assert isinstance(refusal, Refuse)
        assert refusal.kind == Kind.NEWER_CHECKPOINT
        assert "'p' (sequence 7)" in refusal.message
