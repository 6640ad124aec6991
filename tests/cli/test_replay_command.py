"""`blizzard dlq replay` under the configuration of the pipeline's runs: policies, new columns, layouts."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from blizzard.cli.main import main
from blizzard.cli.quarantine import _replayed, dispatch
from blizzard.cli.quarantine_arguments import add_dlq_parser
from blizzard.delta.place import DeltaRsPlace
from blizzard.operate.replay import Replayed
from blizzard.schema.derived import PartitionSpec
from blizzard.schema.layout import apply_layout
from blizzard.schema.load import load_schema
from blizzard.spark.session import LazySession
from blizzard.tasks.policy import Coercion, ParsePolicy
from tests.flows.in_process import Flow
from tests.flows.replaying import (
    LEFT,
    STRICT,
    in_quarantine,
    mendable,
    quarantined_flow,
    replay_in,
    table_rows,
)
from tests.ingesting import ids, line, rows, write


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return quarantined_flow(tmp_path)


def command(capsys: pytest.CaptureFixture[str], flow: Flow, *arguments: str) -> str:
    parser = argparse.ArgumentParser()
    add_dlq_parser(parser.add_subparsers(dest="command"))
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert dispatch(parser.parse_args(["dlq", "replay", *where, *arguments])) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"replayed": 2, "still_bad": 1, "not_selected": 3, "unrouted": 4},
            "2 records appended in version 7 (sequence 6); 1 failed again and stayed in quarantine; 3 are left out by"
            " where or the transform and stayed in quarantine; 4 for no target stayed in quarantine: they are never"
            " replayed",
        ),
        (
            {"not_selected": 1},
            "nothing appended: 0 records failed again; 1 are left out by where or the transform and stayed in"
            " quarantine. Nothing was changed.",
        ),
        (
            {"unrouted": 1},
            "nothing to replay for pipeline p; 1 for no target stayed in quarantine: they are never replayed. Nothing"
            " was changed.",
        ),
    ],
)
def test_what_stays_in_quarantine_is_said(changes: dict[str, int], said: str) -> None:
    nothing = Replayed(replayed=0, still_bad=0, sequence=6, delta_version=7)
    assert _replayed(replace(nothing, **changes), "p") == said


def test_the_command_says_what_it_did(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(command(capsys, flow, "--json", "--file", "b.ndjson")) == {
        "replayed": 1,
        "still_bad": 0,
        "not_selected": 0,
        "unrouted": 0,
        "sequence": 2,
        "delta_version": 2,
    }
    assert (
        command(capsys, flow)
        == "1 record appended in version 3 (sequence 3); 1 failed again and stayed in quarantine\n"
    )
    assert command(capsys, flow) == "nothing appended: 1 record failed again. Nothing was changed.\n"
    assert command(capsys, flow, "--kind", "x") == "nothing to replay for pipeline p. See: blizzard dlq list\n"
    assert (ids(flow.table), in_quarantine(flow)) == ([0, 1, 2, 3, 4], LEFT)


def test_the_command_knows_a_quarantine_elsewhere(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    os.rename(flow.quarantine.root, flow.folder / "elsewhere")
    out = command(capsys, flow, "--quarantine", str(flow.folder / "elsewhere"), "--json")
    assert json.loads(out)["replayed"] == 2
    assert not os.path.exists(flow.quarantine.root)


def test_a_replay_keeps_to_the_configuration_of_the_runs(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--json", "--set", "schema.json_in_strings=bad"]
    assert json.loads(command(capsys, flow, *settings))["replayed"] == 0
    rescued = json.loads(command(capsys, flow, *settings, "--set", "bad_records.policy=rescue"))
    assert (rescued["replayed"], rescued["still_bad"]) == (3, 0)
    assert flow.quarantined() == []
    assert Counter(row["_rescued_data"] is not None for row in table_rows(flow)) == {True: 3, False: 3}


def test_a_parser_that_was_chosen_is_not_called_missing(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    assert main(["dlq", "replay", *where, "--set", "source.parser=pyarrow"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("2 records appended")
    assert "native parser" not in captured.err


def test_new_fields_become_columns_in_a_replay_too(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    raw = b'{"id":7,"name":{"n":7},"more":"m"}'
    write(flow.src / "c.ndjson", raw + b"\n")
    flow.run(spec=STRICT)
    done = json.loads(command(capsys, flow, "--json", "--set", "schema.evolution=add_columns"))
    assert (done["replayed"], done["still_bad"]) == (3, 1)
    assert [row["more"] for row in table_rows(flow) if row["id"] == 7] == ["m"]
    assert in_quarantine(flow) == LEFT


def test_replayed_rows_have_the_origin_and_the_key_they_would_have_had(tmp_path: Path) -> None:
    facts = ("source_file", "source_line", "record_key", "sequence")
    found = []
    for name, parsing in (("at-once", {}), ("replayed", STRICT)):
        flow = Flow(tmp_path / name)
        # The same file to both: its etag is part of the key.
        write(flow.src / "d=1/a.ndjson", line(0) + b"\n" + mendable(1) + b"\n" + line(2))
        write(flow.src / "d=1/b.ndjson", mendable(3) + b"\n")
        for path in sorted(flow.src.rglob("*.ndjson")):
            os.utime(path, ns=(10**18, 10**18))
        schema = apply_layout(load_schema(flow.ddl), provenance=facts).schema
        DeltaRsPlace(root=str(flow.table), schema=schema, clock=flow.clock).create("p")
        flow.run(spec=parsing)
        if parsing:
            assert replay_in(flow).replayed == 2
        found.append(rows(flow.table))
    at_once, replayed = found
    assert [row["_sequence"] for row in replayed] == [1, 2, 1, 2]
    assert [row | {"_sequence": 1} for row in replayed] == at_once


def test_fields_of_a_record_without_its_partition_are_quarantined_and_not_ignored(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, name STRING NOT NULL")
    write(
        flow.src / "a.ndjson", b'{"id":1,"name":"x","more":1}\n\n{"id":2,"name":"","less":1}\n{"id":"3","name":"x"}\n'
    )
    layout = apply_layout(load_schema(flow.ddl), partition_by=[PartitionSpec(name="name")])
    DeltaRsPlace(root=str(flow.table), schema=layout.schema, partition_by=("name",), clock=flow.clock).create("p")
    summary = flow.run()
    assert (summary.ignored_values, summary.ignored_fields) == (1, {"more": 1})
    assert [r["error_kind"] for r in flow.quarantined()] == ["missing_value", "bad_value"]
    told = [warning for warning in flow.told.warnings if "no column" in warning]
    coerced = ParsePolicy(coerce={("id",): frozenset({Coercion.NUMBERS_IN_STRINGS})})
    done = replay_in(flow, parsing=coerced)
    assert (done.replayed, done.still_bad) == (1, 1)
    assert [warning for warning in flow.told.warnings if "no column" in warning] == told


def test_a_record_without_a_value_for_its_partition_stays_and_holds_up_no_other(tmp_path: Path) -> None:
    flow = Flow(tmp_path, ddl="id STRING, name STRING NOT NULL")
    lines = [b'{"id":{"n":%d},"name":"%s"}' % (i, name) for i, name in enumerate([b"x", b"", b"y", b"", b"x"])]
    write(flow.src / "a.ndjson", b"\n".join(lines))
    layout = apply_layout(load_schema(flow.ddl), partition_by=[PartitionSpec(name="name")])
    place = DeltaRsPlace(root=str(flow.table), schema=layout.schema, partition_by=("name",), clock=flow.clock)
    place.create("p")
    flow.run(spec=STRICT)
    assert len(flow.quarantined()) == 5
    assert replay_in(flow).replayed == 3
    assert [(row["id"], row["name"]) for row in rows(flow.table)] == [
        ('{"n":0}', "x"),
        ('{"n":2}', "y"),
        ('{"n":4}', "x"),
    ]
    assert [(row["line"], row["error_kind"]) for row in flow.quarantined()] == [
        (2, "missing_value"),
        (4, "missing_value"),
    ]


@pytest.mark.parametrize("action", [["list"], ["show"], ["purge", "--kind", "x", "--yes"]])
def test_to_look_at_the_quarantine_starts_no_spark_whoever_commits(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, action: list[str]
) -> None:
    def start(_: LazySession) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(LazySession, "get", start)
    assert main(["dlq", *action, "--table", str(flow.table), "--set", "table.committer=delta-spark"]) == 0
