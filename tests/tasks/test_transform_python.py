"""A Python function as a transform: what it must keep, what becomes of records it fails for, and how it travels."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.schema.ddl import to_ddl
from blizzard.schema.load import load_schema
from blizzard.tasks.parsed import ParsedBlock
from blizzard.tasks.transform import Transforming
from blizzard.tasks.transform_code import Transform, make_transform
from blizzard.tasks.transform_python import by_value
from blizzard.tasks.transform_step import LINE_COLUMN, TransformStopped

READS = load_schema("id BIGINT, name STRING")


def table_of(*names: str | None) -> pa.Table:
    return pa.table({"id": list(range(len(names))), "name": list(names)}, schema=to_arrow(READS))


def block(*names: str | None) -> ParsedBlock:
    return ParsedBlock(table=table_of(*names), lines=len(names), blank=0, bad=())


def applied(function: Any, *names: str | None, table: DeltaSchema | None = None, **options: Any) -> ParsedBlock:
    transform = make_transform(READS, function=function)
    return Transforming(transform, table or transform.result, **options).apply(block(*names))


def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "name", pc.utf8_upper(batch["name"]))


def short_ones(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.less(pc.utf8_length(batch["name"]), 3))


def numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = pa.array([None if text is None else int(text) for text in batch["name"].to_pylist()], pa.int64())
    return pa.record_batch({"n": values, LINE_COLUMN: batch[LINE_COLUMN]})


def test_a_function_makes_rows_and_the_schema_of_a_new_table() -> None:
    transform = make_transform(READS, function=shout)
    assert to_ddl(transform.result) == "id BIGINT, name STRING"
    assert applied(shout, "a", None).table.to_pylist() == [{"id": 0, "name": "A"}, {"id": 1, "name": None}]


def test_rows_that_it_leaves_out_are_filtered() -> None:
    made = applied(short_ones, "ab", "abcd", None, "x")
    assert made.lines_of_rows.tolist() == [0, 3]
    assert made.filtered.tolist() == [1, 2]


def test_rows_in_another_order_are_put_back() -> None:
    def backwards(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.take(pa.array(range(batch.num_rows - 1, -1, -1), pa.int64()))

    made = applied(backwards, "a", "b", "c")
    assert [row["name"] for row in made.table.to_pylist()] == ["a", "b", "c"]


def test_a_record_that_it_fails_for_is_bad_and_the_others_go_on() -> None:
    made = applied(numbers, "1", "x", "3", None, "y", "6")
    assert [row["n"] for row in made.table.to_pylist()] == [1, 3, None, 6]
    assert made.lines_of_rows.tolist() == [0, 2, 3, 5]
    assert [(bad.number, bad.kind) for bad in made.bad] == [(1, "transform"), (4, "transform")]
    name = "test_transform_python:numbers"
    assert made.bad[0].message.endswith(f"{name}: ValueError: invalid literal for int() with base 10: 'x'")
    assert made.filtered.tolist() == []


def never(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_rows:
        sys.calls_of_never.append(batch.num_rows)  # type: ignore[attr-defined]  # of sys there is one, here and there
        raise ValueError("never")
    return batch


def test_a_function_that_fails_for_every_record_is_called_at_most_twice_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(sys, "calls_of_never", calls, raising=False)
    made = applied(never, *("a" for _ in range(257)))
    assert len(made.bad) == 257
    assert len(calls) == 2 * 257 - 1


def test_in_a_first_batch_it_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.tasks.transform._TRIED_ALONE", 5)
    transform = make_transform(READS, function=numbers)
    transforming = Transforming(transform, transform.result, gives_up=True)
    transforming.apply(block("x", "x", "x", "x"))
    with pytest.raises(TransformStopped, match="failed for each of the first 5 records: ValueError") as stopped:
        transforming.apply(block("x", "x"))
    assert stopped.value.failure.kind == Kind.TRANSFORM_FAILED
    other = Transforming(transform, transform.result, gives_up=True)
    other.apply(block("1"))
    assert len(other.apply(block(*"xxxxxxxxxx")).bad) == 10, "it has made a row, so it fits the source"
    filters = make_transform(
        READS, sql="SELECT CAST(name AS INTEGER) AS n FROM records WHERE CAST(name AS INTEGER) > 5"
    )
    other = Transforming(filters, filters.result, gives_up=True)
    assert len(other.apply(block("1")).filtered) == 1
    assert len(other.apply(block(*"xxxxxxxxxx")).bad) == 10, "it has left a record out, so it fits the source"


def without_line(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.drop_columns([LINE_COLUMN])


def with_line(change: Callable[[Any], Any]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not batch.num_rows:
            return batch
        return batch.set_column(batch.num_columns - 1, LINE_COLUMN, change(batch[LINE_COLUMN]))

    return function


def twice(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.concat_batches([batch, batch])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (with_line(lambda lines: pc.add(lines, 1)), "was not given"),
        (with_line(lambda lines: pc.subtract(lines, 1)), "was not given"),
        (with_line(lambda lines: pa.array([2**64 - 1, 2**64 - 2], pa.uint64())), "was not given"),
        (with_line(lambda lines: pa.array([0] * len(lines), pa.int64())), "twice"),
        (with_line(lambda lines: pa.array([0, None], pa.int64())), "changed _blizzard_line"),
        (with_line(lambda lines: pc.cast(lines, pa.string())), "changed _blizzard_line"),
        (twice, "twice"),
        (lambda batch: batch if not batch.num_rows else without_line(batch), "without the column _blizzard_line"),
        (lambda batch: batch if not batch.num_rows else None, "returned NoneType"),
        (lambda batch: batch if not batch.num_rows else batch.to_pylist(), "returned list"),
        (lambda batch: batch if not batch.num_rows else batch.append_column("n", batch["id"]), "n is no column"),
        (
            lambda batch: batch if not batch.num_rows else batch.set_column(0, "id", batch["name"]),
            "id is BIGINT in the",
        ),
        (lambda batch: batch if not batch.num_rows else batch.append_column("id", batch["id"]), "id is made 2 times"),
    ],
)
def test_a_function_that_breaks_the_rules_stops_the_run_and_is_named(function: Any, said: str) -> None:
    with pytest.raises(TransformStopped) as stopped:
        applied(function, "a", "b")
    assert said in str(stopped.value)
    assert "test_transform_python:" in str(stopped.value)
    assert stopped.value.failure.kind == Kind.TRANSFORM_FAILED


@pytest.mark.parametrize("error", [ImportError("no such"), MemoryError(), NameError("x"), SystemError(), SystemExit(0)])
def test_an_error_that_is_no_records_fault_is_no_bad_record(error: BaseException) -> None:
    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows:
            raise error
        return batch

    with pytest.raises(TransformStopped, match=type(error).__name__) as stopped:
        applied(broken, "a", "b")
    assert stopped.value.failure.kind == Kind.TRANSFORM_FAILED


def ends_the_process(batch: pa.RecordBatch) -> pa.RecordBatch:
    sys.exit(0)


def fails_without_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(0, "id", pa.array([batch["id"][0].as_py()]))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (fails_without_records, "fails for an empty RecordBatch"),
        (ends_the_process, "SystemExit: 0 (it was given an empty RecordBatch)"),
        (without_line, "without the column _blizzard_line"),
        (lambda batch: batch.to_pandas(), "returned DataFrame"),
        (lambda batch: batch.select([LINE_COLUMN]), "it makes no column"),
        (lambda batch: batch.append_column("ID", batch["id"]), "named more than once"),
        (
            lambda batch: batch.append_column("s", pa.array([], pa.list_(pa.struct([])))),
            "column s.element: it has no columns",
        ),
        (lambda batch: batch.append_column("_rescued_data", batch["name"]), "blizzard fills a column of this name"),
        (
            lambda batch: batch.append_column("u", pc.cast(batch["id"], pa.uint8())),
            "Delta has no type for Arrow's uint8",
        ),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_at_the_start(function: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_transform(READS, function=function)
    assert said in str(refused.value)
    assert refused.value.kind == Kind.TRANSFORM


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("shout", "write it as module:function"),
        ("no_such_module:shout", "the module no_such_module cannot be imported"),
        (f"{__name__}:nobody", "has no nobody"),
        (f"{__name__}:READS", "is dict, not a function"),
    ],
)
def test_a_function_that_cannot_be_found_is_refused(place: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_transform(READS, python=place)
    assert said in str(refused.value)
    assert refused.value.kind == Kind.TRANSFORM


def test_a_function_is_found_by_its_place() -> None:
    assert make_transform(READS, python=f"{__name__}:numbers").name == f"transform.python {__name__}:numbers"


def test_a_module_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cleaning_here.py").write_text("def same(batch):\n    return batch\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "cleaning_here", raising=False)
    before = list(sys.path)
    assert make_transform(READS, python="cleaning_here:same").result["fields"]
    assert sys.path == before


def test_a_script_that_ends_the_process_while_it_is_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the run would end with 0, as one that is done."""
    (tmp_path / "ends_at_once.py").write_text("import sys\ndef f(batch):\n    return batch\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"ends_at_once fails while it is imported: SystemExit: 0") as refused:
        make_transform(READS, python="ends_at_once:f")
    assert refused.value.kind == Kind.TRANSFORM


def test_a_transform_is_there_though_another_thread_has_made_room_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a fleet are made at the same time."""

    class Cleared(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            """It is gone at once."""

    monkeypatch.setattr("blizzard.tasks.transform_code._made", Cleared())
    assert to_ddl(make_transform(READS, function=shout).result) == "id BIGINT, name STRING"


def test_a_column_of_the_records_must_not_have_the_name_of_the_number() -> None:
    with pytest.raises(SchemaError, match="gets the number of the record under this name"):
        make_transform(load_schema("_Blizzard_Line BIGINT"), function=shout)


def test_a_variant_cannot_go_through_a_function() -> None:
    with pytest.raises(ConfigError, match="a VARIANT column cannot go through it"):
        make_transform(load_schema("id BIGINT, v VARIANT"), function=shout)


# How it travels.


def write_package(folder: Path, monkeypatch: pytest.MonkeyPatch, *, factor: int = 2) -> None:
    package = folder / "only_on_the_driver"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "helping.py").write_text(
        f"from functools import lru_cache\nFACTOR = {factor}\n"
        "@lru_cache(maxsize=10)\ndef time(value):\n    return value * FACTOR\n"
        "def times(values):\n    return [time(v) for v in values]\n"
    )
    (package / "cleaning.py").write_text(
        "import pyarrow as pa\n"
        "from only_on_the_driver.helping import times\n"
        "def clean(batch):\n"
        "    made = pa.array(times(batch['id'].to_pylist()), pa.int64())\n"
        "    return batch.set_column(0, 'id', made)\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.startswith("only_on_the_driver")]:
        monkeypatch.delitem(sys.modules, name)


def load_elsewhere(transform: Transform, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As a worker does: without the modules, and with nothing loaded before."""
    for name in [name for name in sys.modules if name.startswith("only_on_the_driver")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(folder)])
    monkeypatch.setattr("blizzard.tasks.transform_code._loaded.steps", {}, raising=False)
    return pickle.loads(pickle.dumps(transform)).load()


def test_it_travels_with_what_its_own_package_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path, monkeypatch)
    transform = make_transform(READS, python="only_on_the_driver.cleaning:clean")
    step = load_elsewhere(transform, tmp_path, monkeypatch)
    assert [row["id"] for row in step.run(table_of("a", "b")).table.to_pylist()] == [0, 2]
    assert "only_on_the_driver.helping" not in sys.modules


def test_a_function_that_keeps_its_results_travels_by_value(tmp_path: Path) -> None:
    """`lru_cache` of a script, and one that calls itself."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(
        "from functools import cache, lru_cache\n"
        "@cache\ndef sum_to(n):\n    return n + sum_to(n - 1) if n else 0\n"
        "@lru_cache(maxsize=7)\ndef times(n):\n    return 2 * sum_to(n)\n"
        "def f(batch):\n    times(len(batch))\n    return batch\n",
        scope,
    )
    (tmp_path / "pickled").write_bytes(by_value(scope["f"]))
    text = (
        "import pickle, sys\nf = pickle.load(open(sys.argv[1], 'rb'))\nf([1, 2, 3])\n"
        "print(f.__globals__['times'](10), f.__globals__['times'].cache_parameters()['maxsize'])"
    )
    said = subprocess.run(
        [sys.executable, "-c", text, tmp_path / "pickled"], capture_output=True, text=True, check=True
    )
    assert said.stdout == "110 7\n"


@pytest.mark.parametrize(
    "text",
    [
        "def clean(batch):\n    return batch.clean() if hasattr(batch, 'clean') else batch\n",
        "calls = []\ndef clean(batch):\n    calls.append(1)\n    return batch\n",
        "calls = 0\ndef clean(batch):\n    global calls\n    calls += 1\n    return batch\n",
    ],
    ids=["a method of its own name", "a list that grows", "a counter"],
)
def test_what_arrives_is_compared_and_not_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Driver and worker each call the function once to see its columns. And cloudpickle sends what the code looks up
    in its module, not what has only the name of a method."""
    (tmp_path / "only_on_the_driver_here.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    transform = make_transform(READS, python="only_on_the_driver_here:clean")
    step = load_elsewhere(transform, tmp_path, monkeypatch)
    assert step.run(table_of("a")).table.num_rows == 1


def test_its_fingerprint_follows_the_text_of_its_own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path, monkeypatch)
    first = make_transform(READS, python="only_on_the_driver.cleaning:clean")
    again = make_transform(READS, python="only_on_the_driver.cleaning:clean")
    assert first.fingerprint == again.fingerprint
    other_reads = make_transform(
        load_schema("id BIGINT, name STRING, x INT"), python="only_on_the_driver.cleaning:clean"
    )
    assert other_reads.fingerprint != first.fingerprint
    monkeypatch.setattr("blizzard.tasks.transform_code._made", {})
    write_package(tmp_path, monkeypatch, factor=33)
    changed = make_transform(READS, python="only_on_the_driver.cleaning:clean")
    assert changed.fingerprint != first.fingerprint


def test_a_worker_that_would_run_something_else_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver meant other code than what has arrived."""
    write_package(tmp_path, monkeypatch)
    meant = make_transform(READS, python="only_on_the_driver.cleaning:clean")
    arrived = replace(meant, function=make_transform(READS, function=shout).function)
    with pytest.raises(TransformStopped, match="is not the same for a worker as for the driver") as stopped:
        load_elsewhere(arrived, tmp_path, monkeypatch)
    assert stopped.value.failure.kind == Kind.TRANSFORM_DIFFERS


def test_a_worker_that_lacks_a_package_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_on_the_driver_too.py").write_text("def double(values):\n    return values\n")
    (tmp_path / "uses_another.py").write_text(
        "from only_on_the_driver_too import double\ndef clean(batch):\n    return double(batch)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    transform = make_transform(READS, python="uses_another:clean")
    monkeypatch.delitem(sys.modules, "only_on_the_driver_too")
    with pytest.raises(TransformStopped, match=r"needs a package that .*No module named 'only_on_the_driver_too'") as e:
        load_elsewhere(transform, tmp_path, monkeypatch)
    assert e.value.failure.kind == Kind.WORKER_ENVIRONMENT


def test_a_worker_with_another_version_of_a_function_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is used again keeps the modules that it has loaded."""
    module = tmp_path / "on_both_sides.py"
    module.write_text("def double(batch):\n    return batch\n")
    (tmp_path / "uses_both.py").write_text(
        "from on_both_sides import double\ndef clean(batch):\n    return double(batch)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    transform = make_transform(READS, python="uses_both:clean")
    module.write_text("def double(batch):\n    return batch.slice(0, 1)\n")
    monkeypatch.delitem(sys.modules, "on_both_sides")
    monkeypatch.setattr("blizzard.tasks.transform_code._loaded.steps", {}, raising=False)
    with pytest.raises(TransformStopped) as stopped:
        pickle.loads(pickle.dumps(transform)).load()
    assert stopped.value.failure.kind == Kind.TRANSFORM_DIFFERS


def test_a_function_that_cannot_be_pickled_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "x", "w") as held:

        def keeps_a_file(batch: pa.RecordBatch) -> pa.RecordBatch:
            held.flush()
            return batch

        with pytest.raises(ConfigError, match="it cannot be sent to the workers: PicklingError"):
            make_transform(READS, function=keeps_a_file)
