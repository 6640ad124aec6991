"""Records leave the quarantine in one commit written by hand: what cannot be is refused before the table's commit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.errors import Refused, Temporary
from blizzard.quarantine import contents
from blizzard.tasks.quarantine import Selection
from tests.failing import ends_with
from tests.flows.backups import Elsewhere
from tests.flows.in_process import info, log_file, newest, write_raw
from tests.flows.replaying import STRICT, mendable, replay_in
from tests.flows.rollbacks import roll_back
from tests.ingesting import ids, line, write
from tests.simulation.around import vacuum


@pytest.fixture
def flow(tmp_path: Path) -> Elsewhere:
    """Two batches, each with a good record and a bad one that a replay would take."""
    flow = Elsewhere(tmp_path)
    for number in (1, 2):
        write(flow.src / f"{number}.ndjson", line(number) + mendable(10 + number) + b"\n")
        flow.run(spec=STRICT)
    return flow


def folder(flow: Elsewhere) -> Path:
    return Path(flow.quarantine.root)


def give(flow: Elsewhere, configuration: dict[str, str], protocol: dict[str, Any] | None = None) -> None:
    """As Spark's SET TBLPROPERTIES would."""
    logged = sorted((folder(flow) / "_delta_log").glob("*.json"))
    actions = [json.loads(text) for path in logged for text in path.read_text().splitlines()]
    metadata = [action["metaData"] for action in actions if "metaData" in action][-1] | {"configuration": configuration}
    given = [] if protocol is None else [{"protocol": protocol}]
    write_raw(folder(flow), info("SET TBLPROPERTIES"), *given, {"metaData": metadata})


def constrain(flow: Elsewhere) -> None:
    features = ["checkConstraints", "appendOnly", "invariants"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    give(flow, {"delta.constraints.c": "sequence > 0"}, protocol)


def allow_deletion_vectors(flow: Elsewhere) -> None:
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    give(flow, {"delta.enableDeletionVectors": "true"}, protocol)


def cluster(flow: Elsewhere) -> None:
    features = ["clustering", "domainMetadata"]
    give(flow, {}, {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features})


def only_append(flow: Elsewhere) -> None:
    give(flow, {"delta.appendOnly": "true"})


def name_a_file_elsewhere(flow: Elsewhere) -> None:
    there = flow.folder / "elsewhere.parquet"
    there.write_bytes(next(folder(flow).glob("*.parquet")).read_bytes())
    add = {"partitionValues": {}, "size": there.stat().st_size, "modificationTime": 1, "dataChange": True}
    write_raw(folder(flow), info("WRITE"), {"add": {"path": "../elsewhere.parquet", **add}})


def truncate(flow: Elsewhere) -> None:
    oldest = _oldest_file(flow)
    oldest.write_bytes(oldest.read_bytes()[:200])


def take_away(flow: Elsewhere) -> None:
    _oldest_file(flow).unlink()


def _oldest_file(flow: Elsewhere) -> Path:
    return next(path for path in folder(flow).glob("*.parquet") if "-00000001-" in path.name)


TROUBLES = {
    "a constraint": (constrain, "unsupported_table", "constraint c"),
    "a feature that delta-rs does not write": (cluster, "unsupported_table", "clustering"),
    "deletion vectors": (allow_deletion_vectors, "unsupported_table", "DROP FEATURE"),
    "append only": (only_append, "append_only", "delta.appendOnly"),
    "a file that is not below": (name_a_file_elsewhere, "unsupported_table", "../elsewhere.parquet"),
    "a truncated file": (truncate, "quarantine_damaged", ".parquet"),
    "a file that is gone": (take_away, "quarantine_damaged", "it is gone"),
}
COMMANDS: dict[str, Callable[[Elsewhere], object]] = {
    "rollback": lambda flow: roll_back(flow, 1),
    "replay": lambda flow: replay_in(flow, run_id="replay"),
}


@pytest.mark.parametrize("trouble", ["a constraint", "a feature that delta-rs does not write"])
def test_a_quarantine_that_cannot_be_added_to_stops_a_batch_with_bad_records_before_its_commit(
    flow: Elsewhere, trouble: str
) -> None:
    (make, kind, said), before = TROUBLES[trouble], newest(flow.table)
    make(flow)
    flow.run(spec=STRICT)  # nothing bad, nothing to say
    write(flow.src / "3.ndjson", line(3) + mendable(13) + b"\n")
    with pytest.raises(Refused) as error:
        flow.run(spec=STRICT)
    assert (error.value.kind, newest(flow.table)) == (kind, before)
    assert said in str(error.value)
    assert flow.quarantine.root in str(error.value)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_would_stop_the_quarantine_stops_the_command_before_its_commit(
    flow: Elsewhere, trouble: str, command: str
) -> None:
    (make, kind, said), before = TROUBLES[trouble], newest(flow.table)
    make(flow)
    with pytest.raises(Refused, match=r"quarantine|holds records") as error:
        COMMANDS[command](flow)
    assert error.value.kind == kind
    assert said in str(error.value)
    assert (newest(flow.table), ids(flow.table)) == (before, [1, 2])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_once_the_trouble_is_gone_the_same_command_leaves_each_record_once(
    flow: Elsewhere, trouble: str, command: str
) -> None:
    (make, kind, _), whole = TROUBLES[trouble], flow.folder / "backup"
    shutil.copytree(folder(flow), whole)
    make(flow)
    with ends_with(kind):
        COMMANDS[command](flow)
    if kind == "quarantine_damaged":
        shutil.copytree(whole, folder(flow), dirs_exist_ok=True)  # "Restore it from a backup"
    elif make is name_a_file_elsewhere:
        write_raw(folder(flow), info("FSCK"), {"remove": {"path": "../elsewhere.parquet", "dataChange": True}})
    else:
        give(flow, {}, {"minReaderVersion": 1, "minWriterVersion": 2})
    COMMANDS[command](flow)
    flow.run(spec=STRICT)
    rows, bad = ids(flow.table), [row["raw"] for row in flow.quarantined()]
    assert (rows, len(bad)) == (([1, 2], 2) if command == "rollback" else ([1, 2, 11, 12], 0))


def test_a_pipeline_that_never_had_a_bad_record_asks_nothing_of_the_quarantine(flow: Elsewhere) -> None:
    """Another one shares it, and has made it append only."""
    only_append(flow)
    second = Elsewhere(flow.folder, pipeline="q", src_at=flow.folder / "good", table_at=flow.folder / "second")
    for number in (1, 2):
        write(second.src / f"{number}.ndjson", line(number))
        second.run(spec=STRICT)
    roll_back(second, 1)
    assert ids(second.table) == [1]


@pytest.mark.parametrize(("name", "path"), [("x y.parquet", "x%20y.parquet"), ("x%20y.parquet", "x%2520y.parquet")])
def test_names_that_another_engine_gave_are_read_as_the_log_means_them(flow: Elsewhere, name: str, path: str) -> None:
    DeltaTable(flow.quarantine.root).optimize.compact()
    commit = log_file(folder(flow), newest(folder(flow)))
    (add,) = [action["add"] for text in commit.read_text().splitlines() if "add" in (action := json.loads(text))]
    (folder(flow) / add["path"]).rename(folder(flow) / name)
    commit.write_text(commit.read_text().replace(add["path"], path))
    assert contents.count_records(flow.quarantine, Selection()) == 2
    roll_back(flow, 1)
    assert contents.count_records(flow.quarantine, Selection()) == 1


def test_a_file_that_was_vacuumed_meanwhile_is_no_damage(flow: Elsewhere) -> None:
    before = flow.quarantine.open()
    DeltaTable(flow.quarantine.root).optimize.compact()
    vacuum(folder(flow))
    with pytest.raises(Temporary) as error:
        list(flow.quarantine.read(Selection(), table=before))
    assert error.value.kind == "quarantine_changed"
    assert [row["sequence"] for row in flow.quarantined()] == [1, 2]  # again, as it says
