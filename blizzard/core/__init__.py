"""The pure core: values and decisions. Standard library and orjson only; no Spark, no I/O, no clock."""
