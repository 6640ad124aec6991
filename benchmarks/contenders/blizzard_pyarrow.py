"""blizzard as it is where its native module is not installed: the same run with the parser of pyarrow."""

from __future__ import annotations

import os

from benchmarks.contenders import blizzard
from benchmarks.contenders.play import Clock, Said, Spec, play


def run(spec: Spec, clock: Clock) -> Said:
    os.environ["BLIZZARD_PARSER"] = "pyarrow"  # before the session starts: its workers inherit it
    said = blizzard.run(spec, clock)
    if said.parser != "pyarrow":
        raise RuntimeError(f"the lines were read by the parser {said.parser!r}")
    return said


if __name__ == "__main__":
    play(run)
