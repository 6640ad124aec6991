"""Which files a run reads: names, times and ignored names; and old pipelines, which go on with what they began with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.core.codec import checksum_of, decode_json
from blizzard.core.moments import parse_moment
from blizzard.core.patterns import DEFAULT
from blizzard.core.position import Position
from blizzard.delta.place import DeltaRsPlace
from blizzard.run.assemble import Assembly
from blizzard.run.clock import SystemClock
from blizzard.source.chosen import chosen_by
from blizzard.source.uri import location_of
from tests.core.test_old_payloads import FOLDER, decoded
from tests.delta.test_hostile_log import change_payload
from tests.failing import ends_with
from tests.flows.in_process import Flow, clean_up_log
from tests.flows.shell import Said, Shell
from tests.ingesting import DDL, ids, write, write_ids
from tests.run.test_adopt import rust_commit


def at(path: Path, moment: str) -> Path:
    """The file as it was last changed then."""
    ms = parse_moment(moment)
    assert ms is not None
    os.utime(path, ns=(ms * 10**6, ms * 10**6))
    return path


def position(shell: Shell) -> Position:
    table = DeltaRsPlace(root=str(shell.table), schema=None, clock=SystemClock()).open()
    assert table is not None
    (found,) = table.standings().values()
    return found.position


def ended(said: Said, *expected: Any) -> None:
    assert (said.code, *(said.last.get(name) for name in ("status", "records"))) == expected, said.text


def test_the_plain_first_command_reads_json_of_every_name(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.json", 0, 3)
    write_ids(tmp_path / "src/b.JSON", 3, 6)
    write(tmp_path / "src/c.json.gz", b'{"id":6,"name":"n"}\n')
    write_ids(tmp_path / "src/d.ndjson", 7, 9)
    ended(shell.run(), 0, "done", 9)
    assert ids(shell.table) == list(range(9))
    assert position(shell).source.pattern == DEFAULT
    assert shell("checkpoint", "show", "--table", str(shell.table)).text.count('"schema_version": 3') == 1


def test_files_of_other_names_are_counted_and_named_once_on_a_new_table(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.json", 0, 3)
    for name in ("x.log.gz", "y.log.gz", "z.csv"):
        write(tmp_path / "src" / name, b"{}\n")
    said = shell.run()
    ended(said, 0, "done", 3)
    warned = "3 files match no pattern: 2 .log.gz, 1 .csv; to read the .log.gz: --set 'source.pattern=**/*.log.gz'"
    assert warned in said.text
    assert "no pattern" not in shell.run().text  # a pipeline that has begun was told
    where = shell.where()
    assert "not read    3 files match no pattern: 2 .log.gz, 1 .csv" in shell("plan", *where).text
    assert "3 files match no pattern: 2 .log.gz, 1 .csv" in shell("audit", *where).text
    status = ["status", "--source", str(tmp_path / "src"), "--table", str(shell.table)]
    assert "not read    3 files match no pattern: 2 .log.gz, 1 .csv" in shell(*status).text
    (shown,) = json.loads(shell(*status, "--json").text)["pipelines"]
    assert shown["unmatched_by_suffix"] == {".log.gz": 2, ".csv": 1}
    assert json.loads(shell("audit", *where, "--json").text)["unmatched_by_suffix"] == {".log.gz": 2, ".csv": 1}
    assert json.loads(shell("plan", *where, "--json").text)["unmatched_files"] == 3


@pytest.mark.parametrize("words", [["--schema", DDL], ["--infer"], []], ids=["schema", "infer", "neither"])
def test_no_file_matches(tmp_path: Path, shell: Shell, words: list[str]) -> None:
    """What is there is named with the setting that reads it. Followed by the letter, it does."""
    for i in range(2):
        write_ids(tmp_path / f"src/{i}.log.gz", 3 * i, 3 * i + 3)
    write(tmp_path / "src/x.csv", b"")
    where = ["--source", str(tmp_path / "src"), "--table", str(shell.table)]
    said = shell("run", *where, *words)
    assert (said.code, said.kind) == (2, "no_file_matches"), said.text
    assert "What is there: 2 .log.gz, 1 .csv" in said.last["error"]
    assert not shell.table.exists()
    setting = said.last["error"].split("--set ", 1)[1].strip("'")
    assert setting == "source.pattern=**/*.log.gz"
    assert shell("run", *where, "--infer", "--set", setting).code == 0
    assert ids(shell.table) == list(range(6))


def test_no_file_matches_in_a_table_that_has_other_pipelines(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.json", 0, 3)
    assert shell.run().code == 0
    write(tmp_path / "new/b.csv", b"{}\n")
    said = shell.run("--start-from", "beginning", source="new")
    assert (said.code, said.kind) == (2, "no_file_matches"), said.text


def test_a_folder_that_is_still_empty_is_nothing_new(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "src").mkdir()
    write(tmp_path / "src/_staging/a.csv", b"{}\n")  # hidden names are nobody's business
    ended(said := shell.run(), 0, "idle", 0)
    assert "no file of the source matches its pattern" in said.text
    assert not shell.table.exists()


def as_the_first_release_wrote_it(fields: dict[str, Any]) -> dict[str, Any]:
    """The payload of a real first release, with the facts of this table."""
    kept = json.loads((FOLDER / "1-first-release/real-log.json").read_text())
    (app_id,) = [t["app_id"] for t in kept[1]["txns"] if t["app_id"].startswith("blizzard:")]
    old = decode_json(app_id)
    own = ("source_state", "delta_version", "pipeline", "sequence", "table_id", "add_path", "schema_fingerprint")
    seen = ("batch_id", "list_from", "relist_watermark_ms", "relist_names", "young_names", "taken_at_ms")
    old |= {name: fields[name] for name in (*own, *seen)} | {"pending_quarantine": []}
    old["source"]["root"] = fields["source"]["root"]
    assert old["source"]["pattern"] == "default"
    old.pop("checksum")
    # In the bytes that change_payload will write.
    return old | {"checksum": checksum_of(old)}


@pytest.mark.parametrize("is_cleaned_up", [False, True])
def test_an_old_pipeline_goes_on_with_the_old_pattern(tmp_path: Path, shell: Shell, is_cleaned_up: bool) -> None:
    write_ids(tmp_path / "src/m.ndjson", 0, 3)
    assert shell.run("--set", "source.pattern=default").code == 0
    change_payload(shell.table, as_the_first_release_wrote_it)
    name = position(shell).pipeline
    if is_cleaned_up:
        clean_up_log(shell.table)
    write_ids(tmp_path / "src/a.json", 50, 53)  # before the mark, and after it
    write_ids(tmp_path / "src/z.json.gz", 53, 56)
    write_ids(tmp_path / "src/n.ndjson", 3, 6)
    said = shell.run()
    ended(said, 0, "done", 3)
    assert (said.last["pipeline"], said.last["late_files"]) == (name, 0)
    assert ids(shell.table) == list(range(6))
    assert position(shell).source.pattern == "default"
    ended(shell.run(), 0, "idle", 0)
    for command in ("plan", "audit"):
        assert "late" not in shell(command, *shell.where()).text
    (shown,) = json.loads(
        shell("status", "--source", str(tmp_path / "src"), "--table", str(shell.table), "--json").text
    )["pipelines"]
    assert (shown["pattern"], shown["late_files"], shown["unmatched_by_suffix"]) == (
        "default",
        0,
        {".json": 1, ".json.gz": 1},
    )
    assert shell("checkpoint", "reset", *shell.where("--file", "m.ndjson", "--from-record", "3", "--yes")).code == 0
    assert shell("checkpoint", "rollback", *shell.where("--to", "1", "--dry-run")).code == 0


def test_every_old_payload_of_a_default_pattern_means_the_old_glob() -> None:
    looked = 0
    for path in sorted(FOLDER.glob("[123]-*/*.json")):
        kept = json.loads(path.read_text())
        if not isinstance(kept, dict) or decoded(kept["app_id"]).source.pattern != "default":
            continue
        chosen = chosen_by(location_of(decoded(kept["app_id"])))
        assert [n for n in ("a.ndjson", "a.jsonl.gz", "a.json", "A.NDJSON", "a.ndjson.bz2") if chosen.matches(n)] == [
            "a.ndjson",
            "a.jsonl.gz",
        ]
        looked += 1
    assert looked > 20


def test_start_from_a_date_reads_what_was_changed_since(tmp_path: Path, shell: Shell) -> None:
    at(write_ids(tmp_path / "src/a.json", 0, 3), "2026-01-01T00:00:00Z")
    at(write_ids(tmp_path / "src/b.json", 50, 53), "2025-12-31T23:59:59.999Z")
    at(write_ids(tmp_path / "src/c.json", 3, 6), "2026-02-01")
    said = shell.run("--start-from", "date:2026-01-01")
    ended(said, 0, "done", 6)
    # The mark has passed b, and c too: the date stays, without being said again.
    at(write_ids(tmp_path / "src/a2.json", 60, 63), "2025-06-01")
    at(write_ids(tmp_path / "src/d.json", 63, 66), "2025-06-01")
    at(write_ids(tmp_path / "src/b2.json", 6, 9), "2026-03-01")  # late
    ended(shell.run(), 0, "done", 3)
    ended(shell.run(), 0, "idle", 0)
    assert ids(shell.table) == list(range(9))
    found = position(shell)
    assert (found.begun.start_from, found.begun.since_ms) == ("date:2026-01-01T00:00:00Z", parse_moment("2026-01-01"))
    assert '"schema_version": 3' in shell("checkpoint", "show", "--table", str(shell.table)).text
    status = shell("status", "--source", str(tmp_path / "src"), "--table", str(shell.table)).text
    assert "began       date:2026-01-01T00:00:00Z" in status
    assert "left out    3 files, by source.ignore or by the time of the last change" in status
    # A file that is changed later is new to this pipeline.
    at(tmp_path / "src/b.json", "2026-04-01")
    ended(shell.run(), 0, "done", 3)
    assert ids(shell.table) == [*range(9), 50, 51, 52]


def test_a_date_survives_a_rollback_to_the_beginning_and_an_import(tmp_path: Path, shell: Shell) -> None:
    at(write_ids(tmp_path / "src/a.json", 0, 3), "2026-01-01")
    at(write_ids(tmp_path / "src/b.json", 50, 53), "2025-01-01")
    assert shell.run("--start-from", "date:2026-01-01").code == 0
    assert shell("checkpoint", "rollback", *shell.where("--to", "0", "--yes")).code == 0
    ended(shell.run(), 0, "done", 3)
    name, out = position(shell).pipeline, str(tmp_path / "p.json")
    assert shell("checkpoint", "export", "--table", str(shell.table), "--pipeline", name, "--out", out).code == 0
    words = ["--in", out, "--table", str(tmp_path / "copy"), "--unverified"]
    write_deltalake(str(tmp_path / "copy"), DeltaTable(str(shell.table)).to_pyarrow_table())
    assert shell("checkpoint", "import", *words).code == 0
    at(write_ids(tmp_path / "src/c.json", 60, 63), "2025-01-01")
    at(write_ids(tmp_path / "src/d.json", 3, 6), "2026-05-01")
    where = ["--source", str(tmp_path / "src"), "--table", str(tmp_path / "copy"), "--pipeline", name]
    ended(shell("run", *where), 0, "done", 3)
    assert ids(tmp_path / "copy") == list(range(6))


def test_a_date_that_is_moved_while_a_run_begins_stops_it(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its mark would pass files that it did not list. The run looks at one version of the table from the first."""
    at(write_ids(tmp_path / "src/a.json", 0, 3), "2026-01-01")
    assert shell.run("--start-from", "date:2026-01-01").code == 0
    at(write_ids(tmp_path / "src/b.json", 3, 6), "2025-06-01")
    at(write_ids(tmp_path / "src/c.json", 6, 9), "2026-02-01")
    looked = Assembly.on

    def then_moved(assembly: Assembly, *given: Any) -> Assembly:
        found = looked(assembly, *given)
        monkeypatch.setattr(Assembly, "on", looked)
        moved = shell("checkpoint", "choose", *shell.where("--start-from", "date:2025-01-01", "--yes"))
        assert moved.code == 0, moved.text
        return found

    monkeypatch.setattr(Assembly, "on", then_moved)
    said = shell.run()
    assert (said.code, said.kind) == (4, "fenced"), said.text
    ended(shell.run(), 0, "done", 6)
    assert ids(shell.table) == list(range(9))


def test_a_date_that_is_not_that_of_the_listing_stops_a_run(tmp_path: Path) -> None:
    """As when it was moved before a run had to begin again from the log."""
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    with ends_with("position_changed"):
        flow.run(since_ms=5)
    assert flow.run().records == 3


WRONG_STARTS = ["date:", "date:yesterday", "date:2026-13-01", "date:2026-01-01T25:00", "date:1969-12-31", "dates:1"]


@pytest.mark.parametrize("words", WRONG_STARTS)
def test_a_start_that_is_no_date_is_named(tmp_path: Path, shell: Shell, words: str) -> None:
    write_ids(tmp_path / "src/a.json", 0, 3)
    said = shell.run("--start-from", words)
    assert (said.code, said.kind) == (2, "usage")
    assert words in said.last["error"]
    assert "date:2026-01-31" in said.last["error"]


FILTERS = ["--set", "source.ignore=*.tmp.json", "--set", "source.modified_after=2026-01-01"]


def test_filters_choose_files_and_are_part_of_the_position(tmp_path: Path, shell: Shell) -> None:
    at(write_ids(tmp_path / "src/a.json", 50, 53), "2025-01-01")
    at(write_ids(tmp_path / "src/b.tmp.json", 60, 63), "2026-02-01")
    at(write_ids(tmp_path / "src/c.json", 0, 3), "2026-02-01")
    ended(shell.run(*FILTERS), 0, "done", 3)
    ended(shell.run(*FILTERS), 0, "idle", 0)
    assert ids(shell.table) == [0, 1, 2]
    assert position(shell).source.filters.ignore == ("*.tmp.json",)
    assert '"schema_version": 3' in shell("checkpoint", "show", "--table", str(shell.table)).text
    shown = 'modified_after 2026-01-01T00:00:00Z, ignore ["*.tmp.json"]'
    for command in ("plan", *shell.where(*FILTERS)), ("status", "--table", str(shell.table)):
        assert shown in shell(*command).text
    assert 'ignore ["*.tmp.json"]' in shell("doctor", "--table", str(shell.table)).text
    for command in ("audit", *shell.where(*FILTERS)), ("plan", *shell.where(*FILTERS)):
        assert "2 files, by source.ignore or by the time of the last change" in shell(*command).text
    assert shell("report", "--table", str(shell.table), "--out", str(tmp_path / "r.html")).code == 0
    page = (tmp_path / "r.html").read_text()
    assert "modified_after" in page
    assert "2026-01-01T00:00:00Z" in page
    said = shell.run()
    assert (said.code, said.kind) == (3, "other_source"), said.text


def test_all_left_out_by_a_filter_is_nothing_new_and_says_so(tmp_path: Path, shell: Shell) -> None:
    at(write_ids(tmp_path / "src/a.json", 0, 3), "2025-01-01")
    ended(said := shell.run("--set", "source.modified_after=2026-01-01"), 0, "idle", 0)
    assert "the pattern matches 1 file of the source, and source.ignore" in said.text
    assert not shell.table.exists()


def test_a_file_in_a_filter_is_never_cleaned_if_a_listing_does_not_show_it(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.json", 0, 3)
    delete = ["--set", "after_ingest.action=delete", "--set", "after_ingest.keep_s=0"]
    assert shell.run().code == 0
    ignored = ["--set", "source.ignore=a.*"]
    assert shell("checkpoint", "choose", *shell.where(*ignored, "--yes")).code == 0
    write_ids(tmp_path / "src/b.json", 3, 6)
    for _ in range(2):
        assert shell.run(*ignored, *delete).code == 0
    assert sorted(p.name for p in (tmp_path / "src").iterdir()) == ["a.json"]


def test_source_files_of_any_name_can_be_the_source(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/events", 0, 3)
    write_ids(tmp_path / "src/x.log", 3, 6)
    assert shell.run(source="src/events").code == 0
    assert shell.run("--start-from", "beginning", source="src/x.log").code == 0
    assert ids(shell.table) == list(range(6))


def test_an_adopted_position_has_passed_no_file_of_the_wider_default(tmp_path: Path, shell: Shell) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.json", 50, 53)
    write_ids(flow.src / "b.ndjson", 0, 3)
    write_ids(flow.src / "c.ndjson", 3, 6)
    rust_commit(flow, f"file://{flow.src}/b.ndjson", {}, 0, 1, 2)
    ended(shell.run("--adopt"), 0, "done", 3)
    assert position(shell).source.pattern == "default"
    ended(shell.run(), 0, "idle", 0)
    assert ids(shell.table) == list(range(6))


def test_schema_infer_says_which_pattern_reads_what_is_there(tmp_path: Path, shell: Shell) -> None:
    write_ids(tmp_path / "src/a.log", 0, 3)
    said = shell("schema", "infer", "--source", str(tmp_path / "src"))
    assert (said.code, said.kind) == (2, "no_file_matches")
    assert shell("schema", "infer", "--source", str(tmp_path / "src"), "--pattern", "**/*.log").code == 0
