"""Records for no target in the quarantine of the first: listed and exported, counted by all, never replayed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blizzard import faults
from blizzard.core.audit import audit
from blizzard.core.kinds import LineKind
from blizzard.core.late import EVERYTHING as ALL_FILES
from blizzard.core.ledger import decode_ledger
from blizzard.errors import ConfigError, Refused, Temporary
from blizzard.faults import InjectedFault
from blizzard.operate.status import ingested_files
from blizzard.quarantine import contents
from blizzard.quarantine.selected import rows_of_replay
from blizzard.run.summary import Summary
from blizzard.schema.load import load_schema
from blizzard.schema.where import parse_where
from blizzard.tasks.policy import ParsePolicy
from blizzard.tasks.quarantine import Selection
from blizzard.tasks.spec import Route
from tests.flows.in_process import Flow, newest
from tests.flows.replaying import STRICT, in_quarantine, mendable, newest_position, replay_in
from tests.ingesting import DDL, commit_actions, ids, line, write

NOBODYS = line(100)


def where(text: str, **parsing: Any) -> dict[str, Any]:
    """For the spec of the first and only target."""
    condition = parse_where(text, load_schema(DDL))
    policy = parsing.get("parsing", ParsePolicy())
    route = Route(where=condition, parsing=policy)
    return {"where": condition, "routes": (route,), "unrouted": "quarantine", **parsing}


SMALL = where("id < 100", **STRICT)


def routed_flow(folder: Path) -> Flow:
    """Ids 0 and 1 are rows, 3 can be mended, 100 is for no target, and one line is no record at all."""
    flow = Flow(folder)
    content = line(0) + mendable(3) + b"\n" + NOBODYS + line(1) + b"oops\n" + mendable(200) + b"\n"
    write(flow.src / "a.ndjson", content)
    summary = Summary()
    flow.run(spec=SMALL, summary=summary)
    assert ids(flow.table) == [0, 1]
    assert (summary.bad_records, summary.filtered_records, summary.unrouted_records) == (2, 2, 2)
    return flow


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return routed_flow(tmp_path)


def kinds(flow: Flow) -> list[tuple[int, str]]:
    return [(row["line"], row["error_kind"]) for row in flow.quarantined()]


def test_the_quarantine_and_the_ledger_know_them(flow: Flow) -> None:
    assert kinds(flow) == [(2, "bad_value"), (3, "unrouted"), (5, "not_json"), (6, "unrouted")]
    (ledger,) = [
        decode_ledger(action["commitInfo"].get("userMetadata"))
        for action in commit_actions(flow.table, newest(flow.table))
        if "commitInfo" in action
    ]
    assert ledger is not None
    assert [(e.to_record, e.bad, e.filtered, e.unrouted) for e in ledger.entries] == [(6, 2, 2, 2)]
    (row,) = ingested_files(flow.open(), None)
    assert (row["filtered"], row["unrouted"]) == (2, 2)
    groups = contents.count_groups(flow.quarantine, Selection(error_kind=LineKind.UNROUTED))
    assert [(group.records, group.complete) for group in groups] == [(2, 2)]


def test_an_audit_finds_nothing_wrong(flow: Flow) -> None:
    listed = flow.source.look(ALL_FILES)
    found = audit(listed, newest_position(flow), flow.open().scan_back())
    assert (found.problems, found.bad_records, found.filtered_records, found.unrouted_records) == ({}, 2, 2, 2)


def test_a_replay_leaves_them_where_they_are_and_says_so(flow: Flow) -> None:
    done = replay_in(flow, **where("id < 100"))
    assert (done.replayed, done.still_bad, done.unrouted, done.not_selected) == (1, 1, 2, 0)
    assert ids(flow.table) == [0, 1, 3]
    assert kinds(flow) == [(3, "unrouted"), (5, "not_json"), (6, "unrouted")]
    # They are the rows that were there: not written anew.
    assert [row["sequence"] for row in flow.quarantined() if row["error_kind"] == "unrouted"] == [1, 1]
    assert newest_position(flow).quarantine.replayed["but_not"] == "unrouted"


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("commit.after=raise@1", InjectedFault),
        ("quarantine.copied=raise", Temporary),
        ("quarantine.before=raise", Temporary),
    ],
)
def test_a_crash_before_the_quarantine_follows_takes_none_of_them(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, rule: str, error: type[Exception]
) -> None:
    """The position names what was taken. The next run takes out just that."""
    faults._visits.clear()
    monkeypatch.setenv("BLIZZARD_FAULT", rule)
    with pytest.raises(error):
        replay_in(flow, **where("id < 100"))
    monkeypatch.delenv("BLIZZARD_FAULT")
    flow.run(spec=SMALL)
    assert ids(flow.table) == [0, 1, 3]
    assert kinds(flow) == [(3, "unrouted"), (5, "not_json"), (6, "unrouted")]


def test_asking_for_them_alone_is_refused_with_the_way_out(flow: Flow) -> None:
    before = in_quarantine(flow)
    with pytest.raises(ConfigError, match="records that are for no target are not replayed") as refused:
        replay_in(flow, Selection(error_kind="unrouted"), **where("id < 100"))
    assert refused.value.kind == "usage"
    assert in_quarantine(flow) == before


def test_a_replay_without_such_records_is_written_as_ever(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", line(0) + mendable(3) + b"\n")
    flow.run(spec=STRICT)
    assert replay_in(flow).replayed == 1
    assert "but_not" not in newest_position(flow).quarantine.replayed


def test_a_record_that_where_no_longer_selects_stays_in_quarantine(flow: Flow) -> None:
    """It was quarantined as one of this table, so it does not leave without becoming a row."""
    done = replay_in(flow, **where("id < 2"))
    assert (done.replayed, done.still_bad, done.not_selected, done.unrouted) == (0, 1, 1, 2)
    assert ids(flow.table) == [0, 1]
    assert kinds(flow)[0] == (2, "bad_value")
    write(flow.src / "b.ndjson", mendable(4) + b"\n")
    flow.run(spec=SMALL)
    done = replay_in(flow, **where("id = 4"))
    assert (done.replayed, done.still_bad, done.not_selected) == (1, 1, 1)
    assert ids(flow.table) == [0, 1, 4]
    assert (2, "bad_value") in kinds(flow)


def test_an_older_version_refuses_a_replay_that_left_some_out() -> None:
    """It would take them out of the quarantine too. This one refuses what it does not know in the same way."""
    with pytest.raises(Refused, match="in a way this version of blizzard does not know"):
        rows_of_replay({"through": "3", "and_not": "x"}, pipeline="p", table_id="t", sequence=4)
    selection = rows_of_replay({"through": "3", "but_not": "unrouted"}, pipeline="p", table_id="t", sequence=4)
    assert selection.but_not == "unrouted"
    assert "error_kind <> 'unrouted'" in str(selection.predicate)


def test_with_drop_they_are_only_counted(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", line(0) + NOBODYS)
    summary = Summary()
    flow.run(spec=where("id < 100") | {"unrouted": "drop"}, summary=summary)
    assert (summary.filtered_records, summary.unrouted_records, summary.quarantined) == (1, 1, 0)
    assert flow.quarantined() == []
    shown = json.loads(summary.to_json())
    assert (shown["filtered_records"], shown["unrouted_records"]) == (1, 1)


def test_a_batch_that_is_for_others_alone_moves_the_position(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", NOBODYS * 3)
    flow.run(spec=replace_routes(where("id < 100")))
    assert newest_position(flow).marks.last_committed_file == "a.ndjson"
    assert ids(flow.table) == []
    summary = Summary()
    flow.run(spec=replace_routes(where("id < 100")), summary=summary)
    assert summary.status in ("idle", "running")
    assert summary.commits == 0


def replace_routes(spec: dict[str, Any]) -> dict[str, Any]:
    """Another target, which is not in this run, takes all that this one leaves."""
    return spec | {"routes": (*spec["routes"], replace(spec["routes"][0], where=None))}
