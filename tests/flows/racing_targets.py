"""One of two driver processes that race for several tables: runs when told, with pauses where a race is decided.

python -m tests.flows.racing_targets CONFIG SEED; each line on stdin is a round, each line on stdout its exit code.
"""

from __future__ import annotations

import io
import random
import sys
import time
from contextlib import redirect_stderr, redirect_stdout

from blizzard.cli.main import main
from blizzard.core.commit import CommitRequest
from blizzard.delta.table import DeltaRsTable
from tests.flows.in_process import use_no_spark


def race(config: str, seed: str) -> None:
    rng = random.Random(seed)

    def pause() -> None:
        if rng.random() < 0.7:
            time.sleep(rng.uniform(0, 0.03))

    append = DeltaRsTable.append

    def append_after_a_pause(self: DeltaRsTable, request: CommitRequest) -> None:
        pause()  # between the look at the fence and the commit
        append(self, request)

    DeltaRsTable.append = append_after_a_pause  # type: ignore[method-assign]
    use_no_spark(setattr, between=pause)
    for _ in sys.stdin:
        pause()
        # With the same batches one of them wins; with others each may stop the other.
        limits = ["--set", f"limits.max_records={rng.choice([3, 6, 6, 6])}"]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            code = main(["run", "--config", config, "--pipeline", "p", *limits])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    race(*sys.argv[1:])
