"""`blizzard plan --validate`: says what the run after it makes of the records, and writes nothing anywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.every_command import call
from tests.flows.in_process import Flow
from tests.ingesting import line, write, write_ids
from tests.run.test_mostly_bad import tree

BAD = b'{"id":"seven","name":"n"}\n'


def plan(flow: Flow, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    new = () if flow.table.exists() else ("--schema", flow.ddl)
    places = ("--source", str(flow.src), "--table", str(flow.table), "--pipeline", "p")
    code, out, err = call(capfd, "plan", "--validate", "--json", *places, *new, *words)
    assert out, err
    shown: dict[str, Any] = json.loads(out)
    return code, shown


def validation(flow: Flow, capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, shown = plan(flow, capfd, *words)
    assert code == 0, shown
    found: dict[str, Any] = shown["validation"]
    return found


def stamps(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize(
    "words", [(), ("--set", "schema.evolution=add_columns"), ("--set", "bad_records.policy=rescue")]
)
@pytest.mark.parametrize("has_table", [False, True])
def test_nothing_is_written_anywhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], has_table: bool, words: tuple[str, ...]
) -> None:
    """Table, quarantine and source are the same to the byte, also where there is no table yet."""
    flow = Flow(tmp_path)
    if has_table:
        write(flow.src / "a.ndjson", line(0) + BAD)
        flow.run()
    write(flow.src / "b.ndjson.gz", (line(1) + b'{"id":2,"more":[1]}\n') * 20 + b"oops\n" + BAD)
    before = tree(tmp_path), stamps(tmp_path)
    found = validation(flow, capfd, *words)
    assert (tree(tmp_path), stamps(tmp_path)) == before
    is_rescued = "bad_records.policy=rescue" in words
    assert (found["records"], found["bad"], found["rescued"]) == (42, 1 if is_rescued else 2, int(is_rescued))
    assert ("more" in found["new_columns"]) is ("schema.evolution=add_columns" in words)


def test_it_counts_what_the_run_then_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path).first_run()
    for name in ("b", "c"):
        write(flow.src / f"{name}.ndjson", (line(1) + b"\n" + b'{"id":2,"more":1}\n' + BAD + b"oops\n") * 7)
    found = validation(flow, capfd)
    summary = flow.run()
    assert (found["rows"], found["bad"]) == (summary.records, summary.bad_records) == (28, 28)
    assert found["unknown_fields"] == summary.ignored_fields == {"more": 14}
    assert found["parser"] == summary.parser
    assert [(r["kind"], r["column"], r["records"]) for r in found["bad_reasons"]] == [
        ("bad_value", "id", 14),
        ("not_json", None, 14),
    ]
    assert found["read_all"]
    assert validation(flow, capfd)["records"] == 0


def test_it_goes_on_where_the_position_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from blizzard.core.plan import Limits

    flow = Flow(tmp_path)
    write_ids(flow.src / "a.ndjson", 0, 10)
    flow.run(limits=Limits(max_records=4), max_batches=1, slots=1)
    assert validation(flow, capfd)["rows"] == 6


def test_it_is_bounded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    for name in ("a", "b", "c"):
        write_ids(flow.src / f"{name}.ndjson", 0, 100)
    found = validation(flow, capfd, "--records", "30")
    assert (found["records"], found["files"], found["read_all"]) == (30, 3, False)
    assert validation(flow, capfd, "--records", "all")["records"] == 300
    code, _, err = call(capfd, "plan", "--records", "3", "--source", str(flow.src), "--table", str(flow.table))
    assert (code, "--records goes with --validate" in err) == (2, True)


def test_how_the_schema_fits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path, ddl="id BIGINT, never STRING, s STRUCT<a: INT, b: INT>, empty STRUCT<c: INT>")
    write(flow.src / "a.ndjson", b'{"id":1,"s":{"a":1},"other":1}\n' * 3)
    found = validation(flow, capfd)
    assert found["never_filled"] == ["empty", "never", "s.b"]
    assert found["unknown_fields"] == {"other": 3}


def test_an_estimate_for_the_backlog(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    content = b"".join(b'{"id":%d,"name":"%s"}\n' % (i, b"x" * 100) for i in range(20_000))
    for name in ("a", "b"):
        write(flow.src / f"{name}.ndjson", content)
    found = validation(flow, capfd, "--records", "1000", "--set", "spark.slots=2")
    assert found["backlog"]["json_bytes"] == 2 * len(content)
    assert found["backlog"]["records"] == pytest.approx(40_000, rel=0.05)
    assert found["backlog"]["cores"] == 2
    assert found["mb_per_s"] > 0


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ((), "mostly_bad"),
        (("--set", "bad_records.policy=fail"), "bad_record"),
        (("--set", "bad_records.max_ratio=0.1"), "too_many_bad_records"),
        (("--set", "bad_records.first_batch_max_ratio=1"), None),
        (("--set", "bad_records.max_ratio=0.9"), None),
    ],
)
def test_it_says_whether_the_run_would_stop(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], kind: str | None
) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", line(0) * 10 + BAD * 30)
    code, shown = plan(flow, capfd, *words)
    stops = shown["validation"]["stops"]
    assert (code, None if stops is None else stops["error_kind"]) == (0 if kind is None else 5, kind)
    if kind == "mostly_bad":
        places = ("--source", str(flow.src), "--table", str(flow.table), "--schema", flow.ddl)
        code, out, err = call(capfd, "plan", "--validate", *places)
        assert code == 5
        assert "validation of the first batch" in out
        assert "blizzard: a run would stop: the first batch is mostly bad: 30 of 40 records." in err
        assert "    --schema with id STRING or --set bad_records.policy=rescue" in err.splitlines()


def test_a_source_without_a_record(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    os.makedirs(flow.src)
    places = ("--source", str(flow.src), "--table", str(flow.table), "--infer")
    code, out, _ = call(capfd, "plan", "--validate", "--json", *places)
    assert (code, json.loads(out)["validation"]["records"]) == (0, 0)
    code, out, _ = call(capfd, "plan", "--validate", *places)
    assert (code, "records     0 records" in out) == (0, True)


def test_without_the_flag_nothing_is_parsed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flow = Flow(tmp_path)
    write(flow.src / "a.ndjson", BAD)
    places = ("--source", str(flow.src), "--table", str(flow.table), "--schema", flow.ddl)
    code, out, _ = call(capfd, "plan", "--json", *places)
    assert code == 0
    assert "validation" not in json.loads(out)
