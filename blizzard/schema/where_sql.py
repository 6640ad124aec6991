"""Reads a condition written in SQL. The only module that knows how sqlglot names the parts of its tree.

What is not listed here is refused by its name: a part of a text that is not understood is never dropped. No exception
of sqlglot leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

from blizzard.schema import MAX_DECIMAL_DIGITS, decimal_is_possible, show_path
from blizzard.schema.where_order import check_order
from blizzard.schema.where_text import in_range
from blizzard.schema.where_tree import MOST_LEVELS, NULL, Call, Field, Literal, Node, WhereError, levels_of

SUPPORTED = (
    "comparisons, AND, OR, NOT, IS [NOT] NULL | TRUE | FALSE, IS [NOT] DISTINCT FROM, IN (values), BETWEEN, LIKE,"
    " ILIKE, RLIKE, + - * / %, ||, CASE, CAST and TRY_CAST, and the functions coalesce, concat, contains, ends_with,"
    " length, lower, ltrim, regexp_like, rtrim, starts_with, substring, trim, upper"
)

_COMPARISONS = {
    "EQ": "=",
    "NEQ": "<>",
    "GT": ">",
    "GTE": ">=",
    "LT": "<",
    "LTE": "<=",
    "NullSafeEQ": "same",
    "NullSafeNEQ": "distinct",
}
_CHAINED = {"And": "and", "Or": "or"}
_BINARY = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "DPipe": "concat"}
_UNARY = {"Not": "not", "Neg": "negative", "Lower": "lower", "Upper": "upper", "Length": "length"}
_WITH_TEXT = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}
_TRIMS = {None: "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "VARCHAR": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}
# How a dialect would write it; the meaning here is fixed.
_OF_DIALECT = frozenset(("safe", "typed", "coalesce", "nested", "_type"))
# As they are written.
_WORDS = {
    "Select": "SELECT",
    "Subquery": "a subquery",
    "Exists": "EXISTS",
    "Star": "*",
    "Bracket": "[…]",
    "Interval": "INTERVAL",
    "Tuple": "a tuple",
    "Any": "ANY",
    "All": "ALL",
    "Placeholder": "a parameter",
    "Parameter": "a parameter",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "BitwiseNot": "~",
    "IntDiv": "DIV",
    "Command": "a statement",
    "Window": "OVER",
    "Lambda": "a lambda",
    "If": "if",
}


def read_condition(text: str) -> Node:
    """The tree, without types. Raises `WhereError`."""
    from sqlglot import parse
    from sqlglot.errors import SqlglotError

    try:
        text.encode()
        statements = [found for found in parse(text, read=_dialect()) if found is not None]
        check_order(_dialect()().tokenize(text))
    except SqlglotError as e:
        raise WhereError(f"it is no SQL condition: {_plain(str(e))}") from None
    except UnicodeEncodeError:
        raise WhereError("it holds half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise WhereError("it is nested too deeply; make it shorter") from None
    if len(statements) != 1:
        raise WhereError("it is empty; give a condition" if not statements else "give one condition, without a ;")
    try:
        node = _node(statements[0])
    except RecursionError:
        raise WhereError("it is nested too deeply; make it shorter") from None
    if levels_of(node) > MOST_LEVELS:
        raise WhereError("it is nested too deeply; make it shorter")
    return node


@lru_cache(maxsize=1)
def _dialect() -> Any:
    """Standard SQL. Names may stand in backticks too, as everywhere in a configuration."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import Tokenizer as Standard

    class Condition(Dialect):  # type: ignore[misc]
        class Tokenizer(Standard):  # type: ignore[misc]
            IDENTIFIERS: ClassVar = ['"', "`"]

    return Condition


def _plain(said: str) -> str:
    """One line, without the codes that underline a place on a terminal and without names of Python's."""
    said = re.sub(r"Required keyword: .* missing for <class '[^']*'>", "something is missing", said)
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", said).split())[:300]


def _node(found: Any) -> Node:
    kind = type(found).__name__
    if kind in _COMPARISONS:
        return Call(name=_COMPARISONS[kind], args=_parts(found, "this", "expression"))
    if kind in _CHAINED:
        return _chain(found)
    if kind in _BINARY:
        return Call(name=_BINARY[kind], args=_parts(found, "this", "expression"))
    if kind in _UNARY:
        return Call(name=_UNARY[kind], args=_parts(found, "this"))
    if kind in _WITH_TEXT:
        return _with_text(_WITH_TEXT[kind], found)
    if kind not in _READERS:
        raise _refused(found)
    return _READERS[kind](found)


def _chain(found: Any) -> Node:
    """`a OR b OR c …` as a tree of few levels: a long list of conditions is not deep."""
    name, nodes, left = _CHAINED[type(found).__name__], list[Node](), [found]
    while left:
        part = left.pop()
        if type(part) is type(found):
            args = _args(part, "this", "expression")
            left += [args["expression"], args["this"]]
        else:
            nodes.append(_node(part))
    while len(nodes) > 1:
        pairs = [nodes[at : at + 2] for at in range(0, len(nodes), 2)]
        nodes = [Call(name=name, args=tuple(pair)) if len(pair) == 2 else pair[0] for pair in pairs]
    return nodes[0]


def _parts(found: Any, *names: str) -> tuple[Node, ...]:
    args = _args(found, *names)
    return tuple(_node(args[name]) for name in names)


def _args(found: Any, *names: str) -> dict[str, Any]:
    """Its parts. Refuses it if it has any other."""
    for name, value in found.args.items():
        if name not in names and name not in _OF_DIALECT and value not in (None, False, []):
            raise WhereError(f"{_word(found)} with {name.replace('_', ' ').upper()} is not supported; leave it out")
    return dict(found.args)


def _refused(found: Any) -> WhereError:
    return WhereError(f"{_word(found)} is not supported. There are {SUPPORTED}")


def _word(found: Any) -> str:
    kind = type(found).__name__
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == "Anonymous":
        return f"the function {str(found.this).lower()}"
    names = getattr(type(found), "sql_names", None)
    is_function = any(base.__name__ == "Func" for base in type(found).__mro__)
    return f"the function {names()[0].lower()}" if is_function and names is not None else kind.upper()


def _negated(found: Any, node: Node) -> Node:
    return Call(name="not", args=(node,)) if found.args.get("negate") else node


def _paren(found: Any) -> Node:
    return _parts(found, "this")[0]


def _boolean(found: Any) -> Node:
    return Literal(value=bool(found.this), type="boolean")


def _null(_: Any) -> Node:
    return Literal(value=None, type=NULL)


def _literal(found: Any) -> Node:
    text = str(found.this)
    if found.args.get("is_string"):
        return Literal(value=text, type="string")
    if re.fullmatch(r"[0-9]+", text) and in_range(int(text), "long"):
        return Literal(value=int(text), type="long")
    if re.fullmatch(r"[0-9]*\.?[0-9]*", text) and text != ".":
        return _decimal(Decimal(text))
    try:
        value = float(text)
    except ValueError:
        raise WhereError(f"{text[:60]} is no number") from None
    if value in (float("inf"), float("-inf")):
        raise WhereError(f"{text[:60]} is larger than any DOUBLE")
    return Literal(value=value, type="double")


def _decimal(value: Decimal) -> Literal:
    scale = max(0, -int(value.as_tuple().exponent))
    precision = max(len(value.as_tuple().digits), scale, 1)
    if precision > MAX_DECIMAL_DIGITS:
        raise WhereError(f"{value} has more than {MAX_DECIMAL_DIGITS} digits; write it shorter, or as 1.5e3")
    return Literal(value=value, type=f"decimal({precision},{scale})")


def _field(found: Any) -> Node:
    path = tuple(_steps(found))
    if len(path) > 30:
        raise WhereError(f"{show_path(path[:3])}… is nested too deeply")
    return Field(path=path)


def _steps(found: Any) -> list[str]:
    match type(found).__name__:
        case "Column":
            parts = [found.args.get(name) for name in ("catalog", "db", "table", "this")]
            return [_name(part) for part in parts if part is not None]
        case "Dot":
            return [*_steps(found.this), _name(found.expression)]
        case "Identifier":
            return [_name(found)]
        case _:
            raise _refused(found)


def _name(found: Any) -> str:
    if type(found).__name__ != "Identifier":
        raise _refused(found)
    name = str(found.this)
    if not found.args.get("quoted") and re.match(r"\$\w*\$", name):  # a text, in some databases
        raise WhereError(f"put the text {name[:60]} in single quotes, or the name in double ones")
    return name


def _is(found: Any) -> Node:
    args = _args(found, "this", "expression", "negate")
    node = _node(args["this"])
    match _node(args["expression"]):
        case Literal(type="null"):
            return _negated(found, Call(name="is_null", args=(node,)))
        case Literal(value=bool() as value):
            return _negated(found, Call(name="is_true" if value else "is_false", args=(node,)))
        case _:
            raise WhereError("after IS there must be NULL, TRUE, FALSE or DISTINCT FROM")


def _in(found: Any) -> Node:
    args = _args(found, "this", "expressions", "negate")
    if not args.get("expressions"):
        raise WhereError("IN takes a list of values: x IN ('a', 'b')")
    return _negated(found, Call(name="in", args=(_node(args["this"]), *map(_node, args["expressions"]))))


def _between(found: Any) -> Node:
    args = _args(found, "this", "low", "high", "negate")
    node = _node(args["this"])
    bounds = (
        Call(name=">=", args=(node, _node(args["low"]))),
        Call(name="<=", args=(node, _node(args["high"]))),
    )
    return _negated(found, Call(name="and", args=bounds))


def _like(found: Any, escape: str | None = None) -> Node:
    args = _args(found, "this", "expression", "negate")
    name = "like" if type(found).__name__ == "Like" else "ilike"
    pattern = _text(args["expression"], "the pattern of LIKE")
    return _negated(found, Call(name=name, args=(_node(args["this"]),), options=(pattern, escape)))


def _escape(found: Any) -> Node:
    args = _args(found, "this", "expression")
    like, escape = args["this"], _text(args["expression"], "what stands after ESCAPE")
    if type(like).__name__ not in ("Like", "ILike") or len(escape) != 1:
        raise WhereError("ESCAPE takes one character, after LIKE or ILIKE")
    return _like(like, escape)


def _regexp(found: Any) -> Node:
    args = _args(found, "this", "expression", "negate")
    pattern = _text(args["expression"], "a pattern")
    return _negated(found, Call(name="regexp_like", args=(_node(args["this"]),), options=(pattern,)))


def _with_text(name: str, found: Any) -> Node:
    args = _args(found, "this", "expression")
    return Call(name=name, args=(_node(args["this"]),), options=(_text(args["expression"], f"what {name} looks for"),))


def _text(found: Any, what: str) -> str:
    node = _node(found)
    if not isinstance(node, Literal) or node.type != "string":
        raise WhereError(f"{what} must be a text in quotes")
    return str(node.value)


def _trim(found: Any) -> Node:
    args = _args(found, "this", "position")
    return Call(name=_TRIMS[args.get("position")], args=(_node(args["this"]),))


def _substring(found: Any) -> Node:
    args = _args(found, "this", "start", "length")
    start = _count(args.get("start"), at_least=1)
    length = None if args.get("length") is None else _count(args["length"], at_least=0)
    return Call(name="substring", args=(_node(args["this"]),), options=(start, length))


def _count(found: Any, *, at_least: int) -> int:
    node = None if found is None else _node(found)
    if not isinstance(node, Literal) or type(node.value) is not int or not at_least <= node.value < 1 << 31:
        raise WhereError("substring takes numbers: substring(x, 1) or substring(x, 1, 3); the first character is 1")
    return node.value


def _coalesce(found: Any) -> Node:
    args = _args(found, "this", "expressions")
    return Call(name="coalesce", args=(_node(args["this"]), *map(_node, args["expressions"])))


def _concat(found: Any) -> Node:
    args = _args(found, "expressions")
    return Call(name="concat", args=tuple(map(_node, args["expressions"])))


def _cast(found: Any) -> Node:
    args = _args(found, "this", "to")
    # CAST of a text that is written out and is no such value is a mistake; TRY_CAST of it is NULL.
    name = "cast" if type(found).__name__ == "Cast" else "try_cast"
    return Call(name=name, args=(_node(args["this"]),), options=(_type(args["to"]),))


def _type(found: Any) -> str:
    name, params = getattr(found.this, "name", str(found.this)), found.args.get("expressions") or []
    if name == "DECIMAL" and len(params) == 2:
        digits = [int(str(param.this.this)) for param in params]
        if decimal_is_possible(*digits):
            return f"decimal({digits[0]},{digits[1]})"
    if name not in _TYPES or params:
        known = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, DATE, TIMESTAMP,"
        raise WhereError(f"{found.sql()} is no type that a field can be cast to; there are {known} TIMESTAMP_NTZ")
    return _TYPES[name]


def _case(found: Any) -> Node:
    """As conditions and values in turn, and at the end the value of ELSE."""
    args = _args(found, "this", "ifs", "default")
    subject = None if args.get("this") is None else _node(args["this"])
    parts: list[Node] = []
    for branch in args["ifs"]:
        given = _args(branch, "this", "true")
        condition = _node(given["this"])
        parts.append(condition if subject is None else Call(name="=", args=(subject, condition)))
        parts.append(_node(given["true"]))
    parts.append(_null(None) if args.get("default") is None else _node(args["default"]))
    return Call(name="case", args=tuple(parts))


_READERS: dict[str, Callable[[Any], Node]] = {
    "Paren": _paren,
    "Boolean": _boolean,
    "Null": _null,
    "Literal": _literal,
    "Column": _field,
    "Dot": _field,
    "Identifier": _field,
    "Is": _is,
    "In": _in,
    "Between": _between,
    "Like": _like,
    "ILike": _like,
    "Escape": _escape,
    "RegexpLike": _regexp,
    "Trim": _trim,
    "Substring": _substring,
    "Coalesce": _coalesce,
    "Concat": _concat,
    "Cast": _cast,
    "TryCast": _cast,
    "Case": _case,
}
