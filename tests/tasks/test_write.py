"""Parquet as it is written: files roll, dictionaries go where values repeat, statistics count every level of null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl
from blizzard.store import open_store
from blizzard.tasks.stats import indexed_leaves
from blizzard.tasks.write import ParquetRoller, columns_worth_a_dictionary


def roller(folder: Path, ddl: str, **changes: Any) -> ParquetRoller:
    schema = parse_ddl(ddl)
    given: dict[str, Any] = {
        "store": open_store(str(folder)),
        "name_prefix": "f",
        "schema": to_arrow(schema),
        "leaves": indexed_leaves(schema, changes.pop("indexed", 32)),
        "target_bytes": 1 << 30,
        "codec": "snappy",
    }
    return ParquetRoller(**(given | changes))


def table(ddl: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=to_arrow(parse_ddl(ddl)))


def test_dictionaries_go_where_values_repeat() -> None:
    ddl = "id BIGINT, kind STRING, uuid STRING, s STRUCT<c: STRING, n: INT>, l ARRAY<STRUCT<sku: STRING>>"
    ddl += ", m MAP<STRING, INT>"
    rows = [
        {
            "id": i,
            "kind": f"k{i % 3}",
            "uuid": f"u{i}",
            "s": {"c": f"c{i % 7}", "n": i % 5},
            "l": [{"sku": f"x{i % 9}"}],
            "m": {"a": i, "b": i},
        }
        for i in range(1000)
    ]
    assert columns_worth_a_dictionary(table(ddl, rows)) == [
        *("kind", "s.c", "s.n", "l.list.element.sku"),
        "m.key_value.key",
    ]
    assert columns_worth_a_dictionary(table(ddl, [])) == []


def test_the_named_columns_are_the_ones_encoded_so(tmp_path: Path) -> None:
    ddl = "id BIGINT, kind STRING, l ARRAY<STRING>, m MAP<STRING, BIGINT>, `a.b` STRING"
    writer = roller(tmp_path, ddl)
    rows = [{"id": i, "kind": "k", "l": ["x"], "m": {"k": i}, "a.b": "y"} for i in range(100)]
    writer.write(table(ddl, rows))
    (file,) = writer.close()
    group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
    encoded = {
        group.column(i).path_in_schema: any("DICTIONARY" in e for e in group.column(i).encodings)
        for i in range(group.num_columns)
    }
    assert encoded == {
        "id": False,
        "kind": True,
        "l.list.element": True,
        "m.key_value.key": True,
        "m.key_value.value": False,
        "a.b": True,
    }


def test_nulls_are_counted_at_every_level(tmp_path: Path) -> None:
    ddl = "id INT, s STRUCT<a: INT, t: STRUCT<b: STRING, l: ARRAY<INT>>>, l ARRAY<INT>"
    writer = roller(tmp_path, ddl)
    writer.write(
        table(
            ddl,
            [
                {"id": 1, "s": None, "l": None},
                {"id": None, "s": {"a": 1, "t": None}, "l": []},
                {"id": 3, "s": {"a": None, "t": {"b": "x", "l": None}}, "l": [None]},
                {"id": 4, "s": {"a": 2, "t": {"b": None, "l": [1]}}, "l": [1]},
            ],
        )
    )
    (file,) = writer.close()
    assert json.loads(file.stats)["nullCount"] == {"id": 1, "s": {"a": 2, "t": {"b": 3, "l": 3}}, "l": 1}


def test_only_the_indexed_columns_have_statistics(tmp_path: Path) -> None:
    ddl = ", ".join(f"c{i} INT" for i in range(40))
    writer = roller(tmp_path, ddl)
    writer.write(table(ddl, [{f"c{i}": i for i in range(40)}]))
    (file,) = writer.close()
    assert len(json.loads(file.stats)["minValues"]) == 32
    assert len(indexed_leaves(parse_ddl(ddl), -1)) == 40


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    assert roller(tmp_path, "id INT").close() == ()
    assert list(tmp_path.iterdir()) == []


def test_files_roll_and_hold_every_row_in_order(tmp_path: Path) -> None:
    writer = roller(tmp_path, "id BIGINT", target_bytes=4000)
    for start in range(0, 20_000, 500):
        writer.write(table("id BIGINT", [{"id": i} for i in range(start, start + 500)]))
    files = writer.close()
    assert len(files) > 3
    found = [i for f in files for i in pq.read_table(tmp_path / f.path)["id"].to_pylist()]
    assert found == list(range(20_000))
    assert [f.rows for f in files] == [json.loads(f.stats)["numRecords"] for f in files]
