"""What belongs together in a condition must not depend on who reads it: databases and the versions of sqlglot differ in
what `a = b IS NULL` and `a = b = c` mean. Looks at the tokens, for sqlglot's tree has parentheses that nobody wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blizzard.schema.where_tree import WhereError

# As sqlglot names its tokens.
_COMPARE = frozenset(("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NULLSAFE_EQ"))
_ASK = frozenset(("IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"))
_OPEN, _CLOSE = frozenset(("L_PAREN", "CASE")), frozenset(("R_PAREN", "END"))
_APART = frozenset(("AND", "OR", "COMMA", "WHEN", "THEN", "ELSE"))


def check_order(tokens: Iterable[Any]) -> None:
    """Raises `WhereError` for a comparison that stands beside another one, or beside IS, IN and the like."""
    around: list[list[str]] = []  # of the expressions around this one
    here: list[str] = []  # what was met in this one
    for token in tokens:
        name = token.token_type.name
        if name in _OPEN:
            around.append(here)
            here = []
        elif name in _CLOSE:
            here = around.pop() if around else []
        elif name == "AND" and here.count("BETWEEN") > here.count("AND"):
            here.append(name)  # it belongs to BETWEEN
        elif name in _APART:
            here = []
        elif name in _COMPARE | _ASK:
            here.append(name)
            if len(here) - here.count("AND") > 1 and not _COMPARE.isdisjoint(here):
                raise WhereError("put parentheses around what is compared: a = b IS NULL can be read in two ways")
