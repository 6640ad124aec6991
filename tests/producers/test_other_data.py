"""Whatever else real programs write: each value is in a column, rescued, or its record is in quarantine.

A run that refuses must leave nothing behind, so that the same records can be read under other settings.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.producers.conftest import FirstCommand, FirstRun
from tests.producers.shapes import SHAPES

# What no schema can be made for. Nothing is left behind, and the message says what to do.
TOO_ODD = {
    "60 levels": "nested more than 30 deep",
    "two spellings beyond ASCII": "named more than once",
}
NO_VALUE = "no column of the records holds a value"


def check(run: FirstRun, refusal: str | None = None) -> None:
    if refusal is not None:
        assert (run.code, run.summary["error_kind"]) == (2, "schema"), run.err
        assert refusal in run.err
        assert [path.name for path in run.folder.iterdir()] == ["src"]
        return
    assert run.code == 0, run.err
    assert run.unaccounted() == []
    assert run.summary["records"] + run.summary["bad_records"] == len(run.records)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_arrives(shape: str, first_command: FirstCommand) -> None:
    content = "\n".join(SHAPES[shape]).encode()
    check(first_command({"a.ndjson": content}, is_lines=True), TOO_ODD.get(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_after_the_sample_arrives(shape: str, first_command: FirstCommand) -> None:
    """The schema knows one small record only."""
    content = "\n".join(['{"a":1}', *SHAPES[shape]]).encode()
    check(first_command({"a.ndjson": content}, "--set", "schema.sample_records=1", is_lines=True))


NAMES = st.sampled_from(["a", "A", "b", "id", "x.y", "x y", "é", "element"])
SCALARS = st.sampled_from([None, True, 0, 1, -1, 2**63, 2**64 - 1, 0.5, 1e300, "", "x", "7", "2026-01-31", "{}"])
TIMES = st.sampled_from(["2026-01-31T22:58:07Z", "2026-01-31T22:58:07.123456789+0100", "2026-01-31 22:58:07"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | TIMES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=8)


@given(records=RECORDS, sampled=st.sampled_from([1, 2, 1000]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_records_arrive(first_command: FirstCommand, records: list[dict[str, Any]], sampled: int) -> None:
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    settings = ("--set", f"schema.sample_records={sampled}", "--set", "bad_records.first_batch_max_ratio=1")
    run = first_command({"a.ndjson": content}, *settings)
    check(run, NO_VALUE if NO_VALUE in run.err else None)
