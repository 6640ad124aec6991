"""The examples of docs/python.md print what the document says."""

from __future__ import annotations

import doctest
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ingesting import write

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: None) -> None:
    """What the examples read."""
    write(tmp_path / "events" / "a.ndjson", b"".join(b'{"id": %d, "kind": "view"}\n' % n for n in range(3)))
    write(tmp_path / "events" / "b.ndjson", b'{"id": 4, "kind": "sale"}\n{"id": "five", "kind": "view"}\n')
    write(tmp_path / "more_events" / "c.ndjson", b'{"id": 6, "kind": "view"}\n{"id": 7}\n')
    (tmp_path / "lake").mkdir()
    monkeypatch.chdir(tmp_path)


@contextmanager
def without_handlers() -> Iterator[None]:
    """One example sets logging up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.mark.usefixtures("files")
def test_every_example_prints_what_it_says() -> None:
    examples = doctest.DocTestParser().get_doctest(DOCUMENT.read_text(), {"spark": None}, "python.md", str(DOCUMENT), 0)
    assert len(examples.examples) > 20
    said: list[str] = []
    with without_handlers():
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(examples, out=said.append)
    assert result.failed == 0, "".join(said)


def test_every_block_of_code_is_an_example_that_is_run() -> None:
    text = DOCUMENT.read_text()
    assert set(re.findall(r"^```(\w+)$", text, re.MULTILINE)) == {"pycon"}
    # An empty line ends what an example prints.
    assert len(re.findall(r"^\n```$", text, re.MULTILINE)) == text.count("```pycon")
