"""Fuzzes the native parser against the reference, guided by the branches of the reference and of the Python around it.

pip install atheris   # into an environment of its own, with blizzard's packages
PYTHONPATH=. python -m tests.tasks.fuzz NEW_CORPUS tests/tasks/corpus -max_total_time=3600 -max_len=400
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["blizzard.tasks", "blizzard.schema"]):
    from tests.tasks.fuzzing import check

if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
