"""A command has only options that it uses: each is run over a real table, and everything that it reads is written down.

An option that is a key of the configuration, or part of the request, is used if something beyond the reading of options
and configurations reads that key or that part.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import blizzard
from blizzard.cli import warm_up
from blizzard.cli.context import FLAGS
from blizzard.cli.help import commands_of
from blizzard.cli.main import main
from blizzard.config.keys import Keys
from blizzard.config.request import Request
from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError
from tests.cli.every_command import FlowWithQuarantine, make_flow, places, write_config
from tests.cli.test_help import COMMANDS
from tests.ingesting import write_ids

PACKAGE = Path(blizzard.__file__).parent
# They read every option and every key, whether or not anybody needs it.
_READ_ALL = (str(PACKAGE / "config") + "/", str(PACKAGE / "cli/context.py"), str(PACKAGE / "cli/main.py"))
_CONFIGURATION = ("config", "assignments", "target")  # what is in them is for all commands: reading them is using them
_REQUEST = {
    "start_from": "start_from",
    "adopt": "start_from",
    "reads_again": "reads_again",
    "max_batches": "max_batches",
    "accept_quarantine_loss": "accepts_quarantine_loss",
    "pipeline": "pipeline",
    "schema": "schema",
    "variant": "schema",
    "source": "source_location",
    "pattern": "source_location",
    "quarantine": "quarantine_root",
}
# Where one call is not enough to see all of it, or where a command needs more. {S}: source, {T}: table, {N}: a new one.
_OLD, _NEW = "--source {S} --table {T}", "--source {S} --table {N}"
CALLS = {
    "blizzard run": [_OLD, "--source {E} --table {N} --schema {DDL}", f"{_NEW} --summary {{F}}"],
    "blizzard serve": ["--config {FLEET} --once"],
    "blizzard try": ["{S}", "--source {S} --config {C}"],
    "blizzard plan": [_OLD, f"{_NEW} --infer", f"{_NEW} --schema {{DDL}} --validate"],
    "blizzard status": [_OLD],
    "blizzard report": ["--table {T} --json", "--table {T} --out {F}"],
    "blizzard files": ["--table {T}"],
    "blizzard audit": [_OLD],
    "blizzard doctor": ["--table {T}"],
    "blizzard warm-up": ["", "--remove"],
    "blizzard vacuum-orphans": ["--table {T}"],
    "blizzard pause": ["--table {T}"],
    "blizzard resume": ["--table {T}"],
    "blizzard completion": ["bash"],
    "blizzard checkpoint show": ["--table {T}"],
    "blizzard checkpoint list": ["--table {T}"],
    "blizzard checkpoint export": ["--table {T} --pipeline p --out {F}"],
    "blizzard checkpoint import": ["--table {T} --in {X} --replace", "--table {T} --from-mirror {M}"],
    "blizzard checkpoint reset": [f"{_OLD} --file b.ndjson --from-record 0 --yes"],
    "blizzard checkpoint skip": [f"{_OLD} --file b.ndjson --yes"],
    "blizzard checkpoint choose": [f"{_OLD} --pattern *.ndjson --below skip --yes"],
    "blizzard checkpoint rollback": [f"{_OLD} --to 1 --yes"],
    "blizzard dlq list": ["--table {T}"],
    "blizzard dlq show": ["--table {T}"],
    "blizzard dlq export": ["--table {T} --out {F}"],
    "blizzard dlq replay": [_OLD],
    "blizzard dlq realign": ["--table {T}"],
    "blizzard dlq purge": ["--table {T} --older-than 3d", "--table {T} --all"],
    "blizzard schema infer": ["--source {S}"],
    "blizzard schema diff": [_OLD, "--table {T} --schema {DDL}"],
}


class Recorder:
    """What was read: options by their name, keys as `family.name`, parts of the request as `request.name`."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def note(self, name: str, *, counts_context: bool = False) -> None:
        frame: FrameType | None = sys._getframe(2)
        if frame is None or frame.f_code.co_filename == dataclasses.__file__:
            return  # a copy is made
        passed = _READ_ALL[:1] if counts_context else _READ_ALL
        while frame is not None and frame.f_code.co_filename.startswith(_READ_ALL[0]):
            frame = frame.f_back
        if frame is None:
            return
        file = frame.f_code.co_filename
        if file.startswith(str(PACKAGE)) and not file.startswith(passed):
            self.read.add(name)

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patched:
            self._watch(patched, argparse.Namespace, "")
            self._watch(patched, Request, "request.")
            for family in dataclasses.fields(Keys):
                made = getattr(Keys(), family.name)
                if dataclasses.is_dataclass(made):
                    self._watch(patched, type(made), f"{family.name}.")
            yield

    def _watch(self, patched: pytest.MonkeyPatch, watched: type, prefix: str) -> None:
        def get(this: Any, name: str) -> Any:
            self.note(prefix + name, counts_context=name in _CONFIGURATION and not prefix)
            return object.__getattribute__(this, name)

        patched.setattr(watched, "__getattribute__", get)

    def is_used(self, dest: str) -> bool:
        known_as = {dest, f"request.{_REQUEST.get(dest)}", FLAGS.get(dest, "")}
        return bool(known_as & self.read)


def two_sequences(folder: Path) -> FlowWithQuarantine:
    """With a bad record of the first."""
    made = make_flow(folder)
    write_ids(made.src / "b.ndjson", 10, 13)
    made.run()
    return made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> FlowWithQuarantine:
    return two_sequences(tmp_path_factory.mktemp("options"))


def values(flow: FlowWithQuarantine, folder: Path) -> dict[str, str]:
    (folder / "empty").mkdir()
    assert main(["checkpoint", "export", "--table", str(flow.table), "--pipeline", "p", "--out", f"{folder}/x"]) == 0
    write_config(folder / "c.json", quarantine={"path": flow.quarantine.root})
    pipeline = {"source": {"path": str(folder / "empty")}, "table": {"path": f"{folder}/of_fleet"}}
    write_config(folder / "fleet.json", pipelines={"q": pipeline | {"schema": {"ddl": "id BIGINT"}}})
    return {
        "{S}": str(flow.src),
        "{T}": str(flow.table),
        "{E}": str(folder / "empty"),
        "{N}": str(folder / "new"),
        "{F}": str(folder / "file"),
        "{X}": str(folder / "x"),
        "{M}": str(folder / "mirror"),
        "{C}": str(folder / "c.json"),
        "{FLEET}": str(folder / "fleet.json"),
        "{DDL}": "id BIGINT",
    }


@pytest.mark.parametrize("prog", [prog for prog, parser in COMMANDS.items() if not commands_of(parser)])
def test_every_option_of_a_command_is_used_by_it(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    shared: FlowWithQuarantine,
    prog: str,
) -> None:
    def no_jvm(*given: Any, **more: Any) -> Any:
        raise ConfigError("not in this test", kind=Kind.USAGE)

    monkeypatch.setattr(warm_up, "warm_up", no_jvm)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    flow = two_sequences(tmp_path) if "--yes" in " ".join(CALLS[prog]) else shared
    replaced, recorder = values(flow, tmp_path), Recorder()
    placed = [] if prog in ("blizzard serve", "blizzard completion") else quarantined(flow)
    for line in CALLS[prog]:
        words = [replaced.get(word, word) for word in line.split()]
        with recorder.recording(monkeypatch):
            code = main([*prog.split()[1:], *words, *placed])
        assert code in (0, 2, 3), capfd.readouterr().err
        assert "[internal]" not in capfd.readouterr().err
    dests = {action.dest: action.option_strings for action in COMMANDS[prog]._actions if action.dest != "help"}
    assert {dest: names for dest, names in dests.items() if not recorder.is_used(dest)} == {}


def quarantined(flow: FlowWithQuarantine) -> list[str]:
    return ["--set", f"quarantine.path={places(flow)['quarantine.path']}"]
