"""Fixtures for flows in this process, for tests in every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard.run.assemble import Assembly
from tests.flows.fleets import Readers
from tests.flows.in_process import use_no_spark
from tests.flows.shell import Shell


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of every run, that of the command line too, in this process."""
    use_no_spark(monkeypatch.setattr)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    """The same for a fleet: says who has read, and calls a hook of each pipeline while it does."""
    found = Readers()
    monkeypatch.setattr(Assembly, "ingestor", lambda _, spec: found.ingestor(spec))
    return found


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, in_process: None
) -> Shell:
    """The command line."""
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)
