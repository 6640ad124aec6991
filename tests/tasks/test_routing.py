"""`where` in a task: judged before the schema, every line accounted for, what is for no target kept or counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.bad import BadPolicy
from blizzard.core.batch import check_result
from blizzard.core.types import BatchPlan, BatchResult, Budget, TaskPlan, TaskReport
from blizzard.schema.arrow import to_arrow
from blizzard.schema.layout import TableLayout
from blizzard.schema.load import load_schema
from blizzard.schema.where import parse_where
from blizzard.tasks.policy import Coercion, ParsePolicy, Unknown
from blizzard.tasks.spec import Route, TaskSpec
from blizzard.tasks.where import like_regex, selects
from tests.tasks.test_shared_task import EVERYTHING, rows_of, run, spec_of, write_slices

DECLARED = TableLayout(schema=load_schema("id BIGINT NOT NULL, kind STRING"))
UNDECLARED = TableLayout(schema=load_schema("id BIGINT NOT NULL"))


def routed(
    folder: Path, wheres: Mapping[str, str | None], layout: TableLayout = DECLARED, **changes: Any
) -> dict[str, TaskSpec]:
    """One target for each, and the first knows all of them."""
    made = {}
    for name, where in wheres.items():
        spec = spec_of(folder, name, layout=layout, **changes)
        made[name] = replace(spec, where=None if where is None else parse_where(where, layout.record_schema))
    routes = tuple(Route(where=spec.where, parsing=spec.parsing) for spec in made.values())
    first = next(iter(made))
    return made | {first: replace(made[first], routes=routes, unrouted="quarantine")}


def counts(report: TaskReport) -> list[dict[str, int]]:
    names = ("rows", "bad", "blank", "filtered", "unrouted")
    return [{name: getattr(s, name) for name in names if getattr(s, name)} for s in report.slices]


def ids(spec: TaskSpec, report: TaskReport) -> list[int]:
    return [row["id"] for row in rows_of(spec, report)]


def quarantined(spec: TaskSpec, report: TaskReport) -> list[tuple[str, int, str, bytes]]:
    rows = [
        row for file in report.quarantine for row in pq.read_table(f"{spec.quarantine_root}/{file.path}").to_pylist()
    ]
    return sorted((row["source_file"], row["line"], row["error_kind"], row["raw"]) for row in rows)


LINES = [
    b'{"id":1,"kind":"a"}\n',
    b'{"id":2,"kind":"b"}\n',
    b'{"id":3,"kind":"c"}\n',
    b'{"id":4}\n',
    b'{"id":5,"kind":null}\n',
    b'{"id":6,"kind":7}\n',
    b'{"id":7,"Kind":"a"}\n',
    b'{"id":8,"kind":"a","kind":"b"}\n',
    b'{"id":"x","kind":"a"}\n',
    b'{"id":"y","kind":"b"}\n',
    b'{"id":"z","kind":"c"}\n',
    b'{"kind":"a"}\n',
    b"\n",
    b"oops\n",
    b"[1]\n",
]


def expected(line: bytes, kind: str) -> str:
    """What a line is for the target that takes this kind."""
    if not line.strip():
        return "blank"
    if line in (b"oops\n", b"[1]\n") or line.count(b'"kind"') > 1:
        return "bad"
    record = json.loads(line)
    found = record.get("kind", record.get("Kind"))
    if found != kind:
        return "filtered"
    return "rows" if isinstance(record.get("id"), int) else "bad"


@settings(max_examples=120, deadline=None)
@given(
    files=st.lists(st.lists(st.sampled_from(LINES), max_size=15), min_size=1, max_size=3),
    layout=st.sampled_from([DECLARED, UNDECLARED]),
    block_bytes=st.integers(1, 300),
    threads=st.integers(1, 3),
    bom=st.booleans(),
)
def test_every_line_of_any_files_is_what_it_should_be(
    tmp_path_factory: Any,
    files: list[list[bytes]],
    layout: TableLayout,
    block_bytes: int,
    threads: int,
    bom: bool,
) -> None:
    folder = tmp_path_factory.mktemp("routing")
    specs = routed(folder, {"a": "kind = 'a'", "b": "kind = 'b'"}, layout, block_bytes=block_bytes)
    mark = b"\xef\xbb\xbf" if bom else b""
    slices = write_slices(folder, {f"f{n}": mark + b"".join(lines) for n, lines in enumerate(files)})
    reports = run(specs, slices, threads=threads)
    for name in ("a", "b"):
        for lines, found in zip(files, counts(reports[name]), strict=True):
            what = [expected(line, name) for line in lines]
            for word in ("rows", "bad", "filtered"):
                assert found.get(word, 0) == what.count(word), (word, lines)
            # A file that is nothing but its byte order mark has one blank line.
            assert found.get("blank", 0) == what.count("blank") + (bom and not lines)
    nobodys = [
        (f"f{n}", index + 1, "unrouted", (mark if index == 0 else b"") + line.rstrip(b"\n"))
        for n, lines in enumerate(files)
        for index, line in enumerate(lines)
        if expected(line, "a") == expected(line, "b") == "filtered"
    ]
    assert [row for row in quarantined(specs["a"], reports["a"]) if row[2] == "unrouted"] == nobodys
    assert sum(c.get("unrouted", 0) for c in counts(reports["a"])) == len(nobodys)
    assert not any(c.get("unrouted") for c in counts(reports["b"]))
    for name, report in reports.items():
        plan = BatchPlan(tasks=(TaskPlan(slot=0, slices=slices, budget=EVERYTHING),), frontier=())
        check_result(plan, BatchResult(reports=(report,)))
        wanted = [json.loads(line)["id"] for lines in files for line in lines if expected(line, name) == "rows"]
        assert ids(specs[name], report) == wanted


def test_a_record_is_judged_before_its_schema(tmp_path: Path) -> None:
    """A record of another target is never bad for this one, whatever it holds."""
    content = b'{"id":"x","kind":"b","more":1}\n{"id":1,"kind":"a"}\n{"id":"y","kind":"a"}\n'
    slices = write_slices(tmp_path, {"f": content})
    specs = routed(tmp_path, {"a": "kind = 'a'"}, parsing=ParsePolicy(unknown=Unknown.BAD))
    report = run(specs, slices)["a"]
    assert counts(report) == [{"rows": 1, "bad": 1, "filtered": 1, "unrouted": 1}]
    assert quarantined(specs["a"], report) == [
        ("f", 1, "unrouted", b'{"id":"x","kind":"b","more":1}'),
        ("f", 3, "bad_value", b'{"id":"y","kind":"a"}'),
    ]
    failing = routed(tmp_path, {"a": "kind = 'a'"}, bad=BadPolicy(records="fail"))
    failed = run(failing, slices)["a"].failure
    assert failed is not None
    assert failed.line == 3


def test_a_field_that_is_mistyped_is_null(tmp_path: Path) -> None:
    content = b'{"id":"many","kind":"a"}\n{"id":5,"kind":"a"}\n{"kind":"a"}\n{"id":-5,"kind":"a"}\n'
    slices = write_slices(tmp_path, {"f": content})
    specs = routed(tmp_path, {"positive": "id > 0", "unknown": "id IS NULL", "not": "NOT (id > 0)"})
    reports = run(specs, slices)
    assert counts(reports["positive"]) == [{"rows": 1, "filtered": 3}]
    assert counts(reports["unknown"]) == [{"bad": 2, "filtered": 2}]  # and the column is NOT NULL
    assert counts(reports["not"]) == [{"rows": 1, "filtered": 3}]


@pytest.mark.parametrize("unrouted", ["quarantine", "drop"])
def test_records_for_no_target_are_kept_or_only_counted(tmp_path: Path, unrouted: str) -> None:
    slices = write_slices(tmp_path, {"f": b"".join(LINES[:3])})
    specs = routed(tmp_path, {"a": "kind = 'a'", "b": "kind = 'b'"}, bad=BadPolicy(records="fail"))
    specs["a"] = replace(specs["a"], unrouted=unrouted)
    reports = run(specs, slices)
    assert counts(reports["a"]) == [{"rows": 1, "filtered": 2, "unrouted": 1}]
    kept = [("f", 3, "unrouted", LINES[2].strip())] if unrouted == "quarantine" else []
    assert quarantined(specs["a"], reports["a"]) == kept
    assert reports["a"].reasons.records == 0


def test_a_target_that_is_not_in_the_read_has_its_records_all_the_same(tmp_path: Path) -> None:
    """Each target's own schema and settings say what its condition means."""
    slices = write_slices(tmp_path, {"f": b'{"n":"5","kind":"c"}\n{"n":7,"kind":"d"}\n{"n":1,"kind":"e"}\n'})
    specs = routed(tmp_path, {"a": "kind = 'a'"})
    lax = ParsePolicy(coerce={("n",): frozenset([Coercion.NUMBERS_IN_STRINGS])})
    other = Route(where=parse_where("n = 5 OR n = 7", load_schema("n BIGINT")), parsing=lax)
    specs["a"] = replace(specs["a"], routes=(*specs["a"].routes, other))
    report = run(specs, slices)["a"]
    assert counts(report) == [{"filtered": 3, "unrouted": 1}]
    assert quarantined(specs["a"], report) == [("f", 3, "unrouted", b'{"n":1,"kind":"e"}')]


def test_with_a_target_that_takes_everything_no_record_is_for_none(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"f": b"".join(LINES[:3])})
    specs = routed(tmp_path, {"a": "kind = 'a'", "all": None})
    reports = run(specs, slices)
    assert counts(reports["a"]) == [{"rows": 1, "filtered": 2}]
    assert ids(specs["all"], reports["all"]) == [1, 2, 3]


def test_only_the_fields_of_records_that_are_taken_are_seen(tmp_path: Path) -> None:
    """Otherwise the fields of one target's records would become columns of another's table."""
    content = b'{"id":1,"kind":"a","x":1}\n{"id":2,"kind":"b","y":1}\n{"id":3,"kind":"b","y":2}\n'
    slices = write_slices(tmp_path, {"f": content})
    specs = routed(tmp_path, {"a": "kind = 'a'", "b": "kind = 'b'"}, parsing=ParsePolicy(unknown=Unknown.REPORT))
    reports = run(specs, slices)
    assert [dict(report.undeclared.counts) for report in reports.values()] == [{("x",): 1}, {("y",): 2}]
    observed = [report.observed for report in reports.values()]
    assert [set(found.kinds) for found in observed if found] == [{("x",)}, {("y",)}]


def test_a_field_twice_is_bad_where_it_is_asked_for(tmp_path: Path) -> None:
    """Nobody can say for which target the record is. With the field undeclared the schema would not mind."""
    slices = write_slices(tmp_path, {"f": b'{"id":1,"kind":"a","kind":"b"}\n'})
    specs = routed(tmp_path, {"a": "kind = 'a'", "all": "id > 0"}, UNDECLARED)
    reports = run(specs, slices)
    assert counts(reports["a"]) == [{"bad": 1}]
    assert [row[2] for row in quarantined(specs["a"], reports["a"])] == ["duplicate_key"]
    assert counts(reports["all"]) == [{"rows": 1}]


def test_a_record_that_another_target_cannot_judge_is_bad_there_and_not_for_no_target(tmp_path: Path) -> None:
    """It would be in two quarantines."""
    slices = write_slices(
        tmp_path, {"f": b'{"id":1,"kind":"z","other":"b","other":"c"}\n{"id":2,"kind":"z","other":"c"}\n'}
    )
    specs = routed(tmp_path, {"a": "kind = 'a'", "b": "other = 'b'"})
    reports = run(specs, slices)
    assert counts(reports["a"]) == [{"filtered": 2, "unrouted": 1}]
    assert quarantined(specs["a"], reports["a"]) == [("f", 2, "unrouted", b'{"id":2,"kind":"z","other":"c"}')]
    assert counts(reports["b"]) == [{"bad": 1, "filtered": 1}]


def test_framed_records_are_routed_too(tmp_path: Path) -> None:
    (piece,) = write_slices(tmp_path, {"f": b'[{"id":1,"kind":"a"},\n{"id":2,\n"kind":"z"}]'})
    specs = routed(tmp_path, {"a": "kind = 'a'"})
    report = run(specs, (replace(piece, framing="array"),))["a"]
    assert counts(report) == [{"rows": 1, "filtered": 1, "unrouted": 1}]
    assert quarantined(specs["a"], report) == [("f", 2, "unrouted", b'{"id":2,\n"kind":"z"}')]


def test_targets_with_one_condition_share_their_files(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"f": b"".join(LINES[:3])})
    specs = routed(tmp_path, {"one": "kind = 'a'", "two": "kind = 'a'"})
    reports = run(specs, slices)
    files = [(tmp_path / name / reports[name].files[0].path).read_bytes() for name in specs]
    assert files[0] == files[1]
    assert ids(specs["one"], reports["one"]) == [1]


def test_a_resumed_slice_is_counted_from_where_it_begins(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"f": b"".join(LINES[:6])}, first=2)
    specs = routed(tmp_path, {"a": "kind = 'a' OR id = 4"})
    budget = Budget(output_bytes=1 << 30, max_records=3, seconds=None)
    report = run(specs, slices, budget=budget)["a"]
    assert [(s.from_record, s.to_record, s.rows, s.filtered, s.unrouted) for s in report.slices] == [(2, 5, 1, 2, 2)]
    assert [row[1] for row in quarantined(specs["a"], report)] == [3, 5]


def select(
    text: str,
    rows: list[dict[str, Any]],
    ddl: str = "i BIGINT, s STRING, m DECIMAL(4,2), d DOUBLE, f FLOAT, small DECIMAL(18,8)",
) -> list[bool]:
    schema = load_schema(ddl)
    return list(selects(parse_where(text, schema), pa.Table.from_pylist(rows, schema=to_arrow(schema))))


@pytest.mark.parametrize(
    ("text", "row", "is_selected"),
    [
        ("i + 1 > 0", {"i": 2**63 - 1}, False),
        ("i + 1 IS NULL", {"i": 2**63 - 1}, True),
        ("i < -(-9223372036854775808)", {"i": 2**63 - 1}, True),
        ("NULL IS NULL AND i = 1", {"i": 1}, True),
        ("NULL IS NOT NULL OR i = 1", {"i": 2}, False),
        (" OR ".join(f"i = {n}" for n in range(1_500)), {"i": 1_499}, True),
        ("NOT (" + " OR ".join(f"i = {n}" for n in range(1_500)) + ")", {"i": 1_500}, True),
        (" AND ".join(f"i <> {n}" for n in range(500)), {"i": 499}, False),
        (" AND ".join(f"i <> {n}" for n in range(500)), {"i": 500}, True),
        ("-i IS NULL", {"i": -(2**63)}, True),
        ("i / 0 IS NULL", {"i": 1}, True),
        ("i % 0 IS NULL", {"i": 1}, True),
        ("i % -1 = 0", {"i": -(2**63)}, True),
        ("d * d IS NULL", {"d": 1e200}, True),
        ("d % 0e0 IS NULL", {"d": 1.0}, True),
        ("CAST(s AS BIGINT) IS NULL", {"s": "x"}, True),
        ("CAST(s AS TIMESTAMP) = TIMESTAMP '2024-01-01 00:00:00'", {"s": "2024-01-01T01:00:00+01:00"}, True),
        ("CAST(i AS TINYINT) IS NULL", {"i": 128}, True),
        ("CAST(i AS DECIMAL(3,1)) IS NULL", {"i": 100}, True),
        ("CAST(i AS DECIMAL(3,1)) = -99", {"i": -99}, True),
        ("CAST(i AS BOOLEAN)", {"i": 2}, True),
        ("CAST(d AS FLOAT) IS NULL", {"d": 1e300}, True),
        ("m = 1.5", {"m": "1.50"}, True),
        ("m < i", {"m": "1.50", "i": 2}, True),
        ("i = 2.0", {"i": 2}, True),
        ("m = d", {"m": "4.77", "d": 4.77}, True),
        ("CAST(m AS DOUBLE) > 4.77", {"m": "4.77"}, False),
        ("i < 9223372036854775807.5", {"i": 2**63 - 1}, True),
        ("s LIKE '%.%'", {"s": "ab"}, False),
        ("s LIKE 'a_b'", {"s": "a\nb"}, True),
        ("s LIKE '50!%' ESCAPE '!'", {"s": "50%"}, True),
        ("s ILIKE 'Ä%'", {"s": "äb"}, True),
        ("s NOT ILIKE 'Ä%'", {"s": None}, False),
        ("s RLIKE '^[a-z]+$'", {"s": "abc"}, True),
        ("s || 'x' = 'ax'", {"s": "a"}, True),
        ("concat(s, 'x') IS NULL", {"s": None}, True),
        ("substring(s, 2, 1) = '本'", {"s": "日本語"}, True),
        ("ends_with(s, 'b') AND contains(s, 'a')", {"s": "ab"}, True),
        ("CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' END = 'two'", {"i": 2}, True),
        ("CASE WHEN i > 5 THEN true END IS NULL", {"i": 2}, True),
        ("i <=> NULL", {"i": None}, True),
        ("i IN (1, NULL)", {"i": 1}, True),
        ("i NOT IN (2, NULL)", {"i": 1}, False),
        ("f = CAST(0.1 AS FLOAT)", {"f": 0.1}, True),
        ("f = TRY_CAST('0.1' AS FLOAT)", {"f": 0.1}, True),
        ("f = CAST(16777217 AS FLOAT)", {"f": 16777216.0}, True),
        ("f = CAST(1e-1 AS FLOAT)", {"f": 0.1}, True),
        ("f = 0.1", {"f": 0.1}, False),
        ("CAST(s AS FLOAT) > 3.4e38", {"s": "3.4028235e38"}, True),
        ("(-CAST(-128 AS TINYINT)) IS NULL OR i = 1", {"i": 2}, False),
        ("-CAST(-128 AS TINYINT) = i", {"i": 128}, True),
        ("CAST(small AS STRING) = '0.00000001'", {"small": "0.00000001"}, True),
        ("CAST(small AS STRING) = '0.00000000'", {"small": "0"}, True),
        ("CAST(small AS STRING) = '-12.50000000'", {"small": "-12.5"}, True),
        ("CAST(small AS STRING) IS NULL", {"small": None}, True),
    ],
)
def test_a_condition_on_one_row(text: str, row: dict[str, Any], is_selected: bool) -> None:
    decimals = {name: Decimal(row[name]) for name in ("m", "small") if row.get(name) is not None}
    given_row = row | decimals
    assert select(text, [given_row]) == [is_selected]


def test_a_table_without_rows_selects_none() -> None:
    assert select("i > 1 AND CAST(s AS BIGINT) = 1 AND d % 2 = 1 AND m IN (1, 2) AND s LIKE 'a%'", []) == []


@pytest.mark.parametrize(
    ("pattern", "escape", "regex"),
    [("a%_", None, r"(?s)\Aa.*.\z"), ("a!%b!!", "!", r"(?s)\Aa\x{25}b\x{21}\z"), ("!", "!", r"(?s)\A\x{21}\z")],
)
def test_like_as_a_regular_expression(pattern: str, escape: str | None, regex: str) -> None:
    assert like_regex(pattern, escape) == regex
