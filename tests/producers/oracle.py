"""What a record becomes in a table, written from docs/record-contract.md. Nothing of blizzard is used here.

It knows the settings of a first run: undeclared fields are rescued, bad records go to quarantine, times are cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal, InvalidOperation
from math import isfinite
from typing import Any, TypeAlias

from tests.producers.stored import Members, Number, json_text

Schema: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str, ...]

RESCUED = "_rescued_data"

_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INTEGER = re.compile(r"-?[0-9]+")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECIMAL_TYPE = re.compile(r"decimal\((\d+),(\d+)\)")
_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_EPOCHS = {"epoch_s": 0, "epoch_ms": 3, "epoch_us": 6, "epoch_ns": 9}
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_CLF = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})", re.ASCII)
_EXACT = Context(prec=100)  # the default one rounds to 28 digits
_START = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Bad(Exception):
    """The record belongs in quarantine."""

    def __init__(self, kind: str, path: Path = ()) -> None:
        super().__init__(kind, path)
        self.kind, self.path = kind, path

    @property
    def column(self) -> str | None:
        return shown(self.path) or None


@dataclass(kw_only=True)
class Row:
    """The columns, and what none of them takes: values as JSON text under their path in the record."""

    columns: dict[str, Any]
    rescued: Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """`formats`: how a column of times is written, where that is not ISO 8601; by the column's path."""

    schema: Schema
    formats: Mapping[str, str] = field(default_factory=dict)

    def row(self, record: Any) -> Row:
        """Raises `Bad`."""
        if not isinstance(record, Members):
            raise Bad("not_object")
        rest: list[tuple[str, Any]] = []
        declared = [column for column in self.schema["fields"] if column["name"] != RESCUED]
        columns = self._struct(declared, record, (), "", rest)
        return Row(columns=columns, rescued=Counter((where, json_text(item)) for where, item in rest))

    def _struct(
        self, declared: list[Schema], members: Members, path: Path, where: str, rest: list[tuple[str, Any]]
    ) -> dict[str, Any]:
        names = {column["name"] for column in declared}
        given: dict[str, tuple[str, Any]] = {}
        strangers: list[tuple[str, Any]] = []
        for key, item in members:
            name = meant(key, names)
            if name is None:
                strangers.append((where + quoted(key), item))
            elif name in given:
                raise Bad("duplicate_key", (*path, name))
            else:
                given[name] = (key, item)
        rest += [(at, item) for at, item in strangers if item is not None]
        row = {}
        for column in declared:
            name = column["name"]
            key, item = given.get(name, (name, None))
            row[name] = self._value(column["type"], item, (*path, name), where + quoted(key), rest)
            if row[name] is None and not column["nullable"]:
                raise Bad("missing_value", (*path, name))
        return row

    def _value(self, kind: Any, item: Any, path: Path, where: str, rest: list[tuple[str, Any]]) -> Any:
        if item is None:
            return None
        if isinstance(kind, str):
            return self._scalar(kind, item, path)
        if kind["type"] == "array":
            if not isinstance(item, list) or isinstance(item, Members):
                raise Bad("bad_value", path)
            inner = (*path, "element")
            return [self._value(kind["elementType"], one, inner, f"{where}[{i}]", rest) for i, one in enumerate(item)]
        if not isinstance(item, Members):
            raise Bad("bad_value", path)
        if kind["type"] == "struct":
            return self._struct(kind["fields"], item, path, where + ".", rest)
        if repeated(name for name, _ in item):
            raise Bad("duplicate_key", path)
        inner = (*path, "value")
        return [
            (name, self._value(kind["valueType"], one, inner, f"{where}.{quoted(name)}", rest)) for name, one in item
        ]

    def _scalar(self, kind: str, item: Any, path: Path) -> Any:
        if kind in ("timestamp", "timestamp_ntz", "date"):
            value = moment(kind, item, self.formats.get(shown(path), "iso"))
        else:
            value = scalar(kind, item)
        if value is None:
            raise Bad("bad_value", path)
        return value


def meant(key: str, names: set[str]) -> str | None:
    """The column with exactly this name, or the only one that differs by the case of ASCII letters."""
    if key in names:
        return key
    same = [name for name in names if folded(name) == folded(key)]
    return same[0] if len(same) == 1 else None


def folded(name: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in name)


def shown(path: Path) -> str:
    return ".".join(map(quoted, path))


def quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def repeated(names: Any) -> bool:
    return any(times > 1 for times in Counter(names).values())


def scalar(kind: str, item: Any) -> Any:
    """The value in a column of this type; None: it cannot hold it."""
    if kind == "string":
        return item if isinstance(item, str) and not isinstance(item, Number) else json_text(item)
    if kind == "boolean":
        return item if isinstance(item, bool) else None
    if found := _DECIMAL_TYPE.fullmatch(kind):
        return exact_decimal(item, int(found[1]), int(found[2]))
    if not isinstance(item, Number):
        return None
    if kind == "double":
        return float(item) if isfinite(float(item)) else None
    if kind in _BITS and _INTEGER.fullmatch(item):
        limit = 2 ** (_BITS[kind] - 1)
        return int(item) if -limit <= int(item) < limit else None
    return None


def exact_decimal(item: Any, precision: int, scale: int) -> Decimal | None:
    if not isinstance(item, str) or not _DECIMAL_TEXT.fullmatch(item):
        return None
    try:
        number = Decimal(item)
    except InvalidOperation:
        return None
    _, digits, power = number.normalize(_EXACT).as_tuple()
    fits = isinstance(power, int) and -power <= scale and len(digits) + power <= precision - scale
    return number if fits or not number else None


def moment(kind: str, item: Any, form: str) -> date | datetime | None:
    """The instant in UTC, cut to microseconds; without a zone for TIMESTAMP_NTZ; the day for DATE."""
    if form in _EPOCHS:
        return _since_1970(item, _EPOCHS[form])
    if not isinstance(item, str) or isinstance(item, Number):
        return None
    if form == "clf":
        return _clf(item)
    found = _ISO.fullmatch(item)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        if kind == "date":
            return date(int(year), int(month), int(day)) if hour is None else None
        micro = int((fraction or "0")[:6].ljust(6, "0"))
        local = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micro)
        if kind == "timestamp_ntz":
            return local if zone is None else None
        return local.replace(tzinfo=timezone.utc) - _ahead(zone or "Z")
    except (ValueError, OverflowError):
        return None


def _ahead(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta(0)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


def _since_1970(item: Any, digits: int) -> datetime | None:
    try:
        micros = Decimal(item).scaleb(6 - digits, _EXACT) if isinstance(item, str) else None
    except InvalidOperation:
        return None
    return (
        None
        if micros is None
        else _START + timedelta(microseconds=int(micros.to_integral_value("ROUND_FLOOR", _EXACT)))
    )


def _clf(item: str) -> datetime | None:
    found = _CLF.fullmatch(item)
    if found is None:
        return None
    day, month, year, hour, minute, second, zone = found.groups()
    at = datetime(int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
    return at.replace(tzinfo=timezone.utc) - _ahead(zone)
