"""A transform as a value that travels: the text of a statement, or a function pickled by value.

A worker that is used again may have old modules. So before each task the worker compares what it would run with what
the driver meant.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from blizzard.core.kinds import Kind
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema import ColumnPath, DeltaSchema, DeltaType, fold_name, holds_variant, name_problems, show_column
from blizzard.schema.evolve import RESCUED_COLUMN
from blizzard.schema.fit import fingerprint
from blizzard.tasks.code import code_fingerprint, name_of, text_fingerprint
from blizzard.tasks.duck import DuckMissing
from blizzard.tasks.sql_rules import NotRowWise
from blizzard.tasks.transform_python import (
    PythonStep,
    Transformer,
    UnusableFunction,
    by_value,
    find_function,
    shown_error,
)
from blizzard.tasks.transform_sql import SqlStep
from blizzard.tasks.transform_step import LINE_COLUMN, RecordsRefused, Step, TransformStopped

NO_DUCKDB = "transform.sql needs DuckDB: pip install 'blizzard-delta[sql]'"
_KEPT_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    name: str  # for messages: transform.sql, or the place of the function
    reads: DeltaSchema  # what is read from the records
    result: DeltaSchema  # what becomes of them
    fingerprint: str  # for the position: of the code and of what it reads
    code: str  # what a worker compares
    sql: str | None = None
    function: bytes | None = None

    def load(self) -> Step:
        """For a task. Raises `TransformStopped` if this Python cannot run it, or would run something else."""
        steps: dict[tuple[Any, ...], Step] = _loaded.__dict__.setdefault("steps", {})
        key = (self.fingerprint, self.code, self.sql, self.function)
        if key not in steps:
            if len(steps) >= _KEPT_STEPS:
                steps.clear()
            steps[key] = self._load_sql(self.sql) if self.sql is not None else self._load_function(self.function)
        return steps[key]

    def _load_sql(self, sql: str) -> Step:
        try:
            step = SqlStep(sql, self.reads)
        except DuckMissing as e:
            raise TransformStopped(Kind.WORKER_ENVIRONMENT, f"{NO_DUCKDB} ({e})") from None
        except NotRowWise as e:
            raise TransformStopped(Kind.TRANSFORM_DIFFERS, f"{self.name} cannot be used by a worker: {e}") from None
        self._compare(_code_of_sql(step), step, f"; its DuckDB is {step.version}")
        return step

    def _load_function(self, pickled: bytes | None) -> Step:
        try:
            function: Transformer = pickle.loads(pickled or b"")
        except ImportError as e:
            said = f"{self.name} needs a package that the Python of the workers does not have ({e})"
            raise TransformStopped(Kind.WORKER_ENVIRONMENT, said) from None
        except (Exception, SystemExit) as e:
            said = f"{self.name} cannot be loaded by a worker: {shown_error(e)}"
            raise TransformStopped(Kind.TRANSFORM_DIFFERS, said) from e
        code = code_fingerprint(function)  # before it is called: that may change what it keeps
        try:
            step = PythonStep(function, self.name, self.reads)
        except RecordsRefused as e:
            raise TransformStopped(Kind.TRANSFORM_FAILED, f"{self.name} fails without a record: {e}") from e
        self._compare(code, step, "")
        return step

    def _compare(self, code: str, step: Step, more: str) -> None:
        if code != self.code or fingerprint(step.result) != fingerprint(self.result):
            said = f"{self.name} is not the same for a worker as for the driver ({code}, not {self.code}{more})"
            raise TransformStopped(Kind.TRANSFORM_DIFFERS, said)


# Of each thread by itself: a function may keep something that is not for two of them at once.
_loaded = threading.local()


def make_transform(
    reads: DeltaSchema, *, sql: str | None = None, python: str | None = None, function: Transformer | None = None
) -> Transform:
    """For the driver. One of the three is given. Raises if it cannot be used, or does not make a table's columns."""
    _refuse_reserved(reads)
    key = (sql, python, id(function), json.dumps(reads))
    known = _made.get(key)
    if known is None:
        made = _of_sql(sql, reads) if sql is not None else _of_function(reads, python, function)
        known = made, function  # as long as it is kept, no other function has its id
        if len(_made) >= _KEPT_STEPS:
            _made.clear()
        _made[key] = known  # from now on another thread may clear it again
    return known[0]


# A command asks for its transform more than once.
_made: dict[tuple[Any, ...], tuple[Transform, Transformer | None]] = {}


def _of_sql(sql: str, reads: DeltaSchema) -> Transform:
    name = "transform.sql"
    try:
        step = SqlStep(sql, reads)
    except DuckMissing as e:
        raise ConfigError(f"{NO_DUCKDB} ({e})", kind=Kind.TRANSFORM) from None
    except NotRowWise as e:
        raise ConfigError(f"{name} cannot be used: {e}", kind=Kind.TRANSFORM) from None
    code = _code_of_sql(step)
    _check_result(step.result, name)
    mark = _fingerprint(code, reads)
    return Transform(name=name, reads=reads, result=step.result, fingerprint=mark, code=code, sql=sql)


def _of_function(reads: DeltaSchema, place: str | None, function: Transformer | None) -> Transform:
    name = f"transform.python {place}" if function is None else f"the transform {name_of(function)}"
    try:
        if any(holds_variant(field["type"]) for field in reads["fields"]):
            raise UnusableFunction("a VARIANT column cannot go through it; leave it out of the schema")
        function = find_function(place or "") if function is None else function
        step = PythonStep(function, name, reads)
        pickled = by_value(function)
    except UnusableFunction as e:
        raise ConfigError(f"{name} cannot be used: {e}", kind=Kind.TRANSFORM) from e
    except RecordsRefused as e:
        said = f"{name} fails for an empty RecordBatch, which shows what columns it makes: {e}"
        raise ConfigError(said, kind=Kind.TRANSFORM) from e
    except TransformStopped as e:
        raise ConfigError(f"{e} (it was given an empty RecordBatch)", kind=Kind.TRANSFORM) from e
    _check_result(step.result, name)
    return Transform(
        name=name,
        reads=reads,
        result=step.result,
        fingerprint=_fingerprint(text_fingerprint(function), reads),
        code=code_fingerprint(function),
        function=pickled,
    )


def _refuse_reserved(reads: DeltaSchema) -> None:
    for field in reads["fields"]:
        if fold_name(field["name"]) == LINE_COLUMN:
            raise SchemaError(
                f"{show_column((field['name'],))}: a transform gets the number of the record under this name; call the"
                f" column otherwise (schema.rename)"
            )


def _check_result(result: DeltaSchema, name: str) -> None:
    """Raises unless a table can have these columns."""
    names = [field["name"] for field in result["fields"]]
    problems = [*_name_problems(result, ())] if names else ["it makes no column"]
    reserved = [own for own in names if fold_name(own) in (LINE_COLUMN, RESCUED_COLUMN)]
    problems += [f"{show_column((own,))}: blizzard fills a column of this name; give it another" for own in reserved]
    if problems:
        raise ConfigError(f"{name} cannot be used: {'; '.join(problems)}", kind=Kind.TRANSFORM)


def _name_problems(data_type: DeltaType, path: ColumnPath) -> Iterator[str]:
    match data_type:
        case {"type": "struct", "fields": []}:
            yield f"{show_column(path)}: it has no columns; name at least one"
        case {"type": "struct", "fields": fields}:
            yield from name_problems([field["name"] for field in fields], path)
            for field in fields:
                yield from _name_problems(field["type"], (*path, field["name"]))
        case {"type": "array", "elementType": inner}:
            yield from _name_problems(inner, (*path, "element"))
        case {"type": "map", "valueType": inner}:
            yield from _name_problems(inner, (*path, "value"))
        case _:
            return


def _code_of_sql(step: SqlStep) -> str:
    """Of the syntax tree: blanks, comments and the case of keywords do not count. Another DuckDB may write another
    tree, and may mean something else by it."""
    return _digest(json.dumps(step.tree, sort_keys=True))


def _fingerprint(code: str, reads: DeltaSchema) -> str:
    return _digest(f"{code} {fingerprint(reads)}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
