"""What the parser does with values that do not fit their column, and with fields that have no column."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from blizzard.schema import ColumnPath, DeltaType
from blizzard.schema.evolve import RESCUED_COLUMN

__all__ = ["EVERY_COLUMN", "RESCUED_COLUMN", "Coercion", "ParsePolicy", "Unknown"]

# In place of a path: a setting for all columns.
EVERY_COLUMN: ColumnPath = ("*",)


class Unknown(str, Enum):
    """What to do with fields that the schema does not declare, nested ones too."""

    IGNORE = "ignore"  # drop them; their names are reported
    BAD = "bad"  # the line is bad
    RESCUE = "rescue"  # keep them as JSON in the column `_rescued_data`
    REPORT = "report"  # say what they held, so that columns can be added


class Coercion(str, Enum):
    """What a column may take beside the values of its type."""

    NUMBERS_IN_STRINGS = "numbers_in_strings"  # "12" for a number
    INTEGRAL_FLOATS = "integral_floats"  # 12.0 and 1e3 for an integer
    BOOLEANS_0_1 = "booleans_0_1"  # 0 and 1 for a boolean
    EMPTY_IS_NULL = "empty_is_null"  # "" for null
    PARSE_JSON_TEXT = "parse_json_text"  # "{\"a\":1}" for an object, "[1]" for an array


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsePolicy:
    """Travels to the tasks. The defaults are those of docs/record-contract.md."""

    json_in_strings: bool = True  # a number, boolean, object or array in a STRING is stored as its JSON text
    unknown: Unknown = Unknown.IGNORE
    rescue_values: bool = False  # a value that does not fit becomes null, and its JSON goes to `_rescued_data`

    # With REPORT: undeclared values go to `_rescued_data` too, null excepted. For tables that have that column.
    keeps_rest: bool = False
    exact_timestamps: bool = False  # a fraction beyond a microsecond is a bad value; else it is cut, and counted
    formats: Mapping[ColumnPath, tuple[str, ...]] = field(default_factory=dict)
    coerce: Mapping[ColumnPath, frozenset[Coercion]] = field(default_factory=dict)
    # "snake", or new names by the path of the field in the source. None: columns have the names of the fields.
    rename: str | Mapping[ColumnPath, str] | None = None

    @property
    def rescues(self) -> bool:
        """Whether the rows get the column `_rescued_data`."""
        return self.rescue_values or self.unknown is Unknown.RESCUE or self.keeps_rest

    @property
    def fingerprint(self) -> str | None:
        """Changes with every setting that decides what a line becomes. None: all of them are the defaults."""
        if replace(self, keeps_rest=False) == ParsePolicy():
            return None
        rename = self.rename if isinstance(self.rename, str | None) else sorted((*self.rename.items(),))
        coerce = sorted((path, sorted(coercions)) for path, coercions in self.coerce.items())
        flags = [self.json_in_strings, self.unknown.value, self.rescue_values, self.exact_timestamps]
        said = [*flags, sorted(self.formats.items()), coerce, rename]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:8]

    def coercions(self, path: ColumnPath, data_type: DeltaType) -> frozenset[Coercion]:
        """Of this column. In a STRING or VARIANT column an empty text is a value, unless the column itself is named."""
        general = self.coerce.get(EVERY_COLUMN, frozenset())
        if data_type in ("string", "variant"):
            general -= {Coercion.EMPTY_IS_NULL}
        return general | self.coerce.get(path, frozenset())
