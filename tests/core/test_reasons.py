"""Why records are bad: the tally, and the settings that would take them."""

from __future__ import annotations

import pickle
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.core.kinds import LineKind
from blizzard.core.reasons import (
    MAX_COLUMNS,
    NO_REASONS,
    OTHER_COLUMNS,
    Cause,
    Met,
    Reason,
    Reasons,
    advice_for,
    bad_lines,
    explain,
    tally_reasons,
)


def value(column: str, expected: str, cause: str, detail: str = "") -> Reason:
    return Reason(kind=LineKind.BAD_VALUE, column=column, expected=expected, cause=cause, detail=detail)


FRACTION = value("amount", "long", Cause.FRACTION)
CUT_OFF = Reason(kind=LineKind.NOT_JSON, detail="Expecting value")


def met(records: int, path: str = "a", line: int = 1, message: str = "m") -> Met:
    return Met(records=records, path=path, line=line, message=message)


def test_lines_are_counted_by_reason_and_the_first_is_shown() -> None:
    # Equal, but not one object, as from two parsers.
    again = value("amount", "long", Cause.FRACTION)
    lines = [(3, FRACTION, "amount: 1.5"), (5, CUT_OFF, "not JSON"), (7, again, "amount: 2.5"), (9, FRACTION, "x")]
    assert bad_lines("f", lines).met == {
        FRACTION: met(3, "f", 3, "amount: 1.5"),
        CUT_OFF: met(1, "f", 5, "not JSON"),
    }


def test_the_commonest_come_first_and_then_the_first() -> None:
    reasons = tally_reasons([(CUT_OFF, met(1, "b")), (FRACTION, met(2)), (value("z", "long", Cause.TEXT), met(1, "a"))])
    assert [(r.cause or r.kind, m.records) for r, m in reasons.commonest(2)] == [("fraction", 2), ("text", 1)]
    assert reasons.records == 4


@given(st.lists(st.tuples(st.integers(0, 3 * MAX_COLUMNS), st.integers(1, 9), st.sampled_from("ab")), max_size=400))
def test_no_order_of_merging_changes_the_tally(found: list[tuple[int, int, str]]) -> None:
    parts = [
        tally_reasons([(value(f"c{column:03d}", "long", Cause.TEXT), met(1, path, line))])
        for column, line, path in found
    ]
    merged = reduce(Reasons.merge, parts, NO_REASONS)
    assert merged == reduce(Reasons.merge, reversed(parts), NO_REASONS)
    half = len(parts) // 2
    halves = (reduce(Reasons.merge, part, NO_REASONS) for part in (parts[:half], parts[half:]))
    assert merged == reduce(Reasons.merge, halves, NO_REASONS)
    assert merged.records == len(found)
    assert len(merged.met) <= MAX_COLUMNS + 1


def test_names_without_end_do_not_fill_the_report() -> None:
    lines = [(i, Reason(kind=LineKind.UNKNOWN_FIELD, column=f"{i:05d}" * 2000), "m" * 10_000) for i in range(2000)]
    reasons = reduce(Reasons.merge, (bad_lines("f", [line]) for line in lines), bad_lines("f", [(1, FRACTION, "x")]))
    assert len(pickle.dumps(reasons)) < 100_000
    assert reasons.records == 2001
    others = Reason(kind=LineKind.UNKNOWN_FIELD, column=OTHER_COLUMNS)
    assert reasons.met[others].records == 2000 - MAX_COLUMNS
    assert explain(others) == "other columns: a field that the schema does not declare"
    assert advice_for(others) == ()
    assert FRACTION in reasons.met


@pytest.mark.parametrize(
    ("reason", "said", "settings"),
    [
        (FRACTION, "amount BIGINT holds a number with a fraction", "schema.hints=amount DOUBLE for a new table"),
        (
            value("a.b", "integer", Cause.INTEGRAL_FLOAT),
            "a.b INT holds a whole number written as a float",
            "schema.coerce.a.b=integral_floats",
        ),
        (value("a", "long", Cause.OUT_OF_RANGE), None, "schema.hints=a DECIMAL(38,0) for a new table"),
        (value("a", "double", Cause.OUT_OF_RANGE), None, "schema.hints=a STRING for a new table"),
        (value("a", "long", Cause.NUMBER_IN_TEXT), None, "schema.coerce.a=numbers_in_strings"),
        (
            value("a", "long", Cause.NUMBER_IN_TEXT, "integral_float"),
            None,
            "schema.coerce.a=numbers_in_strings,integral_floats",
        ),
        (
            value("a", "long", Cause.NUMBER_IN_TEXT, "fraction"),
            None,
            "schema.hints=a DOUBLE with schema.coerce.a=numbers_in_strings for a new table",
        ),
        (value("a", "boolean", Cause.ZERO_OR_ONE), "a BOOLEAN holds 0 or 1", "schema.coerce.a=booleans_0_1"),
        (
            value("a", "boolean", Cause.ZERO_OR_ONE, "number_in_text"),
            None,
            "schema.coerce.a=booleans_0_1,numbers_in_strings",
        ),
        (value("a", "long", Cause.EMPTY_TEXT), "a BIGINT holds an empty text", "schema.coerce.a=empty_is_null"),
        (value("a", "timestamp", Cause.EPOCH, "epoch_ms"), None, "schema.formats.a=iso,epoch_ms"),
        (
            value("a", "date", Cause.EPOCH, "epoch_s"),
            None,
            "schema.hints=a TIMESTAMP with schema.formats.a=epoch_s for a new table",
        ),
        (value("a", "timestamp", Cause.OTHER_TIME, "rfc1123"), None, "schema.formats.a=iso,rfc1123"),
        (value("a", "date", Cause.OTHER_TIME, "%d.%m.%Y"), None, 'schema.formats.a=["iso", "%d.%m.%Y"]'),
        (value("a", "timestamp", Cause.OTHER_TIME), None, "schema.hints=a STRING for a new table"),
        (
            value("a", "timestamp", Cause.FRACTION_DIGITS, "9"),
            "a TIMESTAMP holds 9 digits of fraction",
            "schema.timestamps=cut",
        ),
        (value("a", "timestamp_ntz", Cause.ZONE), None, "schema.hints=a TIMESTAMP for a new table"),
        (value("a", "struct", Cause.JSON_TEXT), None, "schema.coerce.a=parse_json_text"),
        (value("a", "struct", Cause.TEXT), "a STRUCT holds a text", "schema.hints=a STRING for a new table"),
        (value("a", "string", Cause.NUMBER), None, "schema.json_in_strings=keep"),
    ],
)  # fmt: skip
def test_the_best_setting_for_a_value(reason: Reason, said: str | None, settings: str) -> None:
    remedies = advice_for(reason)
    assert str(remedies[0]) == settings
    assert str(remedies[-1]) == "bad_records.policy=rescue"
    assert "bad_records.policy=rescue" not in map(str, advice_for(reason, rescues=True))
    if said is not None:
        assert explain(reason) == said


def test_other_kinds_of_bad_lines_have_an_explanation_too() -> None:
    for kind in LineKind:
        assert explain(Reason(kind=kind, cause=Cause.TEXT if kind == LineKind.BAD_VALUE else ""))
        assert explain(Reason(kind=str(kind), column="a", cause=Cause.TEXT if kind == LineKind.BAD_VALUE else ""))
    assert explain(CUT_OFF) == "not JSON: Expecting value"
    assert advice_for(CUT_OFF) == ()
    unknown = Reason(kind=LineKind.UNKNOWN_FIELD, column="x")
    assert str(advice_for(unknown)[0]) == "schema.evolution=add_columns"
