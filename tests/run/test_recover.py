"""What a run makes of the log and the source it finds, on real ones: nothing lost, nothing twice, nothing guessed."""

from __future__ import annotations

import base64
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard.core.codec import encode_position
from blizzard.core.plan import Limits, is_drained, plan_batch
from blizzard.core.position import (
    Marks,
    advance_mark,
    apply_reports,
    prune_finished,
)
from blizzard.core.types import BatchPlan, SliceReport, SourceFile
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import Refused, Temporary
from blizzard.service.control import RunControl
from blizzard.source import framing
from blizzard.source.lines import Block
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.parsed import ParsedBlock
from tests.core.test_codec import example
from tests.flows.in_process import Flow, age_txns, info, newest, write_foreign, write_raw
from tests.ingesting import ids, line, write, write_ids


@pytest.mark.parametrize("rewrite", [info("RESTORE"), info("WRITE", operationParameters={"mode": "Overwrite"})])
def test_a_rewrite_that_slips_in_just_before_the_commit_is_found_and_nothing_lands_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrite: dict[str, Any]
) -> None:
    """By itself delta-rs would rebase an append over one that removes no file, such as many a RESTORE."""
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    real_append = DeltaRsTable.append

    def append(self: DeltaRsTable, request: Any) -> None:
        write_raw(flow.table, rewrite)
        real_append(self, request)

    with monkeypatch.context() as patched:
        patched.setattr(DeltaRsTable, "append", append)
        with pytest.raises(Refused) as caught:
            flow.run()
    assert caught.value.kind == "table_rewritten"
    assert newest(flow.table) == 2  # the rewrite
    write_ids(flow.src / "c.ndjson", 6, 9)
    flow.run()  # which took nothing away: the files of the table are those of version 1
    assert ids(flow.table) == list(range(9))


@pytest.mark.parametrize("foreign", [0, 6])
def test_a_position_whose_fence_has_expired_is_found_however_many_commits_back(tmp_path: Path, foreign: int) -> None:
    flow = Flow(tmp_path).first_run()
    for i in range(foreign):
        write_foreign(flow.table, 100 + i)
    age_txns(flow.table)
    assert flow.open().fence("p") is None  # what delta-rs answers where a retention is set
    write_ids(flow.src / "b.ndjson", 3, 6)
    summary = flow.run(scan_commits=2)
    assert (summary.recovery, summary.sequence, summary.files) == ("log", 2, 1)
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5, *range(100, 100 + foreign)]


def test_a_foreign_table_without_a_retention_is_searched_no_further_than_asked(tmp_path: Path) -> None:
    """There the snapshot remembers every fence, and None is an answer. What no Delta checkpoint covers is read too."""
    flow = Flow(tmp_path)
    for i in range(6):
        write_foreign(flow.table, 100 + i)
        if i == 2:
            DeltaTable(str(flow.table)).create_checkpoint()
    facts = flow.open().observe("p", scan_commits=1)
    assert facts.fence is None
    assert [c.version for c in facts.commits] == [5, 4, 3]
    assert facts.checkpoint is not None
    assert facts.checkpoint.version == 2


class ChangeAfterTheLastBlock:
    """Somebody writes to the file when all of it has been read, and before it is let go."""

    def __init__(self, path: Path, how: str) -> None:
        self.path, self.how = path, how

    def __call__(self, stream: Any, **arguments: Any) -> Iterator[Block]:
        from blizzard.source.lines import read_blocks

        yield from read_blocks(stream, **arguments)
        if self.how == "appended":
            with self.path.open("ab") as file:
                file.write(line(99))
        elif self.how == "touched":
            os.utime(self.path, ns=(1, 1))


@pytest.mark.parametrize("how", ["appended", "touched"])
def test_a_file_that_changes_while_it_is_read_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    flow = Flow(tmp_path).first_run()
    path = write_ids(flow.src / "b.ndjson", 3, 6)
    with monkeypatch.context() as patched:
        patched.setattr(framing, "read_blocks", ChangeAfterTheLastBlock(path, how))
        with pytest.raises(Temporary) as caught:
            flow.run()
    assert caught.value.kind == "source_changed"
    assert ids(flow.table) == [0, 1, 2]
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5] + ([99] if how == "appended" else [])


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("rows", [-1, 1])
def test_a_parser_that_loses_or_makes_up_a_row_stops_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, rows: int
) -> None:
    """Small files are parsed together, a single one alone: both ways are checked."""
    flow = Flow(tmp_path).first_run()
    for i in range(files):
        write_ids(flow.src / f"b{i}.ndjson", 3 * i, 3 * i + 3)
    real_parse = RecordParser.parse

    def parse(self: RecordParser, block: bytes, **options: Any) -> ParsedBlock:
        parsed = real_parse(self, block, **options)
        changed = parsed.table.slice(1) if rows < 0 else pa.concat_tables([parsed.table, parsed.table.slice(0, 1)])
        return replace(parsed, table=changed)

    monkeypatch.setattr(RecordParser, "parse", parse)
    with pytest.raises(RuntimeError, match="lines became"):
        flow.run(slots=1)
    assert newest(flow.table) == 1


BLANKS = line(0) + b"\n\n" + line(1) + b"  \n" + line(2) + b"\r\n\n" + line(3) + line(4) + b"\n"


@pytest.mark.parametrize("max_records", [1, 2, 3, 4])
@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_a_file_with_blank_lines_is_resumed_at_its_lines_and_not_at_its_rows(
    tmp_path: Path, max_records: int, block_bytes: int
) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", BLANKS)
    summary = flow.run(limits=Limits(max_records=max_records), slots=1, spec={"block_bytes": block_bytes})
    assert summary.commits == -(-11 // max_records)
    assert (summary.files, summary.records) == (1, 5)
    assert ids(flow.table) == [0, 1, 2, 3, 4]


def test_a_file_with_blank_lines_is_resumed_by_another_run_too(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", BLANKS)
    found = []
    while flow.runs < 6:
        flow.run(limits=Limits(max_records=2), slots=1, max_batches=1)
        found.append(len(ids(flow.table)))
    assert found == [1, 2, 3, 3, 5, 5]
    assert ids(flow.table) == [0, 1, 2, 3, 4]


def test_the_first_signal_asks_and_the_second_gives_the_batch_up() -> None:
    stop = RunControl(grace_s=1000)
    assert (stop.requested(), stop.must_cancel()) == (False, False)
    before = signal.getsignal(signal.SIGTERM)
    with stop.installed():
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.requested(), stop.must_cancel()) == (True, False)
        os.kill(os.getpid(), signal.SIGINT)
        assert (stop.requested(), stop.must_cancel()) == (True, True)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_grace_runs_from_the_first_signal_and_then_gives_the_batch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("blizzard.service.control.time.monotonic", lambda: now[0])
    stop = RunControl(grace_s=20)
    now[0] = 1000.0
    assert not stop.must_cancel()  # without a signal there is no grace to run out
    stop.handle(signal.SIGTERM, None)
    now[0] = 1020.0
    assert not stop.must_cancel()
    now[0] = 1020.1
    assert stop.must_cancel()


def outcome_of(plan: BatchPlan, rng: random.Random, how: str) -> list[SliceReport]:
    """What tasks may report: each finishes its first slices, leaves one in progress, and does not start the rest."""
    reports = []
    for dealt in plan.tasks:
        done = {"none": 0, "most": len(dealt.slices) - 1, "some": rng.randrange(len(dealt.slices))}[how]
        for i, piece in enumerate(dealt.slices[: done + 1]):
            finished = i < done
            lines = 10**9 + piece.from_record
            reports.append(
                SliceReport(
                    path=piece.path,
                    size_bytes=piece.size_bytes,
                    etag=piece.etag,
                    from_record=piece.from_record,
                    to_record=lines,
                    finished=finished,
                    rows=lines,
                )
            )
    return reports


@pytest.mark.parametrize("how", ["none", "most", "some"])
@pytest.mark.parametrize("slots", [64, 200, 400])
@pytest.mark.parametrize("name_chars", [200, 255, 1000])
def test_a_planned_batch_never_outgrows_the_payload_however_long_names_and_many_slots(
    name_chars: int, slots: int, how: str
) -> None:
    """The longest state is not that of the first batch: what is left over is carried, and new names come on top."""
    rng = random.Random(f"{name_chars} {slots} {how}")
    etag = "1" * 19
    names = [f"{i:06d}-{'é' if i % 2 else 'x'}".ljust(name_chars, "y") for i in range(3000)]
    listing = [SourceFile(path=n, size_bytes=rng.randrange(1 << 40), etag=etag) for n in names]
    limits = Limits(max_files=10_000, max_bytes=1 << 62, commit_files=1 << 20, target_file_bytes=1 << 40)
    position, longest = Marks(), 0
    for _ in range(8):
        if is_drained(position, listing):
            break
        plan = plan_batch(position, listing, limits, slots=slots)
        position = prune_finished(advance_mark(apply_reports(position, outcome_of(plan, rng, how)), plan.frontier))
        longest = max(longest, len(encode_position(example(marks=position))))  # raises if it is too long
    assert longest > 10_000
    decoded = orjson.loads(base64.b64decode(encode_position(example(marks=position)).partition(":")[2]))
    assert set(decoded["source_state"]["files"]) == set(position.files)


@pytest.mark.parametrize("finisher", [0, 1, 2])
def test_what_many_slots_left_in_progress_is_counted_when_few_slots_go_on(finisher: int) -> None:
    """Every one of the carried files keeps its size and etag in the payload while one task finishes new ones."""
    listing = [
        SourceFile(path=f"{i:06d}".ljust(100, "y"), size_bytes=10**9 if i < 400 else 1, etag="1" * 19)
        for i in range(6000)
    ]
    limits = Limits(max_files=10_000, max_bytes=1 << 62, commit_files=1 << 20, target_file_bytes=1 << 40)
    position = Marks()
    for slots, done in ((400, None), (3, finisher)):
        plan = plan_batch(position, listing, limits, slots=slots)
        reports = []
        for dealt in plan.tasks:
            taken = dealt.slices if dealt.slot == done else dealt.slices[:1]
            reports += [
                SliceReport(
                    path=piece.path,
                    size_bytes=piece.size_bytes,
                    etag=piece.etag,
                    from_record=piece.from_record,
                    to_record=piece.from_record + 10**9,
                    finished=dealt.slot == done,
                    rows=10**9,
                )
                for piece in taken
            ]
        position = prune_finished(advance_mark(apply_reports(position, reports), plan.frontier))
        encode_position(example(marks=position))  # raises if it is too long
