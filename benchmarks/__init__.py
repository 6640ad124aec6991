"""Benchmarks: blizzard beside other ways from NDJSON to Delta, on the same data in the same run."""
