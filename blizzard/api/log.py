"""The events of a call as records of the logger `blizzard`, with the text of the terminal's lines."""

from __future__ import annotations

import logging

from blizzard.service.progress import TerminalProgress
from blizzard.text.arguments import in_python
from blizzard.text.shown import shown

_LOG = logging.getLogger("blizzard")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class LoggedEvents(TerminalProgress):
    """No "warning: " in front (the level says it), and arguments in place of flags."""

    def _tell(self, level: str, message: str) -> None:
        log(_LEVELS[level], f"{self._about}{message}")

    def _say(self, *lines: str, level: str = "info") -> None:
        log(_LEVELS[level], "\n".join(map(shown, lines)))


def log(level: int, text: str) -> None:
    """Each line of `text` is our own or was made safe: it may hold line ends."""
    _LOG.log(level, "%s", "\n".join(shown(in_python(line)) for line in text.split("\n")))
