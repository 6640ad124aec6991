"""What a command writes: a regular file whole or not at all, a device or a pipe as it is, a link stays a link."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from blizzard.service.metrics import Metrics
from blizzard.store.outputs import is_regular, is_writable, open_output
from tests.cli.every_command import FlowWithQuarantine, call, make_flow

# Every option that names a file to write, with what then stands in it.
WRITERS: dict[str, tuple[list[str], str]] = {
    "run --summary": (
        ["run", "--source", "{src}", "--pipeline", "p", "--set", "quarantine.path={bad}", "--summary"],
        '"status"',
    ),
    "report --out": (["report", "--out"], "</html>"),
    "report --json --out": (["report", "--json", "--out"], '"pipelines"'),
    "checkpoint export --out": (["checkpoint", "export", "--pipeline", "p", "--out"], "blizzard_position"),
    "dlq export --out": (["dlq", "export", "--quarantine", "{bad}", "--out"], "{nonsense"),
}


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> FlowWithQuarantine:
    return make_flow(tmp_path_factory.mktemp("flow"))


def words(flow: FlowWithQuarantine, writer: str, target: Path | str) -> list[str]:
    given = [w.replace("{src}", str(flow.src)).replace("{bad}", flow.quarantine.root) for w in WRITERS[writer][0]]
    return [*given, str(target), "--table", str(flow.table)]


def overwriting(writer: str) -> list[str]:
    return ["--force"] if "export" in writer else []


def read_from(pipe: Path) -> Callable[[], str]:
    """Reads it in a thread; what is returned waits for the end."""
    read: list[str] = []
    thread = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    thread.start()

    def result() -> str:
        thread.join(timeout=120)
        return read[0]

    return result


def null_device(path: Path) -> Path:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        with open(path, "wb") as device:
            device.write(b"x")
    except OSError:
        pytest.skip("this user cannot make a device, or not use it here")
    return path


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_pipe_is_written_to_and_stays_a_pipe(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flow: FlowWithQuarantine, writer: str, linked: bool
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    target = pipe
    if linked:
        target = tmp_path / "link"
        target.symlink_to("pipe")
    content = read_from(pipe)
    code, _, err = call(capfd, *words(flow, writer, target))
    assert code == 0, err
    assert WRITERS[writer][1] in content()
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert sorted(os.listdir(tmp_path)) == sorted({"pipe", target.name})


@pytest.mark.parametrize("writer", WRITERS)
def test_a_device_stays_a_device(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flow: FlowWithQuarantine, writer: str
) -> None:
    device = null_device(tmp_path / "null")
    code, _, err = call(capfd, *words(flow, writer, device))
    assert code == 0, err
    assert stat.S_ISCHR(os.stat(device).st_mode)
    assert os.listdir(tmp_path) == ["null"]


@pytest.mark.parametrize("writer", WRITERS)
def test_its_own_stdout_is_added_to_whatever_is_behind_it(
    tmp_path: Path, flow: FlowWithQuarantine, writer: str
) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with open(log, "ab") as out:
        command = [sys.executable, "-m", "blizzard", *words(flow, writer, "/dev/stdout")]
        assert subprocess.run(command, stdout=out, check=False).returncode == 0
    text = log.read_text()
    assert text.startswith("before\n")
    assert WRITERS[writer][1] in text
    assert os.path.islink("/dev/stdout")
    assert os.listdir(tmp_path) == ["log"]


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_to_a_file_stays_a_link(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flow: FlowWithQuarantine, writer: str, dangling: bool
) -> None:
    (tmp_path / "there").mkdir()
    file, link = tmp_path / "there" / "file", tmp_path / "link"
    link.symlink_to("there/file")
    if not dangling:
        file.write_text("before")
    code, _, err = call(capfd, *words(flow, writer, link), *overwriting(writer))
    assert code == 0, err
    assert link.is_symlink()
    assert WRITERS[writer][1] in file.read_text()
    assert os.listdir(tmp_path / "there") == ["file"]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_or_nowhere_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flow: FlowWithQuarantine, writer: str
) -> None:
    for target in (tmp_path, tmp_path / "no" / "where"):
        code, _, err = call(capfd, *words(flow, writer, target))
        assert code == 2
        assert "[usage]" in err or "[summary]" in err
    assert os.listdir(tmp_path) == []


def test_the_summary_is_written_though_the_configuration_cannot_be_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "summary.json"
    code, out, _ = call(capfd, "run", "--config", str(tmp_path / "none.yaml"), "--summary", str(file))
    assert code == 2
    assert json.loads(file.read_text()) == json.loads(out)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/{fd}", "/proc/self/fd/{fd}", "/proc/{pid}/fd/{fd}", "link"])
def test_a_descriptor_by_any_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file that is open for adding is added to: opened by its name, it would be emptied."""
    monkeypatch.chdir(tmp_path)
    with open("log", "ab") as log:
        log.write(b"before\n")
        log.flush()
        os.symlink(f"/dev/fd/{log.fileno()}", "link")
        path = name.format(fd=log.fileno(), pid=os.getpid())
        assert not is_regular(path)
        if name != "/dev/stdout":
            with open_output(path) as file:
                file.write(b"after\n")
            assert Path("log").read_bytes() == b"before\nafter\n"


def test_metrics_go_through_a_pipe_too(tmp_path: Path) -> None:
    pipe = tmp_path / "m.prom"
    os.mkfifo(pipe)
    content = read_from(pipe)
    Metrics("p").write_textfile(str(pipe))
    assert "blizzard_batch_commit_total" in content()
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_half_a_file_is_never_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")

    def fail_in_between() -> None:
        with open_output(str(path)) as file:
            file.write(b"half")
            raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        fail_in_between()
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["x"]


def test_what_can_be_written_to_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("none/file")
    known = {"x": True, "": False, "none/x": False, "link": False}
    assert {name: is_writable(os.path.join(tmp_path, name)) for name in known} == known
    assert is_writable("/dev/null")
