"""Gives every node of a condition its type: from the schema, from what a field is compared with, or from a CAST.

Where nothing says which type a field has, and where two types cannot be compared, the condition is refused: a guess
would select the wrong records without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, decimal_digits, show_path
from blizzard.schema.ddl import show_type
from blizzard.schema.derived import whole_record_column
from blizzard.schema.names import fold_ascii
from blizzard.schema.where_casts import (
    ANY_NUMBER,
    FLOATS,
    as_type,
    beyond_double,
    cast_literal,
    cast_to,
    common_type,
    describe,
    hint_of,
    is_number,
    negative,
)
from blizzard.schema.where_text import INTEGER_BITS
from blizzard.schema.where_tree import NULL, Call, Field, Literal, Node, TypeName, WhereError

_TEXT_FUNCTIONS = {
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "substring", "concat"), "string"),
    **dict.fromkeys(("like", "ilike", "regexp_like", "starts_with", "ends_with", "contains"), "boolean"),
    "length": "long",
}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "same", "distinct")


class Typer:
    """For one condition. `reserved`: columns of the table that are not read from the records."""

    def __init__(self, record_schema: DeltaSchema, reserved: Collection[str] = ()) -> None:
        self._schema, self._reserved = record_schema, {fold_ascii(name) for name in reserved}
        self._whole = whole_record_column(record_schema["fields"])
        self.declared: dict[ColumnPath, DeltaType] = {}
        self.undeclared: dict[ColumnPath, TypeName] = {}
        # Those that are compared with a whole number which a DOUBLE does not hold, wherever that stands.
        self._beyond_double: dict[ColumnPath, TypeName] = {}

    def type(self, root: Node) -> Node:
        """The same condition with types. What one part says about a field holds for all parts, so it is looked at until
        nothing new is said."""
        self._look_for_large(root)
        while True:
            known = len(self.undeclared)
            typed = self._condition(root)
            if len(self.undeclared) == known:
                break
        unknown = next(_fields_without_type(typed), None)
        if unknown is not None:
            name = show_path(unknown.path)
            raise WhereError(
                f"nothing says which type {name} has: the schema does not declare it. CAST it: CAST({name} AS STRING)"
            )
        return typed

    def _look_for_large(self, node: Node) -> None:
        if not isinstance(node, Call):
            return
        if node.name in _COMPARISONS or node.name in ("in", "coalesce"):
            values = [value for arg in node.args for value in _values(arg)]
            # The shorter name is that of BIGINT.
            large = max(map(beyond_double, values), key=len)
            for value in values:
                if isinstance(value, Field) and large:
                    path, _ = self._resolve(value.path)
                    self._beyond_double[path] = max(large, self._beyond_double.get(path, ""), key=len)
        for arg in node.args:
            self._look_for_large(arg)

    def _of(self, node: Node, hint: TypeName = "") -> Node:
        """`hint` is the type that a field takes if nothing else is known about it."""
        match node:
            case Literal():
                return node
            case Field():
                return self._field(node.path, hint)
            case Call(name="and" | "or" | "not" | "is_true" | "is_false"):
                return replace(node, args=tuple(map(self._condition, node.args)), type="boolean")
            case Call(name="is_null"):
                arg = self._of(node.args[0])
                of_null = Literal(value=None, type="boolean")  # NULL has no type of its own in a table
                return replace(node, args=(of_null if arg.type == NULL else arg,), type="boolean")
            case Call(name=name) if name in _COMPARISONS or name == "in":
                return replace(node, args=self._same_type(node.args), type="boolean")
            case Call(name="cast" | "try_cast"):
                return self._cast(node)
            case Call(name="coalesce"):
                args = self._same_type(node.args, hint)
                return replace(node, args=args, type=args[0].type)
            case Call(name="case"):
                return self._case(node, hint)
            case Call(name=name) if name in _TEXT_FUNCTIONS:
                args = tuple(self._text(arg, name) for arg in node.args)
                return replace(node, args=args, type=_TEXT_FUNCTIONS[name])
            case _:
                return self._arithmetic(node)

    # Fields.

    def _field(self, path: ColumnPath, hint: TypeName) -> Field:
        path, data_type = self._resolve(path)
        if data_type is not None:
            self.declared[path] = data_type
            return Field(path=path, type=data_type if isinstance(data_type, str) else data_type["type"])
        if path not in self.undeclared and hint not in ("", NULL):
            self._check_spelling(path)
            if hint in (ANY_NUMBER, "long"):
                hint = self._beyond_double.get(path, "double" if hint == ANY_NUMBER else hint)
            self.undeclared[path] = hint
        return Field(path=path, type=self.undeclared.get(path, ""))

    def _resolve(self, path: ColumnPath) -> tuple[ColumnPath, DeltaType | None]:
        """The path as the schema spells it, and its type; None: the schema does not declare it. Names are found as keys
        of a record are: as they are written, else by the one that differs only by case."""
        if fold_ascii(path[0]) in self._reserved:
            raise WhereError(f"{show_path(path[:1])} is not read from the records; name a field of the records")
        if self._whole is not None:
            if path[0] == self._whole and len(path) > 1:
                raise WhereError(f"{show_path(path)}: the records have no such field; write {show_path(path[1:])}")
            return path, None
        data_type: DeltaType = self._schema
        found: list[str] = []
        for depth, name in enumerate(path):
            match data_type:
                case {"type": "struct", "fields": fields}:
                    names = {field["name"]: field["type"] for field in fields}
                    same = [name] if name in names else [n for n in names if fold_ascii(n) == fold_ascii(name)]
                    if len(same) != 1:
                        return (*found, *path[depth:]), None
                    found.append(same[0])
                    data_type = names[same[0]]
                case {"type": "map", "valueType": value} if depth:
                    found.append(name)
                    data_type = value
                case "variant":
                    return (*found, *path[depth:]), None
                case _:
                    inside = show_path(found)
                    raise WhereError(f"{show_path(path)}: {inside} is {show_type(data_type)}, which has no fields")
        return tuple(found), data_type

    def _check_spelling(self, path: ColumnPath) -> None:
        for other in self.undeclared:
            if tuple(map(fold_ascii, other)) == tuple(map(fold_ascii, path)):
                raise WhereError(f"{show_path(path)} and {show_path(other)} are one field; write it in one way")

    # Types.

    def _condition(self, node: Node) -> Node:
        typed = self._of(node, "boolean")
        if typed.type == NULL:
            return Literal(value=None, type="boolean")
        if typed.type not in ("boolean", ""):
            raise WhereError(f"{describe(typed)} is {show_type(typed.type)}, and not a condition")
        return typed

    def _text(self, node: Node, name: str) -> Node:
        typed = self._of(node, "string")
        if typed.type == NULL:
            return Literal(value=None, type="string")
        if typed.type not in ("string", ""):
            raise WhereError(
                f"{name} takes a text, and {describe(typed)} is {show_type(typed.type)}. CAST it AS STRING"
            )
        return typed

    def _same_type(self, nodes: Sequence[Node], hint: TypeName = "") -> tuple[Node, ...]:
        """All of them as values of one type, which can be compared."""
        typed = [self._of(node) for node in nodes]
        known = next((hint_of(node) for node in typed if node.type not in ("", NULL)), "") or hint
        if known:
            typed = [self._of(node, known) if node.type == "" else node for node in typed]
        if any(node.type == "" for node in typed):
            return tuple(typed)
        common = reduce(common_type, typed)
        if common.type == NULL:
            raise WhereError("NULL is compared with NULL, which is never true; use IS NULL with a field")
        return tuple(as_type(node, common.type) for node in typed)

    def _case(self, node: Call, hint: TypeName) -> Node:
        values = self._same_type((*node.args[1::2], node.args[-1]), hint)
        conditions = [self._condition(condition) for condition in node.args[:-1:2]]
        parts = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
        return replace(node, args=(*parts, values[-1]), type=values[0].type)

    def _arithmetic(self, node: Call) -> Node:
        typed = [self._of(arg) for arg in node.args]
        known = next((hint_of(arg) for arg in typed if arg.type not in ("", NULL)), ANY_NUMBER)
        typed = [self._of(arg, known) if arg.type == "" else arg for arg in typed]
        is_whole = node.name != "/"
        # There a database takes what is written out as 1.5 for a DOUBLE. Otherwise it computes exactly.
        is_double = not is_whole or any(arg.type in FLOATS for arg in typed) or node.name == "negative"
        for arg in typed:
            is_decimal = decimal_digits(arg.type) is not None and not (isinstance(arg, Literal) and is_double)
            if is_decimal or not (is_number(arg.type) or arg.type in ("", NULL)):
                cast = "CAST it AS DOUBLE" if is_decimal else "it takes numbers"
                name = "-" if node.name == "negative" else node.name
                raise WhereError(f"{describe(arg)} {name}: {describe(arg)} is {show_type(arg.type)}; {cast}")
            is_whole &= arg.type in INTEGER_BITS or arg.type == NULL
        data_type = "long" if is_whole else "double"
        args = tuple(arg if arg.type == "" else as_type(arg, data_type) for arg in typed)
        if node.name == "negative" and isinstance(args[0], Literal) and isinstance(typed[0], Literal):
            return negative(typed[0])
        return replace(node, args=args, type=data_type)

    def _cast(self, node: Call) -> Node:
        (target,) = node.options
        arg = self._of(node.args[0], target)
        if arg.type == "":
            return replace(node, type=target)
        if isinstance(arg, Literal):
            return cast_literal(arg, target, is_try=node.name == "try_cast")
        return cast_to(arg, target)


def _values(node: Node) -> list[Node]:
    """What may be compared: the node, or one of those from which it chooses."""
    match node:
        case Call(name="coalesce", args=args):
            return [value for arg in args for value in _values(arg)]
        case Call(name="case", args=args):
            return [value for arg in (*args[1::2], args[-1]) for value in _values(arg)]
        case _:
            return [node]


def _fields_without_type(node: Node) -> Any:
    if isinstance(node, Field) and node.type == "":
        yield node
    elif isinstance(node, Call):
        for arg in node.args:
            yield from _fields_without_type(arg)
