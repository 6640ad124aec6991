"""What doctor says of each kind of Databricks compute."""

from __future__ import annotations

import pytest

from blizzard.operate import doctor
from blizzard.spark.databricks import ACCESS_MODE, judge_databricks

RUNTIME = {"DATABRICKS_RUNTIME_VERSION": "17.3"}


def test_elsewhere_nothing_is_said() -> None:
    assert judge_databricks({}, {ACCESS_MODE: "SINGLE_USER"}) is None


@pytest.mark.parametrize(
    ("mode", "verdict", "word"),
    [
        ("SINGLE_USER", "ok", "dedicated"),
        ("DATA_SECURITY_MODE_DEDICATED", "ok", "dedicated"),
        ("single_user", "ok", "dedicated"),
        ("USER_ISOLATION", "warning", "storage_options"),
        ("DATA_SECURITY_MODE_STANDARD", "warning", "storage_options"),
        ("NONE", "note", "no isolation"),
        ("LEGACY_PASSTHROUGH", "problem", "legacy"),
        ("LEGACY_TABLE_ACL", "problem", "legacy"),
        ("SOMETHING_NEW", "warning", "unknown from here"),
        ("", "warning", "unknown from here"),
    ],
)
def test_each_access_mode_has_its_verdict(mode: str, verdict: str, word: str) -> None:
    found = judge_databricks(RUNTIME, {ACCESS_MODE: mode})
    assert found is not None
    assert found.verdict == verdict
    assert word in found.text


@pytest.mark.parametrize(
    "environment", [RUNTIME | {"IS_SERVERLESS": "TRUE"}, {"DATABRICKS_RUNTIME_VERSION": "client.3.4"}]
)
def test_serverless_cannot_write_whatever_mode_it_claims(environment: dict[str, str]) -> None:
    found = judge_databricks(environment, {ACCESS_MODE: "SINGLE_USER"})
    assert found is not None
    assert found.verdict == "problem"


def test_doctor_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [f for f in doctor._machine() if f.about == "databricks"]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.3.4")
    (found,) = [f for f in doctor._machine() if f.about == "databricks"]
    assert found.verdict == "problem"
