"""Several targets through the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import blizzard
from blizzard.config.targets import keys_of_targets
from blizzard.core.events import Event, OfTarget, TargetFailed
from tests.ingesting import ids, write_ids

pytestmark = pytest.mark.usefixtures("in_process")
NO_SPARK = cast(Any, None)  # the tasks run in this process


def ingest(folder: Path, targets: dict[str, Any], **arguments: Any) -> blizzard.Summary:
    return blizzard.ingest(NO_SPARK, source=str(folder / "src"), targets=targets, pipeline="p", **arguments)


def test_a_source_goes_into_several_tables(tmp_path: Path) -> None:
    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    targets = {
        "one": {"table": one, "schema": "id BIGINT"},
        "two": {"table": {"path": two}, "schema": pa.schema([("id", pa.int64()), ("name", pa.string())])},
        "three": {"table.path": three, "required": False, "schema": {"ddl": "id STRING"}},
    }
    summary = ingest(tmp_path, targets)
    assert (summary.status, summary.files, summary.commits) == ("done", 1, 3)
    assert {name: one.records for name, one in summary.targets.items()} == {"one": 5, "two": 5, "three": 5}
    assert ids(tmp_path / "two") == list(range(5))
    found = blizzard.status(targets=targets, target="two", source=str(tmp_path / "src"))
    assert [(p.pipeline, p.sequence, p.backlog_files) for p in found.pipelines] == [("p", 1, 0)]


def test_one_schema_for_all_is_not_for_a_target_that_has_its_own(tmp_path: Path) -> None:
    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    targets = {"one": {"table": str(tmp_path / "one")}, "two": {"table": str(tmp_path / "two"), "schema": "id STRING"}}
    summary = ingest(tmp_path, targets, schema=pa.schema([("id", pa.int64())]))
    assert [one.status for one in summary.targets.values()] == ["done", "done"]
    assert ids(tmp_path / "one") == list(range(5))


def test_a_target_that_fails_is_told_and_not_raised(tmp_path: Path) -> None:
    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    bad = {"table": str(tmp_path / "bad"), "schema": "id DATE", "required": False}
    heard: list[Event] = []
    targets = {"good": {"table": str(tmp_path / "good"), "schema": "id BIGINT"}, "bad": bad}
    summary = ingest(tmp_path, targets, on_event=heard.append)
    assert (summary.status, summary.exit_code) == ("done", 0)
    assert (summary.targets["bad"].status, summary.targets["bad"].error_kind) == ("failed", "mostly_bad")
    failures = [e.target for e in heard if isinstance(e, OfTarget) and isinstance(e.event, TargetFailed)]
    assert failures == ["bad"]
    with pytest.raises(blizzard.BadData):
        ingest(tmp_path, targets | {"bad": bad | {"required": True}})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"table": "t", "targets": {"a": {"table": "x"}}}, "table or targets, not both"),
        ({"targets": {"a": "x"}}, "its keys must be a mapping"),
        ({"targets": {"a": {"source": {"path": "x"}}}}, "a target may have"),
        ({"targets": {"a b": {"table": "x"}}}, "letters, digits"),
        ({"targets": {"a": {"table": "x"}, "b": {}}}, "targets.b.table.path is missing"),
        ({"targets": {"a": {"table": "x"}, "b": {"schema": pa.schema([])}}}, "targets.b.table.path is missing"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(blizzard.ConfigError, match=text):
        blizzard.ingest(NO_SPARK, source=str(tmp_path), **arguments)


def test_the_status_of_targets_wants_a_name(tmp_path: Path) -> None:
    targets = {"a": {"table": str(tmp_path / "a")}, "b": {"table": str(tmp_path / "b")}}
    with pytest.raises(blizzard.ConfigError, match=r"say target=NAME, with one of a, b"):
        blizzard.status(targets=targets)
    with pytest.raises(blizzard.ConfigError, match="no target 'c'"):
        blizzard.status(targets=targets, target="c")


def test_a_tree_and_flat_keys_mean_the_same() -> None:
    tree = {"a": {"table": {"path": "t", "provenance": "all"}, "schema": {"formats": {"ts": "epoch_ms"}}}}
    flat = {"a": {"table.path": "t", "table.provenance": "all", "schema.formats.ts": "epoch_ms"}}
    assert keys_of_targets(tree) == keys_of_targets(flat)
    struct = {"type": "struct", "fields": []}
    assert keys_of_targets({"a": {"table": "t", "schema": struct}}) == (
        {"targets.a": None, "targets.a.table.path": "t"},
        {"a": struct},
    )
