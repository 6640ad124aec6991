"""Writes what is generated of the documents: docs/reference.md, the README's numbers, and what the commands of the
README and of the first hour print. `python -m jobs.docs`, or `make docs`; `--without-commands` needs no Java and takes
a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.docs.console import recorded
from tests.docs.numbers import with_numbers
from tests.docs.pages import HOMES, README, environment
from tests.docs.reference import REFERENCE, make_reference


def main() -> None:
    parser = argparse.ArgumentParser(description="Write what is generated of the documents.")
    parser.add_argument("--without-commands", action="store_true", help="do not run the commands of any page")
    options = parser.parse_args()
    _write(REFERENCE, make_reference())
    _write(README, with_numbers(README.read_text()))
    for page, home in {} if options.without_commands else HOMES.items():
        with tempfile.TemporaryDirectory(prefix="blizzard-docs-") as folder:
            _write(page, recorded(page.read_text(), Path(folder), environment(Path(folder)), home=home))


def _write(path: Path, text: str) -> None:
    is_new = not path.exists() or path.read_text() != text
    if is_new:
        path.write_text(text)
    sys.stdout.write(f"{path.name}: {'written' if is_new else 'is up to date'}\n")


if __name__ == "__main__":
    main()
