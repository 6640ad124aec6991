"""Proposes `schema.formats` for columns that hold times in a form that no type takes by itself.

Pure. Nothing is decided here: without the setting the column stays a number or a STRING, and every value arrives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from blizzard.schema import ColumnPath, show_path
from blizzard.schema.formats import ISO
from blizzard.schema.seen import Seen
from blizzard.schema.time_forms import one_form

# A number is an epoch only if its column's name says so too: ids and counts are large as well.
_TIME_NAME = re.compile(
    r"(?:.*[^A-Za-z])?(?:ts|time|timestamp|date|datetime|at|on|when|epoch|created|modified|updated|deleted|expires"
    r"|expiry|started|ended|begin|end|start|seen|iat|exp|nbf)"
    r"(?:_?(?:in|s|sec|secs|seconds|ms|millis|us|micros|ns|nano|nanos|utc|unix|epoch))*",
    re.IGNORECASE,
)
_CAMEL_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedFormat:
    path: ColumnPath
    formats: tuple[str, ...]
    data_type: str  # as DDL writes it
    is_utc_assumed: bool  # the texts have no zone

    @property
    def column(self) -> str:
        return show_path(self.path)

    @property
    def setting(self) -> str:
        """As `--set` takes it."""
        return f"schema.formats.{self.column}={_as_value(self.formats)}"

    @property
    def sentence(self) -> str:
        utc = ", taken for UTC" if self.is_utc_assumed else ""
        return f"{self.column} looks like a time ({', '.join(self.formats)}{utc})"


def propose_format(seen: Seen, path: ColumnPath) -> ProposedFormat | None:
    times = seen.times
    if not times.is_possible or (times.forms is None and times.units is None):
        return None
    iso = (ISO,) if times.has_iso else ()
    if times.units is not None:
        if times.forms is not None or len(times.units) != 1 or not is_time_name(path):
            return None
        return ProposedFormat(path=path, formats=(*iso, *times.units), data_type="TIMESTAMP", is_utc_assumed=False)
    form = one_form(times.forms or ())
    # ISO dates beside days in another form would be times.
    if form is None or (form.is_date and iso):
        return None
    data_type = "DATE" if form.is_date else "TIMESTAMP"
    is_assumed = not form.is_date and not form.has_zone
    return ProposedFormat(path=path, formats=(*iso, form.name), data_type=data_type, is_utc_assumed=is_assumed)


def is_time_name(path: ColumnPath) -> bool:
    name = next((step for step in reversed(path) if step not in ("element", "value")), "")
    return _TIME_NAME.fullmatch(_CAMEL_WORD.sub("_", name)) is not None


def _as_value(formats: tuple[str, ...]) -> str:
    if len(formats) == 1:
        return formats[0]
    if any("%" in form for form in formats):
        return "[" + ", ".join(f'"{form}"' for form in formats) + "]"
    return ",".join(formats)
