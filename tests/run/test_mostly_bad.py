"""A first batch that is mostly bad stops before it commits anything: the source is not used up, no table stays."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.core.bad import BadPolicy, find_excess, is_mostly_bad
from blizzard.core.codec import fence_app_id
from blizzard.core.plan import Limits
from blizzard.core.reasons import Met, Reason, Reasons
from blizzard.core.types import BatchResult, SliceReport, TaskReport
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.unused import remove_unused_table
from blizzard.errors import BadData, ConfigError, Refused
from blizzard.tasks.policy import ParsePolicy, Unknown
from tests.flows.in_process import Flow, write_foreign
from tests.flows.shell import Shell
from tests.ingesting import ids, line, write, write_ids

HALF = BadPolicy(first_batch_max_ratio=0.5)
BAD = b'{"id":"seven","name":"n"}\n'


def read(rows: int, bad: int) -> BatchResult:
    report = SliceReport(
        path="a", size_bytes=1, etag="e", from_record=0, to_record=rows + bad, finished=True, rows=rows, bad=bad
    )
    return BatchResult(reports=(TaskReport(slot=0, slices=(report,)),))


@pytest.mark.parametrize(
    ("rows", "bad", "is_stopped"),
    [
        (0, 0, False),
        (49, 51, True),
        (50, 50, False),
        (51, 49, False),
        (9, 11, True),
        (9, 10, False),  # of fewer than 20 records one good one is enough
        (1, 2, False),
        (0, 3, True),
        (0, 1, True),
    ],
)
def test_the_share_and_how_few_records_say_something(rows: int, bad: int, is_stopped: bool) -> None:
    assert is_mostly_bad(read(rows, bad), HALF) is is_stopped
    assert not is_mostly_bad(read(rows, bad), replace(HALF, first_batch_max_ratio=1.0))
    assert not is_mostly_bad(read(rows, bad), BadPolicy())
    # A limit that the user has set decides alone.
    assert not is_mostly_bad(read(rows, bad), replace(HALF, max_ratio=0.9))


@pytest.mark.parametrize(
    ("rows", "filtered", "kinds", "is_stopped"),
    [
        # A few lines that are no JSON say nothing about a target that hardly any record is for.
        (0, 1000, {"not_json": 3}, False),
        (1, 1000, {"not_json": 30}, False),
        (0, 10, {"not_json": 90}, True),
        # What is for the target and does not fit its schema does, however few they are among all.
        (0, 1000, {"bad_value": 3}, True),
        (9, 1000, {"bad_value": 11}, True),
        (9, 1000, {"bad_value": 10}, False),
        (50, 1000, {"bad_value": 40, "not_json": 100}, False),
    ],
)
def test_records_of_other_targets_hide_nothing_and_are_no_fault(
    rows: int, filtered: int, kinds: dict[str, int], is_stopped: bool
) -> None:
    bad = sum(kinds.values())
    (report,) = read(rows, bad).reports
    reasons = Reasons(
        met={Reason(kind=kind): Met(records=records, path="a", line=1, message="m") for kind, records in kinds.items()}
    )
    (piece,) = report.slices
    piece = replace(piece, filtered=filtered, to_record=rows + bad + filtered)
    result = BatchResult(reports=(replace(report, slices=(piece,), reasons=reasons),))
    assert is_mostly_bad(result, HALF) is is_stopped
    if is_stopped:
        assert find_excess(result, BadPolicy(max_ratio=0.5)) is not None


@pytest.mark.parametrize(
    ("good", "broken", "is_stopped"),
    [(0, 1, True), (0, 30, True), (1, 2, False), (9, 11, True), (10, 10, False), (15, 5, False), (3, 0, False)],
)
def test_files_that_are_given_up_count_like_records(good: int, broken: int, is_stopped: bool) -> None:
    """A wrong source.framing breaks every file: the first batch would use them all up, with exit 0 and no row."""
    whole = SliceReport(path="a", size_bytes=1, etag="e", from_record=0, to_record=1, finished=True, rows=1)
    given_up = replace(whole, to_record=0, rows=0, broken="corrupt after record 0")
    slices = [replace(whole if n < good else given_up, path=f"{n}") for n in range(good + broken)]
    result = BatchResult(reports=(TaskReport(slot=0, slices=tuple(slices)),))
    assert is_mostly_bad(result, HALF) is is_stopped
    assert not is_mostly_bad(result, replace(HALF, first_batch_max_ratio=1.0))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("records", ["quarantine", "rescue", "drop"])
def test_nothing_is_committed_and_no_table_stays(tmp_path: Path, records: str) -> None:
    """With rescue a line that is no object is still bad."""
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", line(0) * 9 + b"oops\n" * 40)
    before = tree(flow.src)
    with pytest.raises(BadData) as stopped:
        flow.run(bad=replace(HALF, records=records))
    assert stopped.value.kind == "mostly_bad"
    assert stopped.value.exit_code == 5
    assert "mostly bad: 40 of 49 records" in str(stopped.value)
    assert not flow.table.exists()
    assert flow.quarantined() == []
    assert tree(flow.src) == before
    assert sorted(tmp_path.iterdir()) == [flow.src]  # nor a file of bad records
    flow.run(bad=replace(HALF, records=records, first_batch_max_ratio=1.0))
    assert ids(flow.table) == [0] * 9
    assert len(flow.quarantined()) == (0 if records == "drop" else 40)


def test_a_framing_that_breaks_every_file_uses_up_none(shell: Shell) -> None:
    for name in ("a", "b", "c"):
        write(shell.folder / "src" / f"{name}.ndjson", line(0) + line(1))
    wrong = ("--set", "source.framing=array:items")
    said = shell.run(*wrong)
    assert (said.code, said.kind) == (5, "mostly_bad")
    assert "3 of 3 files cannot be read to the end, the first: a.ndjson (corrupt after record 0)" in said.last["error"]
    assert not shell.table.exists()
    planned = shell("plan", *shell.where(*wrong, "--validate"))
    assert planned.code == 5
    assert "3 of 3 files cannot be read to the end" in planned.text
    assert shell.run().code == 0
    assert ids(shell.table) == [0, 0, 0, 1, 1, 1]


def test_files_that_are_given_up_can_be_ingested_as_they_are(shell: Shell) -> None:
    write(shell.folder / "src" / "a.ndjson", b'[{"id":1,"name":"n"}]\n[{"id":2,"name":"n"}] and more')
    said = shell.run()
    assert (said.code, said.kind) == (5, "mostly_bad")
    assert said.last["error"].endswith("To ingest it as it is: --set bad_records.first_batch_max_ratio=1")
    assert shell.run("--set", "bad_records.first_batch_max_ratio=1").last["bad_files"] == 1
    assert ids(shell.table) == []


def test_the_three_commonest_reasons_are_told_with_what_takes_them(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, a BIGINT, b BOOLEAN, c BIGINT, d BIGINT")
    kinds = [(b'"a":"1"', 9), (b'"b":1', 8), (b'"c":1.0', 7), (b'"d":1.5', 1)]
    write(flow.src / "a.ndjson", b"".join((b'{"id":0,' + field + b"}\n") * times for field, times in kinds))
    with pytest.raises(BadData) as stopped:
        flow.run(bad=HALF)
    said = str(stopped.value).split("\n")
    assert said[1:] == [
        "  9 records: a BIGINT holds a number in a text (the first: a.ndjson line 1)",
        "    --set schema.coerce.a=numbers_in_strings or --set bad_records.policy=rescue",
        "  8 records: b BOOLEAN holds 0 or 1 (the first: a.ndjson line 10)",
        "    --set schema.coerce.b=booleans_0_1 or --set bad_records.policy=rescue",
        "  7 records: c BIGINT holds a whole number written as a float (the first: a.ndjson line 18)",
        "    --set schema.coerce.c=integral_floats or --set bad_records.policy=rescue",
        "  All at once: --set schema.coerce.a=numbers_in_strings --set schema.coerce.b=booleans_0_1"
        " --set schema.coerce.c=integral_floats",
        "To ingest it as it is: --set bad_records.first_batch_max_ratio=1",
    ]


def test_only_the_first_batch_of_a_pipeline_counts(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write(flow.src / "b.ndjson", BAD * 30)
    flow.run(bad=HALF)
    assert (ids(flow.table), len(flow.quarantined())) == ([0, 1, 2], 30)


def test_a_second_batch_that_is_bad_leaves_the_first_one_in(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 30)
    write(flow.src / "b.ndjson", BAD * 30)
    flow.run(bad=HALF, limits=Limits(max_files=1))
    assert (ids(flow.table), len(flow.quarantined())) == (list(range(30)), 30)


def test_a_table_that_the_run_did_not_make_stays(tmp_path: Path) -> None:
    """It may be there for a reason; and a second pipeline's first batch stops like the first one's."""
    flow = Flow(tmp_path).first_run()
    second = replace(flow, pipeline="q", folder=tmp_path)
    write(flow.src / "b.ndjson", BAD * 30)
    with pytest.raises(BadData) as stopped:
        second.run(bad=HALF, start_from=_after("a.ndjson"), reads_again=True)
    assert stopped.value.kind == "mostly_bad"
    assert ids(flow.table) == [0, 1, 2]
    assert flow.open().fence("q") in (None, 0)


def _after(name: str) -> Any:
    from blizzard.core.recover import StartFrom

    return StartFrom(after=name)


def test_columns_that_the_batch_added_go_with_the_table(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", b'{"id":1,"more":2}\n' + BAD * 30)
    with pytest.raises(BadData) as stopped:
        flow.run(bad=HALF, spec={"parsing": ParsePolicy(unknown=Unknown.REPORT)})
    assert stopped.value.kind == "mostly_bad"
    assert not flow.table.exists()


def test_where_it_cannot_be_taken_back_the_empty_table_is_told(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", BAD * 3)

    @dataclass(frozen=True)
    class Bucket:
        place: DeltaRsPlace

        def open(self) -> Any:
            return self.place.open()

        def create(self, pipeline: str) -> None:
            self.place.create(pipeline)

        def take_back(self, pipeline: str, run_id: str) -> bool:
            del pipeline, run_id
            return False

    with pytest.raises(BadData):
        flow.run(bad=HALF, place=Bucket(flow.place))
    assert any("made is there, without a row" in warning for warning in flow.told.warnings)
    write_ids(flow.src / "a.ndjson", 0, 3)
    flow.run(bad=HALF)
    assert ids(flow.table) == [0, 1, 2]


# Taking a table back


def test_a_log_with_a_commit_of_anybody_is_never_removed(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.place.create("p")
    write_foreign(flow.table, 7)
    before = tree(flow.table)
    assert not remove_unused_table(str(flow.table), "p", "r")
    assert tree(flow.table) == before


def test_a_log_in_which_another_pipeline_begins_is_never_removed(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.place.create("other")
    assert fence_app_id("other") != fence_app_id("p")
    before = tree(flow.table)
    assert not remove_unused_table(str(flow.table), "p", "r")
    assert tree(flow.table) == before


def test_files_of_others_stay(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    flow.place.create("p")
    (flow.table / "x=1").mkdir()
    for name in ("blizzard-r-00000001-0000-a.parquet", "x=1/blizzard-r-00000001-0000-b.parquet", "notes.txt"):
        (flow.table / name).write_text("x")
    assert remove_unused_table(str(flow.table), "p", "r")
    assert list(tree(flow.table)) == ["notes.txt"]


def test_of_a_shared_quarantine_only_the_files_of_the_run_and_the_table_go(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    root = tmp_path / "table_quarantine"
    (root / "_delta_log").mkdir(parents=True)
    for name, table_id in ("r-00000001-0000-a", "mine"), ("s-00000001-0000-a", "mine"), ("r-00000001-0000-b", "other"):
        pq.write_table(pa.table({"table_id": [table_id, table_id]}), root / f"blizzard-{name}.parquet")
    write(root / "blizzard-r-00000001-0000-c.parquet", b"it is not known whose this is")
    flow.quarantine.take_back("r", "mine")
    left = sorted(path.name.removeprefix("blizzard-") for path in root.iterdir())
    assert left == ["_delta_log", "r-00000001-0000-b.parquet", "r-00000001-0000-c.parquet", "s-00000001-0000-a.parquet"]


def test_a_log_that_cannot_be_put_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another driver made a new table in the moment in which the log was away."""
    flow = Flow(tmp_path)
    flow.place.create("p")
    rename = os.rename

    def slow(old: str, new: str) -> None:
        if new.rsplit("/", 1)[-1].startswith("_blizzard-unused-"):
            write_foreign(flow.table, 7)
        rename(old, new)
        if new.rsplit("/", 1)[-1].startswith("_blizzard-unused-"):
            write(flow.table / "_delta_log" / "00000000000000000000.json", b"{}\n")

    monkeypatch.setattr("os.rename", slow)
    with pytest.raises(Refused, match="_blizzard-unused-") as refused:
        remove_unused_table(str(flow.table), "p", "r")
    assert refused.value.kind == "log_rewritten"


def test_a_log_that_others_use_is_not_away_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(tmp_path)
    flow.place.create("p")
    write_foreign(flow.table, 7)
    monkeypatch.setattr("os.rename", lambda *_: pytest.fail("the log was moved"))
    assert not remove_unused_table(str(flow.table), "p", "r")


def test_a_run_that_is_killed_while_it_looks_says_where_the_log_is(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    (flow.table / "_delta_log").rename(flow.table / "_blizzard-unused-0a")
    with pytest.raises(ConfigError, match="the log is in _blizzard-unused-0a") as refused:
        flow.run()
    assert refused.value.kind == "not_a_delta_table"
    (flow.table / "_blizzard-unused-0a").rename(flow.table / "_delta_log")
    flow.run()
    assert ids(flow.table) == [0, 1, 2]


def test_a_driver_whose_table_was_taken_back_is_told_what_is_left(tmp_path: Path) -> None:
    flow = Flow(tmp_path, pipeline="q")
    flow.place.create("p")
    write_ids(flow.src / "a.ndjson", 0, 3)

    def take_back() -> None:
        assert remove_unused_table(str(flow.table), "p", "other")

    with pytest.raises(Refused) as replaced:
        flow.run(while_reading=take_back)
    assert replaced.value.kind == "table_replaced"
    with pytest.raises(ConfigError, match="holds only files that runs wrote") as refused:
        flow.run()
    assert refused.value.kind == "not_a_delta_table"
    shutil.rmtree(flow.table)
    flow.run()
    assert ids(flow.table) == [0, 1, 2]
