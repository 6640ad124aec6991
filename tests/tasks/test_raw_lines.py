"""`table.provenance: raw`: a column holds the line of each row, byte for byte, whatever lies between the rows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan, TaskReport
from blizzard.delta.place import DeltaRsPlace
from blizzard.schema.derived import parse_partition_by, parse_provenance
from blizzard.schema.layout import TableLayout, apply_layout
from blizzard.schema.load import load_schema
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.raw_lines import line_texts
from blizzard.tasks.task import run_task
from tests.flows.in_process import Flow
from tests.flows.replaying import STRICT, mendable, replay_in
from tests.ingesting import line, rows, write
from tests.tasks.specs import make_spec

BOM = b"\xef\xbb\xbf"
TICKET = BatchTicket(sequence=1, planned_ms=0, table_id="t")
NO_LIMIT = Budget(output_bytes=1 << 30, max_records=None, seconds=None)


def raw_layout(ddl: str = "id BIGINT, name STRING", partition_by: str | None = None, also: str = "raw") -> TableLayout:
    specs = parse_partition_by(partition_by) if partition_by else ()
    return apply_layout(load_schema(ddl), partition_by=specs, provenance=parse_provenance(also))


def read(folder: Path, files: dict[str, bytes], *, threads: int = 1, **changes: Any) -> TaskReport:
    """One task over these files, with rows that keep their lines."""
    slices = []
    for name, content in files.items():
        (folder / name).write_bytes(content)
        info = (folder / name).stat()
        slices.append(Slice(path=name, size_bytes=info.st_size, etag=str(info.st_mtime_ns), from_record=0))
    given_spec: dict[str, Any] = {"compression": "none", "layout": raw_layout(), "table_root": str(folder)} | changes
    plan = TaskPlan(slot=0, slices=tuple(slices), budget=NO_LIMIT, threads=threads)
    report = run_task(make_spec(folder, **given_spec), plan, TICKET)
    assert report.failure is None
    return report


def table_of(folder: Path, report: TaskReport) -> list[dict[str, Any]]:
    return [row for file in report.files for row in pq.read_table(folder / file.path).to_pylist()]


contents = st.binary(max_size=20).map(lambda content: content.replace(b"\n", b""))


@given(st.lists(contents, max_size=12), st.booleans(), st.integers(20, 60), st.data())
def test_the_texts_are_those_of_the_lines(lines: list[bytes], ends: bool, most: int, data: st.DataObject) -> None:
    """Also of more bytes than the offsets of one column can hold."""
    block = b"".join(line + b"\n" for line in lines)
    if not ends and lines and lines[-1]:
        block = block[:-1]
    valid = [i for i, line in enumerate(lines) if _is_utf8(line)]
    chosen = sorted(data.draw(st.sets(st.sampled_from(valid)))) if valid else []
    made = line_texts(block, np.array(chosen, np.int64), most_bytes=most)
    assert made.type == pa.string()
    assert [text.encode() for text in made.to_pylist()] == [lines[i] for i in chosen]
    assert all(chunk.nbytes <= most + 8 * len(chunk) + 64 for chunk in made.chunks)
    if len(valid) == len(lines):
        assert [text.encode() for text in line_texts(block, None, most_bytes=most).to_pylist()] == lines


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


pieces = st.one_of(
    st.builds(
        lambda n, text, space: space + json.dumps({"id": n, "name": text}, ensure_ascii=False).encode() + space,
        st.integers(0, 9),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        st.sampled_from([b"", b" ", b"\t", b"\r"]),
    ),
    st.sampled_from([b"", b" \r", b"oops", b'{"id":"x"}', b"\xff{}", b'{"id":1,"more":[1, 2]}', b'{"id":1e0}']),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.lists(pieces, max_size=8), st.booleans()), min_size=1, max_size=4),
    st.integers(16, 400),
    st.sampled_from(["auto", "pyarrow", "reference"]),
    st.integers(1, 2),
)
def test_the_raw_column_is_the_line_for_any_lines(
    tmp_path_factory: pytest.TempPathFactory,
    shapes: list[tuple[bool, list[bytes], bool]],
    block_bytes: int,
    parser: str,
    threads: int,
) -> None:
    """Small files are parsed as one block; blank and bad lines lie between; a byte order mark is no part of a line."""
    folder = tmp_path_factory.mktemp("raw")
    files = {
        f"f{i}": (BOM if has_bom else b"") + b"\n".join(lines) + (b"\n" if ends and lines else b"")
        for i, (has_bom, lines, ends) in enumerate(shapes)
    }
    kept = raw_layout(also="source_file, source_line, raw")
    report = read(folder, files, layout=kept, parser=parser, block_bytes=block_bytes, threads=threads)
    found = table_of(folder, report)
    assert len(found) == sum(s.rows for s in report.slices)
    for row in found:
        line_in_file = files[row["_source_file"]].removeprefix(BOM).split(b"\n")[row["_source_line"] - 1]
        assert row["_raw"].encode() == line_in_file
        assert json.loads(row["_raw"])["id"] == row["id"]


def test_columns_that_are_added_and_rescued_values_leave_it_as_it_is(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    DeltaRsPlace(root=str(flow.table), schema=raw_layout().schema, clock=flow.clock).create("p")
    lines = [b'{"id":1,"more":{"x": 1}}', b'{"id":2, "name":"b","empty":[]}']
    write(flow.src / "a.ndjson", b"\n".join(lines) + b"\n")
    flow.run(spec={"parsing": ParsePolicy(unknown=Unknown.REPORT)})
    found = rows(flow.table)
    assert [row["_raw"].encode() for row in found] == lines
    assert (found[0]["more"], found[1]["_rescued_data"]) == ({"x": 1}, '{"empty":[]}')


def test_a_partition_has_the_lines_of_its_own_rows(tmp_path: Path) -> None:
    content = b"".join(b'{"id":%d,"name":"%s"}\n' % (i, b"ab"[i % 2 : i % 2 + 1]) for i in range(20))
    layout = raw_layout("id BIGINT, name STRING NOT NULL", "name")
    report = read(tmp_path, {"f": content + b'{"id":20,"name":""}\n{"id":21,"name":"a"}'}, layout=layout)
    assert len(report.files) == 2
    lines = [*content.splitlines(), b"", b'{"id":21,"name":"a"}']
    for row in table_of(tmp_path, report):
        assert row["_raw"].encode() == lines[row["id"]]
    assert sum(s.bad for s in report.slices) == 1


def test_a_replayed_record_has_the_line_that_it_was(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    DeltaRsPlace(root=str(flow.table), schema=raw_layout().schema, clock=flow.clock).create("p")
    write(flow.src / "a.ndjson", BOM + mendable(0) + b" \r\n" + line(1) + mendable(2))
    flow.run(spec=STRICT)
    assert replay_in(flow).replayed == 2
    assert [row["_raw"].encode() for row in rows(flow.table)] == [
        mendable(0) + b" \r",
        line(1).rstrip(b"\n"),
        mendable(2),
    ]


def test_it_costs_little(tmp_path: Path) -> None:
    """20 MB of lines take well under the time to parse them: there is no step for each line."""
    content = b"".join(b'{"id":%d,"name":"%s"}\n' % (i, b"x" * 180) for i in range(100_000))
    started = time.process_time()
    made = line_texts(content, None)
    assert time.process_time() - started < 0.5
    assert len(made) == 100_000


def test_without_it_no_line_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise RuntimeError("the texts were made for nobody")

    monkeypatch.setattr("blizzard.tasks.taker.line_texts", never)
    report = read(tmp_path, {"f": line(1)}, layout=raw_layout(also="all"))
    assert set(table_of(tmp_path, report)[0]) == {
        "id",
        "name",
        "_source_file",
        "_source_line",
        "_ingested_at",
        "_sequence",
        "_record_key",
    }
    with pytest.raises(RuntimeError, match="for nobody"):
        read(tmp_path, {"f": line(1)}, layout=raw_layout())
