"""Fixtures for flows in this process, for tests in every folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blizzard import api
from tests.flows.in_process import InProcessIngestor
from tests.flows.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The command line, with the tasks of a run in this process."""

    def no_session(_session: Any, spec: Any, *, slots: int | None, **_options: Any) -> InProcessIngestor:
        return InProcessIngestor(spec, slots or 2)

    monkeypatch.setattr(api, "SparkIngestor", no_session)
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)
