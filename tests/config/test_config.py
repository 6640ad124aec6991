"""Configuration: one tree of keys, later sources win, nothing unknown is swallowed, no secret is kept."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from blizzard.config.keys import KEYS
from blizzard.config.load import load_config, make_config
from blizzard.errors import ConfigError
from tests.failing import ends_with


def test_defaults_are_the_documented_ones() -> None:
    limits = make_config({}).batch_limits
    assert (limits.max_files, limits.commit_files, limits.interval_s) == (10_000, 10, 60.0)
    assert make_config({}).checkpoint.scan_commits == 100


def test_flags_win_over_assignments_and_assignments_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("source: {path: f, pattern: x}\ntable: {path: f}\nlimits: {max_files: 7}\n")
    config = load_config(
        file=str(file), assignments=("source.path=s", "table.path=s"), flags={"table.path": "flag", "schema.ddl": None}
    )
    assert [config.source.path, config.source.pattern, config.table.path, config.limits.max_files] == [
        *("s", "x", "flag"),
        7,
    ]


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("limit.max_files", "limits.max_files"), ("limits.maxfiles", "limits.max_files"), ("tabel.path", "table.path")],
)
def test_an_unknown_key_is_rejected_with_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=nearest) as error:
        make_config({key: "1"})
    assert error.value.kind == "unknown_key"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("table.target_file_bytes", "128MiB", 128 * 2**20),
        ("table.target_file_bytes", "1 GB", 10**9),
        ("limits.max_bytes", "1_000", 1000),
        ("limits.max_bytes", None, None),
        ("limits.max_files", "1", 1),
        ("checkpoint.interval_s", "0", None),
        ("checkpoint.interval_s", None, None),
        ("checkpoint.interval_s", "0.5", 0.5),
        ("schema.infer", True, True),
        ("schema.infer", "True", True),
        ("schema.infer", "false", False),
        ("schema.sample_files", "7", 7),
    ],
)
def test_values_are_parsed(key: str, text: Any, value: Any) -> None:
    assert attrgetter(key)(make_config({key: text})) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("limits.max_files", "0"),
        ("limits.max_files", "-1"),
        ("limits.max_files", "1.5"),
        ("limits.max_files", "1MB"),
        ("limits.max_files", True),
        ("limits.max_files", [1]),
        ("table.target_file_bytes", "12 parsecs"),
        ("checkpoint.interval_s", "-1"),
        ("checkpoint.interval_s", "nan"),
        ("checkpoint.interval_s", "inf"),
        ("source.compression", "rar"),
        ("source.encoding", "ebcdic"),
        ("source.framing", "rows"),
        ("source.framing", "array:"),
        ("source.framing", 'array:"k"'),
        ("source.framing", "array:" + 101 * "k"),
        ("source.framing", 5),
        ("table.committer", "delta-kernel"),
        ("source.path", 5),
        ("schema.infer", "yes please"),
        ("schema.infer", 1),
        ("schema.hints", ""),
        ("schema.sample_records", "0"),
    ],
)
def test_a_bad_value_is_named(key: str, text: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        make_config({key: text})


def test_environment_variables_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKET", "b")
    monkeypatch.delenv("NOWHERE", raising=False)
    assert make_config({"source.path": "x/${BUCKET}/${NOWHERE:-d}"}).source.path == "x/b/d"
    with pytest.raises(ConfigError, match="NOWHERE"):
        make_config({"source.path": "${NOWHERE}"})


def test_spark_conf_takes_any_key() -> None:
    config = make_config({"spark.conf.spark.sql.adaptive.enabled": True, "spark.conf.x.y": "z"})
    assert config.spark_conf == {"spark.sql.adaptive.enabled": "true", "x.y": "z"}


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "just text"])
def test_a_file_that_is_no_tree_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with ends_with("config"):
        load_config(file=str(tmp_path / "c.yaml"))


def test_the_example_file_is_valid() -> None:
    config = load_config(file=str(Path(__file__).parents[2] / "conf" / "example.yaml"))
    assert config.source.path == "demo/events"
    assert config.spark_conf


def test_every_key_has_a_help_text() -> None:
    assert all(key.help for key in KEYS.values())
