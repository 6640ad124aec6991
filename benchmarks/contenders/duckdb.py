"""DuckDB: `read_json` with the columns given, streamed as Arrow batches into `write_deltalake`. No position is kept."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders.play import Clock, Said, Spec, play
from blizzard.schema import decimal_digits
from blizzard.schema.load import load_schema


def run(spec: Spec, clock: Clock) -> Said:
    import duckdb
    from deltalake import write_deltalake

    columns = ", ".join(f"{_name(f['name'])}: '{duckdb_type(f['type'])}'" for f in load_schema(spec.ddl)["fields"])
    source = spec.glob.replace("'", "''")
    connection = duckdb.connect(config={"threads": spec.cores, "temp_directory": spec.work})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET preserve_insertion_order = false")
    clock.start()
    relation = connection.sql(
        f"SELECT * FROM read_json('{source}', format = 'newline_delimited', columns = {{{columns}}})"
    )
    write_deltalake(spec.table, relation.to_arrow_reader(100_000), mode="append")
    clock.stop()
    return Said()


def duckdb_type(data_type: Any) -> str:
    match data_type:
        case {"type": "struct", "fields": fields}:
            members = [_name(f["name"]) + " " + duckdb_type(f["type"]) for f in fields]
            return f"STRUCT({', '.join(members)})"
        case {"type": "array", "elementType": element}:
            return f"{duckdb_type(element)}[]"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
        case str() if decimal_digits(data_type):
            return data_type.upper()
        case _:
            return {
                "boolean": "BOOLEAN",
                "integer": "INTEGER",
                "long": "BIGINT",
                "double": "DOUBLE",
                "string": "VARCHAR",
                "date": "DATE",
                "timestamp": "TIMESTAMPTZ",
            }[data_type]


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


if __name__ == "__main__":
    play(run)
