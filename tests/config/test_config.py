"""Configuration: one tree of keys, later sources win, nothing unknown is swallowed, no secret is kept."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from blizzard.config.keys import KEYS
from blizzard.config.load import load_config, make_config
from blizzard.config.request import make_request
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


CHOICES: dict[str, list[tuple[Any, Any]]] = {
    "source.modified_after": [
        ("2026-01-01", 1_767_225_600_000),
        (date(2026, 1, 1), 1_767_225_600_000),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 1_767_225_600_000),
        (None, None),
    ],
    "source.ignore": [
        ("*.tmp", ("*.tmp",)),
        ("{a,b}.json", ("{a,b}.json",)),  # commas belong to a glob
        ('["b", "a", "b"]', ("a", "b")),  # their order is no change
        (["b", "a"], ("a", "b")),
        ("[ab].json", ("[ab].json",)),
        ("", None),
        ([], None),
    ],
}


@pytest.mark.parametrize(
    ("key", "given", "expected"), [(key, *case) for key, cases in CHOICES.items() for case in cases]
)
def test_times_and_ignored_names(key: str, given: Any, expected: Any) -> None:
    keys = make_config({key: given}).source
    assert getattr(keys, key.partition(".")[2]) == expected


def test_yaml_may_write_a_date_as_a_date(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "source:\n  modified_after: 2026-01-01\n  modified_before: 2026-01-01T02:00:00+02:00\n  ignore: ['*.tmp', x/]\n"
    )
    source = load_config(file=str(tmp_path / "c.yaml")).source
    assert source.modified_after == source.modified_before == 1_767_225_600_000
    assert source.ignore == ("*.tmp", "x/")


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("source.modified_after", "yesterday"),
        ("source.modified_after", 1767225600),
        ("source.modified_before", "2026-01-01T00:00:00.123456"),
        ("source.ignore", 7),
        ("source.ignore", ["a", 7]),
        ("source.ignore", "/"),
        ("source.ignore", ["x" * 5_000]),
    ],
)
def test_what_is_no_time_and_no_glob_is_named(key: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        make_config({key: given})


def test_a_range_without_a_moment_in_it_is_refused(tmp_path: Path) -> None:
    given = {"source.modified_after": "2026-01-02", "source.modified_before": "2026-01-01"}
    places = {"source.path": str(tmp_path), "table.path": str(tmp_path / "t")}
    with ends_with("usage"):
        make_request(make_config(given | places))


def test_a_date_to_begin_at_goes_with_marks_per_part(tmp_path: Path) -> None:
    places = {"source.path": str(tmp_path), "table.path": str(tmp_path / "t"), "source.marks_per": "region"}
    start = make_request(make_config(places), start_from="date:2026-01-01").start_from
    assert start is not None
    assert start.since_ms == 1_767_225_600_000
    with ends_with("usage"):
        make_request(make_config(places), start_from="after:x")
