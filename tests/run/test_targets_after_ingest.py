"""Source files that go away after they are ingested, and several targets: what one has read, another may still need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from blizzard import faults
from blizzard.core.history import ledgers_of
from blizzard.core.ledger import SKIPPED, LedgerEntry
from blizzard.delta.place import DeltaRsPlace
from blizzard.errors import Temporary
from tests.flows.in_process import SetClock
from tests.flows.shell import Said, Shell
from tests.flows.targets import Targets
from tests.ingesting import DDL

OTHER_SCHEMA = {"ddl": "id STRING"}  # the target fails with it


@pytest.fixture
def targets(shell: Shell) -> Targets:
    """`one`, which deletes nothing yet, has read the files a and m."""
    begun = Targets(shell.folder, {"one": {}})
    begun.put("a.ndjson", range(5))
    begun.put("m.ndjson", range(5, 10))
    assert run(shell, begun).code == 0
    return begun


def run(shell: Shell, targets: Targets) -> Said:
    return shell("run", *targets.words())


def delete_files(targets: Targets) -> None:
    targets.keys["after_ingest"] = {"action": "delete", "keep_s": 0}


@contextmanager
def failing_at(point: str) -> Iterator[None]:
    def fail(_action: str, _point: str) -> None:
        raise Temporary("the store is away")

    with mock.patch.object(faults, "_act", fail), pytest.MonkeyPatch.context() as patch:
        faults._visits.clear()
        patch.setenv("BLIZZARD_FAULT", f"{point}=fail@1")
        yield


def there(targets: Targets) -> list[str]:
    return sorted(path.name for path in targets.src.iterdir())


def entries(targets: Targets, name: str, pipeline: str = "p") -> dict[int, tuple[LedgerEntry, ...]]:
    table = DeltaRsPlace(root=str(targets.table(name)), schema=None, clock=SetClock(0)).open()
    assert table is not None
    return {ledger.sequence: ledger.entries for _, ledger in ledgers_of(table.scan_back(), pipeline)}


def let_two_begin_late_and_fail(shell: Shell, targets: Targets) -> None:
    """`two` leaves out the files up to m.ndjson. Then it fails, and `one` says that all its files may go."""
    targets.own["two"] = {"start_from": "after:m.ndjson", "required": False}
    targets.put("n.ndjson", range(10, 15))
    assert run(shell, targets).code == 0
    delete_files(targets)
    targets.own["two"]["schema"] = OTHER_SCHEMA
    assert run(shell, targets).code == 0


def test_a_file_that_a_target_left_out_at_first_and_reads_by_request_waits_for_it(
    shell: Shell, targets: Targets
) -> None:
    let_two_begin_late_and_fail(shell, targets)
    del targets.own["two"]["schema"]
    request = ["--target", "two", "--file", "a.ndjson", "--from-record", "0", "--yes"]
    assert shell("checkpoint", "reset", *targets.words(*request)).code == 0
    assert run(shell, targets).code == 0
    targets.check_each_once([*range(5), *range(10, 15)], of=["two"])
    assert run(shell, targets).code == 0
    assert there(targets) == []


def test_a_file_read_by_request_stays_if_that_target_cannot_do_without_it(shell: Shell, targets: Targets) -> None:
    """Its bad records did not fit into the quarantine. The other target, which had read the file long before, deleted
    it: for this one it was still among those left out at the beginning."""
    let_two_begin_late_and_fail(shell, targets)
    targets.own["two"] |= {
        "schema": {"ddl": DDL},
        "transform": {"sql": "SELECT CAST(name AS BIGINT) AS id, name FROM records"},  # no record has such a name
        "quarantine": {"max_records": 1, "overflow": "drop_oldest"},
        "bad_records": {"first_batch_max_ratio": 1.0},
    }
    request = ["--target", "two", "--file", "a.ndjson", "--from-record", "0", "--yes"]
    assert shell("checkpoint", "reset", *targets.words(*request)).code == 0
    for _ in range(3):
        assert run(shell, targets).code == 0
    assert there(targets) == ["a.ndjson"]


def test_a_file_stays_until_the_word_of_each_target_is_committed_and_not_only_planned(
    shell: Shell, targets: Targets
) -> None:
    """Else that one could be rolled back to before a file that is gone."""
    targets.own = {"first": {"required": False}, "one": {}}  # it begins before the other
    assert run(shell, targets).code == 0
    delete_files(targets)
    targets.own["first"]["schema"] = OTHER_SCHEMA
    assert run(shell, targets).code == 0  # `one` says that all its files may go
    del targets.own["first"]["schema"]

    with failing_at("commit.before[first]"):  # it was about to say so too
        said = run(shell, targets)
    assert said.last["targets"]["first"]["status"] == "failed"
    assert there(targets) == ["a.ndjson", "m.ndjson"]
    assert run(shell, targets).code == 0
    assert there(targets) == []


def test_a_file_of_which_another_target_has_read_another_version_stays(shell: Shell, targets: Targets) -> None:
    """Nobody can say which of its lines that one has."""
    targets.put("m.ndjson", range(5, 12))
    targets.own["new"] = {}
    delete_files(targets)
    for _ in range(3):
        assert run(shell, targets).code == 0
    assert there(targets) == ["m.ndjson"]
    targets.check_each_once(range(12), of=["new"])
    targets.check_each_once(range(10), of=["one"])


def test_a_file_with_the_last_copy_of_a_bad_record_of_another_target_stays(shell: Shell, targets: Targets) -> None:
    """What the quarantine of that one was to have is lost, and a person goes on without."""
    targets.own["two"] = {"required": False}
    assert run(shell, targets).code == 0
    targets.put("n.ndjson", range(10, 15), bad_ids=[12])
    with failing_at("quarantine.before[two_quarantine]"):
        said = run(shell, targets)
    assert said.last["targets"]["two"]["status"] == "failed"
    for lost in targets.quarantine("two").glob("*.parquet"):
        lost.unlink()
    delete_files(targets)
    for _ in range(3):
        assert shell("run", *targets.words("--accept-quarantine-loss")).code == 0
    assert there(targets) == ["n.ndjson"]
    targets.check_each_once([*range(12), 13, 14], [12], of=["one"])


def test_a_target_that_comes_back_in_the_middle_of_a_file_that_is_gone_says_how_to_go_on(
    shell: Shell, targets: Targets
) -> None:
    targets.own["two"] = {}
    few = ("--max-batches", "1", "--set", "limits.max_records=3", "--set", "limits.max_files=1")
    assert shell("run", *targets.words(*few)).code == 0
    two = targets.own.pop("two")
    delete_files(targets)
    for _ in range(2):
        assert run(shell, targets).code == 0
    assert there(targets) == []
    targets.own["two"] = two
    said = run(shell, targets)
    assert (said.code, said.kind) == (3, "source_changed")
    words = ["checkpoint", "skip", "--file", "a.ndjson", "--yes"]
    assert " ".join(["blizzard", *words]) in said.last["error"]
    assert shell(*words, *targets.words("--target", "two")).code == 0
    targets.put("n.ndjson", range(10, 15))
    assert run(shell, targets).code == 0
    targets.check_each_once(range(15), of=["one"])
    targets.check_each_once([*range(3), *range(10, 15)], of=["two"])
    audited = json.loads(shell("audit", *targets.words("--target", "two", "--json")).text)
    assert audited["skipped"] == ["a.ndjson", "m.ndjson"]


def test_a_ledger_that_names_missed_files_can_be_read_whatever_the_other_target_made_of_them(
    shell: Shell, targets: Targets
) -> None:
    """The other one filtered some records of it, and its ledger counts them."""
    filters: dict[str, Any] = {"where": "id % 2 = 0", "schema": {"ddl": DDL}}
    targets.own["two"] = {}
    assert run(shell, targets).code == 0
    two, targets.own = targets.own.pop("two"), {"one": filters}
    targets.put("z.ndjson", range(20, 25))
    assert run(shell, targets).code == 0
    (targets.src / "z.ndjson").unlink()
    targets.own["two"] = two
    targets.put("n.ndjson", range(10, 15))
    assert run(shell, targets).code == 0
    found = entries(targets, "two")
    assert sorted(found) == [1, 2]
    assert [(entry.path, entry.broken) for entry in found[2]] == [("n.ndjson", None), ("z.ndjson", SKIPPED)]
    targets.put("b.ndjson", range(15, 20))  # late: only a ledger can say that it was never read
    assert run(shell, targets).code == 0
    targets.check_each_once(range(20), of=["two"])
