"""Derived columns of real rows: every row knows its file and its line, whatever was between."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import parse_partition_by, parse_provenance
from blizzard.schema.layout import TableLayout, apply_layout
from blizzard.tasks.layout import BatchStamp, RowOrigin, UnusableOrigin, complete_table, folder_value

UTC = dt.timezone.utc
STAMP = BatchStamp(pipeline="p", sequence=7, ingested_at_us=1_700_000_000_123_456)


def layout(ddl: str, partition_by: str | None = None, provenance: str = "none") -> TableLayout:
    specs = parse_partition_by(partition_by) if partition_by else ()
    return apply_layout(parse_ddl(ddl), partition_by=specs, provenance=parse_provenance(provenance))


def origin(path: str, *lines: int, etag: str = "e") -> RowOrigin:
    return RowOrigin(path, etag, np.array(lines, np.int64))


def rows(of: TableLayout, records: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(records, schema=to_arrow(of.record_schema))


def test_every_row_knows_where_it_comes_from() -> None:
    wanted = layout("id INT", None, "all")
    given_rows = rows(wanted, [{"id": i} for i in range(5)])
    # Lines 1 and 3 of a.ndjson were blank, b.ndjson had none but blank ones.
    origins = [origin("x/a.ndjson", 0, 2, 4, etag="1"), origin("x/b.ndjson"), origin("é.ndjson", 10, 11, etag="2")]
    done = complete_table(given_rows, wanted, origins, STAMP)
    assert done.schema == to_arrow(wanted.schema)
    assert done.to_pydict() == {
        "id": [0, 1, 2, 3, 4],
        "_source_file": ["x/a.ndjson"] * 3 + ["é.ndjson"] * 2,
        "_source_line": [1, 3, 5, 11, 12],
        "_ingested_at": [dt.datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC)] * 5,
        "_sequence": [7] * 5,
        "_record_key": [
            "p|x/a.ndjson|1|0",
            "p|x/a.ndjson|1|2",
            "p|x/a.ndjson|1|4",
            "p|é.ndjson|2|10",
            "p|é.ndjson|2|11",
        ],
    }


@given(st.lists(st.lists(st.integers(0, 9), max_size=5, unique=True), max_size=5), st.data())
def test_the_key_of_a_record_is_the_same_however_it_is_read(files: list[list[int]], data: st.DataObject) -> None:
    """Another batch, another sequence, other neighbours: the same key. And no two records share one."""
    wanted = layout("id INT", None, "record_key,sequence")
    every = [(f"f{i}", line) for i, lines in enumerate(files) for line in sorted(lines)]

    def keys(of: list[tuple[str, int]], sequence: int) -> dict[tuple[str, int], str]:
        table = rows(wanted, [{"id": 0}] * len(of))
        stamp = BatchStamp(pipeline="p", sequence=sequence, ingested_at_us=sequence)
        done = complete_table(table, wanted, [origin(path, line) for path, line in of], stamp)
        return dict(zip(of, done["_record_key"].to_pylist(), strict=True))

    together = keys(every, 1)
    cut = data.draw(st.integers(0, len(every)))
    assert keys(every[:cut], 2) | keys(every[cut:], 3) == together
    assert len(set(together.values())) == len(every)


def test_columns_are_found_by_name_and_put_in_order() -> None:
    wanted = layout("id INT NOT NULL, ts TIMESTAMP, _rescued_data STRING", "day=date(ts)")
    at = dt.datetime(2024, 5, 1, 23, 59, 59, tzinfo=UTC)
    schema = to_arrow(wanted.record_schema)
    parsed = rows(wanted, [{"id": 1, "ts": at}]).append_column("_rescued_data", pa.array(["{}"]))
    shuffled = parsed.select(["_rescued_data", "ts", "id"])
    done = complete_table(shuffled, wanted, [origin("a", 0)], STAMP)
    assert done.to_pylist() == [{"id": 1, "ts": at, "_rescued_data": "{}", "day": dt.date(2024, 5, 1)}]
    assert done.schema.field("id") == schema.field("id")
    for wrong in (shuffled.drop_columns(["ts"]), shuffled.append_column("more", pa.array([1]))):
        with pytest.raises((RuntimeError, KeyError)):
            complete_table(wrong, wanted, [origin("a", 0)], STAMP)


def test_a_run_that_does_not_rescue_leaves_the_column_of_one_that_did_empty() -> None:
    wanted = layout("id INT, _rescued_data STRING", None)
    done = complete_table(rows(wanted, [{"id": 1}]), wanted, [origin("a", 0)], STAMP)
    assert done.to_pylist() == [{"id": 1, "_rescued_data": None}]


def test_without_derived_columns_the_rows_are_passed_on_as_they_are() -> None:
    wanted = layout("id INT, c STRING", "c")
    table = rows(wanted, [{"id": 1, "c": ""}])
    assert complete_table(table, wanted, [], STAMP) is table


def test_rows_without_a_line_are_a_mistake() -> None:
    wanted = layout("id INT", None, "source_line")
    with pytest.raises(RuntimeError, match="1 lines were counted for 2 rows"):
        complete_table(rows(wanted, [{"id": 1}] * 2), wanted, [origin("a", 0)], STAMP)


moments = st.datetimes(timezones=st.just(UTC)) | st.none()


@given(st.lists(moments, min_size=1, max_size=20))
def test_parts_of_a_time_are_those_of_utc(values: list[dt.datetime | None]) -> None:
    wanted = layout(
        "ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, u STRUCT<v: STRUCT<ts: TIMESTAMP>>",
        "a=date(ts), b=year(ts), c=month(ts), e=hour(ts), f=date(n), g=hour(n), h=date(d), i=month(d), j=date(u.v.ts)",
    )
    records = [
        {"ts": v, "n": v.replace(tzinfo=None), "d": v.date(), "u": {"v": {"ts": v}}}
        if v is not None
        else {"ts": None, "n": None, "d": None, "u": [None, {"v": None}][i % 2]}
        for i, v in enumerate(values)
    ]
    done = complete_table(rows(wanted, records), wanted, [origin("a", *range(len(values)))], STAMP).to_pylist()
    for value, row in zip(values, done, strict=True):
        found = [row[name] for name in "abcefghij"]
        if value is None:
            assert found == [None] * 9
        else:
            day = value.date()
            assert found == [day, day.year, day.month, value.hour, day, value.hour, day, day.month, day]


def test_a_time_may_be_that_of_the_run_itself() -> None:
    wanted = layout("id INT", "day=date(_ingested_at)", "ingested_at")
    done = complete_table(rows(wanted, [{"id": 1}]), wanted, [origin("a", 0)], STAMP)
    assert done["day"].to_pylist() == [dt.date(2023, 11, 14)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("region=eu/a.ndjson", "eu"),
        ("x/region=eu/day=1/a.ndjson", "eu"),
        ("region=a%2Fb%20c%C3%A9+/a", "a/b cé+"),
        ("region=100%/a", "100%"),
        ("%72egion=eu/a", "eu"),
        ("region=__HIVE_DEFAULT_PARTITION__/a", None),
        ("region=a=b/a", "a=b"),
        ("region=/a", ""),
        ("a/region=eu", None),
        ("Region=eu/a", None),
        ("myregion=eu/a", None),
        ("region=eu/region=eu/a", "eu"),
        ("a.ndjson", None),
    ],
)
def test_the_value_of_a_folder(path: str, expected: str | None) -> None:
    assert folder_value(path, "region") == expected


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("INT", "-2147483648", -(2**31)),
        ("INT", "007", 7),
        ("INT", "2147483648", None),
        ("INT", "1.0", None),
        ("INT", "٣", None),
        ("INT", "1_0", None),
        ("INT", "", None),
        ("TINYINT", "127", 127),
        ("TINYINT", "128", None),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "9" * 5000, None),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("DATE", "2023-02-29", None),
        ("DATE", "20240229", None),
        ("STRING", "x", "x"),
    ],
)
def test_a_part_of_the_path_is_converted_or_the_file_is_named(type_name: str, text: str, value: Any) -> None:
    wanted = layout("id INT", f"r=path(r) {type_name}")
    table = rows(wanted, [{"id": 1}, {"id": 2}])
    origins = [origin("r=__HIVE_DEFAULT_PARTITION__/a", 0), origin(f"r={text}/b", 5)]
    if value is not None:
        assert complete_table(table, wanted, origins, STAMP)["r"].to_pylist() == [None, value]
        return
    with pytest.raises(UnusableOrigin, match=r"column r, path\(r\): .* is not a valid") as refused:
        complete_table(table, wanted, origins, STAMP)
    assert (refused.value.kind, refused.value.path, refused.value.line) == ("bad_path", f"r={text}/b", None)


@pytest.mark.parametrize(("path", "why"), [("r=1/r=2/a", "its folders give 1 and 2"), ("r=%FF/a", "not UTF-8")])
def test_a_path_that_is_unclear_is_refused(path: str, why: str) -> None:
    wanted = layout("id INT", "r=path(r)")
    with pytest.raises(UnusableOrigin, match=why):
        complete_table(rows(wanted, [{"id": 1}]), wanted, [origin(path, 0)], STAMP)


def test_an_empty_text_never_gets_into_a_partition_column_that_is_not_null() -> None:
    """As a partition value it is null, which the column does not allow."""
    wanted = layout("id INT, c STRING NOT NULL", "c")
    table = rows(wanted, [{"id": 1, "c": "a"}, {"id": 2, "c": "b"}, {"id": 3, "c": ""}])
    with pytest.raises(UnusableOrigin, match="column c") as refused:
        complete_table(table, wanted, [origin("a", 0), origin("b", 4, 6)], STAMP)
    assert (refused.value.kind, refused.value.path, refused.value.line) == ("missing_value", "b", 7)
    assert refused.value.rows.tolist() == [2]
    assert complete_table(table.slice(0, 2), wanted, [], STAMP).num_rows == 2


def test_a_derived_column_that_is_not_null_needs_a_value() -> None:
    wanted = layout("id INT, ts TIMESTAMP", "day=date(ts)")
    wanted.schema["fields"][2]["nullable"] = False
    with pytest.raises(UnusableOrigin, match="column day") as refused:
        complete_table(rows(wanted, [{"id": 1, "ts": None}]), wanted, [origin("a", 8)], STAMP)
    assert (refused.value.path, refused.value.line) == ("a", 9)
