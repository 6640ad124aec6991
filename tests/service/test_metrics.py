"""Every metric has a meaning, and whatever is built on a metric names one that exists."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from blizzard.config.load import make_config
from blizzard.core.events import CommitFailed, Committed, StandsAt
from blizzard.core.kinds import CommitKind
from blizzard.core.position import Marks, PlannedOn, Position
from blizzard.core.types import BatchResult, QuarantinedBatch, SourceIdentity
from blizzard.errors import ConfigError
from blizzard.service.metrics import RECOVERY_PATHS, FleetMetrics, Metrics
from blizzard.service.target_metrics import TargetMetrics

ROOT = Path(__file__).parents[2]
PROMISED = [
    *("source_state_files", "checkpoint_lag_seconds", "checkpoint_bytes", "checkpoint_duration_seconds_bucket"),
    *("batch_commit_total", "batch_commit_failed_total", "recovery_path_total", "backlog_files", "backlog_bytes"),
    *("records_ingested_total", "bytes_read_total", "bad_records_total", "stage_seconds_bucket"),
]


def families() -> dict[str, Any]:
    """All there are, by name, whether they have a value yet or not."""
    return {family.name: family for family in Metrics("p").registry.collect()}


def families_of_targets() -> dict[str, Any]:
    """What a run with several targets has beside them."""
    found = {family.name: family for family in TargetMetrics("p", {"a": True}).collect()}
    return {name: family for name, family in found.items() if name not in families()}


def series() -> set[str]:
    """Names as they are written in an expression."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    known = families() | families_of_targets()
    return {f"{name}{suffix}" for name, family in known.items() for suffix in suffixes[family.type]}


def position(sequence: int) -> Position:
    return Position(
        pipeline="p",
        sequence=sequence,
        run_id="r",
        batch_id="b",
        taken_at_ms=1_000_000,
        source=SourceIdentity(root="file:///s", pattern="default"),
        marks=Marks(),
        on=PlannedOn(table_id="t", delta_version=0, schema_fingerprint="f"),
    )


def value(telemetry: Metrics, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(f"blizzard_{name}", {"pipeline": "p"} | labels)


def test_what_was_promised_is_there_and_every_metric_says_what_it_means() -> None:
    assert {f"blizzard_{name}" for name in PROMISED} <= series()
    for name, family in (families() | families_of_targets()).items():
        assert len(family.documentation) > 15, name
        assert family.documentation.endswith("."), name


def test_counters_are_at_zero_before_anything_happened_and_gauges_are_not_there() -> None:
    telemetry = Metrics("p")
    assert value(telemetry, "batch_commit_total") == 0
    assert value(telemetry, "batch_commit_failed_total") == 0
    assert [value(telemetry, "recovery_path_total", path=path) for path in RECOVERY_PATHS] == [0] * 5
    assert value(telemetry, "backlog_files") is None
    assert value(telemetry, "sequence") is None


def test_a_renewal_is_no_batch() -> None:
    telemetry = Metrics("p")
    for kind, batches in ((CommitKind.RENEWAL, 0), (CommitKind.BATCH, 1)):
        telemetry.see(
            Committed(kind=kind, position=position(5), result=BatchResult(), version=6, payload_bytes=10, seconds=0.1)
        )
        assert (value(telemetry, "batch_commit_total"), value(telemetry, "sequence")) == (batches, 5)


def test_records_that_left_the_quarantine_are_counted() -> None:
    telemetry = Metrics("p")
    left = tuple(QuarantinedBatch(name=f"b{rows}", sequence=rows, rows=rows) for rows in (2, 3))
    committed = {"kind": CommitKind.BATCH, "position": position(7), "version": 1, "payload_bytes": 1, "seconds": 0.1}
    telemetry.see(Committed(result=BatchResult(dropped=left), **committed))  # type: ignore[arg-type]
    assert value(telemetry, "quarantine_dropped_records_total") == 5


def test_the_lag_goes_on_between_commits() -> None:
    now = [1_060.0]
    telemetry = Metrics("p", now_s=lambda: now[0])
    assert str(value(telemetry, "checkpoint_lag_seconds")) == "nan"
    assert telemetry.lag_s is None
    telemetry.see(StandsAt(newest=position(4), version=4))
    assert value(telemetry, "checkpoint_lag_seconds") == 60
    now[0] = 1_100.0
    telemetry.see(
        Committed(
            kind=CommitKind.BATCH, position=position(5), result=BatchResult(), version=6, payload_bytes=10, seconds=0.1
        )
    )
    now[0] = 1_107.0
    assert value(telemetry, "checkpoint_lag_seconds") == 7


def test_a_pipeline_that_has_committed_nothing_has_no_lag() -> None:
    telemetry = Metrics("p")
    telemetry.see(StandsAt(newest=position(0), version=0))
    assert str(value(telemetry, "checkpoint_lag_seconds")) == "nan"


def test_the_textfile_is_whole_readable_by_others_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    telemetry, path = Metrics("p"), tmp_path / "blizzard.prom"
    before = os.umask(0o077)
    try:
        telemetry.write_textfile(str(path))
        telemetry.see(CommitFailed(sequence=1))
        telemetry.write_textfile(str(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["blizzard.prom"]
    read = {f.name: f for f in text_string_to_metric_families(path.read_text())}
    assert next(s.value for s in read["blizzard_batch_commit_failed"].samples if s.name.endswith("_total")) == 1


def test_a_textfile_that_cannot_take_the_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.prom").mkdir()
    with pytest.raises(OSError):
        Metrics("p").write_textfile(str(tmp_path / "a.prom"))
    assert os.listdir(tmp_path) == ["a.prom"]


def test_a_name_that_the_collector_would_not_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must end in \.prom"):
        make_config({"metrics.textfile": "/var/lib/node/blizzard.txt"})


def alerts() -> list[dict[str, Any]]:
    tree = yaml.safe_load((ROOT / "conf/alerts.yml").read_text())
    return [rule for group in tree["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((ROOT / "conf/grafana-dashboard.json").read_text())
    return tree


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts())
    yield from (target["expr"] for panel in dashboard()["panels"] for target in panel["targets"])
    yield from (variable["query"] for variable in dashboard()["templating"]["list"])


def test_every_metric_that_alerts_and_dashboard_name_exists() -> None:
    named = {name for expression in expressions() for name in re.findall(r"\bblizzard_\w+", expression)}
    assert len(named) > 10
    assert named <= series() | {family.name for family in fleet_families()}
    labels = {label for e in expressions() for label in re.findall(r'path=~?"([^"]+)"', e)}
    assert {path for label in labels for path in label.split("|")} <= set(RECOVERY_PATHS)


def fleet_families() -> list[Any]:
    """Beside those of its pipelines."""
    return list(FleetMetrics([], dict).collect())


def test_the_metrics_of_a_fleet_are_documented() -> None:
    text = (ROOT / "docs/fleet.md").read_text()
    for family in fleet_families():
        assert f"| `{family.name}`" in text
        assert f"| {family.type} | {family.documentation} |" in text


def test_every_alert_says_what_happened_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in alerts()}) == len(alerts()) >= 5
    for rule in alerts():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_the_dashboard_can_be_imported_anywhere() -> None:
    tree = dashboard()
    assert [given["name"] for given in tree["__inputs"]] == ["DS_PROMETHEUS"]
    assert {panel["datasource"]["uid"] for panel in tree["panels"]} == {"${DS_PROMETHEUS}"}
    assert len({panel["id"] for panel in tree["panels"]}) == len(tree["panels"])
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in tree["panels"]]
    assert len(set(places)) == len(places)


def metrics_table(known: dict[str, Any]) -> str:
    shown = {"counter": "{}_total"}
    return "\n".join(
        f"| `{shown.get(f.type, '{}').format(name)}`{_labels(f)} | {f.type} | {f.documentation} |"
        for name, f in known.items()
    )


def _labels(family: Any) -> str:
    more = {
        "blizzard_errors": "kind",
        "blizzard_target_failed": "kind",
        "blizzard_recovery_path": "path",
        "blizzard_stage_seconds": "stage",
        "blizzard_cut_timestamps": "column",
        "blizzard_parser_info": "parser",
    }
    return f" by `{more[family.name]}`" if family.name in more else ""


def alerts_table() -> str:
    return "\n".join(f"- `{rule['alert']}` ({rule['labels']['severity']}): `{rule['expr']}`" for rule in alerts())


def test_the_documentation_lists_every_metric_and_alert_as_it_is() -> None:
    text = (ROOT / "docs/observe.md").read_text()
    assert metrics_table(families()) in text
    assert metrics_table(families_of_targets()) in text
    assert alerts_table() in text


def test_the_documentation_names_every_endpoint_and_every_file_it_links_to() -> None:
    text = (ROOT / "docs/observe.md").read_text()
    source = (ROOT / "blizzard/service/operation.py").read_text()
    views = {*re.findall(r'"(/\w*)":', source), "/openapi.json"}
    assert {"/", "/pause", "/metrics"} < views
    assert views == {path for _, path in re.findall(r"^\| `(GET|POST) (/[\w.]*)`", text, re.MULTILINE)}
    for link in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (ROOT / "docs" / link).exists(), link
    assert (ROOT / "docs/images/report.png").stat().st_size < 300_000
