"""The first command on a folder, with the tasks in this process."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from blizzard.cli.main import main
from tests.producers.accounting import Landed, differences
from tests.producers.corpus import PRODUCERS, write_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRun:
    """How it ended. `records` are those of the source, as Python's json reads them."""

    folder: Path
    code: int
    out: str
    err: str
    records: list[Any]

    @property
    def summary(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return parsed

    @property
    def landed(self) -> Landed:
        return Landed.read(self.folder / "table")

    def unaccounted(self, formats: Mapping[str, str] | None = None) -> list[str]:
        """What is not as the contract says."""
        return differences(self.records, self.landed, formats)


class FirstCommand(Protocol):
    def __call__(
        self,
        files: Mapping[str, bytes],
        *words: str,
        key: str | None = None,
        is_lines: bool = False,
        readable: Container[str] | None = None,
        pattern: str | None = None,
    ) -> FirstRun: ...


class ProducersFirstCommand(Protocol):
    def __call__(self, name: str) -> FirstRun: ...


@pytest.fixture
def first_command(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], in_process: None
) -> FirstCommand:
    """`blizzard run --infer` on a folder with these files."""

    def run(
        files: Mapping[str, bytes],
        *words: str,
        key: str | None = None,
        is_lines: bool = False,
        readable: Container[str] | None = None,
        pattern: str | None = None,
    ) -> FirstRun:
        folder = tmp_path_factory.mktemp("first")
        records = write_folder(folder / "src", files, key, is_lines=is_lines, readable=readable)
        where = ["--source", str(folder / "src"), "--table", str(folder / "table")]
        which = ["--set", f"source.pattern={pattern}"] if pattern else []
        code = main(["run", *where, "--infer", *which, *words])
        said = capsys.readouterr()
        return FirstRun(folder=folder, code=code, out=said.out, err=said.err, records=records)

    return run


@pytest.fixture(scope="module")
def first_runs() -> dict[str, FirstRun]:
    return {}


@pytest.fixture
def of_producer(first_runs: dict[str, FirstRun], first_command: FirstCommand) -> ProducersFirstCommand:
    """The same on the folder of a producer; once, however many tests look at it."""

    def run(name: str) -> FirstRun:
        if name not in first_runs:
            producer = PRODUCERS[name]
            first_runs[name] = first_command(producer.files(), key=producer.key, pattern=producer.pattern)
        return first_runs[name]

    return run
