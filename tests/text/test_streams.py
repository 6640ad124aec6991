"""A stdin, stdout or stderr that is closed or full: the work is done all the same, the exit code says what became of
it, and nobody ever sees a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from blizzard.cli import main as cli
from tests.flows.backups import put_back, three_batches
from tests.flows.in_process import Flow
from tests.ingesting import ids, write, write_ids

pytestmark = pytest.mark.slow

BLIZZARD = f"{sys.executable} -m blizzard"
GONE = (">&-", "> /dev/full", "2>&-", "2> /dev/full", ">&- 2>&-", "> /dev/full 2> /dev/full", "<&- >&- 2>&-")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with three good records and a bad one."""
    folder = tmp_path_factory.mktemp("streams")
    flow = Flow(folder)
    write_ids(folder / "src/a.ndjson", 0, 3)
    write(folder / "src/b.ndjson", b"bad\n")
    flow.run()
    return folder


def codes(folder: Path, command: str, *redirections: str) -> tuple[list[int], str]:
    """The exit code under each of these, and what was said on whatever was left open."""
    found, said = [], ""
    for redirection in redirections:
        done = subprocess.run(
            ["bash", "-c", f"{BLIZZARD} {command} {redirection}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert "Exception ignored" not in done.stderr, done.stderr
        found.append(done.returncode)
        said += done.stderr
    return found, said


@pytest.mark.parametrize("command", ["status --table table", "dlq export --table table --out -", "--version"])
def test_output_that_is_lost_is_an_error_of_a_command_that_only_prints(folder: Path, command: str) -> None:
    found, said = codes(folder, command, *GONE)
    assert found == [2, 2, 0, 0, 2, 2, 2]
    assert [line.rsplit(" ", 1)[1] for line in said.splitlines() if "stdout" in line] == ["[output]", "[output]"]


def test_a_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {BLIZZARD} files --json --table table | true"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_keeps_its_code_when_nobody_listens(folder: Path) -> None:
    assert codes(folder, "status --table nowhere", *GONE)[0] == [2] * len(GONE)
    assert codes(folder, "run --nonsense", *GONE)[0] == [2] * len(GONE)


def test_a_run_ends_as_it_would_when_nobody_listens(folder: Path) -> None:
    found, said = codes(folder, "run --source src --table table --pipeline p --exit-99-when-idle", *GONE)
    assert found == [99] * len(GONE)
    assert said.count("the summary could not be printed") == 2


def test_a_command_that_changes_something_does_it_and_says_so(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    flow.run()
    command = "checkpoint reset --source src --table table --pipeline p --file a.ndjson --from-record 0 --yes"
    for n, redirection in enumerate((">&-", "> /dev/full", "2>&-", "> /dev/full 2> /dev/full", "| true"), start=1):
        (code,), said = codes(tmp_path, command, redirection)
        assert code == 0, said
        assert flow.open().fence("p") == 1 + n
    assert ids(tmp_path / "table") == [0, 1, 2]


def test_realigning_is_done_and_says_so(tmp_path: Path) -> None:
    flow = three_batches(tmp_path)
    put_back(flow, "table-1")
    (code,), said = codes(tmp_path, "dlq realign --table table --pipeline p", "> /dev/full")
    assert code == 0, said
    assert flow.run().records == 2


def test_no_data_file_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """Whoever writes to file 2 would write into whatever was opened next."""
    program = (
        "import os, sys; from blizzard.text.streams import hold_standard_streams, put_err, put_out;"
        " hold_standard_streams();"
        " taken = open('data', 'wb').fileno(); os.write(2, b'x'); put_err('x'); put_out('x'); sys.stdin.read();"
        " open('number', 'w').write(str(taken))"
    )
    subprocess.run(["bash", "-c", f'{sys.executable} -c "{program}" <&- >&- 2>&-'], cwd=tmp_path, check=True)
    assert (tmp_path / "data").read_bytes() == b""
    assert int((tmp_path / "number").read_text()) > 2


def test_what_is_not_foreseen_is_one_line_and_a_traceback_only_where_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Panic(BaseException):
        """As a panic in Rust comes out of pyo3."""

        def __repr__(self) -> str:
            return "two\nlines " + "x" * 1000

    def panic(_: object) -> int:
        raise Panic

    monkeypatch.setattr("blizzard.cli.show.dispatch", panic)
    monkeypatch.delenv("BLIZZARD_TRACEBACK", raising=False)
    assert cli.main(["status", "--table", "t"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("blizzard: unexpected: two lines xxx")
    assert "BLIZZARD_TRACEBACK=1" in line
    assert line.endswith("[internal]")
    assert len(line) < 500
    monkeypatch.setenv("BLIZZARD_TRACEBACK", "1")
    assert cli.main(["status", "--table", "t"]) == 1
    assert capsys.readouterr().err.startswith("Traceback")


@pytest.mark.parametrize("log", [[], ["--log-json"]])
def test_a_run_that_is_not_foreseen_ends_in_an_object_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log: list[str]
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("nobody knows")

    monkeypatch.setattr("blizzard.cli.run.RunCommand._ingest", fail)
    assert cli.main(["run", "--source", "s", "--table", "t", *log]) == 1
    said = capsys.readouterr()
    assert '"error_kind":"internal"' in said.out
    assert len(said.err.splitlines()) == 1
    assert "Traceback" not in said.err + said.out
