"""What every contender script shares: the spec on its command line, the clock, the one JSON line at its end.

The clock starts when the contender says that it is ready, session started and libraries imported, and stops when the
rows are committed. The harness counts the rows itself; what is printed here is only what the contender believes.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

READY = "READY"  # on stdout when the clock starts: from here on the harness counts CPU time


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One run of one contender."""

    source: str  # folder with the files
    pattern: str
    table: str
    ddl: str
    rows: int
    cores: int
    work: str  # an empty folder for whatever else the contender writes

    @property
    def glob(self) -> str:
        return os.path.join(self.source, self.pattern)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Clock:
    def __init__(self) -> None:
        self._started: float | None = None
        self.seconds: float | None = None

    def start(self) -> None:
        sys.stdout.write(READY + "\n")
        sys.stdout.flush()
        self._started = time.monotonic()

    def stop(self, seconds: float | None = None) -> None:
        """`seconds` where the contender measures itself."""
        if self._started is None:
            raise RuntimeError("the clock was not started")
        self.seconds = time.monotonic() - self._started if seconds is None else seconds


def tiny(spec: Spec) -> Spec:
    """The same job on one record, for the run before the clock: a cold JVM is part of starting up, for everybody."""
    source = os.path.join(spec.work, "tiny")
    os.makedirs(source)
    with gzip.open(os.path.join(source, "part-00000.ndjson.gz"), "wb") as file:
        file.write(b"{}\n")
    return replace(spec, source=source, table=source + "-table", work=source + "-work")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a contender believes about its run."""

    rows: int | None = None
    parser: str | None = None  # of those that are blizzard: which of its parsers read the lines
    doubtful: int | None = None  # lines that this parser left to the reference


# Ingests, starting and stopping the clock.
Run = Callable[[Spec, Clock], Said]


def play(run: Run) -> None:
    spec = Spec(**json.loads(sys.argv[1]))
    clock, said, error = Clock(), Said(), None
    try:
        said = run(spec, clock)
    except Exception as e:
        error = f"{type(e).__name__}: {e}"[:2000]
        raise
    finally:
        line = asdict(said) | {"seconds": clock.seconds, "files": count_parquet(spec.table), "error": error}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def count_parquet(folder: str) -> int:
    return sum(
        name.endswith(".parquet")
        for path, _, names in os.walk(folder)
        if os.path.basename(path) != "_delta_log"
        for name in names
    )
