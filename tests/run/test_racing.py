"""Two real processes, fifty races: every record once, and the loser says so."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.flows.in_process import Flow
from tests.ingesting import ids, write_ids

pytestmark = pytest.mark.slow

ROUNDS = 50


def test_of_two_processes_that_race_fifty_times_each_record_is_committed_once(tmp_path: Path) -> None:
    flow, outcomes = Flow(tmp_path), Counter[str]()
    write_ids(flow.src / "000.ndjson", 0, 6)
    command = [sys.executable, "-m", "tests.flows.racing", str(tmp_path)]
    racers = [
        subprocess.Popen([*command, seed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in ("1", "2")
    ]
    try:
        for number in range(1, ROUNDS + 1):
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write("go\n")
                racer.stdin.flush()
            for racer in racers:
                assert racer.stdout is not None
                outcomes[racer.stdout.readline().strip()] += 1
            found = ids(flow.table)
            assert len(found) == len(set(found))
            write_ids(flow.src / f"{number:03d}.ndjson", 6 * number, 6 * number + 6)
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    flow.run()
    assert ids(flow.table) == list(range(6 * (ROUNDS + 1)))
    assert set(outcomes) <= {"done", "fenced"}, outcomes
    assert outcomes["fenced"] >= 5, "they hardly ever raced"
