"""What the settings make of a schema: how lines are read, which columns a table has, whether they fit."""

from __future__ import annotations

from blizzard.config.load import Config
from blizzard.core.kinds import Kind
from blizzard.core.lists import some
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema import DeltaSchema
from blizzard.schema.derived import whole_record_column
from blizzard.schema.evolve import with_rescued_column
from blizzard.schema.fit import schema_differences
from blizzard.schema.layout import TableLayout, apply_layout, layout_of
from blizzard.schema.results import result_problems, untyped
from blizzard.tasks.column_settings import check_settings
from blizzard.tasks.policy import Coercion, ParsePolicy, Unknown
from blizzard.tasks.transform_code import Transform

_UNKNOWN = {
    "strict": Unknown.BAD,
    "ignore": Unknown.IGNORE,
    "rescue": Unknown.RESCUE,
    "add_columns": Unknown.REPORT,
}


def parse_policy(config: Config, schema: DeltaSchema | None = None) -> ParsePolicy:
    """What lines become. `schema` is what is read from the records, if it is known: the settings of columns are checked
    against it."""
    if config.evolution == "widen":
        raise ConfigError(
            "schema.evolution widen needs a committer that can change the type of a column, which delta-rs cannot; use"
            " add_columns, and widen the column with Spark",
            kind=Kind.NOT_BUILT,
        )
    if config.evolution == "add_columns" and config.select is not None:
        raise ConfigError(
            "select names the columns that the table has, and schema.evolution add_columns would add others: leave one"
            " of them out",
            kind=Kind.USAGE,
        )
    renamed = config.columns.get("schema.rename")
    policy = ParsePolicy(
        json_in_strings=config.schema.json_in_strings == "keep",
        unknown=_UNKNOWN[config.evolution],
        rescue_values=config.bad_records.policy == "rescue",
        exact_timestamps=config.schema.timestamps == "exact",
        formats=dict(config.columns.get("schema.formats", {})),
        coerce={path: _coercions(names) for path, names in config.columns.get("schema.coerce", {}).items()},
        rename=config.schema.rename if renamed is None else {path: _one_name(n) for path, n in renamed.items()},
    )
    if schema is not None:
        check_settings(policy, schema)
    return policy


def _coercions(names: tuple[str, ...]) -> frozenset[Coercion]:
    known = [coercion.value for coercion in Coercion]
    for name in names:
        if name not in known:
            raise ConfigError(f"schema.coerce takes {', '.join(known)}, not {name!r}")
    return frozenset(map(Coercion, names))


def _one_name(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        raise ConfigError(f"schema.rename gives a field one name, not {', '.join(names)}")
    return names[0]


def layout_of_new_table(config: Config, schema: DeltaSchema, transform: Transform | None = None) -> TableLayout:
    """`schema` is what is read from the records."""
    schema = _selected(config, schema)
    policy = parse_policy(config, schema)
    if transform is not None and (names := untyped(transform.result)):
        raise SchemaError(
            f"{transform.name} makes nothing but null in {', '.join(names)}, and a new table needs a type: cast it",
            kind=Kind.TRANSFORM,
        )
    layout = apply_layout(
        schema if transform is None else transform.result,
        partition_by=config.table.partition_by or (),
        provenance=config.table.provenance or (),
    )
    return layout.with_schema(with_rescued_column(layout.schema)) if policy.rescues else layout


def _selected(config: Config, schema: DeltaSchema) -> DeltaSchema:
    """Only the columns that `select` names, in the order of the schema."""
    if config.select is None:
        return schema
    names = [field["name"] for field in schema["fields"]]
    unknown = [name for name in config.select if name not in names]
    if unknown:
        raise SchemaError(
            f"select names {some(unknown)}, which the schema does not have. It has {some(names, 20)}.", kind=Kind.SCHEMA
        )
    return {**schema, "fields": [field for field in schema["fields"] if field["name"] in config.select]}


def check_selected(config: Config, layout: TableLayout) -> None:
    """Raises if the table was made with other columns than `select` names."""
    if config.select is None:
        return
    names = {field["name"] for field in layout.record_schema["fields"]}
    if names != set(config.select):
        raise SchemaError(
            f"select names {some(sorted(config.select), 20)}, and the table has the columns {some(sorted(names), 20)}."
            f" A table keeps its columns: change select to these, or leave it out.",
            kind=Kind.SCHEMA_MISMATCH,
        )


def layout_of_table(config: Config, table: DeltaRsTable) -> TableLayout:
    return layout_of(
        table.schema,
        table.partition_columns,
        partition_by=config.table.partition_by,
        provenance=config.table.provenance,
    )


def check_transform(transform: Transform | None, layout: TableLayout) -> None:
    """Raises if its rows do not fit the table."""
    problems = [] if transform is None else result_problems(transform.result, layout.record_schema)
    if transform is not None and problems:
        raise SchemaError(
            f"the columns that {transform.name} makes do not fit the table: {'; '.join(problems)}. Change the"
            f" transform, or name another table.",
            kind=Kind.SCHEMA_MISMATCH,
        )


def check_given_schema(given: DeltaSchema | None, layout: TableLayout, config: Config) -> None:
    """Raises if the given schema does not fit the table. Columns that the table has more are fine if columns may be
    added."""
    if given is None:
        return
    if config.schema.variant:
        if whole_record_column(layout.schema["fields"]) is None:
            raise SchemaError(
                "--variant (schema.variant) takes each record whole, but the table was made to take their fields. Leave"
                " it out to use the table's columns, or name another table.",
                kind=Kind.LAYOUT_MISMATCH,
            )
        return
    may_have_more = config.evolution == "add_columns"
    differences = schema_differences(_selected(config, given), layout.record_schema, may_have_more=may_have_more)
    if differences:
        raise SchemaError(
            "the given schema does not fit the table: "
            + "; ".join(differences)
            + ". Leave --schema out to use the table's.",
            kind=Kind.SCHEMA_MISMATCH,
        )
