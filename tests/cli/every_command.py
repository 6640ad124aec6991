"""Every command over one table, for tests by table: a real log with a bad record in a quarantine of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.quarantine.table import DeltaRsQuarantine
from tests.flows.in_process import Flow
from tests.ingesting import write_ids

# What each command needs beside the places, and how it ends. A run has nothing to do, so that it needs no Spark.
COMMANDS: dict[str, tuple[list[str], int]] = {
    "run": (["run", "--pipeline", "p"], 0),
    "try": (["try"], 0),
    "plan": (["plan", "--pipeline", "p"], 0),
    "plan --validate": (["plan", "--validate", "--pipeline", "p"], 0),
    "status": (["status", "--explain"], 0),
    "report": (["report", "--json"], 0),
    "checkpoint list": (["checkpoint", "list"], 0),
    "checkpoint show": (["checkpoint", "show"], 0),
    "checkpoint export": (["checkpoint", "export", "--pipeline", "p", "--out", "-"], 0),
    "checkpoint reset": (["checkpoint", "reset", "--pipeline", "p", "--file", "{file}"], 2),
    "checkpoint skip": (["checkpoint", "skip", "--pipeline", "p", "--file", "{file}"], 2),
    "checkpoint rollback": (["checkpoint", "rollback", "--pipeline", "p", "--to", "0", "--dry-run"], 0),
    "pause": (["pause", "--pipeline", "p", "--reason", "{file}"], 0),
    "resume": (["resume", "--pipeline", "p"], 0),
    "files": (["files"], 0),
    "audit": (["audit", "--pipeline", "p"], 0),
    "vacuum-orphans": (["vacuum-orphans"], 0),
    "dlq list": (["dlq", "list"], 0),
    "dlq show": (["dlq", "show"], 0),
    "dlq export": (["dlq", "export", "--out", "-"], 0),
    "dlq replay": (["dlq", "replay", "--pipeline", "p"], 0),
    "dlq purge": (["dlq", "purge", "--all"], 2),
    "schema infer": (["schema", "infer"], 0),
    "schema diff": (["schema", "diff"], 0),
}
HAS_JSON = [name for name in COMMANDS if name not in ("run", "schema infer")]


class FlowWithQuarantine(Flow):
    """Its bad records are not beside the table."""

    @property
    def quarantine(self) -> DeltaRsQuarantine:
        return DeltaRsQuarantine(root=str(self.folder / "bad" / "records"), clock=self.clock, emit=self.told.see)


def make_flow(folder: Path, name: str = "a.ndjson") -> FlowWithQuarantine:
    """Three good records and a bad one, all of one file."""
    flow = FlowWithQuarantine(folder)
    write_ids(flow.src / name, 0, 3)
    with open(flow.src / name, "a", encoding="utf-8") as file:
        file.write("{nonsense\n")
    flow.run()
    assert len(flow.quarantined()) == 1
    return flow


def places(flow: Flow) -> dict[str, str]:
    return {
        "source.path": str(flow.src),
        "table.path": str(flow.table),
        "quarantine.path": flow.quarantine.root,
    }


def write_config(file: Path, **trees: Any) -> list[str]:
    """As JSON, which is YAML. The arguments that name it."""
    file.write_text(json.dumps(trees))
    return ["--config", str(file)]


def tree(flat: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in flat.items():
        family, _, name = key.partition(".")
        made.setdefault(family, {})[name] = value
    return made


def arguments(command: str, file: str = "a.ndjson") -> list[str]:
    return [word.replace("{file}", file) for word in COMMANDS[command][0]]


def call(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capfd.readouterr()
    code = main(list(words))
    said = capfd.readouterr()
    return code, said.out, said.err
