"""Says at once that a signal to stop was heard, and what a further one would do.

A signal handler interrupts whatever the main thread does, perhaps in the middle of a line on stderr. So it only puts
the signal into a queue, and a thread says it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from blizzard.service.control import RunControl


def describe_stop(sent: signal.Signals, number: int, *, is_reading: bool) -> str:
    """`number`: the first stop ends the batch, the second one gives it up."""
    if number == 1:
        again = "press again" if sent == signal.SIGINT else "send it again"
        return f"stopping: finishing the record, then committing; {again} to discard" if is_reading else "stopping"
    if is_reading:
        return "discarding the batch: nothing of it is committed, the next run reads it again"
    return "stopping; nothing is being read, so there is nothing to discard"


@contextmanager
def told_of_stops(control: RunControl, say: Callable[[str], None], is_reading: Callable[[], bool]) -> Iterator[None]:
    heard: SimpleQueue[tuple[signal.Signals, int] | None] = SimpleQueue()  # the one queue that a handler may use

    def tell() -> None:
        while (one := heard.get()) is not None:
            sent, number = one
            if number <= 2:
                say(describe_stop(sent, number, is_reading=is_reading()))

    control.hears = lambda sent, number: heard.put((sent, number))
    teller = threading.Thread(target=tell, name="blizzard-stops", daemon=True)
    teller.start()
    try:
        yield
    finally:
        heard.put(None)
        teller.join()
