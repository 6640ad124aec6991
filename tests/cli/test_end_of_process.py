"""A signal that comes when all is said: the last line and the exit code stay what they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# In place of a person who presses Ctrl-C at that very moment. `{when}` calls `send`.
_PROGRAM = """
import os, signal, sys, threading
from blizzard.cli import run

def send():
    os.kill(os.getpid(), signal.{sent})

{when}
sys.argv[1:] = ["run", "--source", "src", "--table", "table"]
from blizzard.cli.main import main
sys.exit(main())
"""
_BEFORE_THE_LAST_LINE = """
end_with = run.end_with
run.end_with = lambda *given, **named: (send(), end_with(*given, **named))[1]
"""
# Python waits for a thread, for longer than anybody would.
_WAITING_FOR_A_THREAD = """
from blizzard.cli.end_of_process import EndOfProcess
begin = EndOfProcess.begin

def stay():
    threading.Event().wait(0.2)
    send()
    threading.Event().wait(300)

def begin_with_a_thread(end, code):
    begin(end, code)
    threading.Thread(target=stay).start()

EndOfProcess.begin = begin_with_a_thread
"""


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("when", [_BEFORE_THE_LAST_LINE, _WAITING_FOR_A_THREAD], ids=["last line", "threads"])
def test_a_late_signal_changes_nothing(tmp_path: Path, when: str, sent: str) -> None:
    (tmp_path / "src").mkdir()
    program = _PROGRAM.format(when=when, sent=sent)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "idle"), done.stderr
    assert "Traceback" not in done.stderr
