"""One of two driver processes that race: runs when told, with pauses where a race is decided, and says how it ended.

python -m tests.flows.racing FOLDER SEED; each line on stdin is a round, each line on stdout its outcome.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from blizzard.core.commit import CommitRequest
from blizzard.core.plan import Limits
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BlizzardError
from tests.flows.in_process import Flow


def main(folder: str, seed: str) -> None:
    rng = random.Random(seed)
    flow = Flow(Path(folder))
    flow.runs = int(seed) * 1000  # the two must not share a run id

    def pause() -> None:
        if rng.random() < 0.7:
            time.sleep(rng.uniform(0, 0.03))

    append = DeltaRsTable.append

    def append_after_a_pause(self: DeltaRsTable, request: CommitRequest) -> None:
        pause()  # between the look at the fence and the commit
        append(self, request)

    DeltaRsTable.append = append_after_a_pause  # type: ignore[method-assign]
    for _ in sys.stdin:
        pause()
        try:
            flow.run(before_reading=pause, while_reading=pause, limits=Limits(max_records=rng.randint(2, 6)))
            outcome = "done"
        except BlizzardError as e:
            outcome = e.kind
        sys.stdout.write(outcome + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
