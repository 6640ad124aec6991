"""One test per mistake that a review found: what a user would have seen, as small as it gets."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

from blizzard.cli.main import main
from blizzard.config.request import parse_start_from
from blizzard.core.patterns import DEFAULT, DEFAULT_GLOB
from blizzard.core.recover import StartFrom
from blizzard.core.types import SourceIdentity
from blizzard.errors import BadFile, BlizzardError, ConfigError, Temporary
from blizzard.run.clock import SystemClock
from blizzard.source.listing import list_source
from blizzard.source.uri import default_pipeline, locate_source
from tests.flows.in_process import (
    BEGINNING,
    Flow,
    add_action,
    info,
    log_file,
    newest,
    raced,
    touch_again,
    write_foreign,
    write_raw,
)
from tests.ingesting import DDL, ids, line, write_ids

Cli = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], in_process: None) -> Cli:
    """`blizzard run` with its tasks in this process: exit code, the last line, and stderr."""

    def call(*arguments: str) -> tuple[int, dict[str, Any], str]:
        code = main(["run", *arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, json.loads(captured.out.splitlines()[-1]), captured.err

    return call


@pytest.mark.parametrize(
    "ddl", ["id BIGINT", "id STRING, name STRING", f"{DDL}, extra STRING", "name STRING, id BIGINT"]
)
def test_the_second_of_two_drivers_that_make_one_table_with_different_schemas_commits_nothing(
    tmp_path: Path, ddl: str
) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    with pytest.raises(Temporary) as caught:
        flow.run(place=raced(flow, ddl))
    assert caught.value.kind == "schema_changed"
    assert newest(flow.table) == 0


def test_the_second_of_two_drivers_that_make_one_table_with_the_same_schema_goes_on(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run(place=raced(flow, DDL))
    assert ids(flow.table) == [0, 1, 2]


def test_a_linked_folder_is_refused_and_never_read_twice(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "real/b.ndjson", 3, 6)
    (flow.src / "zlink").symlink_to(flow.src / "real")
    with pytest.raises(BadFile) as caught:
        flow.run()
    assert caught.value.kind == "source_linked_folder"
    assert ids(flow.table) == [0, 1, 2]
    (flow.src / "zlink").unlink()
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


def test_a_linked_folder_that_leads_to_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    with pytest.raises(BadFile) as caught:
        list_source(locate_source(str(tmp_path)))
    assert caught.value.kind == "source_linked_folder"


@pytest.mark.parametrize(
    "spelling",
    [
        "d/b.ndjson",
        "src/d/b.ndjson",
        "./src/d/b.ndjson",
        "src/d/../d/b.ndjson",
        "{tmp}/src/d/b.ndjson",
        "{tmp}/src/x/../d/b.ndjson",
        "file://{tmp}/src/d/b.ndjson",
        "file:{tmp}/src/d/b.ndjson",
        "file://localhost{tmp}/src/d/b.ndjson",
    ],
)
def test_the_file_to_start_after_may_be_spelled_as_people_spell_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    flow = Flow(tmp_path)
    for number, name in enumerate(["a", "d/b", "d/c"]):
        write_ids(flow.src / f"{name}.ndjson", 3 * number, 3 * number + 3)
    write_foreign(flow.table, 100)
    monkeypatch.chdir(tmp_path)
    given = parse_start_from("after:" + spelling.format(tmp=tmp_path), locate_source(str(flow.src)))
    assert given == StartFrom(after="d/b.ndjson")
    flow.run(start_from=given)
    assert ids(flow.table) == [6, 7, 8, 100]


@pytest.mark.parametrize("name", ["nowhere.ndjson", "src/nowhere.ndjson", "{tmp}/src/nowhere.ndjson", "../a.ndjson"])
def test_an_unknown_file_to_start_after_is_a_mistake_and_not_a_position(tmp_path: Path, name: str) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    write_foreign(flow.table, 100)
    given = parse_start_from("after:" + name.format(tmp=tmp_path), locate_source(str(flow.src)))
    with pytest.raises(ConfigError) as caught:
        flow.run(start_from=given)
    assert caught.value.kind == "usage"
    assert ids(flow.table) == [100]


@pytest.mark.parametrize("name", ["0.ndjson", "zzz.ndjson"])
def test_an_unknown_file_to_start_a_new_table_after_is_a_mistake_too(tmp_path: Path, cli: Cli, name: str) -> None:
    """One that sorts after all files would look like a run that found nothing new."""
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "table"), "--schema", DDL]
    code, last, _ = cli(*where, "--start-from", f"after:{name}")
    assert (code, last["error_kind"], last["commits"]) == (2, "usage", 0)


def test_the_default_pattern_goes_by_its_name_in_the_identity(tmp_path: Path) -> None:
    location = locate_source(str(tmp_path))
    assert location.pattern == DEFAULT_GLOB
    assert location.identity.pattern == DEFAULT
    assert locate_source(str(tmp_path), "*.gz").identity.pattern == "*.gz"
    # Were this name to change, every scheduled run without --pipeline would meet its table as a stranger.
    assert default_pipeline(SourceIdentity(root="file:///data/events", pattern="default")) == "events-51e25bd3"


@pytest.mark.parametrize("change", ["grown", "gone"])
def test_a_file_that_changes_between_listing_and_opening_does_not_stop_the_others(tmp_path: Path, change: str) -> None:
    flow = Flow(tmp_path)
    for number, name in enumerate("abc"):
        write_ids(flow.src / f"{name}.ndjson", 3 * number, 3 * number + 3)
    path = flow.src / "b.ndjson"

    def disturb() -> None:
        if change == "grown":
            touch_again(path, path.read_bytes() + line(50))
        elif path.exists():
            path.rename(tmp_path / "kept")

    flow.run(before_reading=disturb, slots=1)
    assert ids(flow.table) == [0, 1, 2, 6, 7, 8]
    assert any("b.ndjson" in warning for warning in flow.told.warnings)
    if change == "gone":
        (tmp_path / "kept").rename(path)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 6, 7, 8] + ([50] if change == "grown" else [])
    assert flow.run().commits == 0


def test_a_run_in_which_every_file_changed_commits_nothing_and_ends(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    path = write_ids(flow.src / "b.ndjson", 3, 6)
    summary = flow.run(before_reading=lambda: touch_again(path, path.read_bytes()))
    assert summary.commits == 0
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


def test_a_restore_that_changed_nothing_stops_nobody(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_raw(flow.table, info("RESTORE"))
    write_ids(flow.src / "b.ndjson", 3, 6)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("user_metadata", [7, 1.5, True, None, {"blizzard": 1}, [1], "7", '{"blizzard": 1}', ""])
def test_a_foreign_commits_user_metadata_may_be_anything(tmp_path: Path, user_metadata: Any) -> None:
    flow = Flow(tmp_path).first_run()
    write_raw(flow.table, info("OPTIMIZE", userMetadata=user_metadata))
    write_ids(flow.src / "0-late.ndjson", 50, 53)
    write_ids(flow.src / "b.ndjson", 3, 6)
    assert flow.run().late_files == 1
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 50, 51, 52]


@pytest.mark.parametrize("when", ["before the run", "while a batch is read"])
def test_a_foreign_commit_without_commit_info_is_passed_over(tmp_path: Path, when: str) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)

    def disturb() -> None:
        write_raw(flow.table, add_action(flow.table, 100, 102))

    if when == "before the run":
        disturb()
        flow.run()
    else:
        flow.run(while_reading=disturb)
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, 100, 101]


@pytest.mark.parametrize("name", ["with spaces", "a#b", "a?b=c", "é+&", "%", "100%!", "a%zz"])
def test_a_table_path_may_hold_any_character(tmp_path: Path, cli: Cli, name: str) -> None:
    source, table = tmp_path / name / "src", tmp_path / name / f"t {name}"
    where = ["--source", str(source), "--table", str(table), "--schema", DDL]
    write_ids(source / "a.ndjson", 0, 3)
    assert cli(*where)[0] == 0
    write_ids(source / "b.ndjson", 3, 6)
    code, last, _ = cli(*where)
    assert (code, last["sequence"], last["recovery"]) == (0, 2, "log")
    assert [p.name for p in (tmp_path / name).iterdir() if p.name != "src"] == [f"t {name}"]
    assert sorted(i for f in table.glob("*.parquet") for i in pq.read_table(f)["id"].to_pylist()) == list(range(6))
    assert cli(*where)[1]["status"] == "idle"


@pytest.mark.parametrize("name", ["a%41b", "a%20b"])
def test_a_table_path_with_an_escape_in_it_works_or_is_refused_before_anything_is_made(
    tmp_path: Path, cli: Cli, name: str
) -> None:
    """delta-rs 1.6 decodes such a name twice when it reads the log, and looks for aAb."""
    source, table = tmp_path / "src", tmp_path / name
    write_ids(source / "a.ndjson", 0, 3)
    where = ["--source", str(source), "--table", str(table), "--schema", DDL]
    code, last, _ = cli(*where)
    if code == 0:
        write_ids(source / "b.ndjson", 3, 6)
        assert cli(*where)[1]["sequence"] == 2
    else:
        assert (code, last["commits"], table.exists()) == (2, 0, False)


@pytest.mark.parametrize("vanishing", ["src", "src/sub"])
def test_a_folder_that_vanishes_while_it_is_listed_is_a_matter_of_trying_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vanishing: str
) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    write_ids(tmp_path / "src/sub/b.ndjson", 3, 6)
    location = locate_source(str(tmp_path / "src"))
    real_scandir = os.scandir

    def scandir(path: str) -> Any:
        if os.path.normpath(path) == str(tmp_path / vanishing):
            os.rename(path, tmp_path / "elsewhere")
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(Temporary) as caught:
        list_source(location)
    assert caught.value.kind == "source_changed"


def test_a_table_below_a_regular_file_is_a_mistake_of_the_command(tmp_path: Path, cli: Cli) -> None:
    write_ids(tmp_path / "src/a.ndjson", 0, 3)
    (tmp_path / "file").write_bytes(b"x")
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "file/table"), "--schema", DDL]
    code, last, _ = cli(*where)
    assert (code, last["error_kind"]) == (2, "table_create")


@pytest.mark.parametrize(
    ("trouble", "error", "kind"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), ConfigError, "table_create"),
        (OSError(errno.EROFS, "Read-only file system"), ConfigError, "table_create"),
        (OSError(errno.ENOSPC, "No space left on device"), Temporary, "disk_full"),
        (OSError("Generic LocalFileSystem error: No space left on device (os error 28)"), Temporary, "disk_full"),
    ],
)
@pytest.mark.parametrize("where", ["makedirs", "delta-rs"])
def test_trouble_with_the_disk_when_a_table_is_made_has_a_kind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    trouble: OSError,
    error: type[BlizzardError],
    kind: str,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise trouble

    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 3)
    if where == "makedirs":
        monkeypatch.setattr(os, "makedirs", fail)
    else:
        monkeypatch.setattr(deltalake.DeltaTable, "create", fail)
    with pytest.raises(error) as caught:
        flow.run()
    assert caught.value.kind == kind


def only_a_checkpoint(table: Path) -> None:
    deltalake.DeltaTable(str(table)).create_checkpoint()
    for version in range(newest(table) + 1):
        log_file(table, version).unlink()


def test_a_table_of_which_only_a_checkpoint_is_left_is_no_reason_for_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(SystemClock, "sleep", lambda _self, _seconds: None)
    flow = Flow(tmp_path).first_run()
    only_a_checkpoint(flow.table)
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "q"]
    code, last, _ = cli(*where)
    assert (code, last["error_kind"]) == (3, "source_read_by_other")
    code, last, _ = cli(*where, "--start-from", "beginning", "--reads-again")
    # delta-rs 1.6 cannot append to such a log ("Invalid table version"); whoever can may, but nobody half does.
    assert (code, ids(flow.table)) in ((0, [0, 0, 1, 1, 2, 2]), (75, [0, 1, 2]), (3, [0, 1, 2]))
    assert (last["error_kind"] is None) == (code == 0)


def test_a_pipeline_whose_commits_are_only_in_a_checkpoint_is_never_begun_again(tmp_path: Path, cli: Cli) -> None:
    flow = Flow(tmp_path).first_run()
    only_a_checkpoint(flow.table)
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    for more in (["--start-from", "beginning"], ["--start-from", "after:a.ndjson"]):
        code, last, _ = cli(*where, *more)
        assert (code, last["error_kind"]) == (3, "start_from_rejected")
    code, last, _ = cli(*where)
    assert (code, last["recovery"], last["records"]) == (0, "delta_checkpoint", 0)
    assert ids(flow.table) == [0, 1, 2]


def test_a_fresh_pipeline_on_a_foreign_table_takes_its_first_fence_with_its_first_commit(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_foreign(flow.table, 100)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run(start_from=BEGINNING)
    assert flow.open().fence("p") == 1
    assert ids(flow.table) == [0, 1, 2, 100]
