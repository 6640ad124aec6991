"""The file of a fleet: defaults, what each pipeline says over them, and which pipelines cannot be in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from blizzard.config.file import read_config_file, split_name
from blizzard.config.fleet import MAX_PIPELINES, FleetConfig, load_fleet
from blizzard.errors import ConfigError
from tests.failing import ends_with

ROOT = Path(__file__).parents[2]


def pipeline(name: str, **families: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"source": {"path": f"/in/{name}"}, "table": {"path": f"/lake/{name}"}}
    return {family: {**made.get(family, {}), **keys} for family, keys in (made | families).items()}


def write(folder: Path, pipelines: Any, **top: Any) -> str:
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump(top | {"pipelines": pipelines}, sort_keys=False))
    return str(path)


def load(folder: Path, pipelines: Any, **top: Any) -> FleetConfig:
    return load_fleet(write(folder, pipelines, **top))


def refused(folder: Path, pipelines: Any, **top: Any) -> str:
    with pytest.raises(ConfigError) as e:
        load(folder, pipelines, **top)
    assert e.value.exit_code == 2
    return f"{e.value} [{e.value.kind}]"


def test_keys_at_the_top_are_for_all_and_those_of_a_pipeline_win(tmp_path: Path) -> None:
    fleet = load(
        tmp_path,
        {"orders": pipeline("orders", limits={"max_files": 7}), "users": pipeline("users")},
        limits={"max_files": 5, "max_records": 9},
        api={"address": "127.0.0.1:1"},
        fleet={"max_active": 3},
        spark={"slots": 2},
    )
    orders, users = (member.config for member in fleet.members)
    assert [member.name for member in fleet.members] == ["orders", "users"]
    assert (orders.limits.max_files, orders.limits.max_records, users.limits.max_files) == (7, 9, 5)
    assert (orders.spark.slots, fleet.process.spark.slots, fleet.max_active) == (2, 2, 3)
    assert (fleet.process.api.address, fleet.process.source.path) == ("127.0.0.1:1", None)


def test_a_schema_of_a_pipeline_takes_the_place_of_the_one_for_all(tmp_path: Path) -> None:
    fleet = load(
        tmp_path,
        {"a": pipeline("a", schema={"file": "a.ddl"}), "b": pipeline("b")},
        schema={"ddl": "id BIGINT"},
    )
    assert [(m.config.schema.ddl, m.config.schema.file) for m in fleet.members] == [
        (None, "a.ddl"),
        ("id BIGINT", None),
    ]


def test_assignments_and_flags_are_keys_at_the_top(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": pipeline("a", limits={"max_files": 7}), "b": pipeline("b")})
    fleet = load_fleet(path, assignments=("limits.max_files=5",), flags={"log.format": "json", "api.address": None})
    assert [m.config.limits.max_files for m in fleet.members] == [7, 5]
    assert (fleet.process.log.format, fleet.process.api.address) == ("json", None)


def test_without_a_number_the_cores_decide_how_many_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = load(tmp_path, {"a": pipeline("a")})
    for cores, at_once in ((1, 2), (2, 2), (6, 6), (64, 8), (None, 2)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert fleet.max_active == at_once


def test_a_name_may_have_dots_and_a_pipeline_no_keys_of_its_own_but_its_places(tmp_path: Path) -> None:
    fleet = load(tmp_path, {"orders.eu-1": pipeline("a"), "b": None}, source={"path": "/x"}, table={"path": "/y"})
    assert [m.name for m in fleet.members] == ["orders.eu-1", "b"]
    assert fleet.members[1].config.source.path == "/x"


@pytest.mark.parametrize(
    "keys",
    [
        {"spark": {"slots": 2}},
        {"spark": {"conf": {"spark.hadoop.fs.s3a.access.key": "x"}}},
        {"api": {"token": "abcdefgh"}},
        {"log": {"format": "json"}},
        {"metrics": {"textfile": "x.prom"}},
        {"fleet": {"max_active": 2}},
        {"stop_grace_s": 3},
    ],
)
def test_what_belongs_to_the_process_is_refused_below_a_pipeline(tmp_path: Path, keys: dict[str, Any]) -> None:
    said = refused(tmp_path, {"orders": pipeline("orders") | keys})
    assert said.startswith("pipeline 'orders': ")
    assert "belongs to the whole process" in said
    assert said.endswith("[fleet]")


def test_a_key_of_the_process_is_told_without_the_name_of_a_pipeline(tmp_path: Path) -> None:
    said = refused(tmp_path, {"orders": pipeline("orders")}, fleet={"max_active": 0})
    assert said.startswith("fleet.max_active must be from 1 to 1000, not 0")


def test_an_unknown_key_names_the_nearest_one_and_the_pipeline(tmp_path: Path) -> None:
    said = refused(tmp_path, {"orders": pipeline("orders", limits={"max_file": 2})})
    assert said == "pipeline 'orders': unknown key 'limits.max_file'; did you mean 'limits.max_files'? [unknown_key]"
    assert refused(tmp_path, {"a": pipeline("a")}, limit={"x": 1}).startswith("pipeline 'a': unknown key 'limit.x'")
    assert "flet.max_active" in refused(tmp_path, {"a": pipeline("a")}, flet={"max_active": 1})


@pytest.mark.parametrize("missing", ["source", "table"])
def test_a_pipeline_without_its_places(tmp_path: Path, missing: str) -> None:
    made = pipeline("orders")
    del made[missing]
    assert refused(tmp_path, {"orders": made}) == f"pipeline 'orders': the key {missing}.path is missing [usage]"


@pytest.mark.parametrize("pipelines", [None, {}, [], "orders", {"orders": "x"}, {"orders": [1]}])
def test_a_file_without_pipelines(tmp_path: Path, pipelines: Any) -> None:
    assert refused(tmp_path, pipelines).endswith("[fleet]")


def test_a_file_for_one_pipeline_is_no_fleet_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(pipeline("a")))
    with pytest.raises(ConfigError, match=r"has no pipelines.*blizzard run --follow --config") as e:
        load_fleet(str(tmp_path / "one.yaml"))
    assert e.value.kind == "fleet"


@pytest.mark.parametrize("name", ["", "a/b", "-a", "ü", "a b", "x" * 101, "../a", "a%2Fb"])
def test_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, {name: pipeline("a")}).endswith("[fleet]")


@pytest.mark.parametrize(
    ("name", "taken_for"), [("yes", "True"), ("007", "7"), ("2026-01-31", "2026-01-31"), ("~", "None")]
)
def test_a_name_that_yaml_takes_for_something_else(tmp_path: Path, name: str, taken_for: str) -> None:
    """The pipeline would have another name than the file says; two of them might have one."""
    path = tmp_path / "fleet.yaml"
    path.write_text(f"pipelines:\n  {name}: {{source: {{path: /a}}, table: {{path: /t}}}}\n")
    with pytest.raises(
        ConfigError, match=f"takes a pipeline name for {taken_for}, which is no text. Write it in quotes"
    ):
        load_fleet(str(path))


def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    one = "{source: {path: /a}, table: {path: /t}}"
    path.write_text(f"pipelines:\n  orders: {one}\n  orders: {one}\n")
    with pytest.raises(ConfigError, match="has the key orders twice"):
        load_fleet(str(path))


def test_more_pipelines_than_one_process_should_have(tmp_path: Path) -> None:
    names = [f"p{i}" for i in range(MAX_PIPELINES)]
    assert len(load(tmp_path, {name: pipeline(name) for name in names}).members) == MAX_PIPELINES
    assert "Name one below `pipelines`" in refused(tmp_path, {})
    assert "Split it" in refused(tmp_path, {name: pipeline(name) for name in (*names, "one-more")})


SAME_TABLE = {"table": {"path": "/lake/all"}}


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ({"path": "/in"}, {"path": "/in"}, True),
        ({"path": "/in"}, {"path": "/in/orders"}, True),
        ({"path": "/in/a/*.json"}, {"path": "/in/a"}, True),
        ({"path": "/in/orders"}, {"path": "/in/users"}, False),
        ({"path": "/in", "pattern": "*.json"}, {"path": "/in", "pattern": "*.ndjson"}, False),
        ({"path": "/in", "pattern": "**/*.json"}, {"path": "/in/x/a.json"}, True),
        ({"path": "s3://b/in"}, {"path": "s3a://b/in/x"}, True),
        ({"path": "s3://b/in"}, {"path": "s3://c/in"}, False),
    ],
)
def test_two_pipelines_that_would_double_a_record_are_refused_with_both_names(
    tmp_path: Path, one: dict[str, str], other: dict[str, str], meet: bool
) -> None:
    pipelines = {"orders": {"source": one} | SAME_TABLE, "users": {"source": other} | SAME_TABLE}
    if not meet:
        assert len(load(tmp_path, pipelines).members) == 2
        return
    said = refused(tmp_path, pipelines)
    assert "pipelines 'orders' and 'users' write to the same table and may read the same files" in said
    assert said.endswith("[fleet]")


def test_one_source_may_go_to_two_tables_unless_one_takes_the_files_away(tmp_path: Path) -> None:
    source = {"source": {"path": "/in"}}
    archiving = {"after_ingest": {"action": "archive", "archive_path": "/done"}}
    assert len(load(tmp_path, {"a": pipeline("a") | source, "b": pipeline("b") | source}).members) == 2
    said = refused(tmp_path, {"a": pipeline("a") | source, "b": pipeline("b") | source | archiving})
    assert "pipelines 'a' and 'b' may read the same files, and 'b' takes them away" in said


def test_one_session_has_one_set_of_credentials(tmp_path: Path) -> None:
    def by_spark(name: str, key: str, committer: str = "delta-spark") -> dict[str, Any]:
        table = {"path": f"s3://lake/{name}", "committer": committer, "storage_options": {"AWS_ACCESS_KEY_ID": key}}
        return pipeline(name, table=table)

    said = refused(tmp_path, {"a": by_spark("a", "key-one"), "b": by_spark("b", "key-two")})
    assert "pipelines 'a' and 'b' both commit with delta-spark" in said
    assert "key-one" not in said
    assert load(tmp_path, {"a": by_spark("a", "same-key"), "b": by_spark("b", "same-key")}).needs_delta_jars
    with_delta_rs = {name: by_spark(name, name * 8, "delta-rs") for name in ("a", "b")}
    assert not load(tmp_path, with_delta_rs).needs_delta_jars


def test_a_place_that_is_none_is_told_with_the_name_of_its_pipeline(tmp_path: Path) -> None:
    said = refused(tmp_path, {"a": pipeline("a"), "b": pipeline("b", source={"path": "ftp://x/y"})})
    assert said.startswith("pipeline 'b': ")
    assert said.endswith("[unsupported_scheme]")


def test_other_commands_name_the_pipeline_that_is_meant(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"a": pipeline("a"), "b": pipeline("b", limits={"max_files": 3})},
        limits={"max_files": 1},
        api={"address": "127.0.0.1:1"},
        metrics={"textfile": "x.prom"},
        fleet={"max_active": 2},
    )
    keys = read_config_file(f"{path}#b")
    # The address and the metrics stay those of the fleet, which may be running.
    assert keys == {"source.path": "/in/b", "table.path": "/lake/b", "limits.max_files": 3}
    for wrong in (path, f"{path}#c", f"{path}#"):
        with pytest.raises(ConfigError, match=r"is that of a fleet, for blizzard serve.*#NAME with one of a, b") as e:
            read_config_file(wrong)
        assert e.value.kind == "fleet"
    (tmp_path / "one.yaml").write_text("source: {path: /in}")
    with ends_with("fleet"):
        read_config_file(f"{tmp_path}/one.yaml#a")


def test_a_file_with_such_a_name_is_meant_whole(tmp_path: Path) -> None:
    (tmp_path / "odd#name").write_text("source: {path: /in}")
    assert split_name(str(tmp_path / "odd#name")) == (str(tmp_path / "odd#name"), None)
    assert read_config_file(str(tmp_path / "odd#name")) == {"source.path": "/in"}
    assert split_name("fleet.yaml#a") == ("fleet.yaml", "a")


def test_the_example_is_a_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PARTNER_KEY", "PARTNER_SECRET"):
        monkeypatch.setenv(name, "a-secret-value")
    fleet = load_fleet(str(ROOT / "conf/fleet.example.yaml"))
    assert len(fleet.members) >= 3
    assert fleet.process.api.address is not None
    assert "conf/fleet.example.yaml" in (ROOT / "docs/fleet.md").read_text()
