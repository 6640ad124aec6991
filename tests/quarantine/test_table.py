"""Bad records on real Delta tables: nothing lost, nothing doubled, at every point of failure."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blizzard import faults
from blizzard.core.bad import BadPolicy
from blizzard.core.codec import quarantine_app_id
from blizzard.core.ledger import decode_ledger
from blizzard.core.plan import Limits
from blizzard.delta.place import DeltaRsPlace
from blizzard.errors import BadData, Refused, Temporary
from blizzard.run.commit_queue import ThreadBackground
from blizzard.run.summary import Summary
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import parse_partition_by
from blizzard.schema.layout import apply_layout
from tests.failing import ends_with
from tests.flows.in_process import Flow
from tests.ingesting import ids, line, write, write_ids

BAD = b'{"id":"seven","name":"n"}'


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    faults._visits.clear()
    return monkeypatch


def mixed(flow: Flow) -> None:
    """Two good records, a bad one, a blank line, a good one."""
    write(flow.src / "a.ndjson", line(0) + line(1) + BAD + b"\n\n" + line(2))


def test_a_bad_record_is_kept_with_its_bytes_and_its_place_and_the_others_are_rows(flow: Flow) -> None:
    mixed(flow)
    summary = flow.run()
    assert ids(flow.table) == [0, 1, 2]
    (row,) = flow.quarantined()
    assert (row["source_file"], row["line"], row["byte_offset"]) == ("a.ndjson", 3, len(line(0) + line(1)))
    assert (row["raw"], row["raw_bytes"], row["complete"]) == (BAD, len(BAD), True)
    assert (row["error_kind"], row["column"]) == ("bad_value", "id")
    assert (row["pipeline"], row["sequence"], row["run_id"]) == ("p", 1, "run1")
    assert (summary.records, summary.bad_records, summary.quarantined) == (3, 1, 1)


def test_the_ledger_counts_the_bad_lines_and_the_payload_names_their_file(flow: Flow) -> None:
    mixed(flow)
    flow.run()
    (commit,) = flow.open().commits_after(0)
    ledger = decode_ledger(commit.user_metadata)
    assert ledger is not None
    assert [(e.to_record, e.bad) for e in ledger.entries] == [(5, 1)]
    table = flow.quarantine.open()
    assert table is not None
    assert table.transaction_version(quarantine_app_id("p", flow.open().table_id)) == 1


def test_clean_data_makes_no_quarantine_table(flow: Flow) -> None:
    flow.first_run()
    assert not os.path.exists(flow.quarantine.root)


def test_bad_lines_of_many_small_files_are_told_apart(flow: Flow) -> None:
    for i in range(20):
        bom = b"\xef\xbb\xbf" if i % 2 else b""
        bad = b"\xef\xbb\xbf{]" if i % 3 == 0 and i % 2 else b"{]" if i % 3 == 0 else b""
        write(flow.src / f"{i:02d}.ndjson", (bad + b"\n" if bad else bom) + line(i) + b" \n")
    flow.run()
    assert ids(flow.table) == list(range(20))
    found = [(r["source_file"], r["line"], r["byte_offset"], r["raw"]) for r in flow.quarantined()]
    assert found == [(f"{i:02d}.ndjson", 1, 0, b"\xef\xbb\xbf{]" if i % 2 else b"{]") for i in range(0, 20, 3)]


@pytest.mark.parametrize("point", ["quarantine.before", "quarantine.after"])
@pytest.mark.parametrize("times", [1, 5])
def test_an_answer_lost_while_settling_leaves_each_bad_record_once(
    flow: Flow, fault: pytest.MonkeyPatch, point: str, times: int
) -> None:
    mixed(flow)
    fault.setenv("BLIZZARD_FAULT", f"{point}=raise" + ("@1" if times == 1 else ""))
    if point == "quarantine.before" and times == 5:
        with pytest.raises(Temporary) as error:
            flow.run()
        assert error.value.kind == "quarantine_failed"
        assert flow.quarantined() == []  # the record is named in the log and not lost
    else:
        flow.run()
    fault.delenv("BLIZZARD_FAULT")
    flow.run()
    assert [r["raw"] for r in flow.quarantined()] == [BAD]
    assert ids(flow.table) == [0, 1, 2]


def test_the_commit_that_landed_is_counted_even_if_settling_failed(flow: Flow, fault: pytest.MonkeyPatch) -> None:
    mixed(flow)
    fault.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    summary = Summary()
    fault.setattr("tests.flows.in_process.Summary", lambda: summary)
    with ends_with("quarantine_failed"):
        flow.run()
    assert (summary.commits, summary.records) == (1, 3)


def test_the_next_batch_is_never_committed_before_the_last_is_settled(flow: Flow, fault: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        write(flow.src / f"{name}.ndjson", BAD + b"\n")
    fault.setenv("BLIZZARD_FAULT", "quarantine.before=raise@2+")
    with ends_with("quarantine_failed"):
        flow.run(limits=Limits(max_files=1))
    fault.delenv("BLIZZARD_FAULT")
    assert flow.open().fence("p") == 2
    flow.run(limits=Limits(max_files=1))
    assert [(r["source_file"], r["sequence"]) for r in flow.quarantined()] == [
        ("a.ndjson", 1),
        ("b.ndjson", 2),
        ("c.ndjson", 3),
    ]


def test_a_batch_that_is_not_committed_leaves_nothing_in_quarantine(flow: Flow, fault: pytest.MonkeyPatch) -> None:
    mixed(flow)
    fault.setenv("BLIZZARD_FAULT", "commit.during=raise")
    with ends_with("commit_failed"):
        flow.run()
    assert flow.quarantined() == []


def test_a_pending_file_that_is_gone_is_refused_unless_the_loss_is_accepted(
    flow: Flow, fault: pytest.MonkeyPatch
) -> None:
    mixed(flow)
    fault.setenv("BLIZZARD_FAULT", "quarantine.before=raise")
    with ends_with("quarantine_failed"):
        flow.run()
    fault.delenv("BLIZZARD_FAULT")
    for path in Path(flow.quarantine.root).glob("*.parquet"):
        path.unlink()
    with pytest.raises(Refused) as error:
        flow.run()
    assert error.value.kind == "quarantine_lost"
    flow.run(accepts_loss=True)
    assert any("Given up" in warning for warning in flow.told.warnings)
    flow.run()


def test_a_table_made_anew_does_not_lose_its_bad_records_to_the_old_quarantine(flow: Flow) -> None:
    for n in range(3):
        write(flow.src / f"{n}.ndjson", BAD + b"\n")
    flow.run(limits=Limits(max_files=1))
    flow.table.rename(flow.folder / "old")
    flow.run(limits=Limits(max_files=1))
    assert Counter(r["source_file"] for r in flow.quarantined()) == {f"{n}.ndjson": 2 for n in range(3)}


def test_a_line_over_the_limit_is_quarantined_by_its_beginning(flow: Flow) -> None:
    long = b'{"id":1,"name":"' + b"x" * 3000 + b'"}'
    write(flow.src / "a.ndjson", line(0) + long + b"\n" + line(2))
    flow.run(spec={"max_record_bytes": 1000})
    assert ids(flow.table) == [0, 2]
    (row,) = flow.quarantined()
    assert (row["line"], row["error_kind"], row["raw_bytes"], row["complete"]) == (2, "too_long", len(long), True)
    assert row["raw"] == long


@pytest.mark.parametrize("records", ["drop", "quarantine"])
def test_dropped_records_are_counted_and_kept_nowhere(flow: Flow, records: str) -> None:
    mixed(flow)
    summary = flow.run(bad=BadPolicy(records=records))
    assert (summary.records, summary.bad_records) == (3, 1)
    assert summary.quarantined == len(flow.quarantined()) == (records == "quarantine")


def test_fail_stops_at_the_line_and_commits_nothing(flow: Flow) -> None:
    mixed(flow)
    flow.place.create("p")
    with pytest.raises(BadData, match=r"a.ndjson line 3: bad_value: id: .*Nothing of this batch"):
        flow.run(bad=BadPolicy(records="fail"))
    assert flow.open().fence("p") == 0


@pytest.mark.parametrize(
    ("policy", "passes"),
    [
        (BadPolicy(max_records=1), False),
        (BadPolicy(max_records=2), True),
        (BadPolicy(max_ratio=0.1), False),  # of the batch: 2 of 14, of a file: 2 of 4
        (BadPolicy(max_ratio=0.4), False),
        (BadPolicy(max_ratio=0.5), True),
    ],
)
def test_too_many_bad_records_stop_the_run_with_nothing_committed(flow: Flow, policy: BadPolicy, passes: bool) -> None:
    write_ids(flow.src / "a.ndjson", 0, 10)
    write(flow.src / "b.ndjson", line(10) + BAD + b"\n" + BAD + b"\n" + line(11))
    if passes:
        assert flow.run(bad=policy).bad_records == 2
        return
    flow.place.create("p")
    with pytest.raises(BadData) as error:
        flow.run(bad=policy)
    assert (error.value.kind, error.value.exit_code) == ("too_many_bad_records", 5)
    assert "b.ndjson" in str(error.value)
    assert flow.open().fence("p") == 0
    assert flow.quarantined() == []


def test_a_full_quarantine_blocks_or_rejects(flow: Flow) -> None:
    mixed(flow)
    flow.run()
    write(flow.src / "b.ndjson", BAD + b"\n" + line(3))
    with pytest.raises(BadData) as error:
        flow.run(max_quarantined=1)
    assert (error.value.kind, error.value.exit_code) == ("quarantine_full", 5)
    assert ids(flow.table) == [0, 1, 2]
    summary = flow.run(max_quarantined=1, overflow="reject")
    assert ids(flow.table) == [0, 1, 2, 3]
    assert (summary.bad_records, summary.rejected, summary.quarantined) == (1, 1, 0)
    assert len(flow.quarantined()) == 1


def test_batches_in_flight_fill_the_quarantine_once(flow: Flow) -> None:
    for number in range(4):
        write(flow.src / f"{number}.ndjson", line(number) + BAD + b"\n")
    background = ThreadBackground()
    reading = itertools.count()

    def until_the_last_one_is_settled() -> None:
        ahead = next(reading)
        while flow.quarantine.count() < ahead:
            time.sleep(0.01)

    summary = flow.run(
        limits=Limits(max_files=1),
        max_quarantined=4,
        overflow="reject",
        background=background,
        while_reading=until_the_last_one_is_settled,
    )
    background.close()
    assert (summary.quarantined, summary.rejected, len(flow.quarantined())) == (4, 0, 4)


def test_a_share_of_a_few_last_lines_is_no_reason_to_stop(flow: Flow) -> None:
    write(flow.src / "a.ndjson", b"".join(map(line, range(101))) + BAD + b"\n")
    summary = flow.run(bad=BadPolicy(max_ratio=0.1), limits=Limits(max_records=99))
    assert (summary.records, summary.bad_records) == (101, 1)


@pytest.mark.parametrize("records", ["quarantine", "drop", "fail"])
def test_a_record_that_no_partition_takes_is_a_bad_one(flow: Flow, records: str) -> None:
    """An empty text in a partition column is null, which NOT NULL does not allow."""
    layout = apply_layout(parse_ddl("id BIGINT, c STRING NOT NULL"), partition_by=parse_partition_by("c"))
    place = DeltaRsPlace(root=str(flow.table), schema=layout.schema, clock=flow.clock, partition_by=layout.partition_by)
    write(flow.src / "a.ndjson", b'{"id":0,"c":"x"}\n{"id":1,"c":""}\n\n{"id":2}\n{"id":3,"c":"y"}\n')
    write(flow.src / "b.ndjson", b'{"id":4,"c":""}')
    arguments: dict[str, Any] = {"place": place, "slots": 1, "spec": {"layout": layout}}
    if records == "fail":
        with pytest.raises(BadData, match=r"a\.ndjson line 2"):
            flow.run(bad=BadPolicy(records=records), **arguments)
        return
    summary = flow.run(bad=BadPolicy(records=records), **arguments)
    assert ids(flow.table) == [0, 3]
    assert (summary.records, summary.bad_records) == (2, 3)
    found = [(r["source_file"], r["line"], r["error_kind"], r["column"], r["complete"]) for r in flow.quarantined()]
    wanted = [("a.ndjson", 2), ("a.ndjson", 4), ("b.ndjson", 1)] if records == "quarantine" else []
    assert found == [(*there, "missing_value", "c", True) for there in wanted]


lines = st.sampled_from([b"", b"  ", BAD, b"{]", b"\xff", b'{"id":1.5}', b'{"id":1}{"id":2}', b"null"])
files = st.lists(st.lists(lines | st.just(b"good"), max_size=12), min_size=1, max_size=5)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=files, max_records=st.none() | st.integers(1, 7), block_bytes=st.sampled_from([8, 64, 4096]))
def test_rows_and_quarantine_together_are_the_records_of_the_source(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[bytes]], max_records: int | None, block_bytes: int
) -> None:
    flow = Flow(tmp_path_factory.mktemp("flow"))
    next_id, bad = 0, Counter[bytes]()
    for number, content in enumerate(files):
        texts = []
        for text in content:
            if text == b"good":
                texts.append(line(next_id).rstrip(b"\n"))
                next_id += 1
            else:
                texts.append(text)
                bad[text] += bool(text.strip())
        write(flow.src / f"{number}.ndjson", b"\n".join(texts))
    # Two objects in the first line of a file would make it a file of objects one after the other.
    flow.run(limits=Limits(max_records=max_records), spec={"block_bytes": block_bytes}, framing="lines")
    flow.run(framing="lines")
    assert (ids(flow.table) if flow.table.exists() else []) == list(range(next_id))
    assert Counter(r["raw"] for r in flow.quarantined()) == +bad
