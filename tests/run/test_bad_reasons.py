"""Why records are bad, as a run tells it: column, types, share and setting, once for each cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard.cli.main import main
from blizzard.core.bad import BadPolicy
from blizzard.core.events import Noted, UnknownFields, Warned
from blizzard.core.plan import Limits
from blizzard.core.reasons import OTHER_COLUMNS
from blizzard.core.types import BatchResult
from blizzard.errors import BadData
from blizzard.run.reasons import Advisor
from blizzard.run.remarks import Remarks
from blizzard.spark.job import failure_of
from blizzard.tasks.policy import ParsePolicy, Unknown
from tests.flows.in_process import Flow
from tests.ingesting import rows, write

ADD = {"parsing": ParsePolicy(unknown=Unknown.REPORT)}


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def write_records(flow: Flow, name: str, *records: dict[str, Any]) -> None:
    write(flow.src / name, b"".join(json.dumps(r).encode() + b"\n" for r in records))


def about_bad(flow: Flow) -> list[str]:
    return [
        warning for warning in flow.told.warnings if " go to quarantine: " in warning or " are dropped: " in warning
    ]


def test_a_type_conflict_is_told_once_with_column_types_share_and_setting(flow: Flow) -> None:
    for name in ("a", "b", "c"):
        write_records(flow, f"{name}.ndjson", {"id": 1}, {"id": 1.5}, {"id": 2}, {"id": 2.5})
    summary = flow.run(limits=Limits(max_files=1))
    assert about_bad(flow) == [
        "2 of 4 records (50.0%) go to quarantine: id BIGINT holds a number with a fraction (the first: a.ndjson line 2,"
        " 1.5). To take them: --set 'schema.hints=id DOUBLE' for a new table, or --set bad_records.policy=rescue"
    ]
    assert (summary.commits, summary.bad_records) == (3, 6)
    (reason,) = summary.to_dict()["bad_reasons"]
    assert reason == {
        "records": 6,
        "kind": "bad_value",
        "column": "id",
        "type": "BIGINT",
        "cause": "fraction",
        "why": "id BIGINT holds a number with a fraction",
        "first": "a.ndjson line 2: id: 1.5 is not a valid long (a number with a fraction; schema.hints=id DOUBLE for a"
        " new table)",
        "settings": ["schema.hints=id DOUBLE for a new table", "bad_records.policy=rescue"],
    }


def test_every_cause_is_told_and_other_policies_say_what_becomes_of_them(flow: Flow) -> None:
    write(flow.src / "a.ndjson", b'{"id":"7"}\n{"id":18446744073709551615}\n{"id":{"a":1}}\nnot json\n{"id":1}\n')
    flow.run(bad=BadPolicy(records="drop"))
    told = about_bad(flow)
    assert [line.partition(" are dropped: ")[2].partition(" (the")[0] for line in told] == [
        "id BIGINT holds a number in a text",
        "id BIGINT holds a number beyond its range",
        "id BIGINT holds an object",
        "not JSON: Expecting value",
    ]
    assert "To take them: --set schema.coerce.id=numbers_in_strings, or" in told[0]
    assert "To take them: --set 'schema.hints=id DECIMAL(38,0)' for a new table, or" in told[1]
    assert "To take them" not in told[3]


def test_a_later_kind_of_value_that_a_string_takes_is_no_conflict(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "name": "x"}, {"id": 2, "name": {"first": "y"}})
    assert flow.run().bad_records == 0
    assert rows(flow.table)[1]["name"] == '{"first":"y"}'
    assert about_bad(flow) == []


def test_too_much_bad_data_names_the_commonest_reasons_and_leaves_no_empty_table(flow: Flow) -> None:
    write_records(flow, "a.ndjson", *({"id": f"{i}"} for i in range(9)), {"id": 1.5}, {"id": 1})
    with pytest.raises(BadData) as error:
        flow.run(bad=BadPolicy(max_ratio=0.5))
    lines = str(error.value).splitlines()
    assert lines[1] == "  9 records: id BIGINT holds a number in a text (the first: a.ndjson line 1)"
    assert lines[2] == "    --set schema.coerce.id=numbers_in_strings or --set bad_records.policy=rescue"
    assert lines[3] == "  1 record: id BIGINT holds a number with a fraction (the first: a.ndjson line 10)"
    assert not (flow.table / "_delta_log").exists()


def test_a_struct_that_grows_without_end_is_told_with_the_map_that_would_take_it(flow: Flow) -> None:
    flow.ddl = "id BIGINT, user STRUCT<labels: STRUCT<a: STRING>>"
    write_records(flow, "a.ndjson", {"id": 1, "user": {"labels": {f"k{i}": "x" for i in range(1500)}}})
    with pytest.raises(
        BadData, match=r"1,500 of them are in user\.labels: .*schema\.hints='user\.labels MAP<STRING,"
    ) as e:
        flow.run(spec=ADD)
    assert e.value.kind == "too_many_columns"
    assert "schema.evolution=rescue" in str(e.value)


def test_fields_that_are_always_null_are_told_once_and_are_no_warning(flow: Flow) -> None:
    write_records(flow, "a.ndjson", {"id": 1, "none": None, "empty": []})
    write_records(flow, "b.ndjson", {"id": 2, "none": None})
    flow.run(spec=ADD, limits=Limits(max_files=1))
    assert [note for note in flow.told.notes if "none" in note] == ["no column yet, as only null was seen: none"]
    assert not any("none" in warning for warning in flow.told.warnings)


def test_what_was_said_is_not_said_again_in_the_next_cycle() -> None:
    said: list[Any] = []
    remarks = Remarks()
    remarks.left_out(["n"])
    result = BatchResult()
    for _ in range(2):
        remarks.about(result, BadPolicy(), Advisor(), said.append)
        remarks.refused(["", "x" * 300], said.append)
        remarks.about_parsers(["slow"], said.append)
    assert len(said) == 2
    assert all(isinstance(event, Warned) for event in said)


def test_names_that_are_data_do_not_flood_the_log(flow: Flow) -> None:
    write_records(flow, "a.ndjson", *({"id": i, f"f{i:03d}": 1} for i in range(100)))
    flow.run(spec={"parsing": ParsePolicy(unknown=Unknown.BAD)})
    assert len(about_bad(flow)) == 20
    assert any("other columns: a field that the schema does not declare" in line for line in about_bad(flow))
    assert OTHER_COLUMNS == "…"


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.usefixtures("in_process")
def test_a_run_of_the_command_tells_it_in_its_last_line_and_its_summary(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1,"none":null}\n{"id":2}\n')
    job = ["run", "--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--infer"]
    code, _, err = call(capsys, *job)
    assert code == 0
    assert err.count("none") == 1  # left out, as no value was seen
    write(tmp_path / "src/b.ndjson", b'{"id":"3"}\n{"id":4}\n')
    code, out, err = call(capsys, *job)
    assert code == 0
    assert "warning: 1 of 2 records (50.0%) go to quarantine: id BIGINT holds a number in a text" in err
    assert "; 1 bad record, 0 bad files; most: id BIGINT holds a number in a text (see blizzard dlq list)" in err
    assert json.loads(out.splitlines()[-1])["bad_reasons"][0]["settings"][0] == "schema.coerce.id=numbers_in_strings"


@pytest.mark.usefixtures("in_process")
def test_a_first_run_that_fails_leaves_no_table_and_a_table_that_is_there_keeps_its_schema(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write(tmp_path / "src/a.ndjson", b'{"id":1}\n' * 20_000 + b'{"id":1.5}\n')
    job = ["run", "--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--infer"]
    code, _, err = call(capsys, *job, "--set", "bad_records.policy=fail", "--set", "schema.sample_records=10")
    assert code == 5
    assert "a.ndjson line 20001: bad_value: id: 1.5 is not a valid long (a number with a fraction;" in err
    assert not (tmp_path / "t").exists()
    code, _, err = call(capsys, *job, "--hints", "id DOUBLE")
    assert (code, "its schema is used" in err) == (0, False)
    DeltaTable.create(str(tmp_path / "empty"), pa.schema([("id", pa.int64())]))
    _, _, err = call(capsys, *job[:3], "--table", str(tmp_path / "empty"), "--infer", "--hints", "id DOUBLE")
    assert "its schema is used, and not what --infer or --hints say" in err


@pytest.mark.parametrize(
    "text",
    [
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version 3.9 than that in driver 3.11",
        "ModuleNotFoundError: No module named 'blizzard'",
        'Cannot run program "/nowhere/python": error=2',
    ],
)
def test_advice_about_workers_fits_where_they_run(text: str) -> None:
    here = failure_of(RuntimeError(text), on_driver=True)
    there = failure_of(RuntimeError(text))
    assert here.kind == there.kind
    assert "PYSPARK_PYTHON=" in str(here)
    assert "--archives" not in str(here)
    assert "--archives" in str(there)


def test_the_events_of_unknown_fields_are_as_before(flow: Flow) -> None:
    seen: list[Any] = []
    write_records(flow, "a.ndjson", {"id": 1, "x": 1, "n": None})
    flow.run(emit=seen.append)
    assert [event.names for event in seen if isinstance(event, UnknownFields)] == [("n", "x")]
    assert not any(isinstance(event, Noted) and "only null" in event.message for event in seen)
