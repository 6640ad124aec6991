"""A Python function that gets each block of records as a RecordBatch, and returns the rows as one.

It travels by value: workers need not have its module. The records carry a number, and the rows must carry it too.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from blizzard.core.kinds import Kind
from blizzard.errors import SchemaError
from blizzard.schema import DeltaSchema
from blizzard.schema.arrow import to_arrow
from blizzard.schema.from_arrow import from_arrow
from blizzard.schema.results import VOID
from blizzard.source.lines import Positions
from blizzard.tasks.code import CACHED, own_modules
from blizzard.tasks.transform_step import LINE_COLUMN, Made, RecordsRefused, TransformStopped

Transformer: TypeAlias = Callable[[Any], Any]  # a pyarrow.RecordBatch in, and one out

# These are about the function or the machine. No record is at fault, and the next one would fail too.
_NOT_A_RECORDS_FAULT = (
    *(ImportError, MemoryError, NameError, SyntaxError, SystemError, pa.ArrowNotImplementedError),
    SystemExit,  # else it would end the run with the code of a run that is done
)


class UnusableFunction(Exception):
    """The function cannot be found, or cannot be sent to the workers."""


def find_function(place: str) -> Transformer:
    """`module:function`. Modules of the current folder are found too."""
    module_name, colon, path = place.partition(":")
    if not colon or not module_name or not path:
        raise UnusableFunction(f"write it as module:function, not {place!r}")
    try:
        with _current_folder():
            found: Any = importlib.import_module(module_name)
    except ImportError as e:
        raise UnusableFunction(f"the module {module_name} cannot be imported: {e}") from e
    except (Exception, SystemExit) as e:
        raise UnusableFunction(f"the module {module_name} fails while it is imported: {shown_error(e)}") from e
    for name in path.split("."):
        if not hasattr(found, name):
            raise UnusableFunction(f"the module {module_name} has no {path}")
        found = getattr(found, name)
    if not callable(found):
        raise UnusableFunction(f"{place} is {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


@contextmanager
def _current_folder() -> Iterator[None]:
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def by_value(function: Transformer) -> bytes:
    """The function with everything of its own package that it uses, so that a worker needs no file of it."""
    from pyspark import cloudpickle

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        dispatch_table: ClassVar[Any] = ChainMap({CACHED: _reduce_cached}, cloudpickle.CloudPickler.dispatch_table)

    registered = cloudpickle.list_registry_pickle_by_value()
    modules = [module for module in own_modules(function) if module.__name__ not in registered]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        with io.BytesIO() as pickled:
            Pickler(pickled).dump(function)
            return pickled.getvalue()
    except Exception as e:
        raise UnusableFunction(f"it cannot be sent to the workers: {shown_error(e)}") from e
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _reduce_cached(function: Any) -> Any:
    """cloudpickle sends its name: a worker would not find it, or find what it had loaded before."""
    from pyspark import cloudpickle

    if function.__module__ in (*cloudpickle.list_registry_pickle_by_value(), "__main__"):
        return cached_again, (function.__wrapped__, function.cache_parameters())
    return function.__qualname__  # as pickle does


def cached_again(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    """For a worker."""
    cached: Callable[..., Any] = lru_cache(**parameters)(function)
    return cached


class PythonStep:
    def __init__(self, function: Transformer, name: str, reads: DeltaSchema) -> None:
        """Calls the function with no records. Raises `RecordsRefused` if it fails then."""
        self._function, self._name = function, name
        self._given: pa.Schema = to_arrow(reads).append(pa.field(LINE_COLUMN, pa.int64(), nullable=False))
        self._seen: tuple[Any, DeltaSchema] | None = None
        self.result: DeltaSchema = self.run(to_arrow(reads).empty_table()).schema

    def run(self, records: pa.Table) -> Made:
        given = _batch(records, self._given)
        try:
            made = self._function(given)
        except _NOT_A_RECORDS_FAULT as e:
            raise TransformStopped(Kind.TRANSFORM_FAILED, f"{self._name}: {shown_error(e)}") from e
        except Exception as e:
            raise RecordsRefused(shown_error(e)) from e
        if not isinstance(made, pa.RecordBatch):
            raise self._broken(f"returned {type(made).__name__}, not a pyarrow.RecordBatch")
        lines = self._lines(made, given)
        own = {_place_of(given.column(i)): name for i, name in enumerate(given.schema.names)}
        passed = {name for i, name in enumerate(made.schema.names) if own.get(_place_of(made.column(i))) == name}
        self._check(made, passed)
        table = pa.Table.from_batches([made]).drop_columns([LINE_COLUMN])
        if np.any(lines[:-1] > lines[1:]):
            order = np.argsort(lines)
            table, lines = table.take(pa.array(order)), lines[order]
        return Made(table=table, schema=self._schema_of(table.schema), records=lines, passed=frozenset(passed))

    def _check(self, made: pa.RecordBatch, passed: set[str]) -> None:
        try:
            for name, column in zip(made.schema.names, made.columns, strict=True):
                if name not in passed:
                    column.validate(full=True)
        except pa.ArrowInvalid as e:
            raise self._broken(f"returned an invalid RecordBatch: {shown_error(e)}") from e

    def _lines(self, made: pa.RecordBatch, given: pa.RecordBatch) -> Positions:
        """The numbers of the records that the rows are made of. Each must have been given, and be there once."""
        count = given.num_rows
        if made.schema.names.count(LINE_COLUMN) != 1:
            raise self._broken(
                f"returned rows without the column {LINE_COLUMN}. It says which record a row is made of: keep it"
            )
        column = made.column(LINE_COLUMN)
        if _place_of(column) == _place_of(given.column(LINE_COLUMN)):
            return np.arange(count)
        if not pa.types.is_integer(column.type) or column.null_count:
            raise self._broken(f"changed {LINE_COLUMN}, which says which record a row is made of: keep it as it is")
        lines: Positions = column.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False)
        if len(lines) and (lines.min() < 0 or lines.max() >= count):
            raise self._broken(f"returned a row whose {LINE_COLUMN} was not given: no record can be named for it")
        if len(np.unique(lines)) != len(lines):
            raise self._broken(f"returned a {LINE_COLUMN} twice: at most one row can be made of each record")
        return lines

    def _schema_of(self, arrow: pa.Schema) -> DeltaSchema:
        if self._seen is not None and self._seen[0].equals(arrow):
            return self._seen[1]
        fields = []
        try:
            for field in arrow:
                is_void = pa.types.is_null(field.type)
                (own,) = from_arrow(pa.schema([field.with_type(pa.string()) if is_void else field]))["fields"]
                fields.append({**own, "type": VOID} if is_void else own)
        except SchemaError as e:
            raise self._broken(f"returned a column that no table can have: {e}") from e
        self._seen = (arrow, {"type": "struct", "fields": fields})
        return self._seen[1]

    def _broken(self, what: str) -> TransformStopped:
        return TransformStopped(Kind.TRANSFORM_FAILED, f"{self._name} {what}")


def _place_of(values: Any) -> tuple[Any, ...]:
    """Arrays at the same place have the same values: Arrow never changes them."""
    places = tuple(None if buffer is None else buffer.address for buffer in values.buffers())
    return str(values.type), len(values), values.offset, places


def _batch(records: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in records.columns]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(np.arange(records.num_rows))], schema=schema)


def shown_error(error: BaseException) -> str:
    text = str(error).partition("\n")[0].strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
