"""Several targets, and ways to lose or double records of one because of another."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.core.events import unheard
from blizzard.core.history import ledgers_of
from blizzard.core.kinds import Kind
from blizzard.core.late import Scope
from blizzard.core.ledger import SKIPPED, Ledger
from blizzard.core.look import Listed
from blizzard.delta.place import DeltaRsPlace
from blizzard.errors import Refused, Temporary
from blizzard.quarantine.table import DeltaRsQuarantine
from blizzard.run.lane import Lane
from blizzard.source.listed import ListedSource
from tests.flows.in_process import InProcessReader, SetClock
from tests.flows.shell import Said, Shell
from tests.flows.targets import Targets
from tests.ingesting import DDL, write


def made(shell: Shell, own: dict[str, dict[str, Any]] | None = None, **keys: Any) -> Targets:
    return Targets(shell.folder, own or {"one": {}, "two": {}}, keys)


def run(shell: Shell, targets: Targets, *words: str) -> Said:
    return shell("run", *targets.words(*words))


def ledgers(targets: Targets, name: str) -> list[Ledger]:
    table = DeltaRsPlace(root=str(targets.table(name)), schema=None, clock=SetClock(0)).open()
    assert table is not None
    return [ledger for _, ledger in ledgers_of(table.scan_back())]


def skipped(targets: Targets, name: str) -> list[str]:
    """The files that the ledgers of this target say were left out."""
    return [entry.path for ledger in ledgers(targets, name) for entry in ledger.entries if entry.broken == SKIPPED]


def framings_of(targets: Targets, name: str) -> list[str]:
    return [entry.framing for ledger in ledgers(targets, name) for entry in ledger.entries]


def test_a_table_that_is_taken_back_takes_no_bad_records_of_another_target_with_it(shell: Shell) -> None:
    """Both targets share one quarantine. The first batch is too bad for one of them only."""
    shared = {"quarantine": {"path": str(shell.folder / "bad")}}
    strict = shared | {"bad_records": {"first_batch_max_ratio": 0.1}, "required": False}
    lenient = shared | {"bad_records": {"first_batch_max_ratio": 1.0}}
    targets = made(shell, {"strict": strict, "lenient": lenient})
    targets.put("a.ndjson", range(30), bad_ids=range(20))
    said = run(shell, targets)
    assert (said.code, said.last["targets"]["strict"]["error_kind"]) == (0, "mostly_bad")
    targets.check_each_once(range(20, 30), range(20), of=["lenient"])
    assert run(shell, targets).code == 0
    targets.check_each_once(range(20, 30), range(20), of=["lenient"])


def test_what_a_target_has_missed_is_said_also_if_the_newest_commit_of_another_is_of_a_late_file(
    shell: Shell,
) -> None:
    targets = made(shell)
    targets.put("c.ndjson", range(5))
    assert run(shell, targets).code == 0
    two = targets.own.pop("two")
    targets.put("m.ndjson", range(5, 10))
    assert run(shell, targets).code == 0
    targets.put("a.ndjson", range(10, 15))  # late
    assert run(shell, targets).code == 0
    (targets.src / "m.ndjson").unlink()
    targets.put("n.ndjson", range(15, 20))
    targets.own["two"] = two
    said = run(shell, targets)
    assert said.code == 0
    assert skipped(targets, "two") == ["m.ndjson"]
    targets.check_each_once(range(20), of=["one"])
    targets.check_each_once([*range(5), *range(10, 20)], of=["two"])
    audited = json.loads(shell("audit", *targets.words("--target", "two", "--json")).text)
    assert (audited["skipped"], audited["gone"]) == (["m.ndjson"], [])  # it was called ingested


def test_a_missed_file_is_said_and_recorded_once(shell: Shell) -> None:
    """It is the newest of the source: no later file takes the mark over it."""
    targets = made(shell)
    targets.put("a.ndjson", range(5))
    assert run(shell, targets).code == 0
    two = targets.own.pop("two")
    targets.put("b.ndjson", range(5, 10))
    assert run(shell, targets).code == 0
    (targets.src / "b.ndjson").unlink()
    targets.own["two"] = two
    assert run(shell, targets).code == 0
    assert skipped(targets, "two") == ["b.ndjson"]
    version = targets.version("two")
    again = run(shell, targets)
    assert (again.code, again.last["status"]) == (0, "idle")
    assert targets.version("two") == version


def begin_with(shell: Shell, targets: Targets, name: str) -> None:
    """A file arrives, and another run, of the target `two` alone, reads a part of it."""
    targets.put(name, range(10, 20))
    alone = replace(targets, own={"two": {}}, config="two.yaml")
    few = ("--set", "limits.max_files=1", "--set", "limits.max_records=4", "--max-batches", "1")
    assert run(shell, alone, *few).code == 0


def test_a_listing_that_is_older_than_a_position_does_not_make_its_files_gone(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new target lists the source for its schema; meanwhile another run begins with a file that came after that."""
    targets = made(shell, {"two": {}})
    targets.put("a.ndjson", range(5))
    assert run(shell, targets).code == 0
    targets.put("c.ndjson", range(5, 10))
    targets.own = {"new": {"schema": {"infer": True}}, "two": {"schema": {"ddl": DDL}}}
    targets.schema = None
    look, looks = ListedSource.look, 0

    def look_and_be_slow(source: ListedSource, scope: Scope) -> Listed:
        nonlocal looks
        listed, looks = look(source, scope), looks + 1
        if looks == 1:
            begin_with(shell, targets, "b.ndjson")
        return listed

    monkeypatch.setattr(ListedSource, "look", look_and_be_slow)
    assert run(shell, targets).code in (0, 4)
    assert run(shell, targets).code == 0
    targets.check_each_once(range(20))


def test_a_target_that_begins_again_looks_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of its batch are gone. Before it begins again, another run begins with a file that came after the look
    of this one."""
    targets = made(shell)
    targets.put("a.ndjson", range(5))
    assert run(shell, targets).code == 0
    targets.put("c.ndjson", range(5, 10))
    read, begin_again, times = InProcessReader.run, Lane._begin_again, 0

    def read_and_lose(*given: Any, **more: Any) -> Any:
        results = read(*given, **more)
        if not times:
            for file in results["two"].files:
                (targets.table("two") / file.path).unlink()
        return results

    def be_slow(lane: Lane, *, has_committed: bool) -> None:
        nonlocal times
        times += 1
        begin_with(shell, targets, "b.ndjson")
        begin_again(lane, has_committed=has_committed)

    monkeypatch.setattr(InProcessReader, "run", read_and_lose)
    monkeypatch.setattr(Lane, "_begin_again", be_slow)
    assert run(shell, targets).code in (0, 4)
    assert times == 1
    targets.check_none_twice()
    assert run(shell, targets).code == 0
    targets.check_each_once(range(20))


@pytest.mark.parametrize("own", [{"two": {}}, {"one": {}, "two": {}}], ids=["one target", "two targets"])
def test_a_table_that_another_run_makes_and_fills_in_between_is_not_gone_on_with(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, own: dict[str, dict[str, Any]]
) -> None:
    """What this run has listed is older than the position that it would find there."""
    targets = made(shell, own)
    targets.put("c.ndjson", range(10))
    create, is_first = DeltaRsPlace.create, True

    def create_too_late(place: DeltaRsPlace, pipeline: str) -> None:
        nonlocal is_first
        if is_first and place.root.endswith("two"):
            is_first = False
            begin_with(shell, targets, "b.ndjson")
        create(place, pipeline)

    monkeypatch.setattr(DeltaRsPlace, "create", create_too_late)
    said = run(shell, targets)
    assert (said.code, said.kind) == (4, "fenced")
    assert run(shell, targets).code == 0
    targets.check_each_once(range(20))


def test_what_a_record_is_does_not_depend_on_who_takes_part_in_a_read(shell: Shell) -> None:
    """The key of an array is a column of one target. So `auto` unwraps it for none, also for one that reads alone."""
    records = {"schema": {"ddl": "Records ARRAY<STRUCT<id: BIGINT>>"}}
    targets = made(shell, {"whole": records, "plain": {"schema": {"ddl": DDL}}})
    write(targets.src / "a.ndjson", b'{"Records":[{"id":1},{"id":2}]}\n')
    assert run(shell, targets).code == 0
    framings = framings_of(targets, "plain")
    shutil.rmtree(targets.table("plain"))
    assert run(shell, targets).code == 0  # `plain` alone has something to read
    assert framings_of(targets, "plain") == framings == ["lines"]


def test_fields_of_records_that_a_target_does_not_take_make_no_columns_in_its_table(shell: Shell) -> None:
    adds = {"ddl": DDL, "evolution": "add_columns"}
    own: dict[str, dict[str, Any]] = {"some": {"where": "name = 'a'", "schema": adds}, "all": {"schema": adds}}
    targets = replace(made(shell, own), schema=None)
    write(targets.src / "a.ndjson", b'{"id":1,"name":"a","x":1}\n{"id":2,"name":"b","y":1}\n')
    assert run(shell, targets).code == 0
    columns = {name: DeltaTable(str(targets.table(name))).schema().to_arrow().names for name in own}
    assert columns == {"some": ["id", "name", "x"], "all": ["id", "name", "x", "y"]}


def test_only_the_target_that_adds_columns_reads_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    evolutions = {"adds": "add_columns", "ignores": "ignore"}
    own = {name: {"schema": {"ddl": DDL, "evolution": evolution}} for name, evolution in evolutions.items()}
    targets = replace(made(shell, own), schema=None)
    write(targets.src / "a.ndjson", b'{"id":1,"name":"a","x":1}\n')
    targets.put("b.ndjson", range(2, 5))
    read, reads = InProcessReader.run, list[list[str]]()

    def counted(reader: InProcessReader, plan: Any, **named: Any) -> Any:
        reads.append(sorted(plan.wanted))
        return read(reader, plan, **named)

    monkeypatch.setattr(InProcessReader, "run", counted)
    assert run(shell, targets).code == 0
    assert reads == [["adds", "ignores"], ["adds"]]
    targets.check_each_once(range(1, 5))


def test_targets_go_on_under_the_name_that_one_of_their_tables_knows(shell: Shell) -> None:
    """The first table was made by somebody and knows no pipeline."""
    targets = made(shell)
    targets.put("a.ndjson", range(5))
    single = ["--source", str(targets.src), "--table", str(targets.table("two")), "--schema", DDL]
    assert shell("run", *single, "--pipeline", "orders").code == 0
    DeltaTable.create(str(targets.table("one")), schema=DeltaTable(str(targets.table("two"))).schema())
    targets.put("b.ndjson", range(5, 10))
    said = shell("run", *targets.words()[:2])  # without --pipeline
    assert (said.code, said.last["pipeline"]) == (0, "orders")
    targets.check_each_once(range(10))


def test_no_name_is_guessed_while_a_table_that_may_know_one_cannot_be_read(shell: Shell) -> None:
    targets = made(shell, {"one": {"required": False}})
    targets.put("a.ndjson", range(5))
    assert run(shell, targets).code == 0
    targets.own["new"] = {}
    log = targets.table("one") / "_delta_log" / "00000000000000000001.json"
    content = log.read_bytes()
    log.write_bytes(b"{broken")
    assert shell("run", *targets.words()[:2]).code == 3
    assert not targets.table("new").exists()
    log.write_bytes(content)
    assert shell("run", *targets.words()[:2]).code == 0
    targets.check_each_once(range(5))
    assert [targets.sequence(name) for name in targets.own] == [1, 1]  # of pipeline p


def test_a_file_that_a_target_leaves_out_by_its_date_is_not_missed(shell: Shell) -> None:
    """`two` began at a date. A file that is older, with a name after its mark, is there, but not for `two`."""
    targets = made(shell, {"one": {}, "two": {"start_from": "date:2020-01-01"}})
    targets.put("a.ndjson", range(5))
    assert run(shell, targets).code == 0
    os.utime(targets.put("z.ndjson", range(5, 10)), (1_000_000_000, 1_000_000_000))
    assert run(shell, targets).code == 0
    version = targets.version("two")
    assert run(shell, targets).last["status"] == "idle"
    assert (targets.version("two"), skipped(targets, "two")) == (version, [])
    targets.check_each_once(range(10), of=["one"])
    targets.check_each_once(range(5), of=["two"])


def test_in_a_shared_quarantine_each_target_drops_its_own_oldest_records(shell: Shell) -> None:
    shared = {"path": str(shell.folder / "bad"), "max_records": 3, "overflow": "drop_oldest"}
    roomy = shared | {"max_records": 100}
    targets = made(shell, {"small": {"quarantine": shared}, "roomy": {"quarantine": roomy}})
    for number in range(4):
        ids = range(10 * number, 10 * number + 10)
        targets.put(f"{number}.ndjson", ids, bad_ids=[ids[0], ids[1]])
        assert run(shell, targets).code == 0
    assert sorted(targets.bad_ids("small")) == [30, 31]
    assert sorted(targets.bad_ids("roomy")) == [0, 1, 10, 11, 20, 21, 30, 31]
    said = shell("audit", *targets.words("--json"))
    found = json.loads(said.text[said.text.index("{") :])["targets"]
    balances = {name: (audit["balance"]["dropped"], audit["balance"]["unaccounted"]) for name, audit in found.items()}
    assert balances == {"small": (6, 0), "roomy": (0, 0)}


@pytest.mark.parametrize("required", [True, False])
def test_what_goes_wrong_in_the_purge_of_a_quarantine_is_that_targets_own(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    """It ended the run, whatever the policy said, with an error that named no target."""
    purged = []

    def purge(quarantine: DeltaRsQuarantine, *_: object, **__: object) -> int:
        purged.append(quarantine.root)
        if quarantine.root.endswith("one_quarantine"):
            raise Temporary("the store is away", kind=Kind.STORE)
        return 0

    monkeypatch.setattr("blizzard.run.assemble.purge_older", purge)
    targets = made(shell, {"one": {"required": required}, "two": {}}, quarantine={"keep_days": 3})
    targets.put("a.ndjson", range(5))
    said = run(shell, targets)
    assert said.code == (75 if required else 0)
    assert [said.last["targets"][name]["status"] for name in ("one", "two")] == ["failed", "done"]
    assert len(purged) == 2
    targets.check_each_once(range(5), [])


def test_two_pipelines_that_become_targets_of_one_are_not_sent_round_in_a_circle(shell: Shell) -> None:
    """Each table knows its own name, and names the other as the way out. With --reads-again both would be doubled."""
    targets = made(shell)
    targets.put("a.ndjson", range(5))
    for name in targets.own:
        single = ["--source", str(targets.src), "--table", str(targets.table(name)), "--schema", DDL]
        assert shell("run", *single, "--pipeline", f"into-{name}").code == 0
    for pipeline in ("into-one", "into-two", "events"):
        said = shell("run", *targets.words()[:2], "--pipeline", pipeline)
        assert (said.code, said.kind) == (3, "source_read_by_other")
        assert "a table that knows another name than the others needs a configuration of its own" in said.text
    said = shell("run", *targets.words()[:2], "--pipeline", "events", "--reads-again")
    assert (said.code, said.kind) == (3, "table_has_data")
    assert "Pipeline into-one of this table has read this source: its records will be there twice." in said.text
    targets.check_each_once(range(5))


def test_what_a_refusal_says_for_several_targets_is_said_once() -> None:
    """A target that rests fails with its error in every cycle, and is known by it."""

    def fail_with(error: Exception | None) -> Exception | None:
        def prepare() -> None:
            assert error is not None
            raise error

        lane = Lane(prepare, emit=unheard, name="two")
        lane.attempt(lane.prepare)
        return lane.error

    first = fail_with(Refused("unclear.", kind=Kind.LATE_UNCLEAR))
    assert "late_files.unclear is for all targets" in str(first)
    assert fail_with(first) is first
