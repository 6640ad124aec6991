"""`blizzard pause` and `blizzard resume` on the command line, and what every other command says of a pause."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from blizzard.cli.main import main
from blizzard.spark.session import LazySession
from tests.flows.backups import Elsewhere
from tests.flows.in_process import BEGINNING, Flow, newest
from tests.flows.pausing import pause, paused_in
from tests.flows.replaying import quarantined_flow
from tests.flows.shell import Said, Shell
from tests.ingesting import ids, write_ids

REASON = "the house is being moved"


@pytest.fixture
def ready(shell: Shell) -> Shell:
    """Ids 0 to 2 are rows of pipeline p; 3 to 5 wait."""
    write_ids(shell.folder / "src/a.ndjson", 0, 3)
    assert shell.run("--pipeline", "p").code == 0
    write_ids(shell.folder / "src/b.ndjson", 3, 6)
    return shell


def command(shell: Shell, name: str, *words: str) -> Said:
    return shell(name, "--table", str(shell.table), *words)


def test_pause_and_resume_say_what_they_did_and_do_nothing_twice(ready: Shell) -> None:
    said = command(ready, "pause", "--pipeline", "p", "--reason", REASON)
    assert said.code == 0
    assert re.fullmatch(
        rf"pipeline p is paused since 20[-\dT:.]+Z \({REASON}\): sequence 2, version 2\n"
        r"runs read nothing until blizzard resume\n",
        said.text,
    )
    again = command(ready, "pause")
    assert (again.code, newest(ready.table)) == (0, 2)
    assert "already; nothing was changed" in again.text
    assert command(ready, "resume").text == "pipeline p goes on with its next run: sequence 3, version 3\n"
    assert command(ready, "resume").text == "pipeline p is not paused; nothing was changed\n"
    assert newest(ready.table) == 3
    assert ready.run("--pipeline", "p").last["records"] == 3
    assert ids(ready.table) == list(range(6))


def test_as_json(ready: Shell) -> None:
    done = json.loads(command(ready, "pause", "--reason", REASON, "--json").text)
    at_ms = done["paused"]["at_ms"]
    assert done == {
        "pipeline": "p",
        "paused": {"at_ms": at_ms, "reason": REASON},
        "changed": True,
        "sequence": 2,
        "delta_version": 2,
    }
    assert json.loads(command(ready, "pause", "--json").text) == done | {"changed": False}
    assert json.loads(command(ready, "resume", "--json").text)["paused"] is None


def test_a_run_ends_as_paused_with_0_or_99_and_says_when_and_why(ready: Shell) -> None:
    command(ready, "pause", "--reason", REASON)
    said = ready.run("--pipeline", "p")
    assert (said.code, said.last["status"], said.last["records"]) == (0, "paused", 0)
    assert said.last["paused"]["reason"] == REASON
    assert re.search(
        rf"paused since 20\S+Z \({REASON}\): 0 records, 0 files finished, 0 commits; table version 2", said.text
    )
    said = ready.run("--pipeline", "p", "--exit-99-when-idle")
    assert (said.code, said.last["exit_code"], said.last["status"]) == (99, 99, "paused")
    assert ids(ready.table) == [0, 1, 2]


def test_a_paused_run_starts_no_spark(tmp_path: Path) -> None:
    flow = Flow(tmp_path).first_run()
    write_ids(flow.src / "b.ndjson", 3, 6)
    pause(flow)
    with mock.patch.object(LazySession, "get", side_effect=AssertionError("Spark was started")):
        assert main(["run", "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]) == 0


def test_expired_records_are_not_purged_from_quarantine_during_a_pause(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    purged: list[str] = []
    monkeypatch.setattr("blizzard.run.assemble.purge_older", lambda *_, **__: purged.append("purged"))
    write_ids(shell.folder / "src/a.ndjson", 0, 3)
    keep = ("--pipeline", "p", "--set", "quarantine.keep_days=1")
    assert shell.run(*keep).code == 0
    command(shell, "pause")
    assert shell.run(*keep).last["status"] == "paused"
    assert purged == ["purged"]
    command(shell, "resume")
    assert shell.run(*keep).last["status"] == "idle"
    assert purged == ["purged"] * 2


# -- where it is shown ------------------------------------------------------------------------------------------------


@pytest.fixture
def paused(ready: Shell) -> Iterator[Shell]:
    assert command(ready, "pause", "--reason", REASON).code == 0
    before = newest(ready.table)
    yield ready
    assert (newest(ready.table), ids(ready.table)) == (before, [0, 1, 2])


def test_status_shows_it(paused: Shell) -> None:
    text = command(paused, "status", "--explain").text
    assert re.search(rf"\n  paused      since 20\S+ \S+Z: {REASON} \(blizzard resume lets it go on\)\n", text)
    assert "next start  resumes from the log, and reads nothing: the pipeline is paused" in text
    assert "until it is resumed (blizzard resume), a run settles and renews, and reads nothing." in text
    (pipeline,) = json.loads(command(paused, "status", "--json").text)["pipelines"]
    assert pipeline["paused"]["reason"] == REASON


def test_plan_says_that_the_next_run_reads_nothing_and_what_the_first_one_after_the_resume_reads(paused: Shell) -> None:
    said = paused("plan", *paused.where("--pipeline", "p"))
    assert said.code == 0
    assert re.search(rf"\npaused      since .*{REASON}.*\n +the next run reads nothing; below", said.text)
    assert "b.ndjson" in said.text
    shown = json.loads(paused("plan", *paused.where("--pipeline", "p", "--json")).text)
    assert (shown["paused"]["reason"], [s["path"] for s in shown["first_batch"]]) == (REASON, ["b.ndjson"])


def test_doctor_report_and_the_list_of_checkpoints_show_it(paused: Shell) -> None:
    assert re.search(rf"pipelines +p \(sequence 2\): paused since .*{REASON}", command(paused, "doctor").text)
    shown = json.loads(command(paused, "report", "--json").text)
    assert shown["pipelines"][0]["position"]["paused"]["reason"] == REASON
    assert command(paused, "report", "--out", str(paused.folder / "r.html")).code == 0
    page = (paused.folder / "r.html").read_text()
    assert '<span class="badge warn">Paused</span>' in page
    assert f": {REASON}. Runs read nothing until" in page
    listed = paused("checkpoint", "list", "--table", str(paused.table)).text
    assert [line.split()[-2] for line in listed.splitlines()] == ["KIND", "pause", "batch"]
    assert '"paused"' in paused("checkpoint", "show", "--table", str(paused.table)).text


def test_files_and_audit_are_as_before(paused: Shell) -> None:
    assert [line.split()[0] for line in command(paused, "files").text.splitlines()] == ["FILE", "a.ndjson"]
    said = paused("audit", *paused.where("--pipeline", "p", "--check", "--json"))
    assert (said.code, json.loads(said.text)["waiting"]) == (0, ["b.ndjson"])


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_table_that_is_not_there(shell: Shell) -> None:
    for name in ("pause", "resume"):
        said = command(shell, name)
        assert (said.code, said.kind) == (2, "table_not_found")
    assert not shell.table.exists()


def test_a_pipeline_that_is_not_there(ready: Shell) -> None:
    said = command(ready, "pause", "--pipeline", "other")
    assert (said.code, said.kind) == (2, "usage")
    assert "pipeline 'other' has committed nothing to this table" in said.text
    assert newest(ready.table) == 1


def test_of_several_pipelines_one_must_be_named_by_its_name_or_its_source(ready: Shell) -> None:
    second = Elsewhere(ready.folder, pipeline="q", src_at=ready.folder / "more")
    write_ids(second.src / "c.ndjson", 50, 53)
    second.run(start_from=BEGINNING)
    said = command(ready, "pause")
    assert (said.code, said.kind) == (2, "usage")
    assert "--pipeline is missing; the table has: p, q" in said.text
    assert command(ready, "pause", "--set", f"source.path={second.src}").code == 0
    assert paused_in(second) is not None
    assert paused_in(Flow(ready.folder)) is None
    assert command(ready, "resume", "--pipeline", "q").code == 0


@pytest.mark.parametrize("reason", ["x" * 501, "\udcff"])
def test_a_reason_without_room_in_a_position(ready: Shell, reason: str) -> None:
    said = command(ready, "pause", "--reason", reason)
    assert (said.code, said.kind, newest(ready.table)) == (2, "usage", 1)


def test_a_reason_can_neither_control_a_terminal_nor_fake_a_line(ready: Shell) -> None:
    command(ready, "pause", "--reason", "evil\x1b[2J\nblizzard: all is well")
    for name in ("status", "pause", "doctor"):
        text = command(ready, name).text
        assert "\x1b" not in text
        assert not any(line.startswith("blizzard: all") for line in text.splitlines())


def test_a_replay_of_a_paused_pipeline_says_the_way_out(tmp_path: Path, shell: Shell) -> None:
    """The kind is `paused`. What the text says is done by the letter."""
    flow = quarantined_flow(tmp_path)
    pause(flow)
    words = ["dlq", "replay", "--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p"]
    said = shell(*words)
    assert (said.code, said.kind) == (3, "paused")
    (way_out,) = re.findall(r"blizzard (resume --pipeline \S+)\.", said.text)
    assert shell(*way_out.split(), "--table", str(flow.table)).code == 0
    assert shell(*words).code == 0
    assert ids(flow.table) == [0, 1, 2, 3, 4]
    assert len(flow.quarantined()) == 1
