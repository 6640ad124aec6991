"""Whether a file that was read in part is still the same file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from blizzard.core.kinds import Kind
from blizzard.core.lists import first_of
from blizzard.core.position import Marks
from blizzard.core.refuse import Refuse
from blizzard.core.types import SourceFile, find_file


def check_in_progress(marks: Marks, listing: Sequence[SourceFile]) -> Refuse | None:
    """Refuses if a file whose first records are committed is no longer the same file."""
    for path, progress in sorted(marks.in_progress.items()):
        if progress.records == 0:
            continue
        file = find_file(listing, path)
        if file is None:
            what, goes_on = "is no longer in the source", ""
        elif (file.size_bytes, file.etag) != (progress.size_bytes, progress.etag):
            was, now = (
                f"{progress.size_bytes} bytes, etag {progress.etag}",
                f"{file.size_bytes} bytes, etag {file.etag}",
            )
            what = f"has changed (was {was}; is {now}; on local disk the etag is the mtime in ns)"
            goes_on = (
                f" If it begins with the same {first_of(progress.records, 'line')} (later ones were fixed, or lines"
                f" added), go on after that: blizzard checkpoint reset --file {shlex.quote(path)} --yes."
            )
        else:
            continue
        return Refuse(
            kind=Kind.SOURCE_CHANGED,
            message=(
                f"{path} {what}, but its {first_of(progress.records, 'record')} and nothing more is committed already."
                f" Put the original file back and run again.{goes_on} To give the rest up: blizzard checkpoint skip"
                f" --file {shlex.quote(path)} --yes."
            ),
        )
    return None
