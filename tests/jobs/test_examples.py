"""Somebody may deploy two examples as they are: no two of them run one pipeline on one table."""

from __future__ import annotations

from itertools import combinations

from tests.jobs.examples import Example, every_example


def clash(one: Example, other: Example) -> bool:
    """One pipeline on one table, or one source into one table. A file that does not name its pipeline could be any."""
    same_table = one.table.replace("s3a://", "s3://") == other.table.replace("s3a://", "s3://")
    same_pipeline = one.pipeline is None or other.pipeline is None or one.pipeline == other.pipeline
    return same_table and (same_pipeline or one.source == other.source)


def test_no_two_examples_run_one_pipeline_on_one_table() -> None:
    examples = every_example()
    where = {example.where for example in examples}
    assert where >= {
        "airflow_spark_submit.py",
        "steps.json",
        "serverless-job-run.json",
        "systemd/orders.yaml",
        "kubernetes/cronjob.yaml",
        "kubernetes/follow.yaml",
        "example.yaml",
        "fleet.example.yaml",
        "fleet.md",
        "targets.md",
    }, "an example is no longer found"
    assert [(a, b) for a, b in combinations(examples, 2) if clash(a, b)] == []


def test_what_would_clash_is_found() -> None:
    mine = Example("a", "events", "s3://x", "s3://lake/t")
    assert clash(mine, Example("b", "events", "s3://y", "s3a://lake/t"))
    assert clash(mine, Example("b", None, "s3://y", "s3://lake/t"))
    assert clash(mine, Example("b", "other", "s3://x", "s3://lake/t"))
    assert not clash(mine, Example("b", "other", "s3://y", "s3://lake/t"))
    assert not clash(mine, Example("b", "events", "s3://x", "s3://lake/u"))
