"""Two real processes with the same targets, forty races: every record once in each table, and the loser says so."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.flows.shell import Shell
from tests.flows.targets import Targets

pytestmark = pytest.mark.slow

ROUNDS = 40


def test_of_two_processes_with_several_targets_each_record_is_committed_once_to_each(shell: Shell) -> None:
    narrow = {"schema": {"ddl": "id BIGINT", "evolution": "ignore"}, "required": False}
    targets = Targets(shell.folder, {"one": {}, "two": narrow, "three": {}})
    targets.put("000.ndjson", range(6), bad_ids=[2])
    config = targets.words()[1]
    command = [sys.executable, "-m", "tests.flows.racing_targets", config]
    ends = Counter[str]()
    here = Path(__file__).parents[2]
    racers = [
        subprocess.Popen([*command, seed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here)
        for seed in ("1", "2")
    ]
    try:
        for number in range(1, ROUNDS + 1):
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write("go\n")
                racer.stdin.flush()
            codes = []
            for racer in racers:
                assert racer.stdout is not None
                codes.append(racer.stdout.readline().strip())
            ends[" ".join(sorted(codes))] += 1
            targets.check_none_twice()
            targets.put(f"{number:03d}.ndjson", range(6 * number, 6 * number + 6), bad_ids=[6 * number + 2])
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    # Both end with 4 if each was the first at another table. Then the next run goes on.
    assert set(ends) <= {"0 0", "0 4", "4 4"}, ends
    assert ends["0 4"] + ends["4 4"] >= 5, "they hardly ever raced"
    assert shell("run", *targets.words()).code == 0
    bad_ids = range(2, 6 * (ROUNDS + 1), 6)
    targets.check_each_once(set(range(6 * (ROUNDS + 1))) - set(bad_ids), bad_ids)
