"""Times that inference recognises, and the formats that it proposes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.load import make_config
from blizzard.run.layouts import parse_policy
from blizzard.schema.ddl import parse_ddl, to_ddl
from blizzard.schema.formats import ISO, parse_format
from blizzard.schema.infer import Inference, InferenceSettings, infer_schema
from blizzard.schema.proposals import is_time_name
from blizzard.schema.time_forms import common_forms, iso_time
from blizzard.tasks.records import RecordReader
from blizzard.tasks.syntax import LineError
from blizzard.tasks.values import time_of


def infer(name: str, *values: Any, **settings: Any) -> Inference:
    return infer_schema([{name: value} for value in values], settings=InferenceSettings(**settings))


@pytest.mark.parametrize(
    ("values", "ddl", "remark"),
    [
        (["2024-01-01T00:00:00"], "TIMESTAMP", "t is a TIMESTAMP: times without a zone are taken for UTC"),
        (
            ["2024-01-01", "2024-01-01T00:00:00+0100"],
            "TIMESTAMP",
            "t is a TIMESTAMP: a date is taken for its midnight in UTC",
        ),
        (
            ["2024-01-01T00:00:00.123456789Z"],
            "TIMESTAMP",
            "t is a TIMESTAMP: digits beyond a microsecond are cut (schema.timestamps)",
        ),
        (
            ["2024-01-01T00:00:00Z", "2024-01-01 00:00:00"],
            "STRING",
            "t is a STRING, for it held times with and without a zone; a hint takes those without one for UTC: t TIME",
        ),
        (["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+01"], "TIMESTAMP", None),
        (["2024-01-01", "2024-01-02"], "DATE", None),
        (["2024-01-01T00:00:00Z", "soon"], "STRING", None),
    ],
)
def test_what_a_time_becomes_and_what_is_said_of_it(values: list[str], ddl: str, remark: str | None) -> None:
    inference = infer("t", *values)
    assert to_ddl(inference.schema) == f"t {ddl}"
    assert inference.formats == ()
    if remark is None:
        assert inference.remarks == ()
    else:
        assert inference.remarks[0].startswith(remark)


def test_exact_timestamps_keep_digits_beyond_a_microsecond_as_text() -> None:
    inference = infer("t", "2024-01-01T00:00:00.123456789Z", exact_timestamps=True)
    assert to_ddl(inference.schema) == "t STRING"
    assert "schema.timestamps=exact" in inference.remarks[0]
    assert to_ddl(infer("t", "2024-01-01T00:00:00.123456000Z", exact_timestamps=True).schema) == "t TIMESTAMP"


texts = st.from_regex(
    r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]([T t][0-2][0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,9})?)?)?)?"
    r"(Z|z|[+-][0-2][0-9](:?[0-5][0-9])?)?\Z"
)


@given(texts)
def test_iso_times_are_exactly_what_a_timestamp_takes(text: str) -> None:
    cut: list[int] = []
    convert = time_of((parse_format(ISO, "timestamp"),), exact=False, note_cut=lambda: cut.append(1))
    found = iso_time(text)
    assert (found is not None) == (convert(text) is not None)
    assert found is None or found.is_cut == bool(cut)


@pytest.mark.parametrize("form", common_forms(), ids=lambda form: form.name)
def test_every_common_form_is_one_that_schema_formats_takes(form: Any) -> None:
    """And reads what it proposes for: a text of the form is read in that form."""
    moment = datetime(2024, 11, 23, 17, 45, 59, 120000, tzinfo=timezone.utc)
    pattern = {"rfc1123": "%a, %d %b %Y %H:%M:%S GMT", "clf": "%d/%b/%Y:%H:%M:%S %z"}.get(form.name, form.name)
    text = moment.strftime(pattern)
    assert form.reads(text)
    inference = infer("x", text)
    assert to_ddl(inference.schema) == "x STRING"
    (proposed,) = inference.formats
    assert proposed.data_type == ("DATE" if form.is_date else "TIMESTAMP")
    reader = RecordReader(parse_ddl(f"x {proposed.data_type}"), parse_policy(make_config(dict([setting(proposed)]))))
    reader.read(orjson.dumps({"x": text}))


def setting(proposed: Any) -> tuple[str, str]:
    key, _, value = proposed.setting.partition("=")
    return key, value


@pytest.mark.parametrize(
    ("name", "values", "formats", "data_type"),
    [
        ("ts", [1591367999.305988, 1591368000], ["epoch_s"], "TIMESTAMP"),
        ("timestamp", [1591367999305], ["epoch_ms"], "TIMESTAMP"),
        ("eventTime", [1591367999305988], ["epoch_us"], "TIMESTAMP"),
        ("timeUnixNano", ["1544712660300000000"], ["epoch_ns"], "TIMESTAMP"),
        ("created_at", [1591367999, "1591367999"], ["epoch_s"], "TIMESTAMP"),
        ("lastSeenMs", [1591367999305], ["epoch_ms"], "TIMESTAMP"),
        ("time", ["2024-01-01T00:00:00Z", 1591367999], ["iso", "epoch_s"], "TIMESTAMP"),
        ("x", ["Sun, 06 Nov 1994 08:49:37 GMT"], ["rfc1123"], "TIMESTAMP"),
        ("x", ["06/Nov/1994:08:49:37 +0000"], ["clf"], "TIMESTAMP"),
        ("x", ["13/04/2024", "01/02/2024"], ["%d/%m/%Y"], "DATE"),
        ("x", ["13/4/2024", "01/02/2024"], ["%-d/%-m/%Y"], "DATE"),
        ("x", ["2024-01-01 00:00:00 +0100"], ["%Y-%m-%d %H:%M:%S %z"], "TIMESTAMP"),
        ("x", ["2024-01-01 00:00:00 UTC"], ["%Y-%m-%d %H:%M:%S UTC"], "TIMESTAMP"),
    ],
)
def test_a_format_is_proposed_and_reads_every_value(
    name: str, values: list[Any], formats: list[str], data_type: str
) -> None:
    (proposed,) = infer(name, None, *values).formats
    assert (list(proposed.formats), proposed.data_type) == (formats, data_type)
    policy = parse_policy(make_config(dict([setting(proposed)])))
    schema = infer_schema([{name: v} for v in values], settings=InferenceSettings(formats=policy.formats)).schema
    assert to_ddl(schema) == f"{name} {data_type}"
    reader = RecordReader(schema, policy)
    for value in values:
        assert reader.read(orjson.dumps({name: value}))[name] is not None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ts", [1591367999, 7]),  # not all in range
        ("ts", [1591367999, 1591367999305]),  # two units
        ("id", [1591367999]),  # the name says nothing of a time
        ("bytes_sent", [1591367999]),
        ("ts", [True]),
        ("ts", [1591367999, "soon"]),
        ("x", ["03/04/2024"]),  # the third of April, or the fourth of March
        ("x", ["13/04/2024", "04/13/2024"]),
        ("x", ["13/04/2024", "2024-04-13"]),
        ("x", ["31/02/2024"]),
        ("x", ["Sun, 06 Nov 1994 08:49:37 GMT", ""]),
        ("x", ["hello"]),
        ("ts", [{"a": 1}]),
        ("ts", [[1591367999], 1591367999]),
    ],
)
def test_what_is_not_certain_is_not_proposed(name: str, values: list[Any]) -> None:
    assert infer(name, *values).formats == ()


def test_a_proposal_is_for_nested_columns_too_and_ready_to_paste() -> None:
    record = {"a": [{"created at": 1591367999}], "m": {str(i): {"ts": 1591367999000} for i in range(9)}}
    inference = infer_schema([record])
    assert [f.setting for f in inference.formats] == [
        "schema.formats.a.element.`created at`=epoch_s",
        "schema.formats.m.value.ts=epoch_ms",
    ]
    given: dict[tuple[str, ...], tuple[str, ...]] = {
        ("a", "element", "created at"): ("epoch_s",),
        ("m", "value", "ts"): ("epoch_ms",),
    }
    assert to_ddl(infer_schema([record], settings=InferenceSettings(formats=given)).schema) == (
        "a ARRAY<STRUCT<`created at`: TIMESTAMP>>, m MAP<STRING, STRUCT<ts: TIMESTAMP>>"
    )


@pytest.mark.parametrize(
    "name", ["ts", "time", "Timestamp", "created_at", "updatedAt", "start_ts", "eventTime", "end_time_ms"]
)
def test_names_of_times(name: str) -> None:
    assert is_time_name((name,))
    assert is_time_name((name, "element"))


@pytest.mark.parametrize(
    "name", ["id", "status", "format", "bytes", "parts", "runtime", "lifetimes", "rate", "cats", "backend"]
)
def test_names_of_other_things(name: str) -> None:
    assert not is_time_name((name,))


@given(
    st.lists(st.datetimes(datetime(2000, 1, 2), datetime(2099, 12, 30)), min_size=1, max_size=5),
    st.sampled_from([0, 3, 6, 9]),
)
def test_any_epoch_of_our_days_is_proposed_in_its_unit(moments: list[datetime], power: int) -> None:
    seconds = [(m - datetime(1970, 1, 1)) // timedelta(seconds=1) for m in moments]
    (proposed,) = infer("ts", *(s * 10**power for s in seconds)).formats
    assert proposed.formats == ({0: "epoch_s", 3: "epoch_ms", 6: "epoch_us", 9: "epoch_ns"}[power],)


def test_what_is_read_without_the_proposal() -> None:
    """Nothing is lost if nobody sets the format."""
    values = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"]
    reader = RecordReader(infer("x", *values).schema)
    assert [reader.read(orjson.dumps({"x": v}))["x"] for v in values] == values
    with pytest.raises(LineError, match=r"schema\.formats\.x=iso,rfc1123"):
        RecordReader(parse_ddl("x TIMESTAMP")).read(orjson.dumps({"x": values[0]}))
