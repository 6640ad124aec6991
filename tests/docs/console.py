"""The commands of a page, and what they printed: ```console blocks, in which a line that begins with `$ ` is typed.

A command goes on in the next line after a backslash, and until the word of its `<<'WORD'`. All blocks of a page are one
session. `recorded` types the commands and writes what they printed into the page; `differences` says where a page no
longer shows what they print. Both leave out what is no part of the product: Spark's own lines, folders, free ports.
"""

from __future__ import annotations

import difflib
import re
import socket
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.terminal import COLUMNS, Terminal

_BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
_UNTIL = re.compile(r"<<-?\s*'?(\w+)'?")
_PORT = "8080"  # as a page says it; on this machine it may be in use
_NOISE = re.compile(r".*run blizzard warm-up once")
# The folder that mktemp makes.
_TEMPORARY = re.compile(r"/tmp/tmp\.\w{10}\b")
# bash says it in another way to a person than to a script.
_KILLED = re.compile(r"^(?:.*: )?line \d+: +\d+ (Killed) +(.*?) *$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    command: str
    shown: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join((f"$ {self.command}", *self.shown))


def steps_of(page: str) -> list[Step]:
    return [step for block in _BLOCK.findall(page) for step in _steps(block)]


def _steps(block: str) -> Iterator[Step]:
    lines = block.rstrip("\n").split("\n")
    assert lines[0].startswith("$ "), f"a block begins with {lines[0]!r}, not with a command"
    while lines:
        command = [lines.pop(0)[2:]]
        while command[-1].endswith("\\"):
            command.append(lines.pop(0))
        if word := _UNTIL.search(command[-1]):
            while command[-1] != word[1]:
                command.append(lines.pop(0))
        end = next((i for i, line in enumerate(lines) if line.startswith("$ ")), len(lines))
        shown, lines = lines[:end], lines[end:]
        yield Step(command="\n".join(command), shown=tuple(shown))


def recorded(page: str, folder: Path, environment: Mapping[str, str], *, home: str) -> str:
    """The page, with what its commands print now. `home` is what it says for `folder`."""
    with Terminal(folder, environment) as terminal:
        printed = _printer(terminal, folder, home)
        return _BLOCK.sub(
            lambda block: "".join(
                Step(command=step.command, shown=printed(step.command)).text + "\n" for step in _steps(block[1])
            ),
            page,
        )


def _printer(terminal: Terminal, folder: Path, home: str) -> Callable[[str], tuple[str, ...]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])

    def printed(command: str) -> tuple[str, ...]:
        shown = terminal.run(command.replace(_PORT, port)).replace(str(folder), home).replace(port, _PORT)
        shown = _TEMPORARY.sub("/tmp/tmp.XXXXXXXXXX", shown)
        lines = [_KILLED.sub(r"[1]+  \1                  \2", line) for line in shown.split("\n")]
        kept = [part for line in lines if not _NOISE.match(line) for part in _fitting(line)]
        return tuple("\n".join(kept).strip("\n").split("\n")) if any(kept) else ()

    return printed


def _fitting(line: str) -> list[str]:
    """A long line as several. The object for scripts, which nobody reads, is cut."""
    if len(line) <= COLUMNS:
        return [line]
    if line.startswith("{"):
        return [line[: COLUMNS - 2] + "…"]
    return textwrap.wrap(line, COLUMNS, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


# What differs from run to run and from machine to machine. Everything else is compared.
_VARIES = [
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "<time>"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
        (r"\b(?=\w*\d)[0-9a-f]{12,}\b", "<id>"),
        (r"\btmp\.\w{10}", "<folder>"),
        (r"\b[\d,.]+ ?(ms|s|min|MB/s|MB|KB|kB|bytes)\b", r"# \1"),
        (r"\b(native|pyarrow|reference)\b", "<parser>"),  # a machine without Rust has no native one
        (r"\bin \d+ (task|file|Parquet file)s?\b", r"in # \1s"),  # by the cores of the machine
        (r"\bblizzard \d+\.\d+\.\d+\S*", "blizzard #"),
        (r'"(seconds|blocked_seconds|uptime_s)":[\d.]+', r'"\1":#'),
        (r"\s+", " "),
    )
]


def what_it_says(shown: Iterable[str]) -> str:
    """Without what varies. Where a line ends is one such thing: a longer time of day breaks it elsewhere."""
    text = " ".join(shown)
    for pattern, put in _VARIES:
        text = pattern.sub(put, text)
    return text.strip()


def differences(page: str, now: str) -> str:
    """Where the page shows something else than its commands print now; empty if nowhere."""
    found: list[str] = []
    for then, step in zip(steps_of(page), steps_of(now), strict=True):
        if what_it_says(then.shown) != what_it_says(step.shown):
            lines = difflib.unified_diff(then.shown, step.shown, "the page", "now", lineterm="", n=1)
            found += [f"$ {step.command}", *lines, ""]
    return "\n".join(found)
