"""Turns log lines, our own and those of other packages, into events of a run or into safe lines on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from blizzard.core.events import Emit, Warned
from blizzard.text.shown import shown
from blizzard.text.streams import as_lines, put_err

# In a fleet: the pipeline that this thread works for. What a thread of a store logs has none.
CURRENT_PIPELINE: ContextVar[str | None] = ContextVar("CURRENT_PIPELINE", default=None)


class ShownHandler(logging.Handler):
    """For other packages: their lines go to the terminal too, and may hold hostile names or secrets."""

    def emit(self, record: logging.LogRecord) -> None:
        put_err(as_lines(sys.stderr, [shown(record.getMessage())]))


@contextmanager
def others_shown() -> Iterator[None]:
    """If no handler is set, Python writes warnings to stderr as they are. Here they are made safe first."""
    before = logging.lastResort
    logging.lastResort = ShownHandler(logging.WARNING)
    try:
        yield
    finally:
        logging.lastResort = before


class _AsWarning(logging.Handler):
    def __init__(self, emit_of: Callable[[str | None], Emit]) -> None:
        super().__init__(logging.WARNING)
        self._emit_of = emit_of

    def emit(self, record: logging.LogRecord) -> None:
        self._emit_of(CURRENT_PIPELINE.get())(Warned(message=record.getMessage()))


@contextmanager
def logged_as_events(emit: Emit) -> Iterator[None]:
    """Warnings that blizzard logs, such as retries of the stores, become events of the run."""
    with logged_by_pipeline(lambda _: emit):
        yield


@contextmanager
def logged_by_pipeline(emit_of: Callable[[str | None], Emit]) -> Iterator[None]:
    """The same in a fleet: they become events of the pipeline whose thread has logged them."""
    handler, log = _AsWarning(emit_of), logging.getLogger("blizzard")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
