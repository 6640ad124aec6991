"""What the pages with commands rest on: reading and writing blocks, what a terminal shows, what counts as a change."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.docs.console import Step, differences, recorded, steps_of, what_it_says
from tests.docs.pages import HOMES
from tests.docs.terminal import Failed, on_screen

PAGE = """Text.

```console
$ greeting=hello
$ cat > note <<'END'
$ no command
END
$ echo "$greeting" \\
    "$(cat note)" && pwd
something that was printed once
```

More text.

```console
$ [ -t 1 ] && printf '0%%\\r\\033[K50%%\\r\\033[Kdone in 0.3 s\\n'
done in 12.5 s
```
"""


@pytest.mark.parametrize("page", HOMES, ids=lambda page: page.name)
def test_no_command_has_a_comment(page: Path) -> None:
    """zsh, the shell of a new Mac, takes # and the words after it for arguments when a person types them."""
    typed = [step.command.partition("<<")[0] for step in steps_of(page.read_text())]
    assert [command for command in typed if re.search(r"\s#", command)] == []


def test_the_steps_of_a_page() -> None:
    assert steps_of(PAGE)[1:3] == [
        Step(command="cat > note <<'END'\n$ no command\nEND", shown=()),
        Step(
            command='echo "$greeting" \\\n    "$(cat note)" && pwd',
            shown=("something that was printed once",),
        ),
    ]


def test_a_page_is_recorded_in_one_session_on_a_terminal(tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    first.mkdir()
    again.mkdir()
    now = recorded(PAGE, first, dict(os.environ), home="/home/you")
    assert [step.shown for step in steps_of(now)] == [(), (), ("hello $ no command", "/home/you"), ("done in 0.3 s",)]
    assert now.split("```")[::2] == PAGE.split("```")[::2]
    found = differences(PAGE, now)
    assert "-something that was printed once\n+hello $ no command\n" in found
    assert "done in" not in found  # only the time differs
    assert differences(now, recorded(now, again, dict(os.environ), home="/home/you")) == ""


@pytest.mark.parametrize("command", ["false", "exit 3"])
def test_a_command_that_fails_is_no_recording(tmp_path: Path, command: str) -> None:
    with pytest.raises(Failed, match=r"exited with 1|the shell has ended"):
        recorded(f"```console\n$ echo before\n$ {command}\n```\n", tmp_path, dict(os.environ), home="/")


def test_all_that_was_started_ends_with_the_session(tmp_path: Path) -> None:
    page = "```console\n$ while sleep 0.02; do touch alive; done &\n$ until [ -e alive ]; do sleep 0.02; done\n```\n"
    recorded(page, tmp_path, dict(os.environ), home="/")
    (tmp_path / "alive").unlink()
    time.sleep(0.3)
    assert not (tmp_path / "alive").exists()


def test_the_screen() -> None:
    assert on_screen("one\r\ntwo\r\n") == "one\ntwo"
    assert on_screen("a bar\r\x1b[Kdone\r\n") == "done"
    assert on_screen("a\r\nb\r\nc\r\n\x1b[2A\x1b[2Kx\x1b[1B\r\x1b[32my\x1b[0m\r\n") == "a\nx\ny"
    assert on_screen("a\r\nb\r\nc\x1b[1A\r\x1b[Jd") == "a\nd"
    assert on_screen("abc\b\bX") == "aXc"


def test_what_varies_is_not_compared_and_all_else_is() -> None:
    def same(a: str, b: str) -> bool:
        return what_it_says([a]) == what_it_says([b])

    assert same("done: 5 records in 2 files, 3.1 s", "done: 5 records in 8 files, 12 s")
    assert same("at 2026-11-18 11:07:51Z by run 9bdbcb9d36f7", "at 2027-01-01 00:00:00Z by run c5c8f87e7201")
    assert not same("done: 5 records", "done: 6 records")
    assert not same("sequence 1", "sequence 2")
    assert not same("orders/2026-11-01.ndjson", "orders/2026-11-02.ndjson")
