"""One read for several targets: each gets what it would get alone, and what ends one does not end the others."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.core.bad import BadPolicy
from blizzard.core.framing import AUTO
from blizzard.core.kinds import Kind
from blizzard.core.types import BatchTicket, Budget, SharedPlan, Slice, TaskPlan, TaskReport
from blizzard.errors import Temporary
from blizzard.native import is_available
from blizzard.run.ingest import error_of_failure
from blizzard.schema.derived import PROVENANCE, parse_partition_by
from blizzard.schema.layout import TableLayout, apply_layout
from blizzard.schema.load import load_schema
from blizzard.store import open_store
from blizzard.store.local import LocalStore
from blizzard.tasks import parse, reading
from blizzard.tasks.parse import ParserDisagrees, RecordParser
from blizzard.tasks.parsed import ParsedBlock
from blizzard.tasks.policy import ParsePolicy, Unknown
from blizzard.tasks.spec import TaskSpec
from blizzard.tasks.task import run_shared_task, run_task
from blizzard.tasks.write import ParquetRoller
from tests.ingesting import line
from tests.tasks.specs import make_spec

EVERYTHING = Budget(output_bytes=1 << 30, max_records=None, seconds=None)
LINES = [
    line(1),
    line(22222),
    line(3) + line(4) + line(5),
    b"\n",
    b"oops\n",
    b'{"id":1.5}\n',
    b'{"id":7,"other":1}\n',
    b'{"id":8,"name":"' + b"x" * 90 + b'"}\n',
    b'{"id":9,"name":"' + b"y" * 200 + b'"}\n',
]


def ticket(sequence: int) -> BatchTicket:
    return BatchTicket(sequence=sequence, planned_ms=0, table_id=f"t{sequence}")


def spec_of(folder: Path, name: str, **changes: Any) -> TaskSpec:
    places = {"table_root": str(folder / name), "quarantine_root": str(folder / f"{name}_quarantine")}
    return make_spec(folder, **places | changes)


def write_slices(folder: Path, files: Mapping[str, bytes], first: int = 0) -> tuple[Slice, ...]:
    slices = []
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        os.utime(folder / name, ns=(0, 0))  # old: a cut one is broken, not still being written
        slices.append(Slice(path=name, size_bytes=len(content), etag="0", from_record=first))
    return tuple(slices)


def run(
    specs: Mapping[str, TaskSpec],
    slices: tuple[Slice, ...],
    wanted: Mapping[str, Mapping[str, int]] | None = None,
    *,
    threads: int = 1,
    budget: Budget = EVERYTHING,
) -> Mapping[str, TaskReport]:
    plan = TaskPlan(slot=0, slices=slices, budget=budget, threads=threads)
    wanted = wanted or {name: {piece.path: piece.from_record for piece in slices} for name in specs}
    tickets = {name: ticket(number) for number, name in enumerate(specs, 1)}
    return run_shared_task(specs, plan, wanted, tickets)


def rows_of(spec: TaskSpec, report: TaskReport) -> list[dict[str, Any]]:
    return [row for file in report.files for row in pq.ParquetFile(f"{spec.table_root}/{file.path}").read().to_pylist()]


def ids(spec: TaskSpec, report: TaskReport) -> list[int]:
    return [row["id"] for row in rows_of(spec, report)]


def all_of(spec: TaskSpec, report: TaskReport) -> dict[str, Any]:
    bad = [
        row
        for file in report.quarantine
        for row in pq.read_table(f"{spec.quarantine_root}/{file.path}").drop_columns(["quarantined_at"]).to_pylist()
    ]
    bad.sort(key=lambda row: (row["source_file"], row["line"] or 0))
    said = replace(report, files=(), quarantine=())
    if report.parser == "pyarrow":  # it leaves whole blocks to the reference, and blocks are cut where the read begins
        said = replace(said, doubtful=0)
    return {"said": said, "rows": rows_of(spec, report), "bad": bad}


@st.composite
def files_of(draw: st.DrawFn) -> dict[str, bytes]:
    files = {}
    for i in range(draw(st.integers(1, 4))):
        content = b"".join(draw(st.lists(st.sampled_from(LINES), max_size=20)))
        content = b"\xef\xbb\xbf" + content if draw(st.booleans()) else content
        content = content.removesuffix(b"\n") if draw(st.booleans()) else content
        if draw(st.booleans()):
            files[f"{i}.ndjson"] = content
            continue
        packed = gzip.compress(content, compresslevel=0, mtime=0)
        place = draw(st.integers(3, len(packed)))
        files[f"{i}.ndjson.gz"] = draw(st.sampled_from([packed, packed, packed[:place]]))
    return files


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rescuing": {
        "layout": TableLayout(schema=load_schema("id BIGINT, name STRING, _rescued_data STRING")),
        "parsing": ParsePolicy(unknown=Unknown.RESCUE),
    },
    "narrow": {"layout": TableLayout(schema=load_schema("name STRING"))},
    "derived": {
        "layout": apply_layout(
            load_schema("id BIGINT, name STRING"),
            partition_by=parse_partition_by("name"),
            provenance=("source_line", "sequence", "raw"),
        )
    },
    "reporting": {"parsing": ParsePolicy(unknown=Unknown.REPORT)},
    "small files": {"target_file_bytes": 1},
}


@settings(max_examples=150, deadline=None)
@given(
    files=files_of(),
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4),
    starts=st.lists(st.lists(st.none() | st.integers(0, 4), min_size=4, max_size=4), min_size=4, max_size=4),
    policies=st.lists(
        st.builds(
            BadPolicy,
            records=st.sampled_from(["quarantine", "drop"]),
            files=st.sampled_from(["quarantine", "retry", "fail"]),
        ),
        min_size=4,
        max_size=4,
    ),
    block_bytes=st.integers(1, 400),
    threads=st.integers(1, 3),
)
def test_each_target_gets_what_it_would_get_alone(
    tmp_path_factory: Any,
    files: dict[str, bytes],
    kinds: list[str],
    starts: list[list[int | None]],
    policies: list[BadPolicy],
    block_bytes: int,
    threads: int,
) -> None:
    folder = tmp_path_factory.mktemp("shared")
    common = {"block_bytes": block_bytes, "max_record_bytes": 150}
    specs = {f"t{n}": spec_of(folder, f"t{n}", bad=policies[n], **common | KINDS[kind]) for n, kind in enumerate(kinds)}
    wanted = {
        name: {path: first for path, first in zip(files, starts[n], strict=False) if first is not None}
        for n, name in enumerate(specs)
    }
    firsts = {path: min((w[path] for w in wanted.values() if path in w), default=None) for path in files}
    slices = tuple(
        replace(piece, from_record=first)
        for piece in write_slices(folder, files)
        if (first := firsts[piece.path]) is not None
    )
    together = run(specs, slices, wanted, threads=threads)
    for number, (name, spec) in enumerate(specs.items(), 1):
        own = tuple(
            replace(piece, from_record=wanted[name][piece.path]) for piece in slices if piece.path in wanted[name]
        )
        alone = run_task(spec, TaskPlan(slot=0, slices=own, budget=EVERYTHING), ticket(number))
        assert all_of(spec, together[name]) == all_of(spec, alone)


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    starts=st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=3),
    block_bytes=st.integers(1, 400),
    most=st.integers(1, 12),
)
def test_targets_that_begin_apart_take_every_line_once_whatever_cuts_the_read(
    tmp_path_factory: Any, counts: list[int], starts: list[list[int]], block_bytes: int, most: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    files = {f"f{n}": b"".join(line(n * 100 + i) for i in range(count)) for n, count in enumerate(counts)}
    positions = {
        f"t{n}": {path: min(first, count) for (path, count, first) in zip(files, counts, own, strict=False)}
        for n, own in enumerate(starts)
    }
    found: dict[str, list[int]] = {
        name: [n * 100 + i for n, path in enumerate(files) for i in range(at[path])] for name, at in positions.items()
    }
    listed = write_slices(folder, files)
    while any(positions.values()):
        smallest = {
            piece.path: min((at[piece.path] for at in positions.values() if piece.path in at), default=None)
            for piece in listed
        }
        slices = tuple(
            replace(piece, from_record=first) for piece in listed if (first := smallest[piece.path]) is not None
        )
        specs = {name: spec_of(folder, name, block_bytes=block_bytes) for name in positions}
        reports = run(specs, slices, positions, budget=replace(EVERYTHING, max_records=most))
        assert any(report.slices for report in reports.values())
        for name, report in reports.items():
            found[name] += ids(specs[name], report)
            for s in report.slices:
                assert s.from_record == positions[name][s.path]
                assert s.to_record > s.from_record or s.finished
                assert s.to_record - s.from_record == s.rows
                positions[name][s.path] = s.to_record
                if s.finished:
                    del positions[name][s.path]
    everything = [n * 100 + i for n, count in enumerate(counts) for i in range(count)]
    assert {name: sorted(got) for name, got in found.items()} == dict.fromkeys(found, everything)


def test_a_target_whose_first_record_was_not_reached_has_nothing_to_report(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"a": b"".join(map(line, range(20)))})
    specs = {name: spec_of(tmp_path, name) for name in ("behind", "ahead")}
    budget = replace(EVERYTHING, max_records=5)
    reports = run(specs, slices, {"behind": {"a": 0}, "ahead": {"a": 5}}, budget=budget)
    assert [(s.from_record, s.to_record) for s in reports["behind"].slices] == [(0, 5)]
    assert reports["ahead"].slices == ()
    reports = run(specs, slices, {"behind": {"a": 0}, "ahead": {"a": 4}}, budget=budget)
    assert [(s.from_record, s.to_record, s.rows) for s in reports["ahead"].slices] == [(4, 5, 1)]
    assert ids(specs["ahead"], reports["ahead"]) == [4]


def test_a_file_that_is_shorter_than_one_position_ends_only_that_target(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"a": line(0) + line(1), "b": line(2)})
    specs = {name: spec_of(tmp_path, name) for name in ("one", "two")}
    reports = run(specs, slices, {"one": {"a": 0, "b": 0}, "two": {"a": 3, "b": 0}})
    assert ids(specs["one"], reports["one"]) == [0, 1, 2]
    failure = reports["two"].failure
    assert failure is not None
    assert (failure.kind, failure.path) == (Kind.BEYOND_END, "a")
    assert "the file has 2 lines, but the position says that 3 are committed" in failure.message


def test_a_bad_record_ends_the_target_that_allows_none_and_no_other(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"a": line(0) + b"oops\n" + line(1), "b": b"oops\n" + line(2)})
    specs = {
        "strict": spec_of(tmp_path, "strict", bad=BadPolicy(records="fail")),
        "one allowed": spec_of(tmp_path, "one", bad=BadPolicy(records="quarantine", max_records=1)),
        "any": spec_of(tmp_path, "any", bad=BadPolicy(records="quarantine")),
    }
    reports = run(specs, slices)
    assert ids(specs["any"], reports["any"]) == [0, 1, 2]
    assert sum(s.bad for s in reports["any"].slices) == 2
    found = [reports[name].failure for name in ("strict", "one allowed")]
    assert [(f.kind, f.path, f.line) for f in found if f] == [
        (Kind.BAD_RECORD, "a", 2),
        (Kind.TOO_MANY_BAD_RECORDS, "b", 1),
    ]
    assert reports["strict"].files == reports["one allowed"].files == ()
    assert not list((tmp_path / "strict").glob("*"))
    assert not list((tmp_path / "one").glob("*"))


def test_the_task_ends_when_all_targets_have_failed(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"a": b"oops\n", "b": line(1) * 100})
    specs = {name: spec_of(tmp_path, name, bad=BadPolicy(records="fail")) for name in ("one", "two")}
    (tmp_path / "b").unlink()  # it is not even opened
    reports = run(specs, slices)
    assert [(r.failure.path if r.failure else None, r.changed) for r in reports.values()] == [("a", ())] * 2


def test_a_path_that_one_target_cannot_use_is_broken_for_it_alone(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"day=soon/a": line(0), "day=2024-01-02/b": line(1)})
    by_day = apply_layout(load_schema("id BIGINT, name STRING"), partition_by=parse_partition_by("day=path(day) DATE"))
    specs = {
        "plain": spec_of(tmp_path, "plain"),
        "strict": spec_of(tmp_path, "strict", layout=by_day, bad=BadPolicy(files="fail")),
        "lax": spec_of(tmp_path, "lax", layout=by_day, bad=BadPolicy(files="quarantine")),
    }
    reports = run(specs, slices)
    assert ids(specs["plain"], reports["plain"]) == [0, 1]
    assert ids(specs["lax"], reports["lax"]) == [1]
    assert [(s.path, s.broken) for s in reports["lax"].slices] == [
        ("day=soon/a", "bad_path after line 0"),
        ("day=2024-01-02/b", None),
    ]
    failure = reports["strict"].failure
    assert failure is not None
    assert failure.kind == Kind.BAD_PATH


@pytest.mark.parametrize("same", [True, False], ids=["one encoder", "two encoders"])
def test_a_folder_that_cannot_be_written_ends_only_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    real = LocalStore.create

    def create(self: LocalStore, name: str) -> Any:
        if self.root.endswith("/two"):
            raise PermissionError(13, "Permission denied", f"{self.root}/{name}")
        return real(self, name)

    monkeypatch.setattr(LocalStore, "create", create)
    slices = write_slices(tmp_path, {"a": b"".join(map(line, range(50)))})
    specs = {
        "one": spec_of(tmp_path, "one", codec="snappy" if same else "zstd"),
        "two": spec_of(tmp_path, "two"),
        "three": spec_of(tmp_path, "three"),
    }
    reports = run(specs, slices)
    failure = reports["two"].failure
    assert failure is not None
    assert (failure.kind, failure.path) == (Kind.NOT_WRITABLE, str(tmp_path / "two"))
    for name in ("one", "three"):
        assert ids(specs[name], reports[name]) == list(range(50))


@pytest.mark.parametrize("broken_at", ["create", "write", "close"])
def test_a_store_that_does_not_answer_ends_only_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_at: str
) -> None:
    """Where one target is alone the same error is raised, so that Spark tries again."""
    real = LocalStore.create

    class Sink:
        def __init__(self, sink: Any) -> None:
            self._sink, self.target = sink, self
            self.closed = False

        def write(self, data: bytes) -> int:
            self._refuse("write")
            return int(self._sink.target.write(data))

        def tell(self) -> int:
            return int(self._sink.tell())

        def close(self) -> None:
            self._refuse("close")
            self._sink.close()

        def abort(self) -> None:
            self._sink.abort()

        def _refuse(self, step: str) -> None:
            if step == broken_at:
                raise Temporary("503", kind=Kind.STORE_UNAVAILABLE)

    def create(self: LocalStore, name: str) -> Any:
        if not self.root.endswith("/two"):
            return real(self, name)
        if broken_at == "create":
            raise Temporary("503", kind=Kind.STORE_UNAVAILABLE)
        return Sink(real(self, name))

    monkeypatch.setattr(LocalStore, "create", create)
    slices = write_slices(tmp_path, {"a": b"".join(map(line, range(50)))})
    specs = {name: spec_of(tmp_path, name, target_file_bytes=300) for name in ("one", "two")}
    reports = run(specs, slices)
    assert ids(specs["one"], reports["one"]) == list(range(50))
    failure = reports["two"].failure
    assert failure is not None
    assert (failure.kind, failure.passes) == (Kind.STORE_UNAVAILABLE, True)
    assert isinstance(error_of_failure(failure), Temporary)
    assert not list((tmp_path / "two").glob("*"))
    with pytest.raises(Temporary, match="503"):
        run({"two": specs["two"]}, slices)


def test_files_with_the_same_bytes_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    real = ParquetRoller.write

    def write(self: ParquetRoller, table: Any) -> None:
        encoded.append(table.num_rows)
        real(self, table)

    monkeypatch.setattr(ParquetRoller, "write", write)
    slices = write_slices(tmp_path, {"a": line(0) + line(1)})
    layout = apply_layout(load_schema("id BIGINT, name STRING"), partition_by=parse_partition_by("name"))
    specs = {name: spec_of(tmp_path, name, layout=layout) for name in ("one", "two", "three")}
    reports = run(specs, slices)
    assert encoded == [1, 1]
    files = [report.files for report in reports.values()]
    assert [[file.rows for file in own] for own in files] == [[1, 1]] * 3
    for name, own in zip(specs, files, strict=True):
        for file, first in zip(own, files[0], strict=True):
            content = (tmp_path / name / file.path).read_bytes()
            assert content == (tmp_path / "one" / first.path).read_bytes()
            assert (file.size_bytes, file.stats, file.partition_values) == (
                len(content),
                first.stats,
                first.partition_values,
            )
    names = [os.path.basename(file.path) for own in files for file in own]
    assert len(set(names)) == 6
    assert [name.split("-")[2] for name in names] == [f"{n:08d}" for n in (1, 1, 2, 2, 3, 3)]


def test_rows_that_carry_the_sequence_are_not_shared(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"a": line(0)})
    layout = apply_layout(load_schema("id BIGINT, name STRING"), provenance=("sequence",))
    specs = {name: spec_of(tmp_path, name, layout=layout) for name in ("one", "two")}
    reports = run(specs, slices)
    assert [rows_of(specs[name], reports[name])[0][PROVENANCE["sequence"][0]] for name in specs] == [1, 2]


def test_lines_are_parsed_once_for_all_targets_of_one_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    real = RecordParser.parse

    def parse_counted(self: RecordParser, data: bytes, *, first_of_file: bool) -> ParsedBlock:
        parsed.append(len(data))
        return real(self, data, first_of_file=first_of_file)

    monkeypatch.setattr(RecordParser, "parse", parse_counted)
    content = b"".join(map(line, range(50)))
    slices = write_slices(tmp_path, {"a": content})
    narrow = TableLayout(schema=load_schema("id BIGINT"))
    specs = {
        "one": spec_of(tmp_path, "one"),
        "two": spec_of(tmp_path, "two", codec="zstd"),
        "narrow": spec_of(tmp_path, "narrow", layout=narrow),
    }
    run(specs, slices)
    assert sum(parsed) == 2 * len(content)


def test_a_broken_file_is_judged_by_each_target_for_itself(tmp_path: Path) -> None:
    packed = gzip.compress(line(1) * 5, compresslevel=0, mtime=0)
    slices = write_slices(tmp_path, {"a.gz": packed[:-20], "b": line(2)})
    specs = {name: spec_of(tmp_path, name, bad=BadPolicy(files=name)) for name in ("fail", "retry", "quarantine")}
    reports = run(specs, slices)
    failure = reports["fail"].failure
    assert failure is not None
    assert failure.kind == Kind.TRUNCATED
    assert reports["retry"].unreadable[0][0] == "a.gz"
    assert [s.path for s in reports["retry"].slices] == ["b"]
    assert [(s.path, s.broken is not None) for s in reports["quarantine"].slices] == [("a.gz", True), ("b", False)]
    for name in ("retry", "quarantine"):
        assert ids(specs[name], reports[name]) == [2]


def test_a_changed_file_ends_only_the_targets_that_had_begun_it(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"a": line(0) + line(1), "b": line(2)})
    os.utime(tmp_path / "a", ns=(1, 1))
    specs = {name: spec_of(tmp_path, name) for name in ("new", "begun", "elsewhere")}
    reports = run(specs, slices, {"new": {"a": 0, "b": 0}, "begun": {"a": 1, "b": 0}, "elsewhere": {"b": 0}})
    assert reports["new"].changed == ("a",)
    assert ids(specs["new"], reports["new"]) == ids(specs["elsewhere"], reports["elsewhere"]) == [2]
    failure = reports["begun"].failure
    assert failure is not None
    assert failure.kind == Kind.SOURCE_CHANGED


@pytest.mark.skipif(not is_available(), reason="the native parser is not built")
def test_a_parser_that_disagrees_is_left_for_all_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disagree(self: RecordParser, *_: Any) -> None:
        if self.name == "native":
            raise ParserDisagrees("in id")

    monkeypatch.setattr(RecordParser, "_compare", disagree)
    slices = write_slices(tmp_path, {"a": line(0)})
    specs = {name: spec_of(tmp_path, name) for name in ("one", "two")}
    reports = run(specs, slices)
    assert [(r.parser, r.parser_defect) for r in reports.values()] == [("pyarrow", "in id")] * 2
    assert parse.ParserDisagrees is ParserDisagrees


def test_output_bytes_are_used_up_by_the_target_that_writes_most(tmp_path: Path) -> None:
    slices = write_slices(tmp_path, {"a": b"".join(map(line, range(500)))})
    specs = {
        "narrow": spec_of(tmp_path, "narrow", layout=TableLayout(schema=load_schema("id BIGINT"))),
        "wide": spec_of(tmp_path, "wide"),
    }
    budget = replace(EVERYTHING, output_bytes=600)
    together = run(specs, slices, budget=budget)
    alone = run({"wide": specs["wide"]}, slices, budget=budget)
    ends = [together["narrow"].slices[0].to_record, together["wide"].slices[0].to_record]
    assert ends == [alone["wide"].slices[0].to_record] * 2
    assert ends[0] < 500


@pytest.mark.parametrize("where", ["one", "two"])
def test_the_end_marker_may_be_in_any_of_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(reading, "_LOOK_ON_DISK_EVERY_S", 0.0)
    slices = write_slices(tmp_path, {"a": b"".join(map(line, range(500)))})
    specs = {name: spec_of(tmp_path, name) for name in ("one", "two")}
    number = list(specs).index(where) + 1
    open_store(specs[where].table_root).make_root()
    open_store(specs[where].table_root).put(f"_blizzard-end-r-{number:08d}", b"")
    reports = run(specs, slices)
    assert [r.slices[0].to_record < 10 for r in reports.values()] == [True, True]


def test_a_file_that_was_begun_is_read_as_it_was_begun(tmp_path: Path) -> None:
    """The plan says how, also where another target begins at its first record."""
    content = b'{"id":0,\n"name":"n0"}\n{"id":1,\n"name":"n1"}\n'
    (piece,) = write_slices(tmp_path, {"a": content})
    specs = {name: spec_of(tmp_path, name) for name in ("new", "begun")}
    wanted = {"new": {"a": 0}, "begun": {"a": 1}}
    reports = run(specs, (replace(piece, framing="concatenated"),), wanted)
    assert ids(specs["new"], reports["new"]) == [0, 1]
    assert ids(specs["begun"], reports["begun"]) == [1]
    with pytest.raises(RuntimeError, match="does not say how they lie"):
        run(specs, (replace(piece, framing=AUTO),), wanted)


def test_a_key_that_is_a_column_of_one_target_is_unwrapped_for_none(tmp_path: Path) -> None:
    (piece,) = write_slices(tmp_path, {"a": b'{"Records":[{"id":1},{"id":2}]}\n'})
    piece = replace(piece, framing=AUTO)
    plain = spec_of(tmp_path, "plain")
    whole = spec_of(tmp_path, "whole", layout=TableLayout(schema=load_schema("Records ARRAY<STRUCT<id: BIGINT>>")))
    assert run({"plain": plain}, (piece,))["plain"].slices[0].framing == "array:Records"
    assert {r.slices[0].framing for r in run({"plain": plain, "whole": whole}, (piece,)).values()} == {"lines"}
    told = replace(plain, wrapper_columns=("Records",))
    assert run({"plain": told}, (piece,))["plain"].slices[0].framing == "lines"


def test_a_plan_for_some_targets_leaves_out_what_only_others_want() -> None:
    a, b = (Slice(path=path, size_bytes=1, etag="0", from_record=2) for path in "ab")
    tasks = (
        TaskPlan(slot=0, slices=(a,), budget=EVERYTHING),
        TaskPlan(slot=1, slices=(b,), budget=EVERYTHING),
        TaskPlan(slot=2, slices=(a, b), budget=EVERYTHING),
    )
    plan = SharedPlan(tasks=tasks, wanted={"one": {"a": 2, "b": 2}, "two": {"b": 5}})
    only = plan.only(frozenset({0, 1}), ["two"])
    assert [(task.slot, task.slices) for task in only.tasks] == [(1, (b,))]
    assert only.wanted == {"two": {"b": 5}}
    assert plan.only(frozenset({0, 1, 2}), ["one", "two"]) == plan
