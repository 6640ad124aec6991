"""The units against systemd's own checker, and their exit codes and grace against blizzard's own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from blizzard import errors
from blizzard.cli.parser import build_parser
from blizzard.config.load import load_config

FOLDER = Path(__file__).parents[2] / "jobs/systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*@.*"))
RUNS = ["blizzard@.service", "blizzard-follow@.service"]
# Signals and the fence's own answer aside, what a run may end with: README.md, "exit code".
NEEDS_A_PERSON = {1} | {
    kind("").exit_code for kind in (errors.ConfigError, errors.Refused, errors.Fenced, errors.BadData)
}


def settings(name: str) -> dict[str, list[str]]:
    """Every assignment of a unit, in order. Enough for units without continued lines."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|min)", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "min": 60}[unit]


@pytest.fixture
def checker() -> str:
    """In CI it must be there: Debian's package systemd has it, and `make test` installs it."""
    found = shutil.which("systemd-analyze")
    if found is None:
        reason = "systemd-analyze was not found: install the package systemd"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def verify(checker: str, folder: Path) -> str:
    """As instances of one name, with a program that exists in the place of blizzard."""
    for name in UNITS:
        text = (FOLDER / name).read_text().replace("/opt/blizzard/bin/blizzard", "/bin/true")
        (folder / name).write_text(text)
    instances = [str(folder / name.replace("@", "@orders")) for name in UNITS]
    done = subprocess.run(
        [checker, "verify", "--man=no", *instances],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # Only what it says about these: the machine's own units are not our business. Below 254 it does not know one key.
    return "\n".join(line for line in done.stderr.splitlines() if "blizzard" in line and "'RestartMode'" not in line)


def test_systemd_takes_the_units(checker: str, tmp_path: Path) -> None:
    assert len(UNITS) == 4
    assert verify(checker, tmp_path) == ""


def test_systemd_does_find_mistakes(checker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / "wrong"
    shutil.copytree(FOLDER, wrong)
    text = (wrong / "blizzard@.service").read_text()
    (wrong / "blizzard@.service").write_text(text.replace("KillMode=mixed", "KillMod=mixed"))
    monkeypatch.setattr("tests.jobs.test_systemd_units.FOLDER", wrong)
    (tmp_path / "units").mkdir()
    assert "KillMod" in verify(checker, tmp_path / "units")


@pytest.mark.parametrize("name", RUNS)
def test_exit_codes_have_the_end_that_they_mean(name: str) -> None:
    unit = settings(name)
    assert unit["Restart"] == ["on-failure"]
    assert {int(code) for code in unit["RestartPreventExitStatus"][0].split()} == NEEDS_A_PERSON
    assert errors.Temporary("").exit_code not in NEEDS_A_PERSON
    assert seconds(unit["RestartSec"][0]) >= 30


@pytest.mark.parametrize("name", RUNS)
def test_a_failure_that_is_tried_again_tells_nobody(name: str) -> None:
    """Since 254 systemd passes through "failed" before each restart and starts OnFailure=, unless told otherwise."""
    assert settings(name)["OnFailure"] == ["blizzard-alert@%i.service"]
    assert settings(name)["RestartMode"] == ["direct"]


def test_nothing_new_is_no_failure() -> None:
    assert settings("blizzard@.service")["SuccessExitStatus"] == ["99"]


@pytest.mark.parametrize("name", RUNS)
def test_two_drivers_of_a_pipeline_never_run_at_once(name: str) -> None:
    unit, other = settings(name), next(one for one in RUNS if one != name)
    assert other.replace("@", "@%i") in unit["Conflicts"][0].split()
    assert "ExecStartPre" not in unit
    assert len(unit["ExecStart"]) == 1
    # With an order on one side systemd stops the one before it starts the other; with one on both it refuses.
    orders = [settings(one)["After"] for one in RUNS]
    assert sum(any("blizzard" in text for text in order) for order in orders) == 1
    assert settings("blizzard@.service")["Type"] == ["oneshot"]
    assert settings("blizzard@.timer")["Conflicts"] == ["blizzard-follow@%i.service"]


@pytest.mark.parametrize("name", RUNS)
def test_the_driver_alone_gets_the_signal_and_has_time_to_commit(name: str) -> None:
    unit, config = settings(name), yaml.safe_load((FOLDER / "orders.yaml").read_text())
    assert unit["KillMode"] == ["mixed"]
    assert seconds(unit["TimeoutStopSec"][0]) >= config["stop_grace_s"] + 20


@pytest.mark.parametrize("name", RUNS)
def test_the_command_is_one_that_blizzard_takes(name: str) -> None:
    words = shlex.split(settings(name)["ExecStart"][0].replace("%i", "orders"))
    options = build_parser().parse_args(words[1:])
    assert (options.config, options.pipeline) == ("/etc/blizzard/orders.yaml", "orders")
    assert load_config(file=str(FOLDER / "orders.yaml"), assignments=()).table.path == "s3://lake/shop_orders"


def test_both_ways_to_run_have_the_same_sandbox() -> None:
    once, follow = ((FOLDER / name).read_text() for name in RUNS)
    sandbox = once[once.index("# The first SIGTERM") :]
    assert sandbox.strip() in follow
    assert "ProtectSystem=strict" in sandbox
    assert "MemoryDenyWriteExecute=yes" not in sandbox, "the JVM does not start with it"
