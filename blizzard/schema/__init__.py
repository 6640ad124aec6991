"""The words for schemas: which types exist, how columns are named, and how a path to a column is written.

A schema is the JSON form that Delta keeps in `metaData.schemaString`, as a Python dict. Nothing here may
import pyspark, pyarrow or deltalake: a schema is also read where none of them is needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from blizzard.errors import SchemaError

DeltaSchema: TypeAlias = dict[str, Any]
DeltaType: TypeAlias = Any  # a str, or a dict for struct, array and map
ColumnPath: TypeAlias = tuple[str, ...]

# The name in Spark's JSON, and the word for it in DDL.
PRIMITIVES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "variant": "VARIANT",
}

# Arrow's C interface refuses more than 64 levels and a map takes two of them: 31 nested maps pass, 32 do not.
MAX_DEPTH = 30
MAX_DECIMAL_DIGITS = 38

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEP = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_UNUSABLE_IN_NAME = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_DECIMAL = re.compile(r"decimal\((\d{1,3}),(\d{1,3})\)", re.ASCII)


def quote_name(name: str) -> str:
    """The name as DDL writes it: in backticks unless it is a plain word."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def show_path(path: Sequence[str]) -> str:
    """A nested column for a message: `user.tags.element`, with backticks around a name that is not a plain word."""
    # A name may hold control characters for a terminal.
    return _UNUSABLE_IN_NAME.sub("\ufffd", ".".join(map(quote_name, path)))


def parse_path(text: str) -> ColumnPath:
    """The path that `show_path` writes so. Backticks are needed only around names with a dot or a backtick."""
    path: list[str] = []
    position = 0
    while (step := _STEP.match(text, position)) is not None:
        path.append(step[2] or step[1].replace("``", "`"))
        position = step.end() + 1
        if step.end() == len(text):
            return tuple(path)
        if text[step.end()] != ".":
            break
    raise SchemaError(f"{text!r} is no path of a column; write user.name, with backticks around a name with a dot")


def show_column(path: Sequence[str]) -> str:
    """How a message names this place in a schema. The empty path is the schema itself."""
    return f"column {show_path(path)}" if path else "schema"


def decimal_digits(name: str) -> tuple[int, int] | None:
    """(precision, scale) of `decimal(p,s)`. None for anything else, also for impossible decimals."""
    if (match := _DECIMAL.fullmatch(name)) is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    return (precision, scale) if decimal_is_possible(precision, scale) else None


def holds_variant(data_type: DeltaType) -> bool:
    match data_type:
        case {"type": "struct", "fields": fields}:
            return any(holds_variant(field["type"]) for field in fields)
        case {"type": "array", "elementType": inner} | {"type": "map", "valueType": inner}:
            return holds_variant(inner)
        case _:
            return bool(data_type == "variant")


def decimal_is_possible(precision: int, scale: int) -> bool:
    return 0 <= scale <= precision and 1 <= precision <= MAX_DECIMAL_DIGITS


def check_names(names: Sequence[str], path: ColumnPath) -> None:
    """Raise unless these can be the columns of one struct."""
    if not names:
        raise SchemaError(f"{show_column(path)}: it has no columns; name at least one, such as id BIGINT")
    if problems := name_problems(names, path):
        raise SchemaError("; ".join(problems))


def fold_name(name: str) -> str:
    """Equal for names that Spark takes for the same: it compares characters one by one and ignores case."""
    return "".join(_fold(character) for character in name)


def _fold(character: str) -> str:
    upper = character.upper()
    lower = (upper if len(upper) == 1 else character).lower()
    return lower if len(lower) == 1 else character


def name_problems(names: Sequence[str], path: ColumnPath) -> list[str]:
    """Why these names cannot be the columns of one struct."""
    problems: list[str] = []
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(fold_name(name), []).append(name)
        if not name or _UNUSABLE_IN_NAME.search(name):
            reason = "holds a control character" if name else "is empty"
            problems.append(f"{show_column(path)}: the column name {name!r} {reason}; rename it in the source")
    for same in spellings.values():
        if len(same) > 1:
            where, written = show_column((*path, same[0])), ", ".join(map(quote_name, same))
            problems.append(f"{where}: named more than once ({written}); Delta ignores case, so keep only one")
    return problems


def check_depth(path: ColumnPath) -> None:
    if len(path) > MAX_DEPTH:
        start = show_path(path[:3])
        raise SchemaError(f"column {start}...: nested more than {MAX_DEPTH} deep; flatten it in the source")
