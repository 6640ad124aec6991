"""The end of a command whose last line on stdout is one JSON object, on failure too: printed, and written to a file if
asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from blizzard.cli.output import say
from blizzard.core.kinds import Kind
from blizzard.errors import BlizzardError, ConfigError
from blizzard.text.shown import printable
from blizzard.text.streams import put_out

if TYPE_CHECKING:
    from blizzard.config.load import Config


class Summarised(Protocol):
    exit_code: int
    error_kind: str | None
    error: str | None

    def to_json(self) -> str: ...


def check_destination(destination: str | None) -> None:
    """If the summary cannot be written, say so before the work and not after it."""
    if destination is None:
        return
    from blizzard.store.outputs import is_writable
    from blizzard.store.uri import is_local, locate

    path = locate(destination, what="summary")
    if is_local(path) and not is_writable(path):
        raise ConfigError(f"--summary {destination}: not a file in a folder that can be written to", kind=Kind.SUMMARY)


def end_with(
    summary: Summarised, destination: str | None, *, config: Callable[[], Config], tell: Callable[[str], None]
) -> int:
    """The exit code. The configuration is read only if it has to say how to open the destination."""
    if destination is not None and summary.error_kind != Kind.SUMMARY:
        try:
            _write(summary, destination, config)
        except (OSError, BlizzardError) as e:
            tell(printable(f"blizzard: the summary could not be written to {destination}: {e} [{Kind.SUMMARY}]"))
            if summary.exit_code == 0:
                summary.exit_code, summary.error_kind, summary.error = 1, Kind.SUMMARY, str(e)
    lost = put_out(summary.to_json() + "\n")
    if lost is not None:  # the work itself is done
        say(f"blizzard: the summary could not be printed: {lost}")
    return summary.exit_code


def _write(summary: Summarised, destination: str, config: Callable[[], Config]) -> None:
    from blizzard.store.outputs import write_output

    content = summary.to_json().encode() + b"\n"
    write_output(destination, content, lambda folder: config().access("table", folder), what="summary")
