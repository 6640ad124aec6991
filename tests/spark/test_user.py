"""A user id without a name, as containers often have: local runs work, and what cannot work says why."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blizzard.errors import ConfigError
from blizzard.spark import user
from blizzard.spark.archive import cache_folder
from tests.ingesting import write_ids

NAMELESS = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
CAN_BE_NAMELESS = (
    shutil.which("unshare") is not None
    and subprocess.run([*NAMELESS, "true"], capture_output=True, check=False).returncode == 0
)


def run_nameless(folder: Path, *more: str) -> tuple[dict[str, Any], str]:
    write_ids(folder / "src/a.ndjson", 0, 3)
    env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "SPARK_USER", "HADOOP_USER_NAME")}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [*NAMELESS, sys.executable, "-m", "blizzard", "run", "--source=src", "--table=t", "--schema=id BIGINT", *more],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.skipif(not CAN_BE_NAMELESS, reason="needs unshare and user namespaces")
def test_a_run_without_a_name_and_a_home_works_and_leaves_nothing_beside_the_table(tmp_path: Path) -> None:
    summary, err = run_nameless(tmp_path)
    assert (summary["exit_code"], summary["records"]) == (0, 3), err
    assert sorted(os.listdir(tmp_path)) == ["src", "t"]


@pytest.mark.process
@pytest.mark.skipif(not CAN_BE_NAMELESS, reason="needs unshare and user namespaces")
def test_the_committer_that_works_through_hadoop_needs_a_name(tmp_path: Path) -> None:
    summary, err = run_nameless(tmp_path, "--committer=delta-spark")
    assert (summary["exit_code"], summary["error_kind"]) == (2, "no_user_name"), err
    assert "the user id 54321 has none here" in err
    assert "\n    at " not in err


def test_where_nothing_said_the_name_a_failed_start_is_no_reason_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.delenv("SPARK_USER", raising=False)
    with pytest.raises(ConfigError, match="Spark needs a user with a name"):
        user.check_name_after_failure()
    monkeypatch.setenv("SPARK_USER", "ann")
    user.check_name_after_failure()


def test_a_cache_without_a_home_is_not_below_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_folder() == "/.cache/blizzard"


def test_who_has_a_name_gets_no_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_USER", raising=False)
    monkeypatch.setattr(user, "has_name", lambda: True)
    assert user.settings_without_name() == {}
    assert "SPARK_USER" not in os.environ
