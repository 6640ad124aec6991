"""The numbers after known runs, as Prometheus would read them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from blizzard.core.bad import BadPolicy
from blizzard.core.plan import Limits
from blizzard.errors import BadData, BlizzardError, Fenced, Refused
from tests.delta.test_hostile_log import change_payload, clean_up
from tests.flows.in_process import Flow, write_foreign
from tests.flows.operating import InProcessOperation
from tests.ingesting import line, write, write_ids


class Numbers:
    """The samples of a run that has ended, from its textfile."""

    def __init__(self, path: Path) -> None:
        self._samples = [s for family in text_string_to_metric_families(path.read_text()) for s in family.samples]

    def __call__(self, name: str, **labels: str) -> float | None:
        wanted = {"pipeline": "p"} | labels
        found = [s.value for s in self._samples if s.name == f"blizzard_{name}" and s.labels == wanted]
        return found[0] if found else None

    @property
    def recoveries(self) -> dict[str, float]:
        found = {s.labels["path"]: s.value for s in self._samples if s.name == "blizzard_recovery_path_total"}
        return {path: value for path, value in found.items() if value}


def run(flow: Flow, error: type[BlizzardError] | None = None, **settings: object) -> Numbers:
    textfile = flow.folder / "blizzard.prom"
    operation = InProcessOperation(flow, {"metrics.textfile": str(textfile)})
    operation.settings = settings
    if error is None:
        operation.go()
    else:
        with pytest.raises(error):
            operation.go()
    return Numbers(textfile)


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    """Three files: one of ten records, one of two with a bad line between them, one of four."""
    made = Flow(tmp_path)
    write_ids(made.src / "a.ndjson", 0, 10)
    write(made.src / "b.ndjson", line(10) + b"nonsense\n" + line(11))
    write_ids(made.src / "c.ndjson", 12, 16)
    return made


def test_a_first_run(flow: Flow) -> None:
    size = sum(path.stat().st_size for path in flow.src.iterdir())
    numbers = run(flow, limits=Limits(max_files=2), max_batches=1)
    assert numbers("batch_commit_total") == 1
    assert numbers("batch_commit_failed_total") == 0
    assert numbers("records_ingested_total") == 12
    assert numbers("bad_records_total") == 1
    assert numbers("files_finished_total") == 2
    c = (flow.src / "c.ndjson").stat().st_size
    assert numbers("bytes_read_total") == size - c
    assert (numbers("backlog_files"), numbers("backlog_bytes")) == (1, c)
    assert (numbers("sequence"), numbers("delta_version")) == (1, 1)
    assert (numbers("checkpoint_bytes") or 0) > 200
    assert numbers("checkpoint_duration_seconds_count") == 1
    assert [numbers("stage_seconds_count", stage=s) for s in ("recover", "list", "ingest", "commit")] == [1, 1, 1, 1]
    assert numbers.recoveries == {"fresh": 1}
    assert (numbers("source_state_files"), numbers("held_files")) == (0, 0)


def test_a_second_run_and_one_with_nothing_to_do(flow: Flow) -> None:
    flow.run(limits=Limits(max_files=2), max_batches=1)
    second = run(flow)
    assert second("records_ingested_total") == 4
    assert second("backlog_files") == 0
    assert second.recoveries == {"log": 1}
    third = run(flow)
    assert (third("batch_commit_total"), third("sequence")) == (0, 2)
    assert third("backlog_files") == 0


def test_a_file_in_the_middle_is_named_in_the_position(flow: Flow) -> None:
    numbers = run(flow, limits=Limits(max_records=5), slots=1, max_batches=1)
    assert numbers("source_state_files") == 1
    assert numbers("records_ingested_total") == 5
    assert (numbers("files_finished_total"), numbers("backlog_files")) == (0, 3)


def test_files_that_cannot_be_read(flow: Flow) -> None:
    write(flow.src / "d.ndjson.gz", b"").write_bytes(gzip.compress(b"".join(map(line, range(9))))[:-9])
    numbers = run(flow, bad=BadPolicy(files="retry"))
    assert (numbers("held_files"), numbers("bad_files_total")) == (1, 0)
    os.utime(flow.src / "d.ndjson.gz", (1e9, 1e9))  # it is not still arriving
    numbers = run(flow)
    assert (numbers("held_files"), numbers("bad_files_total")) == (0, 1)


def test_late_files(flow: Flow) -> None:
    flow.run()
    write_ids(flow.src / "a-late.ndjson", 100, 101)
    assert run(flow)("late_files") == 1
    assert run(flow)("late_files") == 0


def test_a_refused_start(flow: Flow) -> None:
    flow.run()
    write_foreign(flow.table, 1, mode="overwrite")
    numbers = run(flow, Refused)
    assert numbers.recoveries == {"refused": 1}
    assert numbers("errors_total", kind="table_rewritten") == 1
    assert numbers("batch_commit_total") == 0


@pytest.mark.parametrize("path", ["replay", "delta_checkpoint"])
def test_a_position_found_elsewhere(flow: Flow, path: str) -> None:
    flow.run()
    write_ids(flow.src / "d.ndjson", 20, 22)
    flow.run()
    if path == "replay":
        change_payload(flow.table, lambda _: "nonsense")
    else:
        write_foreign(flow.table, 9000)
        clean_up(flow)
    assert run(flow).recoveries == {path: 1}


def test_a_commit_that_another_driver_was_faster_with(flow: Flow) -> None:
    flow.run()
    write_ids(flow.src / "d.ndjson", 20, 22)
    other = Flow(flow.folder, runs=10)
    numbers = run(flow, Fenced, while_reading=other.run)
    assert (numbers("batch_commit_failed_total"), numbers("batch_commit_total")) == (1, 0)
    assert numbers("records_ingested_total") == 0
    assert numbers("errors_total", kind="fenced") == 1


def test_a_batch_that_bad_data_stopped_is_no_failed_commit(flow: Flow) -> None:
    numbers = run(flow, BadData, bad=BadPolicy(records="fail"))
    assert numbers("errors_total", kind="bad_record") == 1
    assert (numbers("batch_commit_failed_total"), numbers("records_ingested_total")) == (0, 0)


def test_what_was_ignored_cut_and_who_read_it(flow: Flow) -> None:
    flow.ddl = "id BIGINT, ts TIMESTAMP"
    write(flow.src / "d.ndjson", b'{"id":1,"x":1,"y":2,"ts":"2024-01-01T00:00:00.1234567Z"}\n')
    numbers = run(flow, spec={"parser": "reference"})
    assert numbers("cut_timestamps_total", column="ts") == 1
    assert numbers("parser_info", parser="reference") == 1
    assert numbers("ignored_values_total") == 16 + 2, "the other lines have a name, for which there is no column"
    assert numbers("doubtful_lines_total") is not None
