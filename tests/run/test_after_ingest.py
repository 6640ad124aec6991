"""Source files moved away or deleted after they were ingested: only those, only then, and a crash does no harm."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blizzard.config.load import make_config
from blizzard.config.request import make_request
from blizzard.core.late import LatePolicy
from blizzard.core.ledger import LedgerEntry
from blizzard.core.plan import Limits
from blizzard.core.types import SourceFile
from blizzard.errors import ConfigError, Refused
from blizzard.run.after_ingest import Cleaning, Outcome
from blizzard.run.assemble import Assembly
from blizzard.source.cleaning import SourceCleaner
from blizzard.source.listing import find_listed
from blizzard.source.uri import locate_source
from blizzard.store import open_store
from blizzard.store.local import LocalStore
from tests.flows.in_process import Flow, newest, touch_again
from tests.flows.replaying import newest_position
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write_ids
from tests.run.test_broken_files import truncated

DAY_MS = 86_400_000


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """a is ingested whole, b half."""
    made = Flow(tmp_path)
    write_ids(made.src / "a.ndjson", 0, 3)
    write_ids(made.src / "d/b.ndjson", 3, 9)
    made.run(limits=Limits(max_records=6), max_batches=1, slots=1)
    assert ids(made.table) == list(range(6))
    made.clock.ms += 2 * DAY_MS
    return made


def deleting(flow: Flow) -> Cleaning:
    return Cleaning(cleaner=SourceCleaner(source=flow.source.location, archive=None), keep_ms=DAY_MS)


def archiving(flow: Flow) -> Cleaning:
    return Cleaning(
        cleaner=SourceCleaner(source=flow.source.location, archive=open_store(str(flow.folder / "kept"))),
        keep_ms=DAY_MS,
    )


def sources(flow: Flow) -> list[str]:
    return sorted(str(path.relative_to(flow.src)) for path in flow.src.rglob("*.ndjson*"))


def test_what_is_ingested_is_deleted_and_what_is_in_progress_stays(flow: Flow) -> None:
    flow.run(cleaning=deleting(flow), max_batches=1, limits=Limits(max_records=1), slots=1)
    assert sources(flow) == ["d/b.ndjson"]
    assert newest_position(flow).cleaned.due_through == 1
    flow.run(cleaning=deleting(flow))
    assert sources(flow) == ["d/b.ndjson"]  # its last lines are not a day old
    flow.clock.ms += 2 * DAY_MS
    summary = flow.run(cleaning=deleting(flow))
    assert (sources(flow), summary.commits) == ([], 0)
    assert ids(flow.table) == list(range(9))
    flow.run(cleaning=deleting(flow))  # writes down that there is nothing left to do
    before = newest(flow.table)
    flow.run(cleaning=deleting(flow))
    assert newest(flow.table) == before


def test_nobody_goes_back_before_what_is_about_to_be_deleted(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said in one commit, done after it: whoever comes in between finds the files and may not count on them."""
    monkeypatch.setattr(Cleaning, "run", lambda *_: Outcome(is_complete=False))  # it died before it deleted anything
    flow.run(cleaning=deleting(flow))
    assert newest_position(flow).cleaned.due_through == 1
    with pytest.raises(Refused, match="after_ingest") as refused:
        roll_back(flow, 0)
    assert refused.value.kind == "rollback_source"
    monkeypatch.undo()
    flow.run(cleaning=deleting(flow))
    assert "a.ndjson" not in sources(flow)
    assert ids(flow.table) == list(range(9))


def test_a_file_that_cannot_be_deleted_does_not_stop_the_others(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    flow.run()
    real = LocalStore.delete_version

    def delete(self: LocalStore, file: SourceFile) -> bool:
        if file.path == "a.ndjson":
            raise PermissionError("not this one")
        return real(self, file)

    flow.clock.ms += 2 * DAY_MS
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_version", delete)
        flow.run(cleaning=deleting(flow))
        assert sources(flow) == ["a.ndjson"]
    flow.run(cleaning=deleting(flow))
    assert sources(flow) == []


def test_what_is_ingested_is_moved_with_its_folders(flow: Flow) -> None:
    content = (flow.src / "a.ndjson").read_bytes()
    flow.run()
    flow.clock.ms += 2 * DAY_MS
    flow.run(cleaning=archiving(flow))
    assert sources(flow) == []
    assert (flow.folder / "kept/a.ndjson").read_bytes() == content
    assert (flow.folder / "kept/d/b.ndjson").exists()
    assert flow.run().late_files == 0


def test_a_file_that_changed_since_is_left_alone(flow: Flow) -> None:
    flow.run()
    flow.clock.ms += 2 * DAY_MS
    touch_again(flow.src / "a.ndjson", line(7))
    flow.run(cleaning=deleting(flow))
    assert sources(flow) == ["a.ndjson"]
    assert any("a.ndjson is not deleted: it changed after it was ingested" in warning for warning in flow.told.warnings)


def test_a_file_that_broke_is_kept(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    truncated(flow)
    flow.run()
    flow.clock.ms += 2 * DAY_MS
    flow.run(cleaning=deleting(flow))
    assert sources(flow) == ["b.ndjson.gz"]


@pytest.mark.parametrize("step", ["copy", "delete_version"])
def test_a_crash_in_the_middle_is_resumed(flow: Flow, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    flow.run()
    flow.clock.ms += 2 * DAY_MS

    class Died(BaseException):
        pass

    original = getattr(LocalStore, step)

    def die(self: LocalStore, *arguments: Any) -> Any:
        if getattr(arguments[0], "path", arguments[0]) == "d/b.ndjson":
            raise Died
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, step, die)
        with pytest.raises(Died):
            flow.run(cleaning=archiving(flow))
    assert sources(flow) == ["d/b.ndjson"]
    flow.run(cleaning=archiving(flow))
    assert sources(flow) == []
    kept = {path.name.split("~")[0] for path in (flow.folder / "kept").rglob("*.ndjson*")}
    assert kept == {"a.ndjson", "b.ndjson"}


def test_a_file_written_anew_just_before_it_is_deleted_is_left_alone(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.run()
    flow.clock.ms += 2 * DAY_MS
    real = LocalStore.delete_version

    def delete(self: LocalStore, file: SourceFile) -> bool:
        if file.path == "a.ndjson":
            write_ids(flow.src / "a.ndjson", 100, 103)  # the producer writes just now
        return real(self, file)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_version", delete)
        flow.run(cleaning=archiving(flow))
    assert sources(flow) == ["a.ndjson"]
    assert b'"id":100' in (flow.src / "a.ndjson").read_bytes().replace(b" ", b"")
    assert any("a.ndjson is not archived" in text for text in flow.told.warnings)


def test_what_was_archived_under_a_name_before_is_not_overwritten(flow: Flow) -> None:
    flow.run()
    flow.clock.ms += 2 * DAY_MS
    flow.run(cleaning=archiving(flow))
    write_ids(flow.src / "a.ndjson", 100, 103)
    flow.run(late=LatePolicy(rewritten="ingest"))
    flow.clock.ms += 2 * DAY_MS
    flow.run(cleaning=archiving(flow))
    assert sources(flow) == []
    kept = sorted(path.name for path in (flow.folder / "kept").glob("a.ndjson*"))
    assert len(kept) == 2
    assert kept[1].startswith("a.ndjson~")


def test_a_file_that_cannot_be_moved_is_told_and_tried_again(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    flow.run()
    flow.clock.ms += 2 * DAY_MS

    def refuse(self: LocalStore, file: SourceFile) -> bool:
        raise PermissionError("not yours")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_version", refuse)
        flow.run(cleaning=deleting(flow))
    assert any("could not be deleted" in warning for warning in flow.told.warnings)
    assert len(sources(flow)) == 2
    flow.run(cleaning=deleting(flow))
    assert sources(flow) == []


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"after_ingest.action": "archive"}, "goes with"),
        ({"after_ingest.archive_path": "x"}, "goes with"),
        ({"after_ingest.action": "archive", "after_ingest.archive_path": "{src}/old"}, "read again"),
        ({"after_ingest.action": "archive", "after_ingest.archive_path": "s3://b/old"}, "same kind"),
    ],
)
def test_a_setting_that_cannot_work_is_said(tmp_path: Path, given: dict[str, str], word: str) -> None:
    (tmp_path / "src").mkdir()
    keys = {key: value.format(src=tmp_path / "src") for key, value in given.items()}
    where = {"source.path": str(tmp_path / "src"), "table.path": str(tmp_path / "t")}
    with pytest.raises(ConfigError, match=word):
        _ = Assembly(request=make_request(make_config(where | keys))).cleaning


def test_an_archive_in_a_hidden_folder_of_the_source_is_fine(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    keys = {"after_ingest.action": "archive", "after_ingest.archive_path": str(tmp_path / "src/_old")}
    where = {"source.path": str(tmp_path / "src"), "table.path": str(tmp_path / "t")}
    assert Assembly(request=make_request(make_config(where | keys))).cleaning is not None


def test_files_of_one_name_and_time_are_all_in_the_archive(flow: Flow) -> None:
    """A producer that writes the same name with the same time again: each version is the only copy of its records."""
    for version in range(4):
        path = flow.src / "a.ndjson"
        path.write_bytes(line(50 + version) * (version + 1))
        os.utime(path, ns=(0, 0))
        flow.run(late=LatePolicy(rewritten="ingest", late="ingest"))
        flow.clock.ms += 2 * DAY_MS
        flow.run(cleaning=archiving(flow))
    kept = sorted(path.read_bytes() for path in (flow.folder / "kept").glob("a.ndjson*"))
    assert kept == sorted(line(50 + version) * (version + 1) for version in range(4))


def test_two_pipelines_that_archive_one_name_at_once_keep_both_files(flow: Flow) -> None:
    other = flow.folder / "other"
    other.mkdir()
    (other / "a.ndjson").write_bytes(line(99))
    archive = open_store(str(flow.folder / "kept"))
    entry = LedgerEntry(path="a.ndjson", size_bytes=0, etag="", from_record=0, to_record=1, finished=True, bad=0)
    theirs = locate_source(str(other))
    listed = find_listed(theirs, "a.ndjson")
    assert listed is not None
    their_entry = replace(entry, size_bytes=listed.size_bytes, etag=listed.etag)
    copy = LocalStore.copy

    def copy_in_between(self: LocalStore, name: str, target: str) -> None:
        """Both have found the name free, as far as they could see."""
        if self.root != str(other):
            assert SourceCleaner(source=theirs, archive=archive).clean(their_entry).is_done
        copy(self, name, target)

    flow.run()
    flow.clock.ms += 2 * DAY_MS
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalStore, "copy", copy_in_between)
        file = find_listed(flow.source.location, "a.ndjson")
        assert file is not None
        mine = replace(entry, size_bytes=file.size_bytes, etag=file.etag)
        content = (flow.src / "a.ndjson").read_bytes()
        assert SourceCleaner(source=flow.source.location, archive=archive).clean(mine).is_done
    kept = {path.read_bytes() for path in (flow.folder / "kept").glob("a.ndjson*")}
    assert kept == {content, line(99)}
