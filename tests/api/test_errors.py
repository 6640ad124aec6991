"""Errors that leave the API are ours, speak of arguments, and keep their kind."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, cast

import pytest

import blizzard
from blizzard.api.given import spoken
from blizzard.core.kinds import Kind
from tests.ingesting import DDL, ids, write_ids

NO_SPARK = cast(Any, None)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "source= is missing (key source.path)"),
        ({"source": "src"}, "table= is missing (key table.path)"),
        ({"source": "src", "table": "t", "adopt": True, "start_from": "x"}, "adopt=True and start_from=: give one"),
        ({"source": "src", "table": "t", "max_batches": 0}, "max_batches= must be at least 1"),
        ({"source": "src", "table": "t", "start_from": "after:z"}, 'start_from="after:z"'),
        ({"source": "src", "table": "t", "schema": DDL, "infer": True}, "a schema, or infer=True and hints="),
        ({"source": "src", "table": "t", "schema": DDL, "variant": True}, "variant=True (schema.variant) takes each"),
        ({"source": "src", "table": "t", "pipeline": "a b"}, "pipeline name 'a b'"),
    ],
)
def test_a_wrong_call_is_told_in_arguments(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_process: None,
    arguments: dict[str, Any],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    given: dict[str, Any] = {"schema": DDL} if "start_from" in arguments and "adopt" not in arguments else {}
    with pytest.raises(blizzard.ConfigError) as raised:
        blizzard.ingest(NO_SPARK, **given, **arguments)
    assert text in str(raised.value)
    assert "--" not in str(raised.value)
    assert raised.value.kind == Kind.USAGE


def test_a_path_where_a_text_belongs_is_named(tmp_path: Path) -> None:
    with pytest.raises(blizzard.ConfigError) as raised:
        blizzard.plan(source=cast(Any, tmp_path), table="t", infer=True)
    assert str(raised.value) == "source.path takes a text, a number or a list of these, not a PosixPath"


def test_a_refusal_that_names_options_names_arguments(tmp_path: Path, in_process: None) -> None:
    """The way out of a moved source: the old path, and the name of the pipeline."""
    write_ids(tmp_path / "old" / "a.ndjson", 0, 5)
    table = str(tmp_path / "t")
    blizzard.ingest(NO_SPARK, source=str(tmp_path / "old"), table=table, schema=DDL, pipeline="p")
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(blizzard.Refused) as raised:
        blizzard.ingest(NO_SPARK, source=str(tmp_path / "new"), table=table, pipeline="p")
    assert f'source="file://{tmp_path}/old", pipeline="p"' in str(raised.value)
    assert "--" not in str(raised.value)
    (status,) = blizzard.status(table).pipelines
    assert status.recovery_message is None


def test_what_the_log_says_of_the_next_start_is_told_in_arguments(tmp_path: Path, in_process: None) -> None:
    from deltalake import DeltaTable

    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    where: dict[str, Any] = {"source": str(tmp_path / "src"), "table": str(tmp_path / "t")}
    blizzard.ingest(NO_SPARK, **where, schema=DDL)
    DeltaTable(where["table"]).restore(0)
    with pytest.raises(blizzard.Refused) as raised:
        blizzard.ingest(NO_SPARK, **where)
    (status,) = blizzard.status(where["table"], explain=True).pipelines
    assert raised.value.kind == Kind.TABLE_REWRITTEN
    way_out = "read again what came after: blizzard.rollback(…, to=0). To undo"
    for said in (str(raised.value), str(status.recovery_message), " ".join(status.explanation or ())):
        assert way_out in said
        assert "--" not in said
    assert blizzard.rollback(where["table"], to=0, source=where["source"]).done
    assert blizzard.ingest(NO_SPARK, **where).records == 5
    assert ids(tmp_path / "t") == list(range(5))


def test_an_error_of_the_operating_system_becomes_one_of_ours() -> None:
    @spoken
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/lake/x")

    with pytest.raises(blizzard.Temporary, match="/lake/x cannot be written") as raised:
        full()
    assert raised.value.kind == Kind.DISK_FULL
    assert isinstance(raised.value.__cause__, OSError)


def test_another_error_stays_what_it_is(tmp_path: Path, in_process: None) -> None:
    """A mistake in the caller's own function must not look like ours."""

    def listen(event: object) -> None:
        raise KeyError("mine")

    write_ids(tmp_path / "src" / "a.ndjson", 0, 5)
    with pytest.raises(KeyError, match="mine"):
        blizzard.ingest(NO_SPARK, source=str(tmp_path / "src"), table=str(tmp_path / "t"), schema=DDL, on_event=listen)
