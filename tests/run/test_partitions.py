"""Partition values of every type through a real Delta log, read back by two readers that share no code with us."""

from __future__ import annotations

import datetime as dt
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.commit import CommitRequest
from blizzard.delta.place import DeltaRsPlace
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import Refused, Temporary
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import parse_partition_by, parse_provenance
from blizzard.schema.layout import TableLayout, apply_layout, layout_of
from blizzard.store import open_store
from blizzard.tasks.layout import BatchStamp, RowOrigin, complete_table
from blizzard.tasks.partitioned import open_writer
from tests.flows.in_process import NOW_MS, Flow, RacedPlace, SetClock, actions_of, newest
from tests.ingesting import write

UTC = dt.timezone.utc


def make(root: Path, layout: TableLayout) -> DeltaRsTable:
    place = DeltaRsPlace(root=str(root), schema=layout.schema, clock=SetClock(NOW_MS), partition_by=layout.partition_by)
    place.create("p")
    table = place.open()
    assert table is not None
    return table


def append(table: DeltaRsTable, layout: TableLayout, rows: pa.Table) -> CommitRequest:
    out = open_writer(
        layout,
        store=open_store(table.root),
        name_prefix="f",
        indexed_columns=table.indexed_columns,
        target_bytes=1 << 30,
        codec="snappy",
    )
    out.write(rows)
    request = CommitRequest(
        app_id="blizzard:x",
        fence_app_id="blizzard-fence:p",
        sequence=1,
        last_updated_ms=1,
        ledger="{}",
        files=out.close(),
    )
    table.append(request)
    return request


@contextmanager
def partitioned(ddl: str, values: list[Any]) -> Iterator[tuple[Path, list[tuple[int, Any]]]]:
    """A new table with one row for each value of its partition column `c`, and the rows it should have."""
    layout = apply_layout(parse_ddl(f"c {ddl}, id BIGINT"), partition_by=parse_partition_by("c"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        kind = to_arrow(layout.schema).field("c").type
        column = pa.array(values, kind)
        append(
            make(root, layout),
            layout,
            pa.table([column, pa.array(range(len(values)), pa.int64())], to_arrow(layout.schema)),
        )
        yield root, list(enumerate(column.to_pylist()))


def read_by_pyarrow(root: Path) -> list[tuple[int, Any]]:
    found = deltalake.DeltaTable(str(root)).to_pyarrow_table()
    return sorted(zip(found["id"].to_pylist(), found["c"].to_pylist(), strict=True), key=lambda row: row[0])


def read_by_datafusion(root: Path) -> list[tuple[int, Any]]:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(root)))
    found = pa.table(query.execute("select id, c from t order by id").read_all())
    return list(zip(found["id"].to_pylist(), found["c"].to_pylist(), strict=True))


def same(found: list[tuple[int, Any]], wanted: list[tuple[int, Any]]) -> bool:
    def shown(value: Any) -> Any:
        if isinstance(value, dt.datetime):
            return value.isoformat()
        return repr(value) if isinstance(value, float) else value  # tells -0.0 from 0.0, and NaN is NaN

    return [(i, shown(v)) for i, v in found] == [(i, shown(v)) for i, v in wanted]


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": integers(8),
    "SMALLINT": integers(16),
    "INT": integers(32),
    "BIGINT": integers(64),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "STRING": st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
    | st.sampled_from(
        ["a b", "a/b", "a=b", "%20", "é", "__HIVE_DEFAULT_PARTITION__", "null", "..", "'\"\\", "x" * 300]
    ),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(timezones=st.just(UTC)),
    "TIMESTAMP_NTZ": st.datetimes(),
    "DECIMAL(38,0)": st.decimals(
        places=0, allow_nan=False, allow_infinity=False, min_value=-(10**37), max_value=10**37
    ),
    "DECIMAL(10,2)": st.decimals(
        places=2, allow_nan=False, allow_infinity=False, min_value=-99999999, max_value=99999999
    ),
    "DECIMAL(20,20)": st.decimals(
        places=20, allow_nan=False, allow_infinity=False, min_value=0, max_value=Decimal("0.5")
    ),
}


@pytest.mark.parametrize("ddl", list(TYPES))
@settings(max_examples=20)
@given(data=st.data())
def test_a_value_reads_back_as_it_was_written(ddl: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(TYPES[ddl] | st.none(), min_size=1, max_size=8))
    with partitioned(ddl, values) as (root, wanted):
        assert same(read_by_datafusion(root), wanted)
        # The conversion to pyarrow writes -1.01 as "-1.-1" and stops (delta-rs 1.6.6).
        if not any(isinstance(v, Decimal) and v < 0 and v != int(v) for v in values):
            assert same(read_by_pyarrow(root), wanted)


EXTREMES: list[tuple[str, list[Any]]] = [
    ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10)]),
    ("TIMESTAMP", [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)]),
    ("TIMESTAMP", [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), dt.datetime(2024, 3, 31, 2, 30, tzinfo=UTC)]),
    ("TIMESTAMP_NTZ", [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    ("FLOAT", [0.0, -0.0, 1e-45, 3.4028234663852886e38, 0.1, math.inf, -math.inf, math.nan]),
    ("DOUBLE", [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e16, math.inf, -math.inf, math.nan]),
    ("DECIMAL(38,0)", [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(0)]),
    ("DECIMAL(38,38)", [Decimal("0." + "9" * 38), Decimal("1E-38"), Decimal(0)]),
    ("BIGINT", [-(2**63), 2**63 - 1]),
    ("BOOLEAN", [True, None, False]),
    ("INT", [None, None]),
]


@pytest.mark.parametrize(("ddl", "values"), EXTREMES)
def test_the_ends_of_every_type(ddl: str, values: list[Any]) -> None:
    with partitioned(ddl, values) as (root, wanted):
        assert same(read_by_datafusion(root), wanted)
        assert same(read_by_pyarrow(root), wanted)


@pytest.mark.parametrize(
    ("ddl", "value", "text"),
    [
        ("STRING", "a b/é%", "a b/é%"),
        ("STRING", None, None),
        ("STRING", "", None),
        ("BOOLEAN", True, "true"),
        ("DATE", dt.date(24, 5, 1), "0024-05-01"),
        ("TIMESTAMP", dt.datetime(24, 5, 1, 2, 3, 4, 5, UTC), "0024-05-01T02:03:04.000005Z"),
        ("TIMESTAMP_NTZ", dt.datetime(24, 5, 1, 2, 3, 4, 5), "0024-05-01 02:03:04.000005"),
        ("DECIMAL(10,2)", Decimal("1.5"), "1.50"),
        ("DECIMAL(10,2)", Decimal("-0.01"), "-0.01"),
        ("DECIMAL(38,10)", Decimal("1E-10"), "0.0000000001"),
        ("FLOAT", 0.1, "0.1"),
        ("DOUBLE", 0.1, "0.1"),
        ("DOUBLE", 1e300, "1e+300"),
        ("DOUBLE", math.nan, "NaN"),
        ("DOUBLE", -math.inf, "-Infinity"),
    ],
)
def test_the_text_in_the_log(ddl: str, value: Any, text: str | None) -> None:
    with partitioned(ddl, [value]) as (root, _):
        (add,) = actions_of(root, "add")
        assert add["partitionValues"] == {"c": text}
        assert [*json.loads(add["stats"])["minValues"]] == ["id"]


def test_an_empty_text_is_null_for_every_reader() -> None:
    with partitioned("STRING", ["", None, "x"]) as (root, _):
        assert read_by_pyarrow(root) == read_by_datafusion(root) == [(0, None), (1, None), (2, "x")]
        assert len(list(actions_of(root, "add"))) == 2


def test_a_table_is_made_filled_and_read_by_partition(tmp_path: Path) -> None:
    """Columns in the order of the schema, derived ones among them, and filters find all rows and open no other file."""
    layout = apply_layout(
        parse_ddl("country STRING, id BIGINT, ts TIMESTAMP"),
        partition_by=parse_partition_by("country, day=date(ts), shard=path(shard) INT"),
        provenance=parse_provenance("all"),
    )
    table = make(tmp_path / "t", layout)
    assert table.partition_columns == ("country", "day", "shard")
    assert layout_of(table.schema, table.partition_columns) == layout
    records: list[dict[str, Any]] = [
        {"country": ["DE", "côte d'ivoire", None][i % 3], "id": i, "ts": dt.datetime(2024, 5, 1 + i % 2, tzinfo=UTC)}
        for i in range(60)
    ]
    origins = [
        RowOrigin("shard=7/a.ndjson", "1", np.arange(30, dtype=np.int64)),
        RowOrigin("b.ndjson", "2", np.arange(0, 60, 2, dtype=np.int64)),
    ]
    stamp = BatchStamp(pipeline="p", sequence=1, ingested_at_us=0)
    parsed = pa.Table.from_pylist(records, schema=to_arrow(layout.record_schema))
    append(table, layout, complete_table(parsed, layout, origins, stamp))
    table.check_writable()
    dataset = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset()
    everything = dataset.to_table().sort_by("id")
    assert everything.column_names == [f["name"] for f in layout.schema["fields"]]
    assert everything["country"].to_pylist() == [r["country"] for r in records]
    assert everything["day"].to_pylist() == [r["ts"].date() for r in records]
    assert everything["shard"].to_pylist() == [7] * 30 + [None] * 30
    assert everything["_source_line"].to_pylist() == [*range(1, 31), *range(1, 61, 2)]
    wanted = [r["id"] for r in records if r["country"] == "côte d'ivoire" and r["ts"].day == 2]
    chosen = (ds.field("country") == "côte d'ivoire") & (ds.field("day") == dt.date(2024, 5, 2))
    assert dataset.to_table(filter=chosen).sort_by("id")["id"].to_pylist() == wanted
    assert len(list(dataset.get_fragments(filter=chosen))) == 2
    nulls = dataset.to_table(filter=ds.field("country").is_null())["id"].to_pylist()
    assert sorted(nulls) == [r["id"] for r in records if r["country"] is None]
    folders = {Path(a["path"]).parent.as_posix() for a in actions_of(tmp_path / "t", "add")}
    assert folders == {".", "country=DE/day=2024-05-01/shard=7", "country=DE/day=2024-05-02/shard=7"}


@pytest.mark.parametrize("limit", [None, "2", "0"])
def test_filters_find_rows_beyond_the_indexed_columns_of_a_partitioned_table(tmp_path: Path, limit: str | None) -> None:
    """A partition column takes no place among the indexed ones: delta-rs takes a missing bound for "no such row"."""
    layout = apply_layout(
        parse_ddl("p INT, id BIGINT, " + ", ".join(f"c{k} BIGINT" for k in range(40))),
        partition_by=parse_partition_by("p"),
    )
    configuration = {} if limit is None else {"delta.dataSkippingNumIndexedCols": limit}
    schema = deltalake.Schema.from_json(json.dumps(layout.schema))
    deltalake.DeltaTable.create(str(tmp_path / "t"), schema=schema, partition_by=["p"], configuration=configuration)
    table = DeltaRsPlace(root=str(tmp_path / "t"), schema=None, clock=SetClock(NOW_MS)).open()
    assert table is not None
    records = [{"p": i, "id": i} | {f"c{k}": i for k in range(40)} for i in range(3)]
    append(table, layout, pa.Table.from_pylist(records, schema=to_arrow(layout.schema)))
    handle = deltalake.DeltaTable(str(tmp_path / "t"))
    for column in ("p", "id", "c0", "c29", "c30", "c31", "c39"):
        found = handle.to_pyarrow_table(columns=["id"], filters=[(column, "=", 1)])["id"].to_pylist()
        assert found == [1], column


def test_a_file_without_its_partition_values_is_never_committed(tmp_path: Path) -> None:
    """delta-rs would commit it, and read null for every row."""
    layout = apply_layout(parse_ddl("p INT, id BIGINT"), partition_by=parse_partition_by("p"))
    table = make(tmp_path / "t", layout)
    request = append(table, layout, pa.table({"p": [1], "id": [1]}, to_arrow(layout.schema)))
    table.refresh()
    for values in ((), (("q", "1"),), (("p", "1"), ("q", "1"))):
        wrong = replace(request, sequence=2, files=tuple(replace(f, partition_values=values) for f in request.files))
        with pytest.raises(Refused, match="partitioned by p"):
            table.append(wrong)
    assert len(list(actions_of(tmp_path / "t", "add"))) == 1


@pytest.mark.parametrize("theirs", ["day=date(ts)", "", "day=path(day) DATE, region=path(region)"])
def test_the_second_of_two_drivers_that_make_one_table_with_different_layouts_commits_nothing(
    tmp_path: Path, theirs: str
) -> None:
    """The same columns filled in another way would be wrong in every row, and no reader could tell."""
    flow = Flow(tmp_path, ddl="id BIGINT, ts TIMESTAMP")
    write(flow.src / "day=2020-01-01/a.ndjson", b'{"id":1,"ts":"2024-05-05T00:00:00Z"}\n')

    def place(partition_by: str) -> tuple[TableLayout, DeltaRsPlace]:
        layout = apply_layout(
            parse_ddl(flow.ddl), partition_by=parse_partition_by(partition_by) if partition_by else ()
        )
        root = str(flow.table)
        return layout, DeltaRsPlace(root=root, schema=layout.schema, clock=flow.clock, partition_by=layout.partition_by)

    layout, mine = place("day=path(day) DATE")
    with pytest.raises(Temporary) as error:
        flow.run(place=RacedPlace(mine, place(theirs)[1]), spec={"layout": layout})
    assert error.value.kind == "schema_changed"
    assert newest(flow.table) == 0
