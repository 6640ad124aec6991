"""Looking at the quarantine, taking records out of it, deleting them: on real Delta tables, through the commands."""

from __future__ import annotations

import argparse
import base64
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blizzard.cli.quarantine import dispatch
from blizzard.cli.quarantine_arguments import add_dlq_parser
from blizzard.core.events import unheard
from blizzard.errors import ConfigError, Refused
from blizzard.quarantine import contents
from blizzard.quarantine.selected import replay_marks, replayed_rows
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.store import open_store
from blizzard.tasks.quarantine import ARROW_SCHEMA, BadRow, QuarantineWriter, Selection
from blizzard.text.shown import printable
from tests.core.test_codec import example
from tests.failing import ends_with
from tests.flows.shell import Shell
from tests.ingesting import write

OWN = {"pipeline": "p", "table_id": "t"}
NOW = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


class FixedClock:
    def now_ms(self) -> int:
        return int(NOW.timestamp() * 1000)

    def sleep(self, seconds: float) -> None: ...


def bad(file: str = "a.ndjson", line: int = 1, raw: bytes | None = b"oops", **changes: Any) -> BadRow:
    row = BadRow(
        source_file=file,
        source_etag="e",
        line=line,
        byte_offset=None if raw is None else 10 * line,
        raw=raw,
        raw_bytes=None if raw is None else len(raw),
        kind="not_json",
        message="not an object",
    )
    return replace(row, **changes)


def add(root: str, sequence: int, rows: Sequence[BadRow], *, pipeline: str = "p", table_id: str = "t") -> None:
    """As a commit of the main table does it."""
    name = f"{pipeline}-{table_id}-{sequence}.parquet"
    writer = QuarantineWriter(
        store=open_store(root), name=name, pipeline=pipeline, table_id=table_id, sequence=sequence, run_id="r"
    )
    for row in rows:
        writer.add(row)
    writer.close()
    position = example(pipeline=pipeline, table_id=table_id, sequence=sequence, pending=(name,))
    quarantine(root).settle(position)


def quarantine(root: str) -> DeltaRsQuarantine:
    return DeltaRsQuarantine(root=root, clock=FixedClock(), emit=unheard)


def lines_of(root: str) -> list[int]:
    return sorted(DeltaTable(root).to_pyarrow_table()["line"].to_pylist())


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The quarantine table of `table`: two files, two kinds, one cut line, one file that broke, another pipeline."""
    root = str(tmp_path / "table_quarantine")
    cut = bad(line=3, raw=b"{" * 20, raw_bytes=1000, kind="too_long", message="too long")
    add(root, 1, [bad(line=1, raw=b"\xef\xbb\xbf{]\r"), bad(line=2, raw=b"\xff\x00"), cut])
    add(root, 4, [bad("b.ndjson", 5, kind="bad_value", column="id"), bad("c.gz", 6, raw=None, kind="truncated")])
    add(root, 1, [bad("a.ndjson", 7)], pipeline="other")
    return root


Command: TypeAlias = Callable[..., tuple[str, str]]


@pytest.fixture
def run(root: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    def call(*arguments: str) -> tuple[str, str]:
        parser = argparse.ArgumentParser()
        add_dlq_parser(parser.add_subparsers(dest="command"))
        where = [] if "--quarantine" in arguments else ["--quarantine", root]
        assert dispatch(parser.parse_args(["dlq", arguments[0], *where, *arguments[1:]])) == 0
        out, err = capfdbinary.readouterr()
        return out.decode("utf-8", "surrogateescape"), err.decode()

    return call


def test_list_counts_by_pipeline_file_and_kind(run: Command) -> None:
    out, _ = run("list")
    rows = [line.split()[:5] for line in out.splitlines()]
    assert rows[1:6] == [
        ["other", "a.ndjson", "not_json", "1", "1"],
        ["p", "a.ndjson", "not_json", "2", "1"],
        ["p", "a.ndjson", "too_long", "1", "1"],
        ["p", "b.ndjson", "bad_value", "1", "4"],
        ["p", "c.gz", "truncated", "1", "4"],
    ]
    assert out.endswith("6 records of 4 files; 4 can be exported and replayed\n")


def test_list_as_json_is_one_object(run: Command) -> None:
    out, _ = run("list", "--json", "--pipeline", "p", "--file", "a.ndjson")
    found = json.loads(out)
    assert (found["records"], found["complete"], len(found["groups"])) == (3, 2, 2)
    assert found["groups"][0]["first_sequence"] == found["groups"][0]["last_sequence"] == 1
    assert datetime.fromisoformat(found["groups"][0]["oldest"].replace("Z", "+00:00")).tzinfo is not None


def test_groups_of_several_commits_are_one(run: Command, root: str) -> None:
    add(root, 5, [bad(line=8, since=NOW)])
    (group,) = json.loads(run("list", "--json", "--pipeline", "p", "--kind", "not_json")[0])["groups"]
    assert (group["records"], group["first_sequence"], group["last_sequence"]) == (3, 1, 5)
    assert group["oldest"] == "2026-06-01T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("filters", "lines"),
    [
        ([], [1, 2, 3, 5, 6, 7]),
        (["--pipeline", "p"], [1, 2, 3, 5, 6]),
        (["--sequence", "4"], [5, 6]),
        (["--file", "a.ndjson", "--kind", "not_json"], [1, 2, 7]),
        (["--file", "a"], []),
    ],
)
def test_filters_select_the_same_to_show_and_to_purge(
    run: Command, root: str, filters: list[str], lines: list[int]
) -> None:
    shown = [json.loads(line) for line in run("show", "--json", *filters)[0].splitlines()]
    assert sorted(record["line"] for record in shown) == lines
    deleted = json.loads(run("purge", "--all", "--yes", "--json", *filters)[0])
    assert deleted == {"deleted": len(lines)}
    assert lines_of(root) == sorted({1, 2, 3, 5, 6, 7} - set(lines))


def test_a_table_without_quarantine_has_nothing_in_it(run: Command, tmp_path: Path) -> None:
    nowhere = ["--quarantine", str(tmp_path / "nowhere")]
    assert run("list", *nowhere)[0] == "nothing in quarantine\n"
    assert run("show", *nowhere)[0] == "nothing in quarantine\n"
    assert run("show", "--kind", "none")[0] == "nothing in quarantine that fits\n"
    assert run("purge", "--all", *nowhere)[0] == "0 records deleted\n"
    assert not (tmp_path / "nowhere").exists()


def test_show_tells_where_and_why_and_the_bytes_without_steering_the_terminal(run: Command) -> None:
    out, _ = run("show", "--pipeline", "p")
    assert "a.ndjson, line 1, byte 10\n  why     not_json: not an object\n" in out
    assert r"  line    \xff\x00" in out
    assert "(only the beginning of 1,000 bytes was kept)" in out
    assert "bad_value, column id: not an object" in out
    assert "c.gz, line 6\n" in out
    assert "none: the file could not be read" in out
    assert all(printable(line) == line for line in out.splitlines())


def test_show_is_limited_and_cuts_long_lines_unless_told_otherwise(run: Command, root: str) -> None:
    add(root, 6, [bad(line=9, raw=b"x" * 2000)])
    out, err = run("show", "--limit", "2")
    assert (out.count("why"), err) == (2, "the first 2 records; more with --limit\n")
    short, full = run("show", "--sequence", "6")[0], run("show", "--sequence", "6", "--full")[0]
    assert "x" * 500 + " … (2,000 bytes; --full shows all)" in short
    assert "x" * 501 not in short
    assert "x" * 2000 + "\n" in full


def test_export_writes_complete_lines_as_they_were_and_says_what_it_could_not(run: Command, tmp_path: Path) -> None:
    out, _ = run("export", "--out", str(tmp_path / "out.ndjson"), "--pipeline", "p")
    assert out == "3 records written; not written: 1 line that had been cut, 1 file that could not be read\n"
    lines = (tmp_path / "out.ndjson").read_bytes().split(b"\n")
    assert sorted(lines) == sorted([b"{]\r", b"\xff\x00", b"oops", b""])  # the byte order mark is not part of a line
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["out.ndjson"]


def test_export_to_stdout_holds_the_lines_and_nothing_else(run: Command) -> None:
    out, err = run("export", "--out", "-", "--file", "b.ndjson", "--json")
    assert (out, json.loads(err)) == ("oops\n", {"written": 1, "cut": 0, "files": 0})


def test_export_as_json_loses_nothing(run: Command, root: str, tmp_path: Path) -> None:
    run("export", "--out", str(tmp_path / "out.json"), "--format", "json")
    exported = [json.loads(line) for line in (tmp_path / "out.json").read_bytes().splitlines()]
    found = DeltaTable(root).to_pyarrow_table().to_pylist()
    assert len(exported) == len(found) == 6
    for record, row in zip(_sorted(exported), _sorted(found), strict=True):
        raw = base64.b64decode(record["raw_base64"]) if "raw_base64" in record else record["raw"]
        assert (raw.encode() if isinstance(raw, str) else raw) == row["raw"]
        at = datetime.fromisoformat(record["quarantined_at"].replace("Z", "+00:00"))
        assert at == row["quarantined_at"]
        same = row.keys() - {"raw", "quarantined_at"}
        assert {name: record[name] for name in same} == {name: row[name] for name in same}


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["line"]))


def test_export_never_overwrites_unless_told_to(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    path.write_bytes(b"mine")
    with pytest.raises(ConfigError) as caught:
        run("export", "--out", str(path))
    assert (caught.value.kind, path.read_bytes()) == ("file_exists", b"mine")
    run("export", "--out", str(path), "--force", "--file", "b.ndjson")
    assert path.read_bytes() == b"oops\n"
    with ends_with("usage"):
        run("export", "--out", str(tmp_path / "no" / "such" / "folder"))


def test_an_export_that_fails_leaves_nothing_behind(run: Command, root: str, tmp_path: Path) -> None:
    os.unlink(os.path.join(root, "p-t-4.parquet"))
    with ends_with("quarantine_damaged"):
        run("export", "--out", str(tmp_path / "out.ndjson"))
    assert [p.name for p in tmp_path.iterdir()] == ["table_quarantine"]


def test_purge_asks_first_and_never_takes_everything_by_mistake(run: Command, root: str) -> None:
    with pytest.raises(ConfigError, match=r"2 records of .* would be deleted") as caught:
        run("purge", "--sequence", "4")
    assert (caught.value.kind, caught.value.exit_code) == ("not_confirmed", 2)
    with pytest.raises(ConfigError, match="--all"):
        run("purge", "--yes")
    with pytest.raises(ConfigError, match="30d"):
        run("purge", "--older-than", "a month")
    assert lines_of(root) == [1, 2, 3, 5, 6, 7]
    assert run("purge", "--sequence", "4", "--yes")[0] == "2 records deleted\n"
    assert run("purge", "--sequence", "4", "--yes")[0] == "0 records deleted\n"


def test_purge_older_keeps_to_the_moment(tmp_path: Path) -> None:
    root, month = str(tmp_path / "q"), timedelta(days=30)
    tick = timedelta(microseconds=1)
    add(root, 1, [bad(line=1, since=NOW - month - tick), bad(line=2, since=NOW - month), bad(line=3, since=NOW)])
    assert contents.purge_older(DeltaRsQuarantine(root=root, clock=FixedClock()), 30, **OWN) == 1
    assert lines_of(root) == [2, 3]
    version = DeltaTable(root).version()
    assert contents.purge_older(DeltaRsQuarantine(root=root, clock=FixedClock()), 30, **OWN) == 0
    assert contents.purge_older(DeltaRsQuarantine(root=root, clock=FixedClock()), 999_999, **OWN) == 0
    assert DeltaTable(root).version() == version  # nothing to delete is no commit
    assert contents.purge_older(DeltaRsQuarantine(root=str(tmp_path / "nowhere"), clock=FixedClock()), 30, **OWN) == 0


def test_a_purge_carries_its_own_txn_and_leaves_those_of_the_pipelines_alone(root: str) -> None:
    contents.purge(quarantine(root), Selection(pipeline="p"))
    table = DeltaTable(root)
    assert table.transaction_version(contents.purge_app_id(None)) == FixedClock().now_ms()
    assert table.transaction_version("blizzard-dlq:p:t") == 4
    add(root, 4, [bad(line=8)])  # settled long ago, so this is not added
    assert lines_of(root) == [7]


def test_a_purge_and_a_commit_at_the_same_time_both_happen(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_from = DeltaRsQuarantine._delete_from
    calls: list[None] = []

    def interrupted(self: DeltaRsQuarantine, *arguments: Any) -> int:
        calls.append(None)
        if len(calls) == 1:
            add(root, 5, [bad("b.ndjson", 8), bad("a.ndjson", 9)])
        elif len(calls) == 2:
            DeltaTable(root).delete("line = 2")
        return delete_from(self, *arguments)

    monkeypatch.setattr(DeltaRsQuarantine, "_delete_from", interrupted)
    contents.purge(quarantine(root), Selection(source_file="a.ndjson"))
    assert set(lines_of(root)) - {9} == {5, 6, 8}  # 9 came after the purge had looked


def test_a_replay_settles_into_a_quarantine_table_that_was_dropped(tmp_path: Path) -> None:
    root = str(tmp_path / "q")
    position = example(replayed={"through": "6"})
    quarantine(root).settle(position)
    quarantine(root).settle(position)
    assert DeltaTable(root).transaction_version("blizzard-dlq:p:t") == 7


def test_a_foreign_table_is_never_touched(run: Command, tmp_path: Path) -> None:
    import deltalake

    deltalake.write_deltalake(str(tmp_path / "foreign"), pa.table({"pipeline": ["p"]}))
    with pytest.raises(ConfigError) as caught:
        run("purge", "--quarantine", str(tmp_path / "foreign"), "--all", "--yes")
    assert caught.value.kind == "not_a_quarantine_table"


NASTY = ["", "'", "''", "a'b", "\\", "\\'", '"', "%", "_", "a\nb", "ä", "💥", "--", "true", "1", "NULL"]
texts = st.sampled_from(NASTY) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
names = st.sampled_from(["p", "q"]) | texts
rows = st.fixed_dictionaries(
    {
        "pipeline": names,
        "table_id": names,
        "sequence": st.integers(1, 4),
        "source_file": names,
        "error_kind": names,
        "complete": st.booleans(),
        "orphaned": st.none() | st.booleans(),
        "quarantined_at": st.integers(0, 3).map(lambda us: NOW + timedelta(microseconds=us)),
    }
)
selections = st.builds(
    Selection,
    pipeline=st.none() | names,
    table_id=st.none() | names,
    source_file=st.none() | names,
    error_kind=st.none() | names,
    from_sequence=st.none() | st.integers(1, 4),
    through_sequence=st.none() | st.integers(1, 4),
    before=st.none() | st.integers(0, 4).map(lambda us: NOW + timedelta(microseconds=us)),
    complete=st.booleans(),
    orphaned=st.none() | st.booleans(),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(rows, min_size=1, max_size=6), selection=selections)
def test_what_a_selection_reads_is_what_it_deletes(
    tmp_path_factory: pytest.TempPathFactory, found: list[dict[str, Any]], selection: Selection
) -> None:
    import deltalake

    root = str(tmp_path_factory.mktemp("q") / "q")
    table = pa.Table.from_pylist([row | {"line": i} for i, row in enumerate(found)], schema=ARROW_SCHEMA)
    quarantine(root)._create()
    deltalake.write_deltalake(root, table, mode="append")
    read = [n for part in quarantine(root).read(selection, ["line"]) for n in part["line"].to_pylist()]
    assert quarantine(root).delete(selection, app_id="x") == len(read)
    assert lines_of(root) == sorted(set(range(len(found))) - set(read))


@given(selection=selections)
def test_a_replays_marks_mean_the_same_records_again(selection: Selection) -> None:
    through = selection.through_sequence or 9
    chosen = replace(selection, pipeline="p", table_id="t", complete=True, before=None, through_sequence=through)
    chosen = replace(chosen, orphaned=False)
    position = example(replayed=replay_marks(chosen))
    assert replayed_rows(position) == chosen


def test_marks_of_a_newer_version_are_refused() -> None:
    for marks in ({"through": "3", "column": "x"}, {"source_file": "a"}):
        with pytest.raises(Refused) as caught:
            replayed_rows(example(replayed=marks))
        assert caught.value.kind == "newer_checkpoint"


def test_large_records_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    root, size = str(tmp_path / "q"), 1 << 20
    add(root, 1, [bad(line=i, raw=os.urandom(size)) for i in range(1, 41)])
    parts = [part.num_rows for part in quarantine(root).read(Selection())]
    assert sum(parts) == 40
    assert max(parts) * size <= 9 * size


def test_a_purge_is_of_the_table_that_is_named_and_of_no_other(tmp_path: Path, shell: Shell) -> None:
    """Two tables share a quarantine; the record of the second may be the only copy."""
    shared = ("--set", f"quarantine.path={tmp_path / 'shared'}")
    for number, name in enumerate(("one", "two")):
        write(tmp_path / name / "a.ndjson", b'{"id":%d}\nbad %d\n' % (number, number))
        where = ["--source", str(tmp_path / name), "--table", str(tmp_path / f"t-{name}"), "--schema", "id BIGINT"]
        assert shell("run", *where, "--pipeline", "p", *shared).code == 0
    purge = ("dlq", "purge", "--file", "a.ndjson", "--yes", *shared, "--table")
    misspelt = shell(*purge, str(tmp_path / "t-too"))
    assert (misspelt.code, misspelt.kind) == (2, "table_not_found")
    assert shell(*purge, str(tmp_path / "t-one")).text == "1 record deleted\n"
    rows = DeltaTable(str(tmp_path / "shared")).to_pyarrow_table().to_pylist()
    assert [row["raw"] for row in rows] == [b"bad 1"]
    audit = ["audit", "--source", str(tmp_path / "two"), "--table", str(tmp_path / "t-two"), "--pipeline", "p", *shared]
    assert "nothing is wrong" in shell(*audit).text
    listed = shell("dlq", "list", "--table", str(tmp_path / "t-one"), *shared)
    assert "1 of them belong to another table" in listed.text
