"""Fixtures for flows in this process, for tests in every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard.run.assemble import Assembly
from blizzard.tasks.spec import TaskSpec
from tests.flows.in_process import InProcessIngestor
from tests.flows.shell import Shell


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of every run, that of the command line too, in this process."""

    def no_session(assembly: Assembly, spec: TaskSpec) -> InProcessIngestor:
        return InProcessIngestor(spec, assembly.config.spark.slots or 2)

    monkeypatch.setattr(Assembly, "ingestor", no_session)


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, in_process: None
) -> Shell:
    """The command line."""
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)
