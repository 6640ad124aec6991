"""Which types can be compared with each other, and in which type; which can be cast. Of the nodes of a condition."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from blizzard.schema import MAX_DECIMAL_DIGITS, decimal_digits, show_path
from blizzard.schema.ddl import show_type
from blizzard.schema.where_text import INTEGER_BITS, in_range, value_of
from blizzard.schema.where_tree import NULL, Call, Field, Literal, Node, TypeName, WhereError

FLOATS = ("float", "double")
_TIMES = ("date", "timestamp", "timestamp_ntz")
# Whole numbers up to this have a DOUBLE of their own.
_EXACT_IN_DOUBLE = 1 << 53
# Of a field that is compared with a number: it may hold any number, so it is read as DOUBLE, if nothing is too large.
ANY_NUMBER = "number"
_WIDE = re.compile(r"wide\((\d+)\)")


def wide(scale: int) -> TypeName:
    """In which decimals and whole numbers are compared: 76 digits, so many of them after the point."""
    return f"wide({scale})"


def wide_scale(type_name: TypeName) -> int | None:
    found = _WIDE.fullmatch(type_name)
    return None if found is None else int(found[1])


def is_number(type_name: TypeName) -> bool:
    return type_name in INTEGER_BITS or type_name in FLOATS or decimal_digits(type_name) is not None


def describe(node: Node) -> str:
    """For a message."""
    match node:
        case Field(path=path):
            return show_path(path) if path else "another value"
        case Literal(value=None):
            return "NULL"
        case Literal(value=value, type="string"):
            return "'" + str(value)[:60].replace("'", "''") + "'"
        case Literal(value=value, type="date" | "timestamp" | "timestamp_ntz" as kind):
            return f"a {show_type(kind)} ({value})"
        case Literal(value=value):
            return str(value)[:60]
        case Call(name="cast", args=(arg,)):
            return describe(arg)
        case _:
            return f"the result of {node.name}"


def hint_of(node: Node) -> TypeName:
    """The type of a field that is compared with this."""
    if isinstance(node, Literal) and is_number(node.type):
        return beyond_double(node) or ANY_NUMBER
    if node.type == "float":
        return "double"
    return "long" if node.type in INTEGER_BITS else node.type


def beyond_double(node: Node) -> TypeName:
    """The type that holds a whole number which a DOUBLE does not hold exactly. Empty for all others."""
    match node:
        case Literal(value=int() as value) if abs(value) >= _EXACT_IN_DOUBLE:
            return "long"
        case Literal(type=name) if name.startswith("decimal(") and name.endswith(",0)"):
            return f"decimal({MAX_DECIMAL_DIGITS},0)"
        case Call(name="negative", args=(Literal() as literal,)):
            return beyond_double(literal)
        case _:
            return ""


def common_type(one: Node, other: Node) -> Node:
    """A node of the type in which both can be compared. Its value does not matter, unless it is a text that is written
    out: that takes the type of the other."""
    a, b = one.type, other.type
    if NULL in (a, b):
        return other if a == NULL else one
    for text, value in ((one, other), (other, one)):
        if text.type == "string" and isinstance(text, Literal) and value.type != "string":
            if wide_scale(value.type) is not None:
                raise WhereError(f"{describe(text)} is STRING and stands among numbers; write it without quotes")
            if not is_number(value.type):
                _comparable(value)
            as_type(text, value.type)  # raises if it is no such value
            return value
    scales = [_scale(node) for node in (one, other)]
    if a == b and a not in INTEGER_BITS and None in scales and a != "float":
        return _comparable(one)
    if (is_number(a) or wide_scale(a) is not None) and is_number(b):
        if set(FLOATS) & {a, b}:
            return Field(path=(), type="double")
        if a in INTEGER_BITS and b in INTEGER_BITS:
            return Field(path=(), type="long")
        return Field(path=(), type=wide(max(scale or 0 for scale in scales)))
    if a in _TIMES and b in _TIMES:
        return Field(path=(), type="timestamp")
    raise WhereError(
        f"{describe(one)} is {show_type(a)} and {describe(other)} is {show_type(b)}: they cannot be compared. CAST one"
        " of them"
    )


def _scale(node: Node) -> int | None:
    digits = decimal_digits(node.type)
    return digits[1] if digits is not None else wide_scale(node.type)


def _comparable(node: Node) -> Node:
    if node.type in ("boolean", "double", "string", *_TIMES):
        return Field(path=(), type=node.type)
    raise WhereError(f"{describe(node)} is {show_type(node.type)}, which cannot be compared; only IS NULL can be asked")


def as_type(node: Node, target: TypeName) -> Node:
    """The node as a value of a type that `_common` found for it."""
    if node.type == target:
        return node
    if not isinstance(node, Literal):
        return Call(name="cast", args=(node,), type=target)
    if node.value is None:
        return Literal(value=None, type=target)
    if node.type == "string":
        value = _textas_type(node.value, target)
        if value is None:
            raise WhereError(f"{describe(node)} is no {show_type(target)}")
        return Literal(value=value, type=target)
    if target == "double":
        return Literal(value=float(node.value), type=target)
    if wide_scale(target) is not None:
        return Literal(value=Decimal(node.value), type=target)
    if node.type == "date" and target != "date":
        return Literal(value=node.value * 86_400_000_000, type=target)
    return replace(node, type=target)


def _textas_type(text: str, target: TypeName) -> Any:
    """A text that is compared with a number or a time."""
    digits = decimal_digits(target)
    if digits is None:
        return value_of(text, target)
    if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text):
        return None
    value = Decimal(text)
    scale = max(0, -int(value.as_tuple().exponent))
    return value if scale <= digits[1] and value.adjusted() < digits[0] - digits[1] else None


def negative(node: Literal) -> Node:
    if node.value is None:
        return Literal(value=None, type="long")
    value = -node.value
    # The smallest BIGINT has no positive counterpart.
    if type(value) is Decimal and node.type == "decimal(19,0)" and in_range(int(value), "long"):
        return Literal(value=int(value), type="long")
    if type(value) is int and not in_range(value, "long"):
        return Literal(value=Decimal(value), type="decimal(19,0)")
    return replace(node, value=value, type="long" if type(value) is int else node.type)


# What can be cast, beside what stays as it is. From a text to anything but a decimal.
_CASTS: dict[str, tuple[str, ...]] = {
    "boolean": ("string", *INTEGER_BITS),
    **dict.fromkeys(INTEGER_BITS, ("string", "boolean", *INTEGER_BITS, *FLOATS, "decimal")),
    "float": ("double",),
    "double": ("float",),
    "decimal": ("string", *FLOATS, "decimal"),
    "string": ("boolean", *INTEGER_BITS, *FLOATS, *_TIMES),
    "date": ("string", "timestamp", "timestamp_ntz"),
    "timestamp": ("date", "timestamp_ntz"),
    "timestamp_ntz": ("date", "timestamp"),
}


def cast_to(node: Node, target: TypeName) -> Node:
    if node.type == target:
        return node
    source, goal = (("decimal" if decimal_digits(name) else name) for name in (node.type, target))
    is_possible = goal in _CASTS.get(source, ())
    before, after = decimal_digits(node.type), decimal_digits(target)
    if before is not None and after is not None and after[1] < before[1]:
        is_possible = False  # digits would be lost, and every system rounds them in its own way
    if not is_possible:
        raise WhereError(f"{describe(node)} is {show_type(node.type)} and cannot be cast to {show_type(target)}")
    return Call(name="cast", args=(node,), type=target)


def cast_literal(node: Literal, target: TypeName, *, is_try: bool) -> Node:
    if node.value is None or node.type == target:
        return replace(node, type=target)
    is_decimal = decimal_digits(node.type) is not None and target in FLOATS
    if (node.type in ("string", "long") and decimal_digits(target) is None) or is_decimal:
        value = value_of(str(node.value), target)
        if value is None and not is_try:
            raise WhereError(f"{describe(node)} is no {show_type(target)}")
        return Literal(value=value, type=target)
    return cast_to(node, target)
