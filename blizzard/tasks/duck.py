"""DuckDB, closed up: no file, no network, no extension, one thread, UTC. The only module that imports it.

It reads Arrow without a copy. The optimizer is off: whether a record fails must not depend on the records beside it,
and the optimizer may change the order in which conditions are looked at.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from blizzard.tasks.sql_rules import TABLE, Function, Tree

_CONFIG = {
    "threads": "1",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
}
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "PRAGMA disable_optimizer",
    # Whoever walks the tree calls itself a few times for each level, and Python allows 1,000 calls.
    "SET max_expression_depth = 100",
    "SET lock_configuration = true",
)
_FUNCTIONS = """SELECT function_name, function_type, stability, parameters, macro_definition, parameter_types
FROM duckdb_functions()"""
# What a plan that takes each record by itself is made of.
_ROW_WISE = frozenset(("PROJECTION", "FILTER", "ARROW_SCAN", "PYTHON_ARROW_SCAN", "EMPTY_RESULT"))
_listed: dict[str, list[tuple[Any, ...]]] = {}
_PLACES = frozenset(("query_location", "query_location_length", "location"))


class DuckMissing(Exception):
    """There is no DuckDB in this Python."""


class CannotBind(Exception):
    """DuckDB refuses the statement for these columns."""


class ValueRefused(Exception):
    """DuckDB cannot make a value of one of these records."""


class DuckFailed(Exception):
    """DuckDB failed, and not over a record."""


# By the thread's id, and not in a `threading.local`: a process that is forked takes apart what the other threads have
# there. To take a connection apart is to wait for threads of DuckDB, which that process does not have. It crashed, and
# it was to become Spark's JVM.
_of_threads: dict[int, Duck] = {}


def this_duck() -> Duck:
    """The one of this thread. A connection takes longer than a block of records, and workers are used again."""
    own = threading.get_ident()
    duck = _of_threads.get(own)
    if duck is None:
        for ended in _of_threads.keys() - {thread.ident for thread in threading.enumerate()}:
            _of_threads.pop(ended, None)
        duck = _of_threads[own] = Duck()
    return duck


class Duck:
    """One connection, for one thread."""

    def __init__(self) -> None:
        try:
            import duckdb
        except ImportError as e:
            raise DuckMissing(str(e)) from None
        self._errors: Any = duckdb
        self.version: str = duckdb.__version__
        self._connection: Any = duckdb.connect(":memory:", config=_CONFIG)
        for setting in _SETTINGS:
            self._connection.execute(setting)

    def parse(self, sql: str) -> Tree:
        """The syntax tree, without what says where something stands in the text."""
        ((text,),) = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        return _without_places(json.loads(text))

    def functions(self, name: str) -> Sequence[Function]:
        """All functions of this name, in lower case."""
        if not _listed:  # every connection of a process has the same ones
            found: dict[str, list[tuple[Any, ...]]] = {}
            for own, *row in self._connection.execute(_FUNCTIONS).fetchall():
                found.setdefault(own.lower(), []).append(tuple(row))
            _listed.update(found)  # all at once: other threads may ask meanwhile
        return [self._function(*row) for row in _listed.get(name, ())]

    def _function(
        self, kind: str, stability: str | None, parameters: Any, definition: str | None, types: list[Any]
    ) -> Function:
        if kind != "macro":
            lambdas = frozenset(place for place, name in enumerate(types) if name == "LAMBDA")
            return Function(kind=kind, stability=stability, lambdas=lambdas)
        return Function(kind=kind, parameters=frozenset(parameters or ()), body=self.parse(f"SELECT {definition}"))

    def bind(self, sql: str, records: pa.Table) -> list[tuple[str, Any]]:
        """The columns of the result, with DuckDB's types. Raises `CannotBind`."""
        self._register(records)
        try:
            relation = self._connection.sql(sql)
            return list(zip(relation.columns, relation.types, strict=True))
        except self._errors.Error as e:
            raise CannotBind(first_line(e)) from None
        finally:
            self._unregister()

    def unexpected_steps(self, sql: str, records: pa.Table) -> set[str]:
        """What DuckDB would do for this statement beside looking at one record after the other."""
        self._register(records)
        try:
            ((_, plan),) = self._connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
        except self._errors.Error as e:
            raise CannotBind(first_line(e)) from None
        finally:
            self._unregister()
        return set(_steps(json.loads(plan))) - _ROW_WISE

    def run(self, sql: str, records: pa.Table) -> pa.Table:
        """Raises `DuckFailed` if DuckDB itself is at fault, and `ValueRefused` if a record is."""
        self._register(records)
        errors = self._errors
        try:
            return self._connection.sql(sql).to_arrow_table()
        except (errors.OperationalError, errors.InternalError, errors.FatalException, errors.PermissionException) as e:
            _of_threads.pop(threading.get_ident(), None)  # after a fatal error it is of no use
            raise DuckFailed(first_line(e)) from None
        except errors.InterruptException as e:
            raise DuckFailed(first_line(e)) from None
        except errors.Error as e:
            # The statement was taken for no records, so one of these is at fault. Functions raise errors of any kind.
            raise ValueRefused(first_line(e)) from None
        finally:
            self._unregister()

    def _register(self, records: pa.Table) -> None:
        # As a reader: DuckDB then leaves no filter to pyarrow, which compares otherwise.
        self._connection.register(TABLE, records.to_reader())

    def _unregister(self) -> None:
        with suppress(self._errors.Error):  # it may be dead, and the records must not be kept
            self._connection.unregister(TABLE)


def first_line(error: BaseException) -> str:
    """Below it DuckDB shows the statement."""
    return str(error).partition("\n")[0].strip()


def _without_places(tree: Tree) -> Tree:
    match tree:
        case dict():
            return {name: _without_places(value) for name, value in tree.items() if name not in _PLACES}
        case list():
            return [_without_places(value) for value in tree]
        case _:
            return tree


def _steps(plan: Any) -> list[str]:
    return [name for node in plan for name in (node["name"].strip(), *_steps(node.get("children") or ()))]
