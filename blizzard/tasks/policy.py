"""What the parser does with values that do not fit their column, and with fields that have no column."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from blizzard.schema.evolve import RESCUED_COLUMN

__all__ = ["RESCUED_COLUMN", "ParsePolicy", "Unknown"]


class Unknown(str, Enum):
    """What to do with fields that the schema does not declare, nested ones too."""

    IGNORE = "ignore"  # drop them; their names are reported
    BAD = "bad"  # the line is bad
    RESCUE = "rescue"  # keep them as JSON in the column `_rescued_data`
    REPORT = "report"  # say what they held, so that columns can be added


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsePolicy:
    """Travels to the tasks. The defaults are those of docs/record-contract.md."""

    json_in_strings: bool = True  # a number, boolean, object or array in a STRING is stored as its JSON text
    unknown: Unknown = Unknown.IGNORE
    rescue_values: bool = False  # a value that does not fit becomes null, and its JSON goes to `_rescued_data`

    @property
    def rescues(self) -> bool:
        """Whether the rows get the column `_rescued_data`."""
        return self.rescue_values or self.unknown is Unknown.RESCUE

    @property
    def every_unknown_counts(self) -> bool:
        """Whether the reference must read every line with an undeclared field."""
        return self.unknown in (Unknown.BAD, Unknown.RESCUE)
