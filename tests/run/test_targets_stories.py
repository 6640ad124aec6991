"""What people do to the tables of several targets between two runs and during one. Nothing is lost or doubled by it."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.flows.in_process import InProcessReader, age_txns, info, log_file, write_foreign, write_raw
from tests.flows.shell import Said, Shell
from tests.flows.targets import Targets


def made(shell: Shell, own: dict[str, dict[str, Any]] | None = None, **keys: Any) -> Targets:
    return Targets(shell.folder, own or {"one": {}, "two": {}}, keys)


def run(shell: Shell, targets: Targets, *words: str) -> Said:
    return shell("run", *targets.words(*words))


@pytest.fixture
def targets(shell: Shell) -> Targets:
    """`one` and `two`, which have read file a, with a bad record; file b is new."""
    begun = made(shell)
    begun.put("a.ndjson", range(10), bad_ids=[3])
    assert run(shell, begun).code == 0
    begun.put("b.ndjson", range(10, 20), bad_ids=[13])
    return begun


GOOD, BAD = sorted(set(range(20)) - {3, 13}), [3, 13]


def test_two_targets_that_exchange_their_names_stay_where_they_are(shell: Shell, targets: Targets) -> None:
    tables = {name: {"path": str(targets.table(name))} for name in ("one", "two")}
    targets.own = {"one": {"table": tables["two"]}, "two": {"table": tables["one"]}}
    assert run(shell, targets).code == 0
    targets.own = {"one": {}, "two": {}}
    targets.check_each_once(GOOD, BAD)


def test_two_targets_that_exchange_their_quarantines_are_both_refused(shell: Shell, targets: Targets) -> None:
    places = {name: {"path": str(targets.quarantine(name))} for name in ("one", "two")}
    targets.own = {"one": {"quarantine": places["two"]}, "two": {"quarantine": places["one"]}}
    said = run(shell, targets)
    assert (said.code, said.kind) == (3, "quarantine_moved")
    targets.own = {"one": {}, "two": {}}
    assert run(shell, targets).code == 0
    targets.check_each_once(GOOD, BAD)


def test_a_table_that_is_dropped_is_made_anew_and_filled_alone(shell: Shell, targets: Targets) -> None:
    shutil.rmtree(targets.table("two"))
    assert run(shell, targets).code == 0
    targets.check_each_once(GOOD, BAD)
    assert targets.sequence("one") == 2
    assert run(shell, targets).last["status"] == "idle"


@pytest.mark.parametrize("how", ["gone", "anew", "anew, with rows"])
def test_a_table_that_is_dropped_during_a_run_takes_nothing_of_it(
    shell: Shell, targets: Targets, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It may be made anew in that moment, by whomever. The other target goes on."""
    targets.own["two"]["required"] = False
    read, is_first = InProcessReader.run, True

    def read_and_drop(*given: Any, **more: Any) -> Any:
        nonlocal is_first
        results = read(*given, **more)
        if is_first:
            is_first = False
            shutil.rmtree(targets.table("two") / "_delta_log")
            if how != "gone":
                DeltaTable.create(str(targets.table("two")), schema=DeltaTable(str(targets.table("one"))).schema())
            if how == "anew, with rows":
                write_foreign(targets.table("two"), 1_000)
        return results

    monkeypatch.setattr(InProcessReader, "run", read_and_drop)
    said = run(shell, targets)
    assert (said.code, said.last["targets"]["two"]["status"]) == (0, "failed")
    targets.check_each_once(GOOD, BAD, of=["one"])
    if how == "gone":
        shutil.rmtree(targets.table("two"))
    again = run(shell, targets)
    assert again.code == 0
    if how == "anew, with rows":
        assert again.last["targets"]["two"]["error_kind"] == "table_has_data"
        targets.own["two"]["start_from"] = "beginning"
        assert run(shell, targets).code == 0
        assert targets.ids("two") == Counter([*GOOD, 1_000])
    else:
        targets.check_each_once(GOOD, BAD)


@pytest.mark.parametrize("required", [True, False])
def test_a_table_that_is_restored_is_refused_and_the_other_goes_on_if_it_may(
    shell: Shell, targets: Targets, required: bool
) -> None:
    assert run(shell, targets).code == 0
    targets.put("c.ndjson", range(20, 30))
    targets.own["two"]["required"] = required
    DeltaTable(str(targets.table("two"))).restore(1)
    said = run(shell, targets)
    assert said.code == (3 if required else 0)
    assert said.last["targets"]["two"]["error_kind"] == "table_rewritten"
    assert targets.sequence("one") == (2 if required else 3)
    DeltaTable(str(targets.table("two"))).restore(2)
    assert run(shell, targets).code == 0
    targets.check_each_once([*GOOD, *range(20, 30)], BAD)


def test_one_target_rolled_back_reads_again_alone(shell: Shell, targets: Targets) -> None:
    assert run(shell, targets).code == 0
    where = ["--source", str(targets.src), "--table", str(targets.table("two")), "--pipeline", "p"]
    assert shell("checkpoint", "rollback", *where, "--to", "1", "--yes").code == 0
    before = targets.version("one")
    assert run(shell, targets).code == 0
    targets.check_each_once(GOOD, BAD)
    assert targets.version("one") == before


def test_two_targets_that_are_one_table_by_a_link_double_nothing(shell: Shell, targets: Targets) -> None:
    (shell.folder / "link").symlink_to(targets.table("one"))
    targets.own = {"one": {}, "link": {}}
    said = run(shell, targets)
    assert (said.code, said.kind) == (2, "usage")
    targets.own = {"one": {}, "two": {}}
    assert run(shell, targets).code == 0
    targets.check_each_once(GOOD, BAD)


def test_a_copy_of_a_table_that_shares_the_quarantine_of_the_first_is_refused(shell: Shell, targets: Targets) -> None:
    """It has the same table id. In one quarantine the two cannot be told apart."""
    shutil.copytree(targets.table("one"), targets.table("copy"))
    targets.own = {"one": {}, "copy": {"quarantine": {"path": str(targets.quarantine("one"))}}}
    said = run(shell, targets)
    assert (said.code, said.kind) == (3, "quarantine_ahead")
    assert "two copies of the table share this quarantine" in said.last["error"]
    targets.check_none_twice()


def test_a_bad_record_ends_only_the_target_that_allows_none(shell: Shell, targets: Targets) -> None:
    """It is met while the batch is read for both."""
    targets.own["two"] |= {"required": False, "bad_records": {"policy": "fail"}}
    said = run(shell, targets)
    assert (said.code, said.last["targets"]["two"]["error_kind"]) == (0, "bad_record")
    targets.check_each_once(GOOD, BAD, of=["one"])
    del targets.own["two"]["bad_records"]
    assert run(shell, targets).code == 0
    targets.check_each_once(GOOD, BAD)


def test_a_run_whose_every_target_fails_fails(shell: Shell, targets: Targets) -> None:
    """Also if none of them is required."""
    targets.own = {"one": {"required": False}, "two": {"required": False}}
    for name in targets.own:
        DeltaTable(str(targets.table(name))).restore(0)
    said = run(shell, targets)
    assert (said.code, said.kind) == (3, "table_rewritten")


def test_a_new_target_shares_the_read_of_a_file_that_another_is_in_the_middle_of(
    shell: Shell, targets: Targets
) -> None:
    few = ("--set", "limits.max_records=4", "--max-batches", "1")
    assert run(shell, targets, *few).code == 0
    targets.own["new"] = {}
    assert run(shell, targets, "--set", "limits.max_records=6").code == 0
    targets.check_each_once(GOOD, BAD)


@pytest.mark.parametrize(
    ("start", "is_compacted", "why"),
    [
        ("beginning", False, "it holds files that blizzard wrote, and no position of any pipeline"),
        ("after:a.ndjson", False, "it holds files that blizzard wrote, and no position of any pipeline"),
        ("beginning", True, "its log does not go back to its beginning"),
    ],
)
def test_a_start_that_stands_in_the_configuration_does_not_replace_a_position_that_is_lost(
    shell: Shell, start: str, is_compacted: bool, why: str
) -> None:
    """Else what the table holds would be read once more."""
    targets = made(shell, {"one": {}, "two": {"start_from": start}})
    targets.put("a.ndjson", range(10))
    targets.put("b.ndjson", range(10, 20))
    assert run(shell, targets).code == 0
    two = targets.table("two")
    age_txns(two)
    if is_compacted:  # then no name of a file says that blizzard wrote it
        DeltaTable(str(two)).optimize.compact()
    version = write_raw(two, info("OPTIMIZE"))
    DeltaTable(str(two)).create_checkpoint()
    for older in range(version):
        log_file(two, older).unlink()
    said = run(shell, targets)
    assert (said.code, said.kind) == (3, "table_has_data")
    assert why in said.last["error"]
    targets.check_none_twice()
