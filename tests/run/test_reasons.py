"""What is advised fits where the user is: what was given, and whether there is a table already."""

from __future__ import annotations

from blizzard.core.kinds import LineKind
from blizzard.core.reasons import Cause, Met, Reason, Reasons
from blizzard.run.reasons import Advice, Advisor, together

FRACTION = Reason(kind=LineKind.BAD_VALUE, column="a", expected="long", cause=Cause.FRACTION)
TEXT = Reason(kind=LineKind.BAD_VALUE, column="b", expected="long", cause=Cause.NUMBER_IN_TEXT)
NO_JSON = Reason(kind=LineKind.NOT_JSON)


def met(records: int) -> Met:
    return Met(records=records, path="f.ndjson", line=7, message="m")


def test_hints_are_for_tables_that_are_inferred() -> None:
    assert [str(a) for a in Advisor().remedies(FRACTION)] == [
        "--set 'schema.hints=a DOUBLE'",
        "--set bad_records.policy=rescue",
    ]
    assert str(Advisor(gives_schema=True).remedies(FRACTION)[0]) == "--schema with a DOUBLE"
    assert str(Advisor(has_table=True).remedies(FRACTION)[0]) == "--set 'schema.hints=a DOUBLE' for a new table"
    assert [str(a) for a in Advisor(rescues=True, has_table=True).remedies(TEXT)] == [
        "--set schema.coerce.b=numbers_in_strings"
    ]


def test_the_commonest_come_first_and_all_settings_are_given_at_once() -> None:
    reasons = Reasons(met={FRACTION: met(1), TEXT: met(1_500), NO_JSON: met(2)})
    assert Advisor(rescues=True).lines(reasons, 3) == [
        "  1,500 records: b BIGINT holds a number in a text (the first: f.ndjson line 7)",
        "    --set schema.coerce.b=numbers_in_strings",
        "  2 records: not JSON (the first: f.ndjson line 7)",
        "    no setting takes them: fix or move the files",
        "  1 record: a BIGINT holds a number with a fraction (the first: f.ndjson line 7)",
        "    --set 'schema.hints=a DOUBLE'",
        "  All at once: --set schema.coerce.b=numbers_in_strings --set 'schema.hints=a DOUBLE'",
    ]
    assert len(Advisor().lines(reasons, 1)) == 2
    failed = Reasons(met={Reason(kind=LineKind.TRANSFORM): met(1)})
    assert "the transform fails for them: let it make null" in Advisor().lines(failed, 1)[1]


def test_settings_of_one_key_are_joined() -> None:
    """The last of several would win, and the others would do nothing."""
    advice = [
        Advice(settings=("schema.hints=a DOUBLE",)),
        Advice(settings=("schema.coerce.b=numbers_in_strings",)),
        Advice(settings=("schema.hints=c STRING", "schema.coerce.b=numbers_in_strings,integral_floats")),
        Advice(settings=('schema.formats.t=["%d,%d", "%d,%d"]',)),
        Advice(settings=(), declare="d DOUBLE"),
        Advice(settings=(), declare="e STRING"),
    ]
    assert together(advice) == Advice(
        settings=(
            "schema.hints=a DOUBLE, c STRING",
            "schema.coerce.b=numbers_in_strings,integral_floats",
            'schema.formats.t=["%d,%d", "%d,%d"]',
        ),
        declare="d DOUBLE, e STRING",
    )
