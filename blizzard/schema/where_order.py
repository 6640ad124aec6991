"""What belongs together in a condition must not depend on who reads it: databases and the versions of sqlglot differ in
what `a = b IS NULL`, `a = b = c` and `'a' 'b'` mean. Looks at the tokens, for sqlglot's tree has parentheses that
nobody wrote, and one text where two stood.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blizzard.schema.where_casts import describe
from blizzard.schema.where_tree import Literal, WhereError

# As sqlglot names its tokens.
_COMPARE = frozenset(("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NULLSAFE_EQ"))
_ASK = frozenset(("IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"))
_OPEN, _CLOSE = frozenset(("L_PAREN", "CASE")), frozenset(("R_PAREN", "END"))
_APART = frozenset(("AND", "OR", "COMMA", "WHEN", "THEN", "ELSE"))


def check_order(tokens: Iterable[Any]) -> None:
    """Raises `WhereError` for a comparison that stands beside another one, or beside IS, IN and the like."""
    around: list[list[str]] = []  # of the expressions around this one
    here: list[str] = []  # what was met in this one
    before = None
    for token in tokens:
        name = token.token_type.name
        if name == "STRING" and before is not None and before.token_type.name == "STRING":
            raise WhereError(f"put a comma or || between {_shown(before)} and {_shown(token)}")
        before = token
        if name == "NOT" and token.text == "!":
            raise WhereError("write NOT in place of !, which binds more tightly in some databases")
        if name in _OPEN:
            around.append(here)
            here = []
        elif name in _CLOSE:
            here = around.pop() if around else []
        elif name == "AND" and here.count("BETWEEN") > here.count("AND"):
            here.append(name)  # it belongs to BETWEEN
        elif name in _APART:
            here = []
        elif name in _COMPARE | _ASK or name == "DISTINCT":
            if name == "DISTINCT" and here[-1:] == ["IS"]:
                here[-1] = "NULLSAFE_EQ"  # it compares
            else:
                here.append(name)
            if len(here) - here.count("AND") > 1 and not _COMPARE.isdisjoint(here):
                raise WhereError("put parentheses around what is compared: a = b IS NULL can be read in two ways")


def _shown(token: Any) -> str:
    return describe(Literal(value=token.text, type="string"))
