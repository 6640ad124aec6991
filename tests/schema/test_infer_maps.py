"""Objects whose keys are data become a MAP; at the top they are refused. Spellings of a name are one column."""

from __future__ import annotations

import shlex
import uuid
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.load import make_config
from blizzard.errors import BadData, SchemaError
from blizzard.run.layouts import parse_policy
from blizzard.schema import parse_path
from blizzard.schema.ddl import to_ddl
from blizzard.schema.hints import parse_hints
from blizzard.schema.infer import InferenceSettings, infer_schema
from blizzard.schema.maps import is_data
from blizzard.schema.seen import MAX_KEYS
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError


def ddl(*values: Any, name: str = "m") -> str:
    return to_ddl(infer_schema([{name: value} for value in values]).schema)


UUIDS = [str(uuid.UUID(int=i)) for i in range(1, 4)]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("m", [{UUIDS[0]: 1}, {UUIDS[1]: 2}], "MAP<STRING, BIGINT>"),
        ("m", [{"2024-01-01": 1, "2024-01-02": 2.5}], "MAP<STRING, DOUBLE>"),
        ("m", [{"0": {"a": 1}, "1": {"b": "x"}}], "MAP<STRING, STRUCT<a: BIGINT, b: STRING>>"),
        ("m", [{"10.0.0.1": True, "10.0.0.2": False}], "MAP<STRING, BOOLEAN>"),
        ("m", [{"app.kubernetes.io/name": "a", "helm.sh/chart": "b", "c/d": "e"}], "MAP<STRING, STRING>"),
        ("m", [{"www.example.com": [1], "api.example.org": [2]}], "MAP<STRING, ARRAY<BIGINT>>"),
        ("labels", [{"app": "a", "tier": "b"}, {"app": "c", "zone": "d"}], "MAP<STRING, STRING>"),
        ("request_headers", [{"Host": "a", "Accept": "b"}, {"Host": "c", "X-Id": "d"}], "MAP<STRING, STRING>"),
        ("m", [{f"k{i}": "x"} for i in range(60)], "MAP<STRING, STRING>"),
        # Mixed values, but too many keys for columns: their JSON is kept.
        ("m", [{f"k{i}": i if i % 2 else "x"} for i in range(201)], "MAP<STRING, STRING>"),
        ("m", [{"a": {f"i-{i:08x}": 1}} for i in range(5)], "STRUCT<a: MAP<STRING, BIGINT>>"),
        ("m", [[{"1": 1, "2": 2}]], "ARRAY<MAP<STRING, BIGINT>>"),
    ],
)  # fmt: skip
def test_keys_that_are_data_make_a_map_and_it_is_said(name: str, values: list[Any], expected: str) -> None:
    records = [{name: value, "id": 1} for value in values]
    inference = infer_schema(records)
    assert to_ddl(inference.schema) == f"{name} {expected}, id BIGINT"
    assert any("is a MAP<STRING, " in remark and "hint" in remark for remark in inference.remarks)
    assert inference.has_maps
    reader = RecordReader(inference.schema)
    for record in records:
        reader.read(orjson.dumps(record))
        assert reader.undeclared == []


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("m", [{"a": 1, "b": 2}], "STRUCT<a: BIGINT, b: BIGINT>"),
        ("labels", [{"app": "a", "tier": "b", "zone": "c"}] * 3, "STRUCT<app: STRING, tier: STRING, zone: STRING>"),
        ("tags", [{"a": 1}, {"b": 2}, {"c": {}}], "STRUCT<a: BIGINT, b: BIGINT>"),
        ("m", [{"0": 1, "x": "y"}], "STRUCT<`0`: BIGINT, x: STRING>"),
        ("m", [{"1": 1}], "STRUCT<`1`: BIGINT>"),
        ("m", [{"http.method": "GET", "http.route": "x"}], "STRUCT<`http.method`: STRING, `http.route`: STRING>"),
        # Optional columns, but not many.
        ("m", [{f"k{i}": 1} for i in range(4)], "STRUCT<k0: BIGINT, k1: BIGINT, k2: BIGINT, k3: BIGINT>"),
    ],
)
def test_names_make_a_struct(name: str, values: list[Any], expected: str) -> None:
    assert ddl(*values, name=name) == f"{name} {expected}"


def test_a_wide_object_with_the_same_keys_in_every_record_is_a_struct() -> None:
    assert ddl(*[{f"k{i}": 1 for i in range(201)}] * 2).startswith("m STRUCT<")


def test_a_hint_decides_over_a_map() -> None:
    records = [{"m": {"1": 1, "2": 2}}]
    assert to_ddl(infer_schema(records, parse_hints("m.`1` INT")).schema) == "m STRUCT<`1`: INT, `2`: BIGINT>"
    assert to_ddl(infer_schema(records, parse_hints("m STRING")).schema) == "m STRING"


def test_keys_without_end_do_not_fill_the_memory() -> None:
    inference = infer_schema({"m": {f"key {i}": i}} for i in range(MAX_KEYS + 100))
    assert to_ddl(inference.schema) == "m MAP<STRING, BIGINT>"
    assert "more than 5,000 different keys" in inference.remarks[0]
    with pytest.raises(BadData, match=r"more than 5,000 different fields.*schema\.evolution=rescue") as error:
        infer_schema({f"key {i}": i} for i in range(MAX_KEYS + 100))
    assert error.value.kind == "too_many_columns"


@pytest.mark.parametrize(
    "keys", [[str(i) for i in range(1264)], UUIDS, [f"i-0a1b2c{i}" for i in range(3)], [f"2024-01-0{i}" for i in "123"]]
)
def test_an_object_of_records_under_their_ids_is_refused_with_what_to_do(keys: list[str]) -> None:
    frame = {key: {"a": 1} for key in keys}
    with pytest.raises(SchemaError, match=r"under keys that are data .*jq -c 'to_entries\[\]") as error:
        infer_schema([frame])
    assert len(str(error.value)) < 500
    assert to_ddl(infer_schema([frame | {"total": 1}], parse_hints("total INT")).schema).endswith("total INT")


def test_an_object_keyed_by_numbers_with_plain_values_is_a_row() -> None:
    assert to_ddl(infer_schema([{"0": 1, "1": 2, "2": 3}]).schema) == "`0` BIGINT, `1` BIGINT, `2` BIGINT"


@pytest.mark.parametrize(
    "key",
    [
        "7",
        UUIDS[0],
        "5f43a1b2c3d4e5f6a7b8c9d0",
        "2024-01-01T00:00:00Z",
        "::1",
        "a@b.co",
        "/var/log",
        "arn:aws:iam::1:user/x",
    ],
)
def test_keys_that_look_like_data(key: str) -> None:
    assert is_data(key)


@pytest.mark.parametrize(
    "key", ["id", "user.name", "firstName", "facade", "x1", "Content-Type", "sha256", "deadbeef", "a b", ""]
)
def test_keys_that_look_like_names(key: str) -> None:
    assert not is_data(key)


@pytest.mark.parametrize(("one", "other"), [("name", "Name"), ("IPTtl", "IPTTL"), ("arn", "ARN")])
def test_spellings_of_a_nested_name_are_one_column_and_lose_nothing(one: str, other: str) -> None:
    records = [{"u": {one: 1}, "l": [{one: "x"}]}, {"u": {other: 2.5}, "l": [{other: "y"}]}]
    inference = infer_schema(records)
    name = min(one, other)
    assert to_ddl(inference.schema) == f"u STRUCT<{name}: DOUBLE>, l ARRAY<STRUCT<{name}: STRING>>"
    assert inference.remarks == ()
    reader = RecordReader(inference.schema)
    for record in records:
        assert None not in reader.read(orjson.dumps(record))["u"].values()
        assert reader.undeclared == []


def test_both_spellings_on_one_line_are_told_and_the_settings_that_are_named_keep_both() -> None:
    records: list[dict[str, Any]] = [
        {"u": {"name": "a", "Name": 1}},
        {"u": {"Name": 2}},
        {"u": {"name": "c", "Name": 3}},
    ]
    (remark, *_) = infer_schema(records).remarks
    assert remark.startswith("u.Name and u.name are one column; 2 records of the sample with more than one of them")
    settings = dict(word.split("=") for word in shlex.split(remark) if word.startswith("schema.rename"))
    policy = parse_policy(make_config(settings))
    inference = infer_schema(records, settings=InferenceSettings(rename=policy.rename))
    assert inference.remarks == ()
    assert to_ddl(inference.schema) == "u STRUCT<name_2: STRING, Name: BIGINT>"
    reader = RecordReader(inference.schema, policy)
    assert reader.read(orjson.dumps(records[0]))["u"] == {"name_2": "a", "Name": 1}


_TEXTS = [
    "",
    "x",
    "2024-01-01",
    "2024-01-01T00:00:00",
    "2024-01-01T00:00:00.123456789+0100",
    "1591367999",
    "13/04/2024",
]
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(_TEXTS),
)
_keys = st.sampled_from(["a", "A", "b", "0", "1", "2", "labels", UUIDS[0], UUIDS[1], "ts", "x/y", "10.0.0.1"])
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4), max_leaves=12
)


@given(st.lists(st.dictionaries(_keys, _values, max_size=5), min_size=1, max_size=8))
def test_any_records_fit_the_schema_made_from_them_but_those_that_are_reported(records: list[dict[str, Any]]) -> None:
    records = [orjson.loads(orjson.dumps(record)) for record in records]
    try:
        inference = infer_schema(records)
    except SchemaError as error:
        assert "holds a value" in str(error) or "under keys that are data" in str(error)
        return
    reader = RecordReader(inference.schema)
    left_out = [parse_path(path.lower()) for path in inference.left_out]
    for record in records:
        try:
            reader.read(orjson.dumps(record))
        except LineError as error:
            assert error.kind == "duplicate_key"
            assert any("are one column" in remark for remark in inference.remarks)
            continue
        for path, value in reader.undeclared:
            folded = tuple(step.lower() for step in path)
            assert any(folded[: len(out)] == out for out in left_out), (path, value)
