"""What `import blizzard` offers, and that it is quick: nothing heavy is loaded before a function is used."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import blizzard
from blizzard import api

FUNCTIONS = {"audit", "files", "ingest", "plan", "quarantine", "rollback", "status"}
ERRORS = {"BadData", "BlizzardError", "ConfigError", "Fenced", "Refused", "Temporary"}


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_names_that_an_editor_completes() -> None:
    assert set(dir(blizzard)) == FUNCTIONS | ERRORS | {"__version__"}
    assert dir(blizzard) == sorted(blizzard.__all__)


def test_every_name_is_there_and_says_what_it_is() -> None:
    for name in FUNCTIONS:
        function = getattr(blizzard, name)
        assert callable(function)
        assert inspect.getdoc(getattr(api, name))
    for name in ERRORS:
        assert issubclass(getattr(blizzard, name), blizzard.BlizzardError)
    assert blizzard.Summary is api.Summary
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = blizzard.nothing  # type: ignore[attr-defined]


def test_importing_it_loads_nothing_heavy_and_prints_nothing() -> None:
    heavy = "{'pyspark', 'pyarrow', 'deltalake', 'orjson', 'pandas', 'numpy', 'blizzard.api'}"
    code = f"import blizzard, sys; dir(blizzard); print(sorted({heavy} & set(sys.modules)))"
    assert in_new_process(code).strip() == "[]"


def test_the_package_and_the_function_of_one_name_are_both_there() -> None:
    """`blizzard.quarantine` is a package too. Whichever was imported first, it can be called."""
    after = "import blizzard, blizzard.quarantine.contents; f = blizzard.quarantine; assert f.contents.Group"
    for code in ("from blizzard import quarantine as f", after):
        said = in_new_process(f"{code}\nimport inspect; print(list(inspect.signature(f).parameters)[:3])")
        assert said.strip() == "['table', 'targets', 'target']"
    assert str(inspect.signature(blizzard.quarantine)) == str(inspect.signature(api.quarantine))


def test_it_is_marked_as_typed() -> None:
    assert (Path(blizzard.__file__).parent / "py.typed").exists()


def test_no_handler_but_the_one_that_does_nothing() -> None:
    shown = "print([type(h).__name__ for h in logging.getLogger('blizzard').handlers], logging.getLogger().handlers)"
    assert in_new_process(f"import logging, blizzard; {shown}").strip() == "[] []"
    assert in_new_process(f"import logging, blizzard.api; {shown}").strip() == "['NullHandler'] []"
    # With it, Python's own last resort would no longer show what the stores log to who uses the command line.
    assert in_new_process(f"import logging, blizzard.cli.show; {shown}").strip() == "[] []"
    assert logging.getLogger("blizzard").level == logging.NOTSET
