"""Configuration that is absurd: numbers without end, trees that hold themselves, trees that explode. Each is an error
of the configuration in one line, and none takes long."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli.arguments import whole_number
from blizzard.config.keys import KEYS
from blizzard.config.load import load_config, make_config
from blizzard.core.retry import RetryPolicy
from blizzard.errors import ConfigError, SchemaError
from blizzard.schema.load import load_schema
from blizzard.service.http import parse_address
from blizzard.store.access import make_access

DIGITS = "9" * 5000
NUMERIC = sorted(name for name, key in KEYS.items() if isinstance(key.default, int | float) or "max_" in name)
NUMERIC += ["spark.slots", "quarantine.keep_days"]
NUMERIC = [name for name in dict.fromkeys(NUMERIC) if not isinstance(KEYS[name].default, bool)]
ABSURD: list[Any] = [
    *(DIGITS, int("9" * 4000), 16**5000, 10**400, float("inf"), float("-inf"), float("nan"), "inf", "nan", "1e309"),
    *("1__0", "1_", "-1", -1, "1e", "0x10", True, [1], {"a": 1}, (), b"1", object()),
]


def refused(given: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        make_config(given)
    assert error.value.kind == "config"
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", NUMERIC)
def test_a_number_that_is_none_is_refused_in_one_line(name: str, value: Any) -> None:
    assert name in refused({name: value})


@pytest.mark.parametrize("name", NUMERIC)
def test_every_number_has_an_end(name: str) -> None:
    """What is accepted can be computed with: 1e308 seconds are no number of milliseconds."""
    assert name in refused({name: 1e308})
    assert name in refused({name: 2**63})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("source.min_age_s", 10**10), ("late_files.grace_s", 10**10), ("limits.max_files", 10**15)),
        *(("table.target_file_bytes", "1GiB"), ("bad_records.max_ratio", 1), ("limits.max_records", "1_000")),
    ],
)
def test_large_numbers_that_mean_something_are_taken(name: str, value: Any) -> None:
    assert attrgetter(name)(make_config({name: value})) is not None


@pytest.mark.parametrize("name", sorted(KEYS))
def test_no_key_takes_a_tree(name: str) -> None:
    """Not even to say that it is none: a tree of aliases has no end when it is printed."""
    bomb: Any = "x"
    for _ in range(40):
        bomb = [bomb] * 10
    refused({name: bomb})
    refused({name: {"a": bomb}})
    loop: list[Any] = []
    loop.append(loop)
    refused({name: loop})


def test_a_family_takes_no_tree() -> None:
    refused({"spark.conf.spark.x": [["a"]]})
    refused({"storage_options.AWS_REGION": 16**5000})


def bomb(leaf: str) -> str:
    lines = [f"a0: &a0 {leaf}"]
    lines += [f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(10))}}}" for i in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a\n  b: *a\n",
        "source: &a {path: src, x: *a}\n",
        "table: {partition_by: &a [*a]}\n",
        "limits: {max_files: &a [*a]}\n",
        "a: " + "[" * 5000 + "]" * 5000,
        "a: " + "{b: " * 5000 + "}" * 5000,
        "a: " + "{b: " * 100 + "}" * 100,
        "- " * 5000,
        bomb("{x: 1}"),
        bomb("{}"),
        bomb("[]"),
        f"limits: {{max_files: {DIGITS}}}\n",
        f"limits: {{max_files: 0x{DIGITS}}}\n",
        "limits: {max_files: 2001-01-99}\n",
        "limits: {max_files: 2001-01-01}\n",
        "limits: {max_files: .inf}\n",
        "limits: {max_files: !!set {a, b}}\n",
        "limits: {max_files: !!binary '!'}\n",
        "limits: {max_files: !!python/object:os.system x}\n",
        "? [a, b]\n: 2\n",
        "? {a: b}\n: 2\n",
        "1: 2\n",
        "null: 2\n",
        f"0x{DIGITS}: 2\n",
        "limits: {max_files: 1}\nlimits: {max_records: 1}\n",
        "limits: {max_files: 1, max_files: 2}\n",
        "limits: {max_files: 1}\nlimits.max_files: 2\n",
        "a: \x01\n",
        "\tb",
        "[" * 100,
    ],
)
def test_a_file_that_is_absurd_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(file=str(file))
    assert error.value.kind in ("config", "unknown_key")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_anchors_and_merged_keys_still_work(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("limits: &l {max_files: 7}\nretry:\n  attempts: 3\nlate_files: {<<: {grace_s: 5}, grace_s: 6}\n")
    config = load_config(file=str(file))
    assert (config.limits.max_files, config.late_files.grace_s) == (7, 6)


@pytest.mark.parametrize("text", [DIGITS, "-1", "1.5", "x", "", "1" * 19, "²", "-" + DIGITS])
def test_a_number_on_the_command_line_has_an_end(text: str) -> None:
    import argparse

    with pytest.raises(argparse.ArgumentTypeError) as error:
        whole_number(1)(text)
    assert len(str(error.value)) < 100


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--max-batches"),
        ("report", "--table", "t", "--commits"),
        ("checkpoint", "show", "--table", "t"),
        ("checkpoint", "export", "--table", "t", "--pipeline", "p", "--out", "-", "--sequence"),
        ("checkpoint", "rollback", "--table", "t", "--source", "s", "--to"),
        ("checkpoint", "reset", "--table", "t", "--source", "s", "--file", "f", "--from-record"),
        ("dlq", "list", "--table", "t", "--sequence"),
        ("dlq", "show", "--table", "t", "--limit"),
        ("schema", "infer", "--source", "s", "--sample-records"),
        ("schema", "infer", "--source", "s", "--sample-files"),
        ("vacuum-orphans", "--table", "t", "--older-than"),
        ("dlq", "purge", "--table", "t", "--older-than"),
    ],
)
def test_no_option_prints_a_number_without_end(arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    from blizzard.cli.main import main

    for digits in (DIGITS, "1" * 20):
        assert main([*arguments, digits]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert len(line) < 400


@pytest.mark.parametrize(
    "schema",
    [f"x DECIMAL({DIGITS}, 1)", f"x DECIMAL(10, {DIGITS})", f'{{"type": "struct", "fields": [{DIGITS}]}}'],
    ids=["precision", "scale", "json"],
)
def test_a_schema_with_a_number_without_end_is_refused(schema: str) -> None:
    with pytest.raises(SchemaError) as error:
        load_schema(schema)
    assert error.value.kind == "schema"


@pytest.mark.parametrize("address", [DIGITS, f"127.0.0.1:{DIGITS}", "²", "1:٣"])
def test_an_address_with_a_number_without_end_is_refused(address: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_address(address)
    assert error.value.kind == "usage"
    assert len(str(error.value)) < 200


def test_a_key_of_google_that_is_no_json_is_refused_without_being_shown() -> None:
    access = make_access({"GOOGLE_SERVICE_ACCOUNT_KEY": "{secret"}, retry=RetryPolicy())
    with pytest.raises(ConfigError) as error:
        access.for_gcsfs()
    assert error.value.kind == "bad_credentials"
    assert "secret" not in str(error.value)
