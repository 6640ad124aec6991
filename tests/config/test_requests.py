"""The same configuration means the same places and the same credentials to every command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from blizzard import api
from blizzard.cli.context import FLAGS
from blizzard.config.load import Config
from blizzard.store.access import NO_ACCESS, Access
from tests.cli.every_command import COMMANDS, HAS_JSON, arguments, call, make_flow, places, tree, write_config
from tests.flows.in_process import Flow

# Commands without --source take the source, if they need it, from the file.
_NO_SOURCE_FLAG = {
    *("report", "checkpoint list", "checkpoint show", "checkpoint export", "files", "vacuum-orphans"),
    *("dlq list", "dlq show", "dlq export", "dlq purge", "pause", "resume"),
}
_NEEDS_SOURCE = set(COMMANDS) - _NO_SOURCE_FLAG - {"status"}
_NEEDS_NO_TABLE = {"schema infer", "try"}
_QUARANTINE_FLAG = {"vacuum-orphans", *(name for name in COMMANDS if name.startswith("dlq"))}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was asked for: as what, and which root."""
    asked: list[tuple[str, str]] = []

    def access(_: Config, place: str, root: str, spark_settings: Mapping[str, str] | None = None) -> Access:
        del spark_settings
        asked.append((place, root))
        return NO_ACCESS

    monkeypatch.setattr(Config, "access", access)
    return asked


def allowed(flow: Flow) -> set[tuple[str, str]]:
    return {("source", str(flow.src)), ("table", str(flow.table)), ("table", flow.quarantine.root)}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_file_alone_is_enough(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], asked: list[tuple[str, str]], command: str
) -> None:
    flow = make_flow(tmp_path)
    file = write_config(tmp_path / "c.yaml", **tree(places(flow)))
    asked.clear()
    code, out, err = call(capfd, *arguments(command), *file)
    assert code == COMMANDS[command][1], err
    assert out or code
    assert set(asked) <= allowed(flow)
    assert command in _NEEDS_NO_TABLE or ("table", str(flow.table)) in asked or command.startswith("dlq")
    assert command not in _QUARANTINE_FLAG or ("table", flow.quarantine.root) in asked
    assert command not in _NEEDS_SOURCE or ("source", str(flow.src)) in asked


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_go_before_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], asked: list[tuple[str, str]], command: str
) -> None:
    flow = make_flow(tmp_path)
    right = places(flow)
    wrong = {key: str(tmp_path / "wrong" / key) for key in right}
    flags = [] if command in _NEEDS_NO_TABLE else ["--table", right["table.path"]]
    flags += [] if command in _NO_SOURCE_FLAG else ["--source", right["source.path"]]
    if command in _QUARANTINE_FLAG:
        flags += ["--quarantine", right["quarantine.path"]]
    else:
        wrong["quarantine.path"] = right["quarantine.path"]  # those commands have no flag for it
    asked.clear()
    code, _, err = call(capfd, *arguments(command), *write_config(tmp_path / "c.yaml", **tree(wrong)), *flags)
    assert code == COMMANDS[command][1], err
    assert set(asked) <= allowed(flow)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_missing_is_named_by_flag_and_key(capfd: pytest.CaptureFixture[str], command: str) -> None:
    code, _, err = call(capfd, *arguments(command))
    assert code == 2
    assert "[usage]" in err
    flag, key = ("--source", "source.path") if command in _NEEDS_SOURCE else ("--table", "table.path")
    assert flag in err
    assert key in err


def test_every_flag_of_that_table_is_a_key() -> None:
    from blizzard.config.keys import KEYS

    assert set(FLAGS.values()) <= set(KEYS)


def test_an_import_asks_for_its_source_by_the_root_of_the_source(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], asked: list[tuple[str, str]]
) -> None:
    flow = make_flow(tmp_path / "one")
    exported = tmp_path / "position.json"
    file = write_config(tmp_path / "c.yaml", **tree(places(flow)))
    assert call(capfd, "checkpoint", "export", "--pipeline", "p", "--out", str(exported), *file)[0] == 0
    other = make_flow(tmp_path / "other")
    given = {"table.path": str(other.table), "quarantine.path": other.quarantine.root}
    asked.clear()
    file = write_config(tmp_path / "other.yaml", **tree(given))
    code, _, err = call(capfd, "checkpoint", "import", "--in", str(exported), "--replace", "--unverified", *file)
    assert code == 0, err
    assert set(asked) == {("source", str(flow.src)), ("table", str(other.table)), ("table", other.quarantine.root)}


def test_records_in_a_quarantine_that_only_the_file_names_are_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flow = make_flow(tmp_path)
    file = write_config(tmp_path / "c.yaml", **tree(places(flow)))
    found = json.loads(call(capfd, "dlq", "list", "--json", *file)[1])
    assert (found["records"], found["quarantine"]) == (1, f"file://{flow.quarantine.root}")
    page = json.loads(call(capfd, "report", "--json", *file)[1])
    assert page["quarantine"]["records"] == 1


def test_the_python_api_means_the_same_table(tmp_path: Path) -> None:
    flow = make_flow(tmp_path)
    told = api.status(str(flow.table), source=str(flow.src), options={"quarantine.path": flow.quarantine.root})
    assert [p.pipeline for p in told.pipelines] == ["p"]


def test_a_schema_by_its_flag_goes_before_a_schema_file_of_the_configuration(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flow = make_flow(tmp_path)
    given = tree(places(flow)) | {"schema": {"file": str(tmp_path / "none.ddl")}}
    file = write_config(tmp_path / "c.yaml", **given)
    code, _, err = call(capfd, "plan", "--pipeline", "p", "--schema", flow.ddl, *file)
    assert code == 0, err


@pytest.mark.parametrize("command", HAS_JSON)
def test_every_json_is_json(tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str) -> None:
    flow = make_flow(tmp_path)
    file = write_config(tmp_path / "c.yaml", **tree(places(flow)))
    code, out, _ = call(capfd, *arguments(command), *([] if command == "report" else ["--json"]), *file)
    assert code == COMMANDS[command][1]
    if command not in ("files", "checkpoint list", "dlq show", "dlq export") and out:
        json.loads(out)
