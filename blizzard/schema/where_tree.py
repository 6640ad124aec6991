"""A condition on the fields of a record, as a small tree with a type at every node. It travels to the tasks.

Nothing here knows SQL or Arrow: `where.py` makes the tree from a text, `tasks/where.py` says which records it selects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from blizzard.schema import ColumnPath, DeltaSchema

# As in a schema (long, decimal(9,2)). Of a value with parts only `struct`, `array` or `map`. Empty: not yet known.
TypeName: TypeAlias = str

# What types a condition, pickles it and judges it calls itself for each level, and Python allows 1,000 calls.
MOST_LEVELS = 100

# The type of NULL itself.
NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    path: ColumnPath
    type: TypeName = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A date is the number of its day since 1970, a timestamp that of its microsecond."""

    value: Any
    type: TypeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator or a function. `options` are what is not computed from the record: a pattern, a place in a text."""

    name: str
    args: tuple[Node, ...]
    type: TypeName = ""
    options: tuple[Any, ...] = ()


Node: TypeAlias = Field | Literal | Call


def levels_of(node: Node) -> int:
    levels, here = 0, [node]
    while here:
        levels, here = levels + 1, [arg for found in here if isinstance(found, Call) for arg in found.args]
    return levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Selects the records for which it is true. NULL does not select."""

    text: str
    root: Node
    schema: DeltaSchema  # of the fields that it names, and of nothing else; any of them may be null
    undeclared: tuple[ColumnPath, ...] = ()  # fields that the target's schema does not have


class WhereError(Exception):
    """Why a condition cannot be used. The text goes on after the name of its key."""
