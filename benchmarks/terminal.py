"""How long a person waits at a terminal: for the first line of a run, and for its end after Ctrl-C.

The terminal is real (a pty), and Ctrl-C reaches the whole process group. It is pressed while a large batch is read. The
best of the rounds counts: the others have waited for something else on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time

from blizzard.testing.samples import EVENT_DDL, write_events
from blizzard.testing.terminals import OnTerminal

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FILES, _RECORDS = 40, 100_000  # about a gigabyte of JSON
_READS_S = 1.0  # before Ctrl-C is pressed


class TerminalFailed(Exception):
    """A run did not stop as it should."""


def measure_terminal(folder: str, *, rounds: int = 3) -> dict[str, float]:
    source = os.path.join(folder, "source")
    write_events(source, files=1, records=_RECORDS)
    (first,) = os.listdir(source)
    for number in range(1, _FILES):
        shutil.copyfile(os.path.join(source, first), os.path.join(source, f"copy-{number:02d}-{first}"))
    best: dict[str, float] = {}
    for number in range(rounds):
        for name, value in _stop_once(source, os.path.join(folder, f"table-{number}"), folder).items():
            best[name] = min(value, best.get(name, value))
    return best


def _stop_once(source: str, table: str, cache: str) -> dict[str, float]:
    env = {
        "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH")))),
        "XDG_CACHE_HOME": cache,
    }
    began = time.monotonic()
    run = OnTerminal("run", "--source", source, "--table", table, "--schema", EVENT_DDL, env=env)
    run.wait_for("starting Spark")
    found = {"first_line_seconds": time.monotonic() - began}
    run.wait_for(" records ")
    time.sleep(_READS_S)
    pressed = time.monotonic()
    run.press_ctrl_c()
    run.wait_for("stopping: ")
    found["answer_seconds"] = time.monotonic() - pressed
    run.wait_for('{"status":')
    found["summary_seconds"] = time.monotonic() - pressed
    code = run.wait()
    found["stop_seconds"] = time.monotonic() - pressed
    if code != 0 or '"status":"stopped"' not in run.screen:
        raise TerminalFailed(f"exit {code}: {run.screen[-300:]!r}")
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure_terminal(**json.loads(sys.argv[1]))) + "\n")
