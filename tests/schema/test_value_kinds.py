"""The kinds of values that inference and evolution share."""

from __future__ import annotations

from typing import Any

import pytest

from blizzard.schema.evolve import evolve_schema, observe
from blizzard.schema.infer import infer_schema
from blizzard.schema.value_kinds import kind_of, scalar_type

VALUES: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "boolean"),
    (0, "long"),
    (2**53, "long"),
    (2**53 + 1, "large"),
    (-(2**53) - 1, "large"),
    (2**63 - 1, "large"),
    (-(2**63), "large"),
    (2**63, "decimal"),
    (10**38 - 1, "decimal"),
    (10**38, "huge"),
    (10**400, "huge"),
    (1.5, "double"),
    (float("inf"), "huge"),
    ("2024-02-29", "date"),
    ("2023-02-29", "text"),
    ("2024-02-29T00:00:00Z", "timestamp"),
    ("2024-02-29T00:00:00.123456000+01:00", "timestamp"),
    ("2024-02-29T00:00:00.1234567Z", "timestamp_ns"),
    ("2024-02-29T00:00:00.123456700", "local_ns"),
    ("2024-02-29 00:00:00Z", "timestamp"),
    ("2024-02-29T00:00:00+0100", "timestamp"),
    ("2024-02-29T00+01", "timestamp"),
    ("2024-02-29T00:00", "local"),
    ("2024-02-29 12:30:00.5", "local"),
    ("2024-02-29Z", "text"),
    ("2024-02-29t00:00:00z", "text"),
    ("2024-02-29T00:00:00 Z", "text"),
    ("2024-02-29T00:00:60Z", "text"),
    ("2024-02-29T00:00:00+24:00", "text"),
    ("0000-01-01", "text"),
    ("2024-02-29T24:00:00Z", "text"),
    ("0001-01-01T00:00:00+00:01", "text"),
    ("9999-12-31T23:59:59-00:01", "text"),
    ("9999-12-31T23:59:59+00:01", "timestamp"),
    ("٢٠٢٤-01-01", "text"),
    ("", "text"),
    ({}, "object"),
    ([], "array"),
]


@pytest.mark.parametrize(("value", "kind"), VALUES)
def test_the_kind_of_a_value(value: Any, kind: str) -> None:
    assert kind_of(value) == kind


def test_what_json_cannot_hold_has_no_kind() -> None:
    with pytest.raises(TypeError, match="bytes is not a JSON value"):
        kind_of(b"")


@pytest.mark.parametrize(
    ("kinds", "data_type"),
    [
        ({"long"}, "long"),
        ({"long", "large"}, "long"),
        ({"long", "large", "decimal"}, "decimal(38,0)"),
        ({"long", "double"}, "double"),
        ({"large", "double"}, "string"),
        ({"decimal", "double"}, "string"),
        ({"huge"}, "string"),
        ({"long", "huge"}, "string"),
        ({"boolean"}, "boolean"),
        ({"boolean", "long"}, "string"),
        ({"date"}, "date"),
        ({"timestamp"}, "timestamp"),
        ({"date", "timestamp"}, "timestamp"),
        ({"date", "local"}, "timestamp"),
        ({"local"}, "timestamp"),
        ({"timestamp", "timestamp_ns"}, "timestamp"),
        ({"timestamp", "local"}, "string"),
        ({"timestamp_ns", "local_ns", "date"}, "string"),
        ({"timestamp", "text"}, "string"),
        ({"text"}, "string"),
        ({"date", "text"}, "string"),
    ],
)
def test_the_type_that_takes_all_kinds(kinds: set[str], data_type: str) -> None:
    assert scalar_type(kinds) == data_type
    is_cut = bool(kinds & {"timestamp_ns", "local_ns"})
    assert scalar_type(kinds, exact_timestamps=True) == ("string" if is_cut else data_type)


@pytest.mark.parametrize("first", [value for value, kind in VALUES if kind not in ("null", "object", "array")])
@pytest.mark.parametrize("second", [7, 2**60, 1.5, 10**40, "2024-02-29", "x", True])
def test_a_sample_and_a_new_field_get_the_same_type(first: Any, second: Any) -> None:
    inferred = infer_schema([{"a": first}, {"a": second}]).schema
    evolved = evolve_schema({"type": "struct", "fields": []}, [observe([(("a",), first), (("a",), second)])]).schema
    assert inferred["fields"][0]["type"] == evolved["fields"][0]["type"]
