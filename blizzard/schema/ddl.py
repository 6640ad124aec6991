"""Spark DDL to a schema and back: `id BIGINT NOT NULL, tags ARRAY<STRING>`.

sqlglot splits the text into words. The grammar is read here, because sqlglot's own parser drops what it does not expect
(`a: int` loses its type, `a int,` its comma) and cannot read `like STRING`. What Spark's parser would refuse is refused
here too. No exception of sqlglot ever leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias

from blizzard.errors import SchemaError
from blizzard.schema import (
    PRIMITIVES,
    ColumnPath,
    DeltaSchema,
    DeltaType,
    check_depth,
    check_names,
    decimal_digits,
    decimal_is_possible,
    quote_name,
    show_column,
)
from blizzard.text.nearest import nearest_of

_SPARK_WORDS = {word: name for name, word in PRIMITIVES.items()} | {
    "BYTE": "byte",
    "SHORT": "short",
    "INTEGER": "integer",
    "LONG": "long",
    "REAL": "float",
    "TIMESTAMP_LTZ": "timestamp",
}
_DECIMAL_WORDS = ("DECIMAL", "DEC", "NUMERIC")
_DECIMAL_HINT = "write DECIMAL(precision, scale) with 1 <= precision <= 38 and 0 <= scale <= precision"

# Types of other systems, and what to write here.
_INSTEAD = (
    dict.fromkeys(("VARCHAR", "CHAR", "CHARACTER", "NVARCHAR", "NCHAR", "TEXT", "UUID", "ENUM", "TIME"), "STRING")
    | dict.fromkeys(("INTERVAL", "VOID", "CHAR VARYING", "CHARACTER VARYING"), "STRING")
    | dict.fromkeys(("JSON", "OBJECT"), "VARIANT, STRUCT<...> or MAP<STRING, ...>")
    | dict.fromkeys(("BLOB", "BYTES", "BYTEA", "VARBINARY"), "BINARY")
    | dict.fromkeys(("DATETIME", "TIMESTAMPTZ"), "TIMESTAMP")
    | {"BOOL": "BOOLEAN", "INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT"}
    | {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "DOUBLE PRECISION": "DOUBLE", "NUMBER": "DECIMAL(38, 0)"}
)
_EVERY_TYPE = ", ".join([*PRIMITIVES.values(), "DECIMAL(p, s)", "STRUCT<>", "ARRAY<>"]) + " or MAP<STRING, >"

_Kind: TypeAlias = Literal["word", "quoted", "string", "number", "mark", "end"]
_WORD = re.compile(r"[A-Za-z0-9_]+")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
# Characters that would break the line, or get lost when copied from a terminal.
_NOT_PRINTED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: _Kind
    text: str  # a name without its backticks, a string without its quotes, else as written
    start: int  # where in the DDL it begins, from 1


class _Cursor:
    """The tokens that are not read yet."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is this keyword or mark."""
        found = self.next.kind in ("word", "mark") and self.next.text.upper() == text
        if found:
            self._at += 1
        return found


def parse_ddl(text: str) -> DeltaSchema:
    """The schema that a Spark DDL string describes. SchemaError if Spark or blizzard could not use it."""
    return {"type": "struct", "fields": _parse_fields(_start(text), ())}


def parse_column_paths(text: str) -> list[tuple[ColumnPath, dict[str, Any]]]:
    """Columns given by their path, as in `user.age INT, tags ARRAY<STRING>`: each path with its field."""
    cursor, columns = _start(text), []
    while True:
        path = _parse_name(cursor, ())
        while cursor.accept("."):
            path = _parse_name(cursor, path)
        columns.append((path, _parse_declaration(cursor, path, nested=False)))
        if not cursor.accept(","):
            return columns


def column_ddls(schema: DeltaSchema) -> list[str]:
    """The DDL column by column."""
    return [to_ddl({"type": "struct", "fields": [column]}) for column in schema["fields"]]


def to_ddl(schema: DeltaSchema) -> str:
    """One line of DDL that `parse_ddl` reads back as the same schema. SchemaError if DDL cannot express it."""
    _check_expressible(schema, ())
    return ", ".join(_show_field(field, separator=" ", comments=True) for field in schema["fields"])


def show_type(data_type: DeltaType, *, comments: bool = False) -> str:
    """A type as DDL, for messages. What DDL cannot express is left out; an unknown type is in upper case."""
    match data_type:
        case str():
            return PRIMITIVES.get(data_type, data_type.upper())
        case {"type": "struct", "fields": fields}:
            inner = ", ".join(_show_field(field, separator=": ", comments=comments) for field in fields)
            return f"STRUCT<{inner}>"
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{show_type(element, comments=comments)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{show_type(key, comments=comments)}, {show_type(value, comments=comments)}>"
        case _:
            return str(data_type.get("type", "unknown")).upper()


def _start(text: str) -> _Cursor:
    cursor = _Cursor(_tokenize(text))
    if cursor.next.kind == "end":
        raise SchemaError("schema: it is empty; write columns such as id BIGINT NOT NULL, name STRING")
    return cursor


def _tokenize(text: str) -> list[_Token]:
    # Imported here: it takes 0.15 s, and most runs read no DDL.
    from sqlglot import tokenize
    from sqlglot.errors import SqlglotError

    try:
        # Without the parenthesis a first word such as `show` would be a command that takes all the rest.
        found = tokenize("(" + text, read="spark")[1:]
    except SqlglotError:
        raise SchemaError("schema: a quote, a backtick or a /* comment is not closed in the DDL") from None
    tokens: list[_Token] = []
    last_end = -1
    for token in found:
        kind = token.token_type.name
        raw = text[token.start - 1 : token.end]
        touches = bool(tokens) and tokens[-1].text[:1] == raw[:1] and token.start == last_end + 1
        if kind == "STRING" and touches and tokens[-1].kind == "string":
            # 'it''s' comes as two strings side by side.
            tokens[-1] = replace(tokens[-1], text=tokens[-1].text + raw)
        else:
            kept: _Kind = _classify(kind, token.text, raw)
            tokens.append(_Token(kind=kept, text=token.text if kept == "quoted" else raw, start=token.start))
        last_end = token.end
    strings = (replace(t, text=_unquote(t.text)) if t.kind == "string" else t for t in tokens)
    return [*strings, _Token(kind="end", text="the end", start=len(text) + 1)]


def _classify(kind: str, text: str, raw: str) -> _Kind:
    if kind == "IDENTIFIER":
        return "quoted"
    if kind in ("STRING", "RAW_STRING"):
        return "string"
    if kind == "NUMBER" and raw == text:
        return "number"
    # x'ab' has the text `ab`, and 1L comes as three tokens with one place: neither is a word.
    return "word" if raw == text and _WORD.fullmatch(raw) is not None else "mark"


def _unquote(raw: str) -> str:
    """The value of a string literal by Spark's rules. Versions of sqlglot disagree on \\u0041 and \\101."""
    if raw[0] in "rR":
        return raw[2:-1]
    quote = raw[0]

    def unescape(match: re.Match[str]) -> str:
        escape = match[1]
        if escape is None:
            return quote
        if len(escape) > 1:
            return chr(int(escape, 8) if escape[0] in "01" else int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    pattern = rf"\\(u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|[01][0-7]{{2}}|.)|{quote}{quote}"
    try:
        value = re.sub(pattern, unescape, raw[1:-1], flags=re.DOTALL)
        # \ud83d\ude00 is one character, written as UTF-16 writes it.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except (ValueError, OverflowError):
        raise SchemaError(f"schema: the string {raw[:40]!r} holds an escape that is not a character") from None


def _parse_fields(cursor: _Cursor, path: ColumnPath) -> list[dict[str, Any]]:
    """Columns up to the end of the text, or up to the `>` that closes the struct at `path`."""
    fields = [_parse_field(cursor, path)]
    while cursor.accept(","):
        fields.append(_parse_field(cursor, path))
    check_names([field["name"] for field in fields], path)
    return fields


def _parse_field(cursor: _Cursor, parent: ColumnPath) -> dict[str, Any]:
    return _parse_declaration(cursor, _parse_name(cursor, parent), nested=bool(parent))


def _parse_name(cursor: _Cursor, parent: ColumnPath) -> ColumnPath:
    token = cursor.take()
    if token.kind == "end" or (token.kind == "mark" and token.text in (",", ">")):
        missing = f"a column is missing before {_show(token)}"
        _refuse(parent, missing, "put a name and a type there, or remove the comma", at=token)
    if token.kind not in ("word", "quoted"):
        _refuse(parent, f"{_show(token)} is not a plain column name", "write the name in backticks", at=token)
    path = (*parent, token.text)
    check_depth(path)
    return path


def _parse_declaration(cursor: _Cursor, path: ColumnPath, *, nested: bool) -> dict[str, Any]:
    """What follows the name of a column: its type, NOT NULL, a comment."""
    cursor.accept(":")
    data_type = _parse_type(cursor, path)
    nullable = not cursor.accept("NOT")
    if not nullable and not cursor.accept("NULL"):
        _refuse(path, "NULL is missing after NOT", "write NOT NULL", at=cursor.next)
    metadata: dict[str, Any] = {}
    if cursor.accept("COMMENT"):
        comment = cursor.take()
        if comment.kind != "string":
            _refuse(path, f"COMMENT is followed by {_show(comment)}", "write COMMENT 'some text'", at=comment)
        metadata["comment"] = comment.text
    _check_field_ends(cursor.next, path, nested=nested)
    return {"name": path[-1], "type": data_type, "nullable": nullable, "metadata": metadata}


def _check_field_ends(token: _Token, path: ColumnPath, *, nested: bool) -> None:
    """Spark allows NOT NULL, then COMMENT. Keys, defaults, generated values and a second statement are refused."""
    closing = ("mark", ">") if nested else ("end", "the end")
    if (token.kind, token.text) in (closing, ("mark", ",")):
        return
    if token.kind == "end":
        _refuse(path[:-1], "its STRUCT< is not closed", "add the missing >", at=token)
    if token.text.upper() == "NOT":
        _refuse(path, "NOT NULL comes after the comment", "write NOT NULL before COMMENT", at=token)
    if token.text.upper() == "NULL":
        instead = "remove it: a column is nullable unless it is NOT NULL"
        _refuse(path, "NULL is not written out in DDL", instead, at=token)
    instead = "only NOT NULL and COMMENT '...' may follow the type: remove it, or put a comma before a new column"
    _refuse(path, f"{_show(token)} cannot follow here", instead, at=token)


def _parse_type(cursor: _Cursor, path: ColumnPath) -> DeltaType:
    check_depth(path)
    token = cursor.take()
    word = " ".join(token.text.upper().split())
    if token.kind == "word" and word in _SPARK_WORDS:
        return _SPARK_WORDS[word]
    if token.kind == "word" and word in _DECIMAL_WORDS:
        return _parse_decimal(cursor, path)
    if token.kind == "word" and word in ("ARRAY", "MAP", "STRUCT"):
        return _parse_container(word, cursor, path)
    if token.kind == "word" or word in _INSTEAD:
        near = nearest_of(word, [*_SPARK_WORDS, *_DECIMAL_WORDS, "ARRAY", "MAP", "STRUCT"])
        instead = f"write {_INSTEAD.get(word) or ' or '.join(near) or _EVERY_TYPE}"
        _refuse(path, f"{word} is not a type blizzard can fill", instead, at=token)
    instead = f"write {quote_name(path[-1])} STRING, say, and unusual names in backticks"
    return _refuse(path, f"a type is missing before {_show(token)}", instead, at=token)


def _parse_container(word: str, cursor: _Cursor, path: ColumnPath) -> DeltaType:
    form = {"ARRAY": "ARRAY<type>", "MAP": "MAP<STRING, type>", "STRUCT": "STRUCT<name: type, ...>"}[word]
    if not cursor.accept("<"):
        _refuse(path, f"{word} does not say what it holds", f"write {form}", at=cursor.next)
    data_type: DeltaType
    if word == "STRUCT":
        data_type = {"type": "struct", "fields": _parse_fields(cursor, path)}
    elif word == "ARRAY":
        element = _parse_type(cursor, (*path, "element"))
        data_type = {"type": "array", "elementType": element, "containsNull": True}
    else:
        start = cursor.next
        key = _parse_type(cursor, (*path, "key"))
        if key != "string":
            _refuse(path, f"the MAP has {show_type(key)} keys, but keys in JSON are strings", f"write {form}", at=start)
        if not cursor.accept(","):
            _refuse(path, "the MAP has no value type", f"write {form}", at=cursor.next)
        value = _parse_type(cursor, (*path, "value"))
        data_type = {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if not cursor.accept(">"):
        stands = f"{_show(cursor.next)} stands where {word}<...> should be closed"
        _refuse(path, stands, f"write {form}", at=cursor.next)
    return data_type


def _parse_decimal(cursor: _Cursor, path: ColumnPath) -> str:
    start = cursor.next
    if not cursor.accept("("):
        return "decimal(10,0)"
    precision = _parse_digits(cursor, path)
    scale = _parse_digits(cursor, path) if cursor.accept(",") else 0
    if not cursor.accept(")") or not decimal_is_possible(precision, scale):
        _refuse(path, "this DECIMAL is impossible", _DECIMAL_HINT, at=start)
    return f"decimal({precision},{scale})"


def _parse_digits(cursor: _Cursor, path: ColumnPath) -> int:
    token = cursor.take()
    if token.kind != "number" or not re.fullmatch("[0-9]{1,9}", token.text):
        _refuse(path, f"{_show(token)} is not a number of digits", _DECIMAL_HINT, at=token)
    return int(token.text)


def _show(token: _Token) -> str:
    return token.text if token.kind == "end" else repr(token.text[:40])


def _refuse(path: ColumnPath, problem: str, instead: str, *, at: _Token) -> NoReturn:
    raise SchemaError(f"{show_column(path)}: {problem} (character {at.start} of the DDL); {instead}")


def _show_field(field: dict[str, Any], *, separator: str, comments: bool) -> str:
    text = quote_name(field["name"]) + separator + show_type(field["type"], comments=comments)
    if not field["nullable"]:
        text += " NOT NULL"
    if comments and "comment" in field["metadata"]:
        text += f" COMMENT {_quote_string(field['metadata']['comment'])}"
    return text


def _quote_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + _NOT_PRINTED.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + "'"


def _check_expressible(data_type: DeltaType, path: ColumnPath) -> None:
    """Raise if DDL would lose something: NOT NULL in arrays and maps, metadata other than a comment."""
    match data_type:
        case str() if data_type in PRIMITIVES or decimal_digits(data_type):
            return
        case {"type": "struct", "fields": fields}:
            for field in fields:
                here = (*path, field["name"])
                if others := [k for k, v in field["metadata"].items() if k != "comment" or not isinstance(v, str)]:
                    _inexpressible(here, f"metadata {', '.join(others)}")
                _check_expressible(field["type"], here)
        case {"type": "array", "elementType": element, "containsNull": True}:
            _check_expressible(element, (*path, "element"))
        case {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}:
            _check_expressible(value, (*path, "value"))
        case {"type": "array" | "map"}:
            _inexpressible(path, "elements that are NOT NULL, or keys that are no strings,")
        case _:
            _inexpressible(path, f"the type {show_type(data_type)}")


def _inexpressible(path: ColumnPath, what: str) -> NoReturn:
    raise SchemaError(f"{show_column(path)}: {what} cannot be written as DDL; keep this schema in its JSON form")
