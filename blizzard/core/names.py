"""Names of files as the log gives them. Whoever can write to a table can write any name there: a name is data, and says
nothing about what may be opened or deleted under it."""

from __future__ import annotations

from typing import Any


def is_name(value: Any) -> bool:
    """Whether a listing could have given this name: it does not lead out of its folder. An object store may have names
    that begin with a slash."""
    return (
        type(value) is str and value != "" and "\0" not in value and (".." not in value or ".." not in value.split("/"))
    )


def is_below(value: Any) -> bool:
    """Whether it is the name of a file below the folder that it is joined to."""
    return is_name(value) and not value.startswith("/")
