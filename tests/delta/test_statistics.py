"""File statistics as a reader uses them: a bound holds for every row or is left out, so that no row is ever hidden."""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.types import DataFile
from blizzard.schema.arrow import to_arrow
from blizzard.schema.load import load_schema
from blizzard.store import open_store
from blizzard.tasks import write as write_module
from blizzard.tasks.stats import indexed_leaves, upper_prefix
from blizzard.tasks.write import ParquetRoller
from tests.flows.in_process import Flow, actions_of
from tests.ingesting import write

LAST = "\U0010ffff"
UTC = dt.timezone.utc


@pytest.fixture
def _group_per_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table written becomes a row group of its own."""
    monkeypatch.setattr(write_module, "_ROW_GROUP_BYTES", 1)


def write_groups(folder: Path, ddl: str, *groups: list[Any]) -> tuple[DataFile, dict[str, Any]]:
    """One Parquet file of one column `c`, with these row groups, and its statistics."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = load_schema(f"c {ddl}")
    roller = ParquetRoller(
        store=open_store(str(folder)),
        name_prefix="f",
        schema=to_arrow(schema),
        leaves=indexed_leaves(schema),
        target_bytes=1 << 30,
        codec="snappy",
    )
    for group in groups:
        roller.write(pa.table({"c": pa.array(group, to_arrow(schema).field("c").type)}))
    (file,) = roller.close()
    assert pq.ParquetFile(folder / file.path).num_row_groups == len(groups)
    return file, json.loads(file.stats, parse_float=Decimal)


@pytest.mark.usefixtures("_group_per_write")
@pytest.mark.parametrize(
    ("ddl", "groups", "low", "high"),
    [
        ("BIGINT", [[5, 6], [1, 2], [3, 9], [4]], 1, 9),
        ("DOUBLE", [[0.5], [-2.5, 7.25], [1.0]], Decimal("-2.5"), Decimal("7.25")),
        (
            "DECIMAL(10,2)",
            [[Decimal("5.00")], [Decimal("-1.25")], [Decimal("9.99")]],
            Decimal("-1.25"),
            Decimal("9.99"),
        ),
        ("STRING", [["m"], ["a", "n"], ["z"], ["b"]], "a", "z"),
        ("DATE", [[dt.date(2024, 5, 1)], [dt.date(1, 1, 1)], [dt.date(9999, 12, 31)]], "0001-01-01", "9999-12-31"),
        (
            "TIMESTAMP",
            [[dt.datetime(2024, 5, 1, 0, 0, 0, 999_999, UTC)], [dt.datetime(1, 1, 1, 0, 0, 0, 1, UTC)]],
            "0001-01-01T00:00:00.000001Z",
            "2024-05-01T00:00:00.999999Z",
        ),
        ("TIMESTAMP_NTZ", [[dt.datetime(2024, 5, 1, 0, 0, 0, 1)]], *["2024-05-01T00:00:00.000001"] * 2),
        ("BOOLEAN", [[True], [False], [True]], False, True),
        ("BOOLEAN", [[True], [True, None]], True, True),
    ],
)
def test_bounds_are_those_of_all_row_groups(tmp_path: Path, ddl: str, groups: list[Any], low: Any, high: Any) -> None:
    _, stats = write_groups(tmp_path, ddl, *groups)
    assert (stats["minValues"]["c"], stats["maxValues"]["c"]) == (low, high)
    assert stats["numRecords"] == sum(map(len, groups))


@pytest.mark.usefixtures("_group_per_write")
@pytest.mark.parametrize("position", [0, 1, 2])
def test_bounds_are_left_out_if_one_row_group_lacks_them_though_it_has_values(tmp_path: Path, position: int) -> None:
    groups: list[list[float | None]] = [[1.0], [2.0, None]]
    groups.insert(position, [math.nan, math.nan])
    _, stats = write_groups(tmp_path, "DOUBLE", *groups)
    assert (stats["minValues"], stats["maxValues"]) == ({}, {})
    assert stats["nullCount"] == {"c": 1}


@pytest.mark.usefixtures("_group_per_write")
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    ("ddl", "values", "expected"), [("BIGINT", [[4], [2, 3]], (2, 4)), ("STRING", [["x"], ["y"]], ("x", "y"))]
)
def test_a_row_group_of_nulls_alone_does_not_take_the_bounds_away(
    tmp_path: Path, ddl: str, values: list[list[Any]], expected: tuple[Any, Any], position: int
) -> None:
    groups = [*values]
    groups.insert(position, [None, None])
    _, stats = write_groups(tmp_path, ddl, *groups)
    assert (stats["minValues"]["c"], stats["maxValues"]["c"]) == expected
    assert stats["nullCount"] == {"c": 2}


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_bounds_that_json_cannot_hold_are_left_out(tmp_path: Path, infinity: float) -> None:
    _, stats = write_groups(tmp_path, "DOUBLE", [1.0, infinity])
    assert (stats["minValues"], stats["maxValues"]) == ({}, {})


@pytest.mark.usefixtures("_group_per_write")
@pytest.mark.parametrize("ddl", ["STRING"])
def test_strings_over_four_kilobytes_have_bounds_though_the_footer_has_none(tmp_path: Path, ddl: str) -> None:
    longest = "q" * 5000
    _, stats = write_groups(tmp_path, ddl, ["b", "c"], [longest], ["d", None])
    assert stats["minValues"]["c"] == "b"
    assert stats["maxValues"]["c"] == "q" * 32 + LAST
    assert stats["maxValues"]["c"] >= longest
    assert stats["nullCount"] == {"c": 1}


@pytest.mark.usefixtures("_group_per_write")
@pytest.mark.parametrize("size", [4095, 4096, 4097])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_strings_of_about_four_kilobytes_have_bounds_in_any_row_group(tmp_path: Path, size: int, place: int) -> None:
    groups: list[list[str | None]] = [["m"], [None, "n"], ["", "o"]]
    groups[place] += ["x" * size, "é" * (size // 2)]
    _, stats = write_groups(tmp_path, "STRING", *groups)
    assert (stats["minValues"]["c"], stats["maxValues"]["c"]) == ("", "é" * 32 + LAST)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 32,
        "a" * 33,
        "a" * 31 + LAST + "b",
        "a" * 32 + LAST,
        "a" * 32 + LAST + "b",
        "a" * 32 + LAST * 3 + "b",
        "a" * 32 + LAST * 3,
        LAST * 40,
        LAST * 40 + "a",
        LAST * 31,
        "",
        "é" * 40,
    ],
)
def test_the_cut_upper_bound_sorts_at_or_after_the_text(text: str) -> None:
    bound = upper_prefix(text)
    assert bound.encode() >= text.encode()
    assert len(bound) <= max(33, len(text))


@given(st.text(st.sampled_from(["a", "z", "é", "\ud7ff", "\ue000", "\U00010000", LAST]), max_size=48))
def test_no_text_sorts_after_its_cut_upper_bound(text: str) -> None:
    assert upper_prefix(text).encode() >= text.encode()


DDL = (
    "id BIGINT, c_byte TINYINT, c_short SMALLINT, c_int INT, c_long BIGINT, c_float FLOAT, c_double DOUBLE,"
    " c_decimal DECIMAL(20,6), c_string STRING, c_binary BINARY, c_bool BOOLEAN, c_date DATE, c_ts TIMESTAMP,"
    " c_ntz TIMESTAMP_NTZ, s STRUCT<n: BIGINT, t: STRING>, l ARRAY<BIGINT>, m MAP<STRING, BIGINT>"
)
TEXTS = ["", "a", "é", "z" * 32, "z" * 33, "z" * 5000, "z" * 32 + LAST * 2 + "b", LAST * 40, "\U00010000x", "次の日"]


def record(i: int) -> dict[str, Any]:
    """Values that are awkward for a bound: microseconds, extremes, long and last characters."""
    day = dt.date(1, 1, 1) if i == 0 else dt.date(9999, 12, 31) if i == 9 else dt.date(2024, 2, 20) + dt.timedelta(i)
    moment = f"{day.isoformat()}T23:59:59.{999_990 + i:06d}"
    return {
        "id": i,
        "c_byte": [-128, 127, 0][i % 3],
        "c_short": [-32768, 32767, i][i % 3],
        "c_int": [-(2**31), 2**31 - 1, i][i % 3],
        "c_long": [-(2**63), 2**63 - 1, i][i % 3],
        "c_float": [-1.5, 3.4028234663852886e38, 1e-45, 0.0][i % 4],
        "c_double": [-1.7976931348623157e308, 5e-324, 0.1, -0.0][i % 4],
        "c_decimal": ["-99999999999999.999999", "99999999999999.999999", "0.000001", "12345678901234.567891"][i % 4],
        "c_string": TEXTS[i],
        "c_binary": "AAECAw==",
        "c_bool": i % 2 == 0,
        "c_date": day.isoformat(),
        "c_ts": moment + "Z",
        "c_ntz": moment,
        "s": None if i == 4 else {"n": i, "t": TEXTS[i]},
        "l": [i],
        "m": {"k": i},
    }


COLUMNS = [
    *("c_byte", "c_short", "c_int", "c_long", "c_float", "c_double", "c_decimal", "c_string", "c_bool", "c_date"),
    *("c_ts", "c_ntz"),
]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, ">=": operator.ge, "<=": operator.le}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A table of every type, one record and one Parquet file per task, so that every bound may hide a row."""
    flow = Flow(tmp_path_factory.mktemp("types"), ddl=DDL)
    for i in range(10):
        text = json.dumps(record(i))
        decimal = record(i)["c_decimal"]
        text = text.replace(f'"c_decimal": "{decimal}"', f'"c_decimal": {decimal}')
        write(flow.src / f"{i}.ndjson", text.encode() + b"\n")
    write(flow.src / "nulls.ndjson", b'{"id":10}\n{"id":11}\n')
    write(flow.src / "pairs.ndjson", b"".join(p.read_bytes() for p in sorted(flow.src.glob("[0-9].ndjson"))[2:5]))
    flow.run(slots=12)
    assert len(list(actions_of(flow.table, "add"))) == 12
    rows = [row for f in flow.table.glob("*.parquet") for row in pq.read_table(f).to_pylist()]
    return flow.table, rows


@pytest.mark.parametrize("sign", list(COMPARE))
@pytest.mark.parametrize("column", COLUMNS)
def test_no_filter_hides_a_row_from_delta_rs(
    everything: tuple[Path, list[dict[str, Any]]], column: str, sign: str
) -> None:
    table, rows = everything
    handle = deltalake.DeltaTable(str(table))
    for value in sorted({row[column] for row in rows if row[column] is not None}):
        wanted = [r["id"] for r in rows if r[column] is not None and COMPARE[sign](r[column], value)]
        found = handle.to_pyarrow_table(columns=["id"], filters=[(column, sign, value)])["id"].to_pylist()
        assert sorted(found) == sorted(wanted), value


@pytest.mark.parametrize("sign", list(COMPARE))
@pytest.mark.parametrize("column", ["n", "t"])
def test_no_filter_on_a_field_of_a_struct_hides_a_row(
    everything: tuple[Path, list[dict[str, Any]]], column: str, sign: str
) -> None:
    table, rows = everything
    dataset = deltalake.DeltaTable(str(table)).to_pyarrow_dataset()
    field = ds.field("s", column)
    for value in sorted({row["s"][column] for row in rows if row["s"] is not None}):
        wanted = [r["id"] for r in rows if r["s"] is not None and COMPARE[sign](r["s"][column], value)]
        expression = {"=": field == value, ">=": field >= value, "<=": field <= value}[sign]
        assert sorted(dataset.to_table(filter=expression)["id"].to_pylist()) == sorted(wanted), value


def test_rows_without_a_value_are_found_by_that(everything: tuple[Path, list[dict[str, Any]]]) -> None:
    table, rows = everything
    dataset = deltalake.DeltaTable(str(table)).to_pyarrow_dataset()
    for column in (*COLUMNS, "s", "l", "m", "c_binary"):
        wanted = sorted(r["id"] for r in rows if r[column] is None)
        assert sorted(dataset.to_table(filter=ds.field(column).is_null())["id"].to_pylist()) == wanted, column
        wanted = sorted(r["id"] for r in rows if r[column] is not None)
        assert sorted(dataset.to_table(filter=ds.field(column).is_valid())["id"].to_pylist()) == wanted, column


def test_every_column_that_can_have_bounds_has_them(everything: tuple[Path, list[dict[str, Any]]]) -> None:
    """Without this the tests above would pass for statistics that are not there."""
    table, _ = everything
    stats = [json.loads(add["stats"]) for add in actions_of(table, "add")]
    filled = [s for s in stats if s["nullCount"]["c_long"] == 0]
    assert len(filled) == 11
    for s in filled:
        assert set(COLUMNS) <= s["minValues"].keys()
        assert s["minValues"].keys() == s["maxValues"].keys()
        assert not {"c_binary", "l", "m"} & s["minValues"].keys()
    (nulls,) = (s for s in stats if s["nullCount"]["c_long"] == 2)
    assert not set(COLUMNS) & (nulls["minValues"].keys() | nulls["maxValues"].keys())


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"delta.dataSkippingNumIndexedCols": "0"},
        {"delta.dataSkippingNumIndexedCols": "2"},
        {"delta.dataSkippingNumIndexedCols": "-1"},
        {"delta.dataSkippingStatsColumns": "c4"},
        {"delta.dataSkippingStatsColumns": "c39"},
    ],
    ids=lambda c: "".join(f"{k.removeprefix('delta.dataSkipping')}={v}" for k, v in c.items()) or "default",
)
def test_columns_beyond_the_indexed_ones_hide_nothing(tmp_path: Path, configuration: dict[str, str]) -> None:
    """delta-rs's reader expects bounds for the columns these properties name, and takes missing ones for no row."""
    ddl = "id BIGINT, " + ", ".join(f"c{k} BIGINT" for k in range(40))
    flow = Flow(tmp_path, ddl=ddl)
    schema = deltalake.Schema.from_json(json.dumps(load_schema(ddl)))
    deltalake.DeltaTable.create(str(flow.table), schema=schema, configuration=configuration)
    for i in range(3):
        write(flow.src / f"{i}.ndjson", json.dumps({"id": i} | {f"c{k}": i for k in range(40)}).encode())
    flow.run(slots=3)
    handle = deltalake.DeltaTable(str(flow.table))
    for column in ("id", "c0", "c1", "c4", "c30", "c31", "c39"):
        found = handle.to_pyarrow_table(columns=["id"], filters=[(column, "=", 1)])["id"].to_pylist()
        assert found == [1], column


STRUCTS = [
    ("n: BIGINT", [{"n": None}, None, {"n": 1}]),
    ("b: BINARY", [{"b": "AAEC"}, None, {"b": None}]),
    ("n: BIGINT, t: STRUCT<x: BIGINT>", [{"n": 1}, None, {"t": {"x": 1}}, {"t": {"x": None}}]),
]


@pytest.mark.parametrize(("fields", "values"), STRUCTS)
def test_a_struct_that_is_null_is_told_from_one_whose_fields_are(
    tmp_path: Path, fields: str, values: list[Any]
) -> None:
    """delta-rs's reader takes a struct that is missing from the bounds for one that is never null."""
    flow = Flow(tmp_path, ddl=f"id BIGINT, s STRUCT<{fields}>")
    for i, value in enumerate(values):
        write(flow.src / f"{i}.ndjson", json.dumps({"id": i, "s": value}).encode())
    flow.run(slots=len(values))
    dataset = deltalake.DeltaTable(str(flow.table)).to_pyarrow_dataset()
    nulls = dataset.to_table(filter=ds.field("s").is_null())["id"].to_pylist()
    others = dataset.to_table(filter=ds.field("s").is_valid())["id"].to_pylist()
    assert nulls == [i for i, value in enumerate(values) if value is None]
    assert sorted(others) == [i for i, value in enumerate(values) if value is not None]


@pytest.mark.usefixtures("_group_per_write")
@pytest.mark.parametrize("values", [TEXTS, [LAST * 40, "a"], ["z" * 5000], ["a" * 32 + LAST, "a" * 32 + LAST + "b"]])
def test_no_filter_hides_a_long_or_last_string_among_several_row_groups(tmp_path: Path, values: list[str]) -> None:
    file, _ = write_groups(tmp_path / "t", "STRING", *([v] for v in values))
    schema = deltalake.Schema.from_json(json.dumps(load_schema("c STRING")))
    handle = deltalake.DeltaTable.create(str(tmp_path / "t"), schema=schema)
    add = deltalake.transaction.AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={},
        modification_time=0,
        data_change=True,
        stats=file.stats,
    )
    handle.create_write_transaction([add], mode="append", schema=schema, partition_by=[])
    handle = deltalake.DeltaTable(str(tmp_path / "t"))
    for value in values:
        for sign, compare in COMPARE.items():
            wanted = sum(compare(v, value) for v in values)
            assert handle.to_pyarrow_table(filters=[("c", sign, value)]).num_rows == wanted, (value, sign)
