"""A shell on a terminal, for the pages that show commands and what they print.

Commands run one after the other in one bash, as if a person had typed them: folders, variables and jobs stay. What
comes back is what the terminal shows at the end of each command, so that a progress bar leaves only its last state. The
shell and all that it has started end with the session.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_ROWS, COLUMNS = 50, 120
_LONGEST_S = 300  # for one command, on a busy machine
_ENDED = re.compile(rb"\x1e(\d+)\x1e")
_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|[\r\n\b]|[^\x1b\r\n\b]+|\x1b")


class Failed(Exception):
    """A command that did not exit with 0, or not at all."""


class Terminal:
    """`with Terminal(folder, environment) as terminal: shown = terminal.run("ls")`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._scripts = folder / ".typed"
        self._scripts.mkdir()
        self._count = 0
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, COLUMNS, 0, 0))
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**environment, "TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"},
            start_new_session=True,  # so that all it starts can be ended with it
        )
        os.close(slave)

    def run(self, command: str) -> str:
        """What the terminal shows of a command. It has to exit with 0."""
        self._count += 1
        script = self._scripts / f"{self._count:03}"
        script.write_text(command + "\n")
        assert self._shell.stdin is not None
        self._shell.stdin.write(f". '{script}' </dev/null; printf '\\036%s\\036' \"$?\"\n".encode())
        self._shell.stdin.flush()
        shown, code = self._read()
        if code != 0:
            raise Failed(f"$ {command}\n{shown}\nexited with {code}")
        return shown.replace(f"{script}: ", "")

    def _read(self) -> tuple[str, int]:
        read, deadline = b"", time.monotonic() + _LONGEST_S
        while (ended := _ENDED.search(read)) is None:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Failed(f"no end after {_LONGEST_S} s:\n{on_screen(read.decode(errors='replace'))}")
            try:
                read += os.read(self._master, 65536)
            except OSError as e:  # Linux: nobody has the other side any more
                raise Failed(f"the shell has ended:\n{on_screen(read.decode(errors='replace'))}") from e
        return on_screen(read[: ended.start()].decode(errors="replace")), int(ended[1])

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait(30)
        os.close(self._master)


def on_screen(written: str) -> str:
    """The lines that a terminal of any length and width shows after this was written to it."""
    lines, row, column = [""], 0, 0
    for found in _CONTROL.finditer(written):
        text, final = found[0], found[2]
        if final is not None:
            row, column = _moved(lines, row, column, found[1], final)
        elif text == "\r":
            column = 0
        elif text == "\n":
            row += 1
        elif text == "\b":
            column = max(0, column - 1)
        elif text != "\x1b":
            _reach(lines, row)
            line = lines[row].ljust(column)
            lines[row] = line[:column] + text + line[column + len(text) :]
            column += len(text)
        _reach(lines, row)
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def _moved(lines: list[str], row: int, column: int, argument: str, final: str) -> tuple[int, int]:
    """After one control sequence. Colours, and all that changes no text, are left out."""
    number = int(argument) if argument.isdigit() else 0
    match final:
        case "K":
            lines[row] = {0: lines[row][:column], 1: " " * column + lines[row][column:]}.get(number, "")
        case "J":
            lines[row] = lines[row][:column]
            del lines[row + 1 :]
        case "A" | "F":
            row = max(0, row - max(1, number))
        case "B" | "E":
            row += max(1, number)
        case "C":
            column += max(1, number)
        case "D":
            column = max(0, column - max(1, number))
        case "G":
            column = max(1, number) - 1
        case _:
            pass
    return row, 0 if final in "EF" else column


def _reach(lines: list[str], row: int) -> None:
    lines.extend([""] * (row + 1 - len(lines)))
