"""jobs/environment.py says what it does while it does it, and what to do where it cannot."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

environment: Any = import_module("jobs.environment")


def test_a_python_without_pip_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """That of Debian and Ubuntu, as it is delivered."""

    def create(folder: Path, *, with_pip: bool) -> None:
        raise subprocess.CalledProcessError(1, ["python", "-m", "ensurepip"])

    monkeypatch.setattr(venv, "create", create)
    assert environment.main(tmp_path / "venv", ["-e", "."]) == 1
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 1
    assert err == (
        f"{sys.executable} cannot make an environment with pip. On Debian and Ubuntu: apt-get install python3-venv."
        " Or choose another one: make PYTHON=python3.12 ...\n"
    )


def test_a_step_that_takes_long_says_which_one_it_is(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "_SILENCE_S", 0.1)
    code = "import time; print('Building pyspark==4.1.1', flush=True); time.sleep(1); print('Built pyspark')"
    assert environment._run([sys.executable, "-c", code])[0] == 0
    said = [line.partition(" s  ")[2] for line in capfd.readouterr().out.splitlines()]
    assert said[-1] == "Built pyspark"
    assert "… Building pyspark==4.1.1" in said


def test_without_uv_pip_says_what_it_installs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(command: list[str]) -> tuple[int, list[str]]:
        return 1, ["no network\n"]

    monkeypatch.setattr(environment, "_find_uv", lambda *_: None)
    monkeypatch.setattr(environment, "_run", fail)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pip").touch()
    assert environment.main(tmp_path, ["-e", "."]) == 1
    out, err = capfd.readouterr()
    assert out.endswith(f"into {tmp_path}: -e .\n")
    assert err == "no network\n"
