"""`blizzard serve` as a person or a scheduler calls it: its last line, its exit code, and what it refuses to start."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.service.control import RunControl, Wish
from blizzard.service.fleet_control import FleetControl
from tests.flows.fleets import FleetFolder, Readers
from tests.flows.operating import wait_until


@pytest.fixture
def folder(tmp_path: Path, readers: Readers) -> FleetFolder:
    made = FleetFolder(tmp_path).add("orders", "users")
    made.put("orders", 0, 3)
    return made


def serve(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    capfd.readouterr()
    code = main(["serve", *words])
    said = capfd.readouterr()
    (line,) = said.out.splitlines()
    return code, json.loads(line), said.err


def test_once_ends_with_one_object_that_has_a_summary_for_each(
    folder: FleetFolder, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written = tmp_path / "summary.json"
    code, summary, err = serve(
        capfd, "--config", str(folder.file), "--once", "--summary", str(written), "--attempt", "try-1"
    )
    assert (code, summary["status"], summary["exit_code"], summary["attempt"]) == (0, "done", 0, "try-1")
    assert {name: (s["status"], s["records"]) for name, s in summary["pipelines"].items()} == {
        "orders": ("done", 3),
        "users": ("idle", 0),
    }
    assert json.loads(written.read_text()) == summary
    assert err.splitlines()[-1].startswith("done: 2 pipelines, 3 records, 1 commit, ")


def test_an_idle_fleet_can_exit_99(folder: FleetFolder, capfd: pytest.CaptureFixture[str]) -> None:
    idle = ("--config", str(folder.file), "--once", "--exit-99-when-idle")
    assert serve(capfd, *idle)[0] == 0
    code, summary, _ = serve(capfd, *idle)
    assert (code, summary["status"], summary["exit_code"]) == (99, "idle", 99)


def test_one_that_fails_gives_its_code_and_the_others_are_done(
    folder: FleetFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.src("users").rmdir()
    code, summary, err = serve(capfd, "--config", str(folder.file), "--once")
    assert (code, summary["status"], summary["error_kind"]) == (2, "failed", "source_not_found")
    assert summary["error"].startswith("pipeline 'users': the source ")
    assert summary["pipelines"]["orders"]["status"] == "done"
    assert err.splitlines()[-1].endswith("; 1 pipeline failed: users")
    assert any(line.startswith("users: the source ") for line in err.splitlines())


def test_json_lines(folder: FleetFolder, capfd: pytest.CaptureFixture[str]) -> None:
    _, _, err = serve(capfd, "--config", str(folder.file), "--once", "--log-json")
    said = [json.loads(line) for line in err.splitlines()]
    assert {line["pipeline"] for line in said} == {None, "orders", "users"}


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([], "usage"),
        (["--config", "not-there.yaml"], "config"),
        (["--config", "{file}", "--set", "nonsense"], "usage"),
        (["--config", "{file}", "--set", "limits.max_filez=1"], "unknown_key"),
        (["--config", "{file}", "--exit-99-when-idle"], "usage"),
        (["--config", "{file}", "--nonsense"], "usage"),
        (["--config", "{file}", "--summary", "/not/there/x.json"], "summary"),
        (["--config", "{file}", "--once", "--api-addr", "0.0.0.0:0"], "api_token"),
    ],
)
def test_what_cannot_start_is_one_object_too(
    folder: FleetFolder, capfd: pytest.CaptureFixture[str], words: list[str], kind: str
) -> None:
    code, summary, err = serve(capfd, *(word.replace("{file}", str(folder.file)) for word in words))
    assert (code, summary["status"], summary["error_kind"]) == (2, "failed", kind)
    assert summary["pipelines"] == {}  # none was started
    assert err.splitlines()[-1].endswith(f"[{kind}]")
    assert folder.ids("orders") == []


@pytest.fixture
def hangs_up() -> Iterator[Callable[[Any], object]]:
    """Sets what SIGHUP does, for one test: this process may have been started with nohup."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_every_pipeline(
    folder: FleetFolder,
    capfd: pytest.CaptureFixture[str],
    hangs_up: Callable[[Any], object],
    sent: signal.Signals,
) -> None:
    hangs_up(signal.SIG_DFL)

    def send() -> None:
        wait_until(lambda: folder.ids("orders") == [0, 1, 2])
        os.kill(os.getpid(), sent)

    sender = threading.Thread(target=send)
    sender.start()
    code, summary, err = serve(capfd, "--config", str(folder.file))
    sender.join()
    assert [line for line in err.splitlines() if line.startswith("stopping")]
    assert (code, summary["status"]) == (0, "stopped")
    assert [s["status"] for s in summary["pipelines"].values()] == ["stopped", "stopped"]


def test_what_is_asked_of_the_process_is_asked_of_every_pipeline(hangs_up: Callable[[Any], object]) -> None:
    hangs_up(signal.SIG_DFL)
    control, members = FleetControl(), (RunControl(), RunControl())
    control.members = lambda: members
    with control.installed():
        os.kill(os.getpid(), signal.SIGUSR1)
        assert [member.wish for member in members] == [Wish.PAUSE] * 2
        os.kill(os.getpid(), signal.SIGUSR1)
        assert [member.wish for member in members] == [Wish.RESUME] * 2
        os.kill(os.getpid(), signal.SIGUSR2)
        assert all(member.ends_batch() and not member.requested() for member in members)
        os.kill(os.getpid(), signal.SIGHUP)
        assert all(member.is_stopping and not member.must_cancel() for member in members)
        os.kill(os.getpid(), signal.SIGTERM)
        assert all(member.must_cancel() for member in members)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_started_with_nohup_it_outlives_its_terminal(hangs_up: Callable[[Any], object]) -> None:
    hangs_up(signal.SIG_IGN)
    control, member = FleetControl(), RunControl()
    control.members = lambda: (member,)
    with control.installed():
        os.kill(os.getpid(), signal.SIGHUP)
        assert not member.is_stopping
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_other_commands_take_one_pipeline_of_the_file(folder: FleetFolder, capfd: pytest.CaptureFixture[str]) -> None:
    """What a person does about one pipeline of a fleet: by the same file, and its name."""

    def call(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        return main([*words]), capfd.readouterr().out

    folder.top["api"] = {"address": "127.0.0.1:1"}  # of the fleet alone: nobody else serves it
    one = f"{folder.file}#orders"
    code, out = call("run", "--config", one)
    assert (code, json.loads(out)["pipeline"], folder.ids("orders")) == (0, "orders", [0, 1, 2])
    code, out = call("checkpoint", "list", "--config", one, "--json")
    assert (code, json.loads(out)["pipeline"]) == (0, "orders")
    code, out = call("status", "--config", one, "--json")
    assert [p["pipeline"] for p in json.loads(out)["pipelines"]] == ["orders"]
    assert call("checkpoint", "export", "--config", one, "--out", str(folder.folder / "kept.json"))[0] == 0
    kept = ("--in", str(folder.folder / "kept.json"), "--replace")
    assert call("checkpoint", "import", "--config", one, *kept)[0] == 0
    assert call("checkpoint", "import", "--config", one, *kept, "--pipeline", "other")[0] == 2
    assert call("checkpoint", "export", "--table", str(folder.table("orders")), "--out", "-")[0] == 2
    assert call("status", "--config", str(folder.file))[0] == 2
