"""Which SELECT statements make at most one row of each record, by itself. Judged from DuckDB's own syntax tree.

Only what is known here is allowed; anything else is refused by its name. Runs no SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from blizzard.schema import fold_name, quote_name

TABLE = "records"

Tree: TypeAlias = Any  # JSON, as json_serialize_sql writes it

_CLASSES = frozenset(
    [
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION"),
        *("LAMBDA", "OPERATOR", "TYPE"),
    ]
)
_OTHER_CLASSES = {"SUBQUERY": "a subquery", "WINDOW": "a window function"}
_WRITE_INSTEAD = {
    "PARAMETER": "it has a parameter; write the value",
    "DEFAULT": "it has DEFAULT; write the value",
    "POSITIONAL_REFERENCE": "it has a column by its number; write its name",
    "STAR": "it has COLUMNS(…), or * in an expression; write the names, or * with EXCLUDE, REPLACE or RENAME",
}
_OPERATORS = frozenset(
    [
        *("ARRAY_CONSTRUCTOR", "ARRAY_EXTRACT", "ARRAY_SLICE", "STRUCT_EXTRACT", "COMPARE_IN", "COMPARE_NOT_IN"),
        *("OPERATOR_CAST", "OPERATOR_COALESCE", "OPERATOR_IS_NOT_NULL", "OPERATOR_IS_NULL", "OPERATOR_NOT"),
        *("OPERATOR_NULLIF", "OPERATOR_TRY"),
    ]
)
_MODIFIERS = {"DISTINCT_MODIFIER": "DISTINCT", "ORDER_MODIFIER": "ORDER BY"}  # any other one limits the rows
_CLAUSES = {
    "cte_map": "WITH",
    "group_expressions": "GROUP BY",
    "group_sets": "GROUP BY",
    "having": "HAVING",
    "sample": "SAMPLE",
    "qualify": "QUALIFY",
}
_OF_SELECT = frozenset(("type", "modifiers", "select_list", "from_table", "where_clause", "aggregate_handling"))
_OF_TABLE = frozenset(("type", "alias", "table_name", "qualified_name", "query_location", "query_location_length"))
# DuckDB calls these CONSISTENT, but they look at the clock, the session or the tables. So does `age` with one argument.
_NOT_OF_THE_RECORD = frozenset(
    ("current_localtime", "current_localtimestamp", "current_setting", "getvariable", "json_serialize_plan")
)
_OWN_SCHEMAS = frozenset(("", "main", "system", "pg_catalog"))
_CLOCK = frozenset(("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"))
_RULE = "A transform makes at most one row of each record, from nothing but that record"


class NotRowWise(Exception):
    """The statement is not one that takes each record by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One of the functions of a name. `body` is the tree of a macro, with the names of its parameters."""

    kind: str  # scalar, aggregate, window, macro, …
    stability: str | None = None
    lambdas: frozenset[int] = frozenset()  # which of its arguments are lambdas
    parameters: frozenset[str] = frozenset()
    body: Tree = None


FindFunctions: TypeAlias = Callable[[str], Sequence[Function]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Star:
    """All columns, without some, with some computed anew, with other names for some. Names are folded."""

    excluded: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of the SELECT list. `names` are those that its expressions use. `column`: it is that column itself."""

    alias: str | None = None
    star: Star | None = None
    column: str | None = None
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A statement that takes each record by itself. `used` are the columns, as they are spelled in the schema, that an
    expression or the WHERE looks at; perhaps more of them."""

    items: tuple[Item, ...]
    used: frozenset[str]
    has_filter: bool


def read_select(tree: Tree, columns: Sequence[str], find: FindFunctions) -> Select:
    """Raises `NotRowWise`, with what is wrong, unless the statement takes each record by itself."""
    if tree.get("error"):
        said = str(tree.get("error_message"))
        if "expression depth" in said:  # it would say how to change a setting that is locked
            raise NotRowWise("it is nested too deeply; make it shorter")
        raise NotRowWise(f"DuckDB cannot read it: {said}")
    statements = tree["statements"]
    if len(statements) != 1:
        raise NotRowWise(f"it is {len(statements)} statements; give one SELECT")
    node = statements[0]["node"]
    _check_node(node)
    reader = _Reader(columns=columns, table=_check_table(node["from_table"]), find=find)
    items = tuple(map(reader.item, node["select_list"]))
    where = node.get("where_clause")
    names = frozenset() if where is None else reader.names(where)
    names = names.union(*(item.names for item in items))
    return Select(items=items, used=reader.columns_of(names), has_filter=where is not None)


def _check_node(node: Tree) -> None:
    if node["type"] != "SELECT_NODE":
        word = str(node.get("setop_type") or node["type"]).replace("_", " ")
        raise NotRowWise(f"it has {word}. {_RULE}: one SELECT … FROM {TABLE}")
    for modifier in node.get("modifiers") or ():
        raise _refused(_MODIFIERS.get(modifier["type"], "LIMIT or OFFSET"))
    for name, value in node.items():
        if name in _OF_SELECT or _is_nothing(value):
            continue
        raise _refused(_CLAUSES.get(name, name))
    if node.get("aggregate_handling", "STANDARD_HANDLING") != "STANDARD_HANDLING":
        raise _refused("GROUP BY ALL")


def _check_table(table: Tree) -> str:
    """The name that the records have in the statement."""
    if table["type"] == "JOIN":
        raise _refused("a join")
    if table["type"] != "BASE_TABLE" or table["table_name"].lower() != TABLE:
        raise NotRowWise(f"it must read FROM {TABLE}, and from nothing else")
    for name, value in table.items():
        if name not in _OF_TABLE and not _is_nothing(value):
            raise NotRowWise(f"FROM {TABLE} takes no {_CLAUSES.get(name, name.replace('_', ' '))}; remove it")
    return str(table.get("alias") or TABLE)


def _is_nothing(value: Any) -> bool:
    return not value or (isinstance(value, dict) and not any(value.values()))


def _refused(what: str) -> NotRowWise:
    return NotRowWise(f"it has {what}. {_RULE}")


class _Reader:
    def __init__(self, *, columns: Sequence[str], table: str, find: FindFunctions) -> None:
        self._columns = {fold_name(name): name for name in columns}
        self._table, self._find = fold_name(table), find
        self._aliases: dict[str, frozenset[str]] = {}

    def columns_of(self, names: Set[str]) -> frozenset[str]:
        return frozenset(spelled for folded, spelled in self._columns.items() if folded in names)

    def item(self, node: Tree) -> Item:
        if node["class"] == "STAR" and not node.get("columns") and node.get("expr") is None:
            return self._star(node)
        item = Item(alias=node.get("alias") or None, column=self._own_column(node), names=self._names(node))
        if item.alias is None and node["class"] != "COLUMN_REF":
            # DuckDB would make a name of the expression, each version another.
            raise NotRowWise("a column that is computed has no name; write … AS name")
        if item.alias is not None:
            self._aliases[fold_name(item.alias)] = item.names
        # A column that is only passed on is not looked at, unless another item refers to it by its alias.
        return item if item.column is None else Item(alias=item.alias, column=item.column)

    def names(self, node: Tree) -> frozenset[str]:
        return self._names(node)

    def _star(self, node: Tree) -> Item:
        relation = node.get("relation_name") or ""
        if relation and fold_name(relation) != self._table:
            raise NotRowWise(f"{quote_name(relation)}.* takes a struct apart; name the fields that you need")
        excluded = {*(node.get("exclude_list") or ()), *(c["column"] for c in node.get("qualified_exclude_list") or ())}
        replaced = {entry["key"]: entry["value"] for entry in node.get("replace_list") or ()}
        renamed = {entry["key"]["column"]: entry["value"] for entry in node.get("rename_list") or ()}
        for name in (*excluded, *replaced, *renamed):
            if fold_name(name) not in self._columns:
                raise self._unknown(name)
        star = Star(
            excluded=frozenset(map(fold_name, excluded)),
            replaced=frozenset(map(fold_name, replaced)),
            renamed={fold_name(old): new for old, new in renamed.items()},
        )
        return Item(star=star, names=frozenset().union(*map(self._names, replaced.values())))

    def _own_column(self, node: Tree) -> str | None:
        """The column that this is, and nothing else."""
        if node["class"] != "COLUMN_REF":
            return None
        path = [fold_name(name) for name in node["column_names"]]
        if len(path) == 2 and path[0] == self._table:
            path = path[1:]
        return self._columns.get(path[0]) if len(path) == 1 else None

    def _names(self, node: Tree, bound: frozenset[str] = frozenset()) -> frozenset[str]:
        """Every name that an expression uses. `bound` are the parameters of the lambdas around it."""
        if isinstance(node, list):
            return frozenset().union(*(self._names(inner, bound) for inner in node))
        if not isinstance(node, dict):
            return frozenset()
        match node.get("class"):
            case "COLUMN_REF":
                return self._reference(node["column_names"], bound)
            case "FUNCTION":
                self._check(node)
                return self._of_arguments(node, bound)
            case None:
                pass
            case _:
                self._check(node)
        return self._names(list(node.values()), bound)

    def _of_arguments(self, node: Tree, bound: frozenset[str]) -> frozenset[str]:
        """`x -> x + 1` is a lambda and `name -> '$.a'` reads JSON, and the tree is the same. It is a lambda where the
        function takes one."""
        lambdas = frozenset().union(*(function.lambdas for function in self._find(node["function_name"].lower())))
        names = frozenset[str]()
        for place, argument in enumerate(_arguments(node)):
            inner = argument.get("expression", argument)  # DuckDB 2.0 has a name beside it
            if place in lambdas and inner["class"] == "LAMBDA":
                paths = (found["column_names"] for found in _nodes(inner["lhs"]) if "column_names" in found)
                names |= self._names(inner["expr"], bound.union(*(map(fold_name, path) for path in paths)))
            else:
                names |= self._names(inner, bound)
        return names

    def _reference(self, path: Sequence[str], bound: frozenset[str]) -> frozenset[str]:
        folded = [fold_name(name) for name in path]
        if folded[0] in bound:
            return frozenset()
        names = frozenset(folded).union(*(self._aliases.get(name, ()) for name in folded))
        is_qualified = len(folded) > 1 and folded[0] == self._table and folded[1] in self._columns
        if is_qualified or folded[0] in self._columns or folded[0] in self._aliases:
            return names
        raise self._unknown(path[0])

    def _unknown(self, name: str) -> NotRowWise:
        if name.lower() in _CLOCK:
            return _refused(f"{name}, which does not always give the same")
        if fold_name(name) == self._table:
            return NotRowWise(f"it uses {quote_name(name)} as a value; name the columns that you need")
        some = ", ".join(map(quote_name, self._columns.values()))
        return NotRowWise(f"{quote_name(name)} is no column of the records; they have {some}")

    def _check(self, node: Tree) -> None:
        """One expression, without what is inside of it."""
        kind = node["class"]
        if kind in _WRITE_INSTEAD:
            raise NotRowWise(_WRITE_INSTEAD[kind])
        if kind not in _CLASSES:
            raise _refused(_OTHER_CLASSES.get(kind, kind))
        if kind == "OPERATOR" and node["type"] == "OPERATOR_UNPACK":
            raise NotRowWise(_WRITE_INSTEAD["STAR"])
        if kind == "OPERATOR" and node["type"] not in _OPERATORS:
            raise _refused(node["type"])
        if kind == "FUNCTION":
            self._check_call(node)

    def _check_call(self, node: Tree) -> None:
        name, schema = node["function_name"], node.get("schema") or ""
        if schema not in _OWN_SCHEMAS:
            raise NotRowWise(f"write {name}({schema}, …) instead of {schema}.{name}(…)")
        orders = (node.get("order_bys") or {}).get("orders")
        if node.get("distinct") or node.get("filter") or orders or node.get("export_state"):
            raise _refused(f"{name}() as an aggregate")
        check_function(name, len(_arguments(node)), self._find)


def _arguments(call: Tree) -> Sequence[Tree]:
    return call.get("arguments") or call.get("children") or ()


def _nodes(node: Tree) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _nodes(inner)


def check_function(name: str, arguments: int, find: FindFunctions) -> None:
    """Raises unless a call of this function gives one value, and always the same for the same arguments."""
    found = find(name.lower())
    kinds = {function.kind for function in found}
    if "aggregate" in kinds or "window" in kinds:
        raise _refused(f"{name}(), which takes several records")
    if not found:
        raise NotRowWise(f"DuckDB has no function {name}()")
    if not kinds & {"scalar", "macro"}:
        raise _refused(f"{name}(), which makes several rows")
    is_odd = name.lower() in _NOT_OF_THE_RECORD or (name.lower(), arguments) == ("age", 1)
    if is_odd or any(function.kind == "scalar" and function.stability != "CONSISTENT" for function in found):
        raise _refused(f"{name}(), which does not always give the same")
    for function in found:
        if function.kind == "macro":
            _check_macro(name, function, find)


def _check_macro(name: str, macro: Function, find: FindFunctions) -> None:
    """By what it is made of."""
    reader = _Reader(columns=sorted(macro.parameters), table="", find=find)
    try:
        for node in macro.body["statements"][0]["node"]["select_list"]:
            reader.names(node)
    except NotRowWise:
        raise _refused(f"{name}(), which DuckDB makes of something that a transform cannot have") from None
