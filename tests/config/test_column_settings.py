"""Settings of single columns: read from every kind of configuration, and checked against the schema at the edge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blizzard.config.load import load_config, make_config
from blizzard.errors import ConfigError
from blizzard.run.layouts import parse_policy
from blizzard.schema import parse_path, show_path
from blizzard.schema.ddl import parse_ddl
from blizzard.tasks.policy import EVERY_COLUMN, Coercion, ParsePolicy

SCHEMA = parse_ddl(
    "id BIGINT, ts TIMESTAMP, day DATE, note STRING, user STRUCT<name: STRING, seen: TIMESTAMP>,"
    " items ARRAY<STRUCT<n: INT>>, tags MAP<STRING, TIMESTAMP>, ok BOOLEAN"
)


def policy_of(given: dict[str, Any]) -> ParsePolicy:
    return parse_policy(make_config(given), SCHEMA)


def test_a_file_assignments_and_python_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "schema:\n"
        "  formats: {ts: epoch_ms, user: {seen: [iso, epoch_s]}, day: '%d/%m/%Y'}\n"
        "  coerce: {'*': [numbers_in_strings, empty_is_null], items.element.n: integral_floats}\n"
        "  rename: {userId: id, user: {fullName: name}}\n"
        "  timestamps: exact\n"
    )
    by_assignment = (
        *("schema.formats.ts=epoch_ms", "schema.formats.user.seen=iso,epoch_s", "schema.formats.day=%d/%m/%Y"),
        *("schema.coerce.*=numbers_in_strings, empty_is_null", "schema.coerce.items.element.n=integral_floats"),
        *("schema.rename.userId=id", "schema.rename.user.fullName=name", "schema.timestamps=exact"),
    )
    expected = ParsePolicy(
        exact_timestamps=True,
        formats={("ts",): ("epoch_ms",), ("user", "seen"): ("iso", "epoch_s"), ("day",): ("%d/%m/%Y",)},
        coerce={
            EVERY_COLUMN: frozenset({Coercion.NUMBERS_IN_STRINGS, Coercion.EMPTY_IS_NULL}),
            ("items", "element", "n"): frozenset({Coercion.INTEGRAL_FLOATS}),
        },
        rename={("userId",): "id", ("user", "fullName"): "name"},
    )
    assert parse_policy(load_config(file=str(file)), SCHEMA) == expected
    assert parse_policy(load_config(assignments=by_assignment), SCHEMA) == expected
    assert policy_of(dict(text.split("=", 1) for text in by_assignment)) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("iso", ("iso",)),
        ("iso, epoch_ms", ("iso", "epoch_ms")),
        ("%b %d, %Y", ("%b %d, %Y",)),
        ('["%d/%m/%Y", "iso"]', ("%d/%m/%Y", "iso")),
        ("[%d/%b/%Y:%H:%M:%S %z]", ("[%d/%b/%Y:%H:%M:%S %z]",)),
        (["iso", "%d.%m.%Y"], ("iso", "%d.%m.%Y")),
    ],
)
def test_one_name_or_several(text: Any, names: tuple[str, ...]) -> None:
    assert make_config({"schema.formats.ts": text}).columns == {"schema.formats": {("ts",): names}}


@pytest.mark.parametrize("path", [("a",), ("a", "b c"), ("a.b", "c"), ("x`y",), ("é", "element"), ("a=b",)])
def test_a_path_is_read_as_it_is_shown(path: tuple[str, ...]) -> None:
    assert parse_path(show_path(path)) == path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schema.formats.tz": "iso"}, "schema.formats.tz: there is no column tz; there are id, ts, day"),
        ({"schema.formats.TS": "iso"}, "there is no column TS"),
        ({"schema.formats.user.sen": "iso"}, "there is no column user.sen; did you mean seen?"),
        ({"schema.formats.note.x": "iso"}, "there is no column note.x; nothing is inside of this column"),
        ({"schema.formats.id": "epoch_ms"}, "schema.formats.id: formats are for dates and timestamps, not for long"),
        ({"schema.formats.user": "iso"}, "formats are for dates and timestamps, not for struct"),
        ({"schema.formats.ts": ["iso", "%Y-%m-%d"]}, "schema.formats.ts: both 'iso' and '%Y-%m-%d' read the text"),
        ({"schema.formats.ts": "epoch"}, "schema.formats.ts: 'epoch' is no format"),
        ({"schema.formats.ts": 5}, "schema.formats.ts takes a name or a list of names, not 5"),
        ({"schema.formats.ts": [[]]}, "schema.formats.ts takes a text, a number or a list of these"),
        ({"schema.formats.a..b": "iso"}, "schema.formats: 'a..b' is no path of a column"),
        ({"schema.coerce.id": "numbers"}, "schema.coerce takes numbers_in_strings, integral_floats"),
        ({"schema.coerce.note": "numbers_in_strings"}, "numbers_in_strings does nothing for a STRING"),
        ({"schema.coerce.ok": "numbers_in_strings"}, "numbers_in_strings does nothing for a BOOLEAN"),
        ({"schema.coerce.items": "integral_floats"}, "To change what is inside of it, name those columns, or use *."),
        ({"schema.coerce.id": "parse_json_text"}, "parse_json_text does nothing for a BIGINT"),
        ({"schema.coerce.nr": "empty_is_null"}, "schema.coerce.nr: there is no column nr"),
        ({"schema.rename.x": "y"}, "schema.rename.x: there is no column y"),
        ({"schema.rename.user.x": "y"}, "there is no column user.y"),
        ({"schema.rename.who.x": "y"}, "there is no column who"),
        ({"schema.rename.x": "id,name"}, "schema.rename gives a field one name, not id, name"),
        ({"schema.rename.x": "a\tb"}, "holds a control character"),
        ({"schema.rename": "camel"}, "schema.rename must be one of snake"),
        (
            {"schema.rename": "snake", "schema.rename.x": "id"},
            "give schema.rename snake, or new names for single fields",
        ),
        ({"schema.timestamps": "round"}, "schema.timestamps must be one of cut, exact"),
        ({"source.parser": "simd"}, "source.parser must be one of auto, native, pyarrow, reference"),
    ],
)
def test_a_setting_that_would_do_nothing_or_the_wrong_thing_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy_of(given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"schema.coerce.ok": "numbers_in_strings,booleans_0_1"},
        {"schema.coerce.items": "parse_json_text", "schema.coerce.user": "empty_is_null"},
        {"schema.formats.tags.value": "epoch_ns"},
        {"schema.rename.x": "new", "schema.evolution": "add_columns"},
        {"schema.rename": "snake"},
    ],
)
def test_settings_that_are_taken(given: dict[str, Any]) -> None:
    policy_of(given)


def test_the_parser_is_named_by_a_key_or_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BLIZZARD_PARSER", raising=False)
    assert make_config({}).parser == "auto"
    monkeypatch.setenv("BLIZZARD_PARSER", "reference")
    assert make_config({}).parser == "reference"
    assert make_config({"source.parser": "pyarrow"}).parser == "pyarrow"
    monkeypatch.setenv("BLIZZARD_PARSER", "fast")
    with pytest.raises(ConfigError, match="environment variable BLIZZARD_PARSER must be one of auto"):
        _ = make_config({}).parser


def test_every_setting_that_changes_a_row_changes_the_fingerprint() -> None:
    given: list[dict[str, Any]] = [
        {"schema.json_in_strings": "bad"},
        {"schema.evolution": "rescue"},
        {"bad_records.policy": "rescue"},
        {"schema.timestamps": "exact"},
        {"schema.formats.ts": "epoch_ms"},
        {"schema.formats.ts": "epoch_s"},
        {"schema.coerce.id": "numbers_in_strings"},
        {"schema.coerce.*": "numbers_in_strings"},
        {"schema.rename": "snake"},
        {"schema.rename.x": "id"},
    ]
    fingerprints = [policy_of(one).fingerprint for one in given]
    assert len(set(fingerprints)) == len(given)
    assert None not in fingerprints
    assert policy_of({"bad_records.policy": "drop"}).fingerprint is None
    both = [("schema.formats.ts", "iso"), ("schema.formats.day", "iso")]
    assert policy_of(dict(both)).fingerprint == policy_of(dict(reversed(both))).fingerprint
