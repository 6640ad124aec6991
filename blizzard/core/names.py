"""Checks file names that come from the log. Whoever can write to a table can write any name there: a name is data, and
is no permission to open or delete that file."""

from __future__ import annotations

from typing import Any


def is_name(value: Any) -> bool:
    """Whether a listing could give this name: it does not lead out of its folder. In an object store a name may begin
    with a slash."""
    return (
        type(value) is str and value != "" and "\0" not in value and (".." not in value or ".." not in value.split("/"))
    )


def is_below(value: Any) -> bool:
    """Whether the name, joined to a folder, is a file below that folder."""
    return is_name(value) and not value.startswith("/")
