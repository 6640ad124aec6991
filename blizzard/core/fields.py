"""Fields of JSON that anybody could have written, read one by one: the right type and range, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_INTEGER = 2**63 - 1  # no column and no Txn can hold more


class CodecError(Exception):
    """A payload that cannot be trusted. `kind` says which check it failed."""

    kind = "payload"


class MissingField(CodecError):
    kind = "payload_missing_field"


class WrongType(CodecError):
    kind = "payload_wrong_type"


def missing_or_wrong(fields: Mapping[str, Any], name: str, wanted: str) -> CodecError:
    if name not in fields:
        return MissingField(f"it has no {name}")
    return WrongType(f"its field {name} is not {wanted}")


def integer(fields: Mapping[str, Any], name: str, *, at_least: int = 0) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise missing_or_wrong(fields, name, "an integer")
    if not at_least <= value <= MAX_INTEGER:
        raise WrongType(f"its field {name} is {value}, not from {at_least} to {MAX_INTEGER}")
    return value


def integer_or_none(fields: Mapping[str, Any], name: str) -> int | None:
    return None if name in fields and fields[name] is None else integer(fields, name)


def range_or_none(fields: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    match fields.get(name):
        case None if name in fields:
            return None
        case [int() as first, int() as last] if 0 < first <= last <= MAX_INTEGER and type(first) is type(last) is int:
            return first, last
        case _:
            raise missing_or_wrong(fields, name, "a first and a last sequence")


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """Whether the field is there. Its only value is true."""
    if fields.get(name, True) is not True:
        raise missing_or_wrong(fields, name, "true")
    return name in fields


def text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise missing_or_wrong(fields, name, "a string")
    return value


def text_or_none(fields: Mapping[str, Any], name: str) -> str | None:
    return None if name in fields and fields[name] is None else text(fields, name)


def object_of(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise missing_or_wrong(fields, name, "an object")
    return value


def text_map(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    value = object_of(fields, name)
    if not all(isinstance(item, str) for item in value.values()):
        raise WrongType(f"its field {name} is not a map of strings")
    return value
