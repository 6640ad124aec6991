"""Parsed JSON that has lost nothing: numbers as they were written, objects with every member."""

from __future__ import annotations

from typing import Any


class JsonInteger(str):
    """The text of a JSON number without fraction and exponent."""

    __slots__ = ()


class JsonReal(str):
    """The text of any other JSON number."""

    __slots__ = ()


class JsonObject(list[tuple[str, Any]]):
    """The members of a JSON object in order, repeated names included."""

    __slots__ = ()
