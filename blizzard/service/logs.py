"""What packages log, ours and others', said like everything else: as events of a run, or on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from blizzard.core.events import Emit, Warned
from blizzard.text.shown import shown
from blizzard.text.streams import as_lines, put_err


class ShownHandler(logging.Handler):
    """For what other packages log: theirs too goes to the terminal, and repeats what they were given."""

    def emit(self, record: logging.LogRecord) -> None:
        put_err(as_lines(sys.stderr, [shown(record.getMessage())]))


@contextmanager
def others_shown() -> Iterator[None]:
    """Where nobody has said what becomes of log lines, Python writes warnings to stderr as they are."""
    before = logging.lastResort
    logging.lastResort = ShownHandler(logging.WARNING)
    try:
        yield
    finally:
        logging.lastResort = before


class _AsWarning(logging.Handler):
    def __init__(self, emit: Emit) -> None:
        super().__init__(logging.WARNING)
        self._emit = emit

    def emit(self, record: logging.LogRecord) -> None:
        self._emit(Warned(message=record.getMessage()))


@contextmanager
def logged_as_events(emit: Emit) -> Iterator[None]:
    """What the stores say about requests they make again is part of what a run tells."""
    handler, log = _AsWarning(emit), logging.getLogger("blizzard")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
