"""Says for each row of a table whether a condition selects it, with Arrow's own functions.

Three-valued, as SQL is: NULL does not select. Nothing here raises for what a record holds: a division by zero, a number
that is too large and a text that cannot be cast are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blizzard.schema import decimal_digits
from blizzard.schema.arrow import to_arrow
from blizzard.schema.where_casts import wide_scale
from blizzard.schema.where_text import reader_of
from blizzard.schema.where_tree import Call, Field, Literal, Node, Where

Values: TypeAlias = Any  # an Arrow array, or a scalar for what is the same in every row
Mask: TypeAlias = npt.NDArray[np.bool_]

_MOST_DIGITS = 76
# Where Arrow compares the bytes of values to look them up.
_LOOKED_UP = ("string", "long", "date", "timestamp", "timestamp_ntz")


def selects(where: Where, table: pa.Table) -> Mask:
    """For each row. The table has at least the fields that the condition names, with their types."""
    result = _Rows(table).value(where.root)
    if isinstance(result, pa.Scalar):
        return np.full(table.num_rows, result.as_py() is True)
    found: Mask = pc.fill_null(result, False).to_numpy(zero_copy_only=False)
    return found


class _Rows:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def value(self, node: Node) -> Values:
        match node:
            case Field(path=path):
                return self._column(path)
            case Literal(value=value, type=name):
                return pa.scalar(value, arrow_type(name))
            case Call(name="case"):
                return self._case(node)
            case Call(name="cast"):
                return cast(self.value(node.args[0]), node.args[0].type, node.type)
            case _:
                return _FUNCTIONS[node.name](node, [self.value(arg) for arg in node.args])

    def _column(self, path: Sequence[str]) -> Values:
        column = self._table[path[0]]
        values: Values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for name in path[1:]:
            values = pc.struct_field(values, [values.type.get_field_index(name)])
        return values

    def _case(self, node: Call) -> Values:
        *branches, otherwise = [self.value(arg) for arg in node.args]
        result = otherwise
        for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
            result = pc.if_else(pc.fill_null(condition, False), value, result)
        return result


def arrow_type(name: str) -> pa.DataType:
    scale = wide_scale(name)
    if scale is not None:
        return pa.decimal256(_MOST_DIGITS, scale)
    return to_arrow({"type": "struct", "fields": [{"name": "c", "type": name, "nullable": True}]}).field(0).type


def _where(condition: Values, values: Values) -> Values:
    """The values where the condition holds, and null elsewhere."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _finite(values: Values) -> Values:
    return _where(pc.is_finite(values), values)


# Casts.


def cast(values: Values, source: str, target: str) -> Values:
    """A value that the type cannot hold becomes null."""
    kind = arrow_type(target)
    if source == "string":
        return _from_text(values, target, kind)
    if pa.types.is_integer(kind) and pa.types.is_integer(values.type):
        return _within(values, kind)
    if target == "boolean":
        return pc.not_equal(values, pa.scalar(0, values.type))
    if target in ("float", "double"):
        # By way of the text: what Arrow makes of a decimal is often not the nearest number.
        exact = values.cast(pa.string()) if pa.types.is_decimal(values.type) else values
        return _finite(exact.cast(kind, safe=False))
    if target == "date":
        return _without_zone(values).cast(kind, safe=False)  # the day in UTC
    if target in ("timestamp", "timestamp_ntz"):
        return _without_zone(values).cast(pa.timestamp("us")).cast(kind)
    if decimal_digits(target) is not None:
        return _to_decimal(values, kind)
    if target == "string" and pa.types.is_decimal(values.type):
        return _plain_digits(values)
    return values.cast(kind)


def _without_zone(values: Values) -> Values:
    return values.cast(pa.timestamp("us")) if pa.types.is_timestamp(values.type) else values


def _within(values: Values, kind: pa.DataType) -> Values:
    limit = 1 << (kind.bit_width - 1)
    wide = values.cast(pa.int64())
    fits = pc.and_(pc.less_equal(wide, pa.scalar(limit - 1)), pc.greater_equal(wide, pa.scalar(-limit, pa.int64())))
    return _where(fits, wide).cast(kind)


def _to_decimal(values: Values, kind: Any) -> Values:
    wide = values.cast(pa.decimal128(19, 0)) if pa.types.is_integer(values.type) else values
    wide = wide.cast(pa.decimal256(_MOST_DIGITS, kind.scale))
    limit = pa.scalar(10 ** (kind.precision - kind.scale), pa.decimal256(_MOST_DIGITS, 0)).cast(wide.type)
    fits = pc.and_(pc.less(wide, limit), pc.less(pc.negate(wide), limit))
    return _where(fits, wide).cast(kind)


def _plain_digits(values: Values) -> Values:
    """Arrow writes small decimals as 1E-8."""
    if isinstance(values, pa.Scalar):
        return _plain_digits(pa.array([values.as_py()], values.type))[0]
    if values.type.scale <= 6:
        return values.cast(pa.string())
    return pa.array([None if value is None else f"{value:f}" for value in values.to_pylist()], pa.string())


def _from_text(values: Values, target: str, kind: pa.DataType) -> Values:
    """Each text is read once, however often it is there."""
    read = reader_of(target)
    if isinstance(values, pa.Scalar):
        text = values.as_py()
        return pa.scalar(None if text is None else read(text), kind)
    encoded = values.dictionary_encode()
    found = [None if text is None else read(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(found, kind).take(encoded.indices)


# Functions.

_Function: TypeAlias = Callable[[Call, list[Values]], Values]


def _arithmetic(checked: Callable[..., Values], exact: Callable[..., int], plain: Callable[..., Values]) -> _Function:
    def compute(node: Call, args: list[Values]) -> Values:
        if node.type == "double":
            return _finite(plain(*args))
        try:
            return checked(*args)
        except pa.ArrowInvalid:  # one of the results is too large
            return _one_by_one(exact, args)

    return compute


def _one_by_one(exact: Callable[..., int], args: list[Values]) -> Values:
    if all(isinstance(arg, pa.Scalar) for arg in args):
        return pa.scalar(_result(exact, [arg.as_py() for arg in args]), pa.int64())
    rows = max(len(arg) for arg in args if not isinstance(arg, pa.Scalar))
    columns = [[arg.as_py()] * rows if isinstance(arg, pa.Scalar) else arg.to_pylist() for arg in args]
    return pa.array([_result(exact, row) for row in zip(*columns, strict=True)], pa.int64())


def _result(exact: Callable[..., int], row: Sequence[int | None]) -> int | None:
    if None in row:
        return None
    value = exact(*row)
    return value if -(1 << 63) <= value < 1 << 63 else None


def _divide(_: Call, args: list[Values]) -> Values:
    dividend, divisor = args
    return _finite(pc.divide(dividend, _not_zero(divisor)))


def _not_zero(values: Values) -> Values:
    return _where(pc.not_equal(values, pa.scalar(0, values.type)), values)


def _modulo(node: Call, args: list[Values]) -> Values:
    """With the sign of the dividend."""
    dividend, divisor = args[0], _not_zero(args[1])
    if node.type == "long":
        # Arrow refuses to divide the smallest number by -1. Nothing is left over there.
        divisor = pc.if_else(pc.equal(divisor, pa.scalar(-1)), pa.scalar(1), divisor)
        return pc.subtract(dividend, pc.multiply(divisor, pc.divide(dividend, divisor)))
    if isinstance(dividend, pa.Scalar) and isinstance(divisor, pa.Scalar):
        dividend = pa.array([dividend.as_py()], pa.float64())
        return _remainders(dividend, divisor)[0]
    return _remainders(dividend, divisor)


def _remainders(dividend: Values, divisor: Values) -> Values:
    missing = pc.or_(pc.is_null(dividend), pc.is_null(divisor))
    one, other = (pc.fill_null(values, 1.0) for values in (dividend, divisor))
    found = np.fmod(
        *(v.as_py() if isinstance(v, pa.Scalar) else v.to_numpy(zero_copy_only=False) for v in (one, other))
    )
    return _where(pc.invert(missing), pa.array(found, pa.float64()))


def _same(_: Call, args: list[Values]) -> Values:
    one, other = args
    missing = [pc.is_null(values) for values in args]
    equal = pc.fill_null(pc.equal(one, other), False)
    return pc.or_(equal, pc.and_(*missing))


def _in(node: Call, args: list[Values]) -> Values:
    values, *wanted = args
    given = [value for value in wanted if not (isinstance(value, pa.Scalar) and not value.is_valid)]
    is_plain = all(isinstance(arg, Literal) for arg in node.args[1:]) and not isinstance(values, pa.Scalar)
    if is_plain and node.args[0].type in _LOOKED_UP and given:
        among = pa.array([value.as_py() for value in given], values.type)
        found = _where(pc.is_valid(values), pc.is_in(values, value_set=among))
    else:
        found = pc.and_kleene(pc.is_null(values), pa.scalar(None, pa.bool_()))  # false, or null for null
        for value in given:
            found = pc.or_kleene(found, pc.equal(values, value))
    # With NULL among them nobody knows that a value is not.
    return found if len(given) == len(wanted) else pc.or_kleene(found, pa.scalar(None, pa.bool_()))


def _like(node: Call, args: list[Values]) -> Values:
    pattern, escape = node.options
    text = args[0]
    if node.name == "ilike":
        text, pattern = pc.utf8_lower(text), pc.utf8_lower(pa.scalar(pattern)).as_py()
        escape = None if escape is None else escape.lower()
    return pc.match_substring_regex(text, pattern=like_regex(pattern, escape))


def like_regex(pattern: str, escape: str | None) -> str:
    """As RE2 writes it. `%` is any text, `_` one character, newlines included."""
    parts, at = [], 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape and at + 1 < len(pattern):
            at += 1
            parts.append(_quoted(pattern[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or _quoted(character))
        at += 1
    return rf"(?s)\A{''.join(parts)}\z"


def _quoted(character: str) -> str:
    return character if character.isalnum() or ord(character) > 0x7F else rf"\x{{{ord(character):x}}}"


def _substring(node: Call, args: list[Values]) -> Values:
    start, length = node.options
    stop = None if length is None else start - 1 + length
    return pc.utf8_slice_codeunits(args[0], start=start - 1, stop=stop)


def _concat(_: Call, args: list[Values]) -> Values:
    return pc.binary_join_element_wise(*args, "", null_handling="emit_null")


_FUNCTIONS: dict[str, _Function] = {
    "and": lambda _, args: pc.and_kleene(*args),
    "or": lambda _, args: pc.or_kleene(*args),
    "not": lambda _, args: pc.invert(args[0]),
    "is_null": lambda _, args: pc.is_null(args[0]),
    "is_true": lambda _, args: pc.fill_null(args[0], False),
    "is_false": lambda _, args: pc.invert(pc.fill_null(args[0], True)),
    "=": lambda _, args: pc.equal(*args),
    "<>": lambda _, args: pc.not_equal(*args),
    "<": lambda _, args: pc.less(*args),
    "<=": lambda _, args: pc.less_equal(*args),
    ">": lambda _, args: pc.greater(*args),
    ">=": lambda _, args: pc.greater_equal(*args),
    "same": _same,
    "distinct": lambda node, args: pc.invert(_same(node, args)),
    "in": _in,
    "+": _arithmetic(pc.add_checked, lambda a, b: a + b, pc.add),
    "-": _arithmetic(pc.subtract_checked, lambda a, b: a - b, pc.subtract),
    "*": _arithmetic(pc.multiply_checked, lambda a, b: a * b, pc.multiply),
    "negative": _arithmetic(pc.negate_checked, lambda a: -a, pc.negate),
    "/": _divide,
    "%": _modulo,
    "coalesce": lambda _, args: pc.coalesce(*args),
    "concat": _concat,
    "lower": lambda _, args: pc.utf8_lower(args[0]),
    "upper": lambda _, args: pc.utf8_upper(args[0]),
    "length": lambda _, args: pc.utf8_length(args[0]).cast(pa.int64()),
    "trim": lambda _, args: pc.utf8_trim(args[0], characters=" "),
    "ltrim": lambda _, args: pc.utf8_ltrim(args[0], characters=" "),
    "rtrim": lambda _, args: pc.utf8_rtrim(args[0], characters=" "),
    "substring": _substring,
    "starts_with": lambda node, args: pc.starts_with(args[0], pattern=node.options[0]),
    "ends_with": lambda node, args: pc.ends_with(args[0], pattern=node.options[0]),
    "contains": lambda node, args: pc.match_substring(args[0], pattern=node.options[0]),
    "like": _like,
    "ilike": _like,
    "regexp_like": lambda node, args: pc.match_substring_regex(args[0], pattern=node.options[0]),
}
