"""The first command on what each producer leaves in a bucket: it works, and no value is lost or changed.

No Spark: the tasks run in this process. `test_first_command_by_spark.py` runs the same folders in one session.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blizzard.schema.ddl import to_ddl
from tests.producers.conftest import FirstCommand, FirstRun, ProducersFirstCommand
from tests.producers.corpus import PRODUCERS
from tests.producers.stored import json_text, records_of

EXPECTED = Path(__file__).parent / "expected"


@pytest.mark.parametrize("name", PRODUCERS)
def test_the_first_command_takes_every_record(name: str, of_producer: ProducersFirstCommand) -> None:
    run = of_producer(name)
    assert run.code == 0, run.err
    taken = run.summary["status"], run.summary["records"], run.summary["bad_records"], run.summary["bad_files"]
    assert taken == ("done", len(run.records), 0, 0), run.err


@pytest.mark.parametrize("name", PRODUCERS)
def test_every_value_is_what_python_reads(name: str, of_producer: ProducersFirstCommand) -> None:
    assert of_producer(name).unaccounted() == []


@pytest.mark.parametrize("name", PRODUCERS)
def test_the_schema_is_the_expected_one(name: str, of_producer: ProducersFirstCommand) -> None:
    check_schema(name, of_producer(name))


@pytest.mark.parametrize("name", PRODUCERS)
def test_the_same_records_as_lines_give_the_same_table(name: str, first_command: FirstCommand) -> None:
    producer = PRODUCERS[name]
    contents = [content for _, content in sorted(producer.files().items())]  # in the order of the listing
    records = [record for content in contents for record in records_of(content, producer.key)]
    run = first_command({"all.ndjson": "".join(f"{json_text(record)}\n" for record in records).encode()})
    assert run.code == 0, run.err
    check_schema(name, run)
    assert run.unaccounted() == []


# Where times are numbers, or texts in a form that is not ISO 8601.
PROPOSED = {
    "firehose": {"logEvents.element.timestamp": "epoch_ms"},
    "nginx": {"time_local": "clf"},
    "zeek": {"ts": "epoch_s"},
    "otlp": dict.fromkeys(
        (
            f"resourceSpans.element.scopeSpans.element.spans.element.{name}"
            for name in ("startTimeUnixNano", "endTimeUnixNano", "events.element.timeUnixNano")
        ),
        "epoch_ns",
    ),
    "debezium": {
        f"payload.{name}": f"epoch_{name[-2:]}"
        for name in ("source.ts_ms", "source.ts_us", "source.ts_ns", "ts_ms", "ts_us", "ts_ns")
    }
    | {"payload.before.created_at": "epoch_us", "payload.after.created_at": "epoch_us"},
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_the_formats_that_are_proposed_make_times_of_them(
    name: str, of_producer: ProducersFirstCommand, first_command: FirstCommand
) -> None:
    words = [
        word
        for found in re.finditer(r"to make it a TIMESTAMP: (--set .*)", of_producer(name).err)
        for word in shlex.split(found[1])
    ]
    settings = [word.removeprefix("schema.formats.").rsplit("=", 1) for word in words if word != "--set"]
    formats = dict(settings)
    assert formats == PROPOSED.get(name, {})
    if formats:
        run = check_values(first_command, name, *words, formats=formats)
        assert {column: type_at(run.landed.schema, column) for column in formats} == dict.fromkeys(formats, "timestamp")


def type_at(schema: Any, column: str) -> Any:
    """The type of this column."""
    for step in column.replace("`", "").split("."):
        if step == "element":
            schema = schema["elementType"]
        else:
            schema = next(field["type"] for field in schema["fields"] if field["name"] == step)
    return schema


@pytest.mark.parametrize("parser", ["pyarrow", "reference"])
@pytest.mark.parametrize("name", PRODUCERS)
def test_every_parser_reads_the_same(name: str, parser: str, first_command: FirstCommand) -> None:
    check_values(first_command, name, "--set", f"source.parser={parser}")


@pytest.mark.parametrize("name", PRODUCERS)
def test_many_small_batches_read_the_same(name: str, first_command: FirstCommand) -> None:
    """Most batches end inside a file, and the next one goes on there."""
    run = check_values(first_command, name, "--set", "limits.max_records=70")
    assert run.summary["commits"] > 2


def check_values(
    first_command: FirstCommand, name: str, *words: str, formats: Mapping[str, str] | None = None
) -> FirstRun:
    producer = PRODUCERS[name]
    run = first_command(producer.files(), *words, key=producer.key, pattern=producer.pattern)
    assert (run.code, run.summary["records"]) == (0, len(run.records)), run.err
    assert run.unaccounted(formats) == []
    return run


def check_schema(name: str, run: FirstRun) -> None:
    columns = run.landed.schema["fields"]
    ddl = "".join(f"{to_ddl({'type': 'struct', 'fields': [column]})}\n" for column in columns)
    made, expected = run.folder / f"{name}.ddl", EXPECTED / f"{name}.ddl"
    made.write_text(ddl)
    there = expected.read_text().splitlines() if expected.exists() else []
    assert ddl.splitlines() == there, f"if this is better: cp {made} {expected}"


def test_every_expected_schema_has_its_producer() -> None:
    assert {path.stem for path in EXPECTED.iterdir()} == set(PRODUCERS)
