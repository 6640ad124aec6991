"""A block of lines by the reference alone and by a parser, in a form that can be compared."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest

from blizzard import native
from blizzard.core.observed import Observations
from blizzard.core.tally import tally
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.schema.evolve import observe
from blizzard.tasks.parse import RecordParser
from blizzard.tasks.policy import RESCUED_COLUMN, ParsePolicy, Unknown
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError

DEFAULT = ParsePolicy()
BOM = b"\xef\xbb\xbf"
HAS_NATIVE = native.is_available() or os.environ.get("CI") == "true"  # in CI its absence must show
needs_native = pytest.mark.skipif(not HAS_NATIVE, reason="the native parser is not built: make native")
PARSERS = [pytest.param("native", marks=needs_native), "pyarrow"]


def arrow_schema(schema: DeltaSchema, policy: ParsePolicy) -> pa.Schema:
    declared = to_arrow(schema)
    return declared.append(pa.field(RESCUED_COLUMN, pa.string())) if policy.rescues else declared


def show(table: pa.Table) -> list[str]:
    """Rows as text, in which 0.0 and -0.0 differ, and Decimal('1.5') and Decimal('1.50') too."""
    return [repr(row) for row in table.to_pylist()]


def by_reference(
    schema: DeltaSchema, block: bytes, policy: ParsePolicy = DEFAULT, *, first_of_file: bool = False
) -> dict[str, Any]:
    """What the contract says about a block, without any of the code under test but the reference."""
    bom = first_of_file and block.startswith(BOM)
    content = block.removeprefix(BOM) if bom else block
    lines = content.split(b"\n") if content or bom else []
    if content.endswith(b"\n"):
        lines.pop()
    reader = RecordReader(schema, policy)
    rows, row_lines, bad, found, cut = [], [], [], [], []
    blank = offset = 0
    for index, line in enumerate(lines):
        raw = BOM + line if bom and index == 0 else line
        if not line.strip(b" \t\r"):
            blank += 1
        else:
            try:
                rows.append(reader.read(line))
                row_lines.append(index)
                found += reader.undeclared
                cut += reader.cut
            except LineError as error:
                bad.append((index, error.kind, str(error), error.column, raw, offset))
        offset += len(raw) + 1
    observed = observe(found) if policy.unknown is Unknown.REPORT and found else None
    return {
        "rows": show(pa.Table.from_pylist(rows, schema=arrow_schema(schema, policy))),
        "row_lines": row_lines,
        "lines": len(lines),
        "blank": blank,
        "bad": bad,
        "undeclared": tally((path, 1) for path, _ in found),
        "cut": tally((path, 1) for path in cut),
        "observed": _sorted(observed),
    }


def by_parser(parser: RecordParser, block: bytes, *, first_of_file: bool = False) -> dict[str, Any]:
    parsed = parser.parse(block, first_of_file=first_of_file)
    parsed.table.validate(full=True)
    assert (parsed.row_lines is None) == (parsed.table.num_rows == parsed.lines)
    return {
        "rows": show(parsed.table),
        "row_lines": list(range(parsed.lines)) if parsed.row_lines is None else parsed.row_lines.tolist(),
        "lines": parsed.lines,
        "blank": parsed.blank,
        "bad": [(line.number, line.kind, line.message, line.column, line.raw, line.offset) for line in parsed.bad],
        "undeclared": parsed.undeclared,
        "cut": parsed.cut_times,
        "observed": _sorted(parsed.observed),
    }


def _sorted(observed: Observations | None) -> dict[tuple[str, ...], list[str]] | None:
    return None if observed is None else {path: sorted(kinds) for path, kinds in observed.kinds.items()}
