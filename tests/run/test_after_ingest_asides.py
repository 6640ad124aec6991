"""A local file is taken aside to be deleted. Whatever dies in between, no file stays hidden that nobody lists."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.main import main
from blizzard.core.late import LatePolicy
from blizzard.core.types import SourceFile
from blizzard.run.after_ingest import Cleaning
from blizzard.source.cleaning import SourceCleaner
from blizzard.store import aside
from blizzard.store.files import FileChanged
from blizzard.store.local import LocalStore
from tests.flows.in_process import Flow
from tests.ingesting import ids, line, write_ids

DAY_MS = 86_400_000
NEW = line(100) + line(101)
STEPS = range(1, 9)  # more than there are


class Died(BaseException):
    """The process is gone."""


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    made = Flow(tmp_path)
    write_ids(made.src / "d/a.ndjson", 0, 3)
    write_ids(made.src / "d/b.ndjson", 3, 6)
    made.run()
    made.clock.ms += 2 * DAY_MS
    return made


@pytest.fixture(params=["links", "no links"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no links":
        monkeypatch.setattr(os, "link", _no_links)


def _no_links(source: str, target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "File exists", target)
    raise PermissionError(errno.EPERM, "Operation not permitted", target)


def cleaning(flow: Flow) -> Cleaning:
    return Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS)


def die_at(step: int, monkeypatch: pytest.MonkeyPatch, before: Callable[[str], None] = lambda _: None) -> None:
    """Before the nth thing that is done to the disk; `before` is told each of them."""
    done: list[str] = []

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if "src" in str(arguments[0]) and ".aside" in str(arguments):
                before(name)
                done.append(name)
                if len(done) == step:
                    raise Died
            return real(*arguments, **named)

        monkeypatch.setattr(os, name, call)

    for name in ("rename", "link", "unlink", "stat"):
        wrap(name)


def hidden(flow: Flow) -> list[Path]:
    return list(flow.src.rglob("*.aside"))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.usefixtures("links")
def test_a_crash_while_a_file_is_deleted(flow: Flow, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        die_at(step, patch)
        with suppress(Died):
            flow.run(cleaning=cleaning(flow))
    flow.run(cleaning=cleaning(flow))
    assert [p.name for p in flow.src.rglob("*.ndjson*")] == []
    assert ids(flow.table) == list(range(6))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.usefixtures("links")
def test_a_crash_while_the_file_is_written_anew(flow: Flow, step: int) -> None:
    """The producer is faster than the deletion: its file is there in the end, whenever the process died."""

    def written(name: str) -> None:
        if name == "rename" and (flow.src / "d/a.ndjson").exists():
            (flow.src / "d/a.ndjson").write_bytes(NEW)

    with pytest.MonkeyPatch.context() as patch:
        die_at(step, patch, written)
        with suppress(Died):
            flow.run(cleaning=cleaning(flow))
    flow.run(late=LatePolicy(rewritten="ingest"))
    assert (flow.src / "d/a.ndjson").read_bytes() == NEW
    assert hidden(flow) == []
    assert ids(flow.table) == [*range(6), 100, 101]


@pytest.mark.usefixtures("links")
def test_a_file_that_is_written_twice_meanwhile_is_told_by_every_run(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = flow.src / "d/a.ndjson"
    real = os.rename

    def rename(source: str, target: str) -> None:
        if target.endswith(".aside") and source == str(path):
            path.write_bytes(NEW)
            real(source, target)
            path.write_bytes(line(200))
        else:
            real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        flow.run(cleaning=cleaning(flow))
    for _ in range(2):
        flow.told.warnings.clear()
        flow.run(cleaning=cleaning(flow), late=LatePolicy(rewritten="ignore"))
        (said,) = (text for text in flow.told.warnings if ".aside" in text)
        assert "written twice" in said
    (left,) = hidden(flow)
    assert left.read_bytes() == NEW
    left.rename(flow.src / "d/a-first.ndjson")  # as the text says
    flow.run(late=LatePolicy(rewritten="ingest"))
    assert ids(flow.table) == [*range(6), 100, 101, 200]


def test_a_version_that_was_to_be_deleted_goes_even_if_there_is_a_new_file(flow: Flow) -> None:
    path = flow.src / "d/a.ndjson"
    file = LocalStore(str(flow.src)).stat("d/a.ndjson")
    assert file is not None
    with pytest.MonkeyPatch.context() as patch:
        die_at(2, patch)
        with pytest.raises(Died):
            aside.delete_version(str(path), file)
    path.write_bytes(NEW)
    flow.run(late=LatePolicy(rewritten="ingest"))
    assert hidden(flow) == []
    assert ids(flow.table) == [*range(6), 100, 101]


def test_what_an_older_version_has_left_aside_is_put_back(flow: Flow) -> None:
    (flow.src / "d/a.ndjson").rename(flow.src / "d/.a.ndjson.0a1b2c3d.aside")
    flow.run()
    assert (flow.src / "d/a.ndjson").exists()
    assert hidden(flow) == []


@pytest.mark.parametrize("name", [".a.txt.0a1b2c3d.aside", ".a.ndjson.aside", "_a.ndjson.0a1b2c3d.aside", ".x.aside"])
def test_other_hidden_files_are_left_alone(flow: Flow, name: str) -> None:
    (flow.src / name).write_bytes(b"mine")
    flow.run()
    assert (flow.src / name).read_bytes() == b"mine"


def test_looking_changes_nothing(flow: Flow) -> None:
    (flow.src / "d/a.ndjson").rename(flow.src / "d/.a.ndjson.0a1b2c3d.aside")
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    for command in ("plan", "audit"):
        main([command, *where])
    assert len(hidden(flow)) == 1


def test_a_file_that_cannot_be_put_back_is_told(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    (flow.src / "d/a.ndjson").rename(flow.src / "d/.a.ndjson.0a1b2c3d.aside")

    def refuses(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(aside, "_put_back", refuses)
        flow.run()
    assert any("cannot be put back (Permission denied)" in text for text in flow.told.warnings)
    flow.run()
    assert hidden(flow) == []


@pytest.mark.usefixtures("links")
def test_a_changed_file_is_back_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(NEW)
    with pytest.raises(FileChanged):
        aside.delete_version(str(tmp_path / "a.ndjson"), SourceFile(path="a.ndjson", size_bytes=1, etag="1"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.ndjson"]
