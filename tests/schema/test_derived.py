"""Derived columns: what can be written for one, and what a table keeps of it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import SchemaError
from blizzard.schema.ddl import parse_ddl
from blizzard.schema.derived import (
    METADATA_KEY,
    PROVENANCE,
    PartitionSpec,
    PathPart,
    Provenance,
    TimePart,
    parse_derivation,
    parse_partition_by,
    parse_provenance,
    show_derivation,
)
from blizzard.schema.layout import TableLayout, apply_layout, layout_of

RECORD = (
    "id BIGINT, country STRING, ts TIMESTAMP, born DATE, user STRUCT<ts: TIMESTAMP, n: INT>, raw BINARY, l ARRAY<INT>"
)

names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1)
derivations = st.one_of(
    st.sampled_from([Provenance(fact) for fact in PROVENANCE]),
    st.builds(PathPart, names),
    st.builds(
        TimePart, st.sampled_from(["date", "year", "month", "hour"]), st.lists(names, min_size=1, max_size=3).map(tuple)
    ),
)


@given(derivations)
def test_what_a_table_keeps_reads_back(derivation: Any) -> None:
    assert parse_derivation(show_derivation(derivation)) == derivation


@given(names, derivations.filter(lambda d: not isinstance(d, Provenance)))
def test_a_partition_column_reads_back_however_it_is_named(name: str, derivation: Any) -> None:
    spec = PartitionSpec(name=name, derivation=derivation)
    assert parse_partition_by(spec.shown) == (spec,)
    assert parse_partition_by([spec.shown, "other"]) == (spec, PartitionSpec(name="other"))
    assert parse_partition_by(f"other , {spec.shown}") == (PartitionSpec(name="other"), spec)


def test_the_words_of_partition_by() -> None:
    found = parse_partition_by("country, day=date(ts), region = PATH(region), n=path(`a,b.c`) INT")
    assert found == (
        PartitionSpec(name="country"),
        PartitionSpec(name="day", derivation=TimePart("date", ("ts",))),
        PartitionSpec(name="region", derivation=PathPart("region")),
        PartitionSpec(name="n", derivation=PathPart("a,b.c"), type_name="integer"),
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "commas"),
        ("a,,b", "commas"),
        ("a,", "commas"),
        ("day=date(ts", "commas"),
        ("day=date()", "not the name of a column"),
        ("day=day(ts)", "write date(column)"),
        ("day=ts", "write date(column)"),
        ("user.ts", "top-level"),
        ("day=date(ts) STRING", "only path(key) takes a type"),
        ("r=path(r) DOUBLE", "write one of STRING, TINYINT, SMALLINT, INT, BIGINT, DATE"),
        ("r=path(r) INT NOT", "NULL is missing"),
        ("r=path(a.b)", "backticks"),
        (7, "must be text or a list"),
        ([7], "must be text or a list"),
    ],
)
def test_what_partition_by_cannot_say_is_explained(text: Any, part: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_partition_by(text)
    assert part in str(refused.value)


def test_the_words_of_provenance() -> None:
    every = ("source_file", "source_line", "ingested_at", "sequence", "record_key")
    assert parse_provenance("all") == every
    assert parse_provenance("raw, all") == (*every, "raw") == tuple(PROVENANCE)
    assert parse_provenance("raw") == ("raw",)
    assert parse_provenance(["none"]) == ()
    assert parse_provenance("source_line, source_file,source_line") == ("source_file", "source_line")
    for wrong in ("everything", "all,none", "", "source_file,,sequence"):
        with pytest.raises(SchemaError, match=r"table\.provenance"):
            parse_provenance(wrong)


def new(partition_by: str | None = None, provenance: str = "none", ddl: str = RECORD) -> TableLayout:
    specs = parse_partition_by(partition_by) if partition_by else ()
    return apply_layout(parse_ddl(ddl), partition_by=specs, provenance=parse_provenance(provenance))


def test_derived_columns_follow_the_declared_ones_and_say_how_they_are_filled() -> None:
    layout = new("country, day=date(user.ts), region=path(region), n=path(n) SMALLINT", "all, raw")
    assert layout.partition_by == ("country", "day", "region", "n")
    added = layout.schema["fields"][7:]
    assert [(f["name"], f["type"], f["metadata"]) for f in added] == [
        ("day", "date", {METADATA_KEY: "date(user.ts)"}),
        ("region", "string", {METADATA_KEY: "path(region)"}),
        ("n", "short", {METADATA_KEY: "path(n)"}),
        ("_source_file", "string", {METADATA_KEY: "source_file"}),
        ("_source_line", "long", {METADATA_KEY: "source_line"}),
        ("_ingested_at", "timestamp", {METADATA_KEY: "ingested_at"}),
        ("_sequence", "long", {METADATA_KEY: "sequence"}),
        ("_record_key", "string", {METADATA_KEY: "record_key"}),
        ("_raw", "string", {METADATA_KEY: "raw"}),
    ]
    assert layout.record_schema == parse_ddl(RECORD)
    assert [f["name"] for f in layout.data_schema["fields"]][:6] == ["id", "ts", "born", "user", "raw", "l"]
    assert pickle.loads(pickle.dumps(layout)) == layout


def test_the_table_alone_gives_the_same_layout_again() -> None:
    layout = new("country, day=date(ts), h=hour(_ingested_at)", "all")
    assert layout_of(layout.schema, layout.partition_by) == layout
    assert apply_layout(layout.schema, partition_by=parse_partition_by("country, day=date(ts), h")) == layout


@pytest.mark.parametrize(
    ("partition_by", "provenance", "part"),
    [
        ("nowhere", "none", "declare it, or write nowhere=date(column)"),
        ("Country", "none", "the schema spells it country"),
        ("raw", "none", "cannot be partitioned by BINARY"),
        ("l", "none", "cannot be partitioned by ARRAY<INT>"),
        ("user", "none", "cannot be partitioned by STRUCT"),
        ("country, country", "none", "twice"),
        ("country=path(country)", "none", "the schema has country already"),
        ("Country=path(country)", "none", "the schema has country already"),
        ("day=date(missing)", "none", "needs missing, which is no column"),
        ("day=date(user.missing)", "none", "needs user.missing, which is no column"),
        ("day=date(country)", "none", "needs a TIMESTAMP or DATE column, but country is STRING"),
        ("h=hour(born)", "none", "needs a TIMESTAMP column, but born is DATE"),
        ("d=date(ts), y=year(d)", "none", "needs d, which is no column"),
        ("day=date(_ingested_at)", "source_file", "needs _ingested_at"),
        ("_sequence=path(s)", "all", "the schema has _sequence already"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(partition_by: str, provenance: str, part: str) -> None:
    with pytest.raises(SchemaError) as refused:
        new(partition_by, provenance)
    assert part in str(refused.value)


def test_a_declared_column_with_the_name_of_a_derived_one_is_refused() -> None:
    with pytest.raises(SchemaError, match="_source_file: it is filled from source_file, but the schema has"):
        new(None, "source_file", "id INT, _SOURCE_FILE STRING")


def test_something_must_be_left_for_the_files() -> None:
    with pytest.raises(SchemaError, match="every column"):
        new("id, day=date(ts), ts", ddl="id INT, ts TIMESTAMP")


TABLE = new("country, day=date(ts), r=path(r) INT", "source_file,sequence")


@pytest.mark.parametrize("text", ["country, day, r", "country, day=date(ts), r=path(r)", "country,day,r=path(r) INT"])
def test_options_that_say_what_the_table_says_pass(text: str) -> None:
    specs = parse_partition_by(text)
    found = layout_of(TABLE.schema, TABLE.partition_by, partition_by=specs, provenance=("sequence", "source_file"))
    assert found == TABLE


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"partition_by": "day, country, r"}, "the table is partitioned by country, day, r"),
        ({"partition_by": "country"}, "the table is partitioned by country, day, r"),
        ({"partition_by": "country, day=date(born), r"}, "fills it from date(ts) DATE"),
        ({"partition_by": "country, day, r=path(r) STRING"}, "fills it from path(r) INT"),
        ({"partition_by": "country=path(c), day, r"}, "this column is read from the records"),
        ({"provenance": "none"}, "asks for none, but the table has source_file, sequence"),
        ({"provenance": "all"}, "but the table has source_file, sequence"),
    ],
)
def test_options_that_contradict_the_table_are_refused(options: dict[str, str], part: str) -> None:
    parse = {"partition_by": parse_partition_by, "provenance": parse_provenance}
    given_options: dict[str, Any] = {name: parse[name](value) for name, value in options.items()}
    with pytest.raises(SchemaError) as refused:
        layout_of(TABLE.schema, TABLE.partition_by, **given_options)
    assert part in str(refused.value)
    assert refused.value.kind == "layout_mismatch"


def test_a_derivation_of_another_version_is_refused() -> None:
    schema = parse_ddl("id INT, q INT")
    schema["fields"][1]["metadata"] = {METADATA_KEY: "quarter(ts)"}
    with pytest.raises(SchemaError, match=r"quarter\(ts\)") as refused:
        layout_of(schema, ())
    assert refused.value.kind == "layout_unknown"


def test_a_derived_column_of_another_type_is_refused() -> None:
    schema = parse_ddl("id INT, ts TIMESTAMP, y BIGINT")
    schema["fields"][2]["metadata"] = {METADATA_KEY: "year(ts)"}
    with pytest.raises(SchemaError, match=r"year\(ts\) is INT, but the column is BIGINT"):
        layout_of(schema, ())
