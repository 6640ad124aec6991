"""polars: `scan_ndjson` streamed into Delta with `sink_delta`. No position is kept."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.contenders.play import Clock, Said, Spec, play
from blizzard.schema import decimal_digits
from blizzard.schema.load import load_schema


def run(spec: Spec, clock: Clock) -> Said:
    os.environ["POLARS_MAX_THREADS"] = str(spec.cores)
    import deltalake  # noqa: F401  (sink_delta would import it on the clock)
    import polars as pl

    fields = load_schema(spec.ddl)["fields"]
    # The JSON reader builds no decimals: they are read as doubles and cast.
    decimals = [pl.col(f["name"]).cast(polars_type(pl, f["type"])) for f in fields if decimal_digits(str(f["type"]))]
    read_as = {f["name"]: pl.Float64 if decimal_digits(str(f["type"])) else polars_type(pl, f["type"]) for f in fields}
    clock.start()
    frame = pl.scan_ndjson(spec.glob, schema=read_as)
    if decimals:
        frame = frame.with_columns(decimals)
    frame.sink_delta(spec.table, mode="append")
    clock.stop()
    return Said()


def polars_type(pl: Any, data_type: Any) -> Any:
    match data_type:
        case {"type": "struct", "fields": fields}:
            return pl.Struct({f["name"]: polars_type(pl, f["type"]) for f in fields})
        case {"type": "array", "elementType": element}:
            return pl.List(polars_type(pl, element))
        case str() if digits := decimal_digits(data_type):
            return pl.Decimal(*digits)
        case _:
            return {
                "boolean": pl.Boolean,
                "integer": pl.Int32,
                "long": pl.Int64,
                "double": pl.Float64,
                "string": pl.String,
                "date": pl.Date,
                "timestamp": pl.Datetime("us", "UTC"),
            }[data_type]


if __name__ == "__main__":
    play(run)
