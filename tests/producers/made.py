"""Values for made-up records, and the framings in which producers write them. The same on every machine.

Which shape a record has follows from its number. Only fillings are drawn, so that no schema hangs on chance.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias, TypeVar

Record: TypeAlias = dict[str, Any]
Files: TypeAlias = dict[str, bytes]  # by their path below the source
Chosen = TypeVar("Chosen")

_NUMBER = "\ue000"  # a private character: no text that is made here has it
_QUOTED_NUMBER = re.compile(f'"{_NUMBER}([^"]*)"')

_START = datetime(2026, 1, 31, 22, 58, 7, tzinfo=timezone.utc)
_WORDS = ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "knoll", "larch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A folder as one producer leaves it."""

    name: str
    files: Callable[[], Files]
    key: str | None = None  # where in a document the records are
    pattern: str | None = None  # what a user must give, because the names of the files do not end like JSON's


class Maker:
    """Draws fillings. Only `random()` is used: it alone gives the same numbers in every version of Python."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(name)

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def one_of(self, choices: Sequence[Chosen]) -> Chosen:
        return choices[self.below(len(choices))]

    def hex(self, digits: int) -> str:
        return "".join(self.one_of("0123456789abcdef") for _ in range(digits))

    def uuid(self) -> str:
        return "-".join(self.hex(n) for n in (8, 4, 4, 4, 12))

    def name(self, capitals: bool = False, digits: int = 8) -> str:
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" if capitals else "abcdefghijklmnopqrstuvwxyz0123456789"
        return "".join(self.one_of(letters) for _ in range(digits))

    def words(self, count: int = 3) -> str:
        return " ".join(self.one_of(_WORDS) for _ in range(count))

    def word(self) -> str:
        return self.one_of(_WORDS)

    def ip(self) -> str:
        return f"10.{self.below(256)}.{self.below(256)}.{1 + self.below(254)}"

    def digits(self, count: int) -> str:
        return "".join(self.one_of("0123456789") for _ in range(count))


def at(number: int, seconds: float = 37) -> datetime:
    """The time of a record."""
    return _START + timedelta(seconds=number * seconds)


def iso(number: int, fraction: str = "", zone: str = "Z") -> str:
    """`fraction` is its digits; `zone` is written as it is given, and the clock shows the time there."""
    there = at(number)
    if zone[0] in "+-":
        ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
        there += ahead if zone[0] == "+" else -ahead
    return there.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}" if fraction else "") + zone


def epoch(number: int) -> int:
    """Seconds since 1970."""
    return int(at(number).timestamp())


def number_as(text: str) -> str:
    """A number that is written with exactly these digits, zeros at its end included."""
    return f"{_NUMBER}{text}"


def compact(record: Any) -> str:
    return _QUOTED_NUMBER.sub(r"\1", json.dumps(record, separators=(",", ":"), ensure_ascii=False))


def pretty(record: Any) -> str:
    return _QUOTED_NUMBER.sub(r"\1", json.dumps(record, indent=2, ensure_ascii=False))


def lines(records: Iterable[Any]) -> bytes:
    return "".join(compact(record) + "\n" for record in records).encode()


def concatenated(records: Iterable[Any], write: Callable[[Any], str] = compact) -> bytes:
    return "".join(map(write, records)).encode()


def array(records: Iterable[Any], separator: str = ",") -> bytes:
    return ("[" + separator.join(map(compact, records)) + "]").encode()


def array_of_lines(records: Iterable[Any]) -> bytes:
    """`[`, one object per line with a comma after it, `]`."""
    return ("[\n" + ",\n".join(map(compact, records)) + "\n]\n").encode()


def zipped(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1, mtime=0)


def parts(records: Sequence[Record], count: int) -> list[list[Record]]:
    """`count` pieces of about the same length, in order."""
    size = -(-len(records) // count)
    return [list(records[i : i + size]) for i in range(0, len(records), size)]
