"""Which column a key of a record means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.schema.names import FieldNames, fold_ascii, snake

SNAKES = [
    ("userID", "user_id"),
    ("HTTPServer", "http_server"),
    ("_id", "_id"),
    ("First Name", "first_name"),
    ("$date", "_date"),
    ("a.b-c", "a_b_c"),
    ("a__b", "a_b"),
    ("Trailing!", "trailing"),
    ("_", "_"),
    ("!!", "_"),
    ("", ""),
    ("eventV2Id", "event_v2_id"),
    ("ABC", "abc"),
    ("straßeÄ B", "straßeÄ_b"),
    ("a\tb\x7f", "a_b"),
]


@pytest.mark.parametrize(("name", "expected"), SNAKES)
def test_a_name_in_snake_case(name: str, expected: str) -> None:
    assert snake(name) == expected


@given(st.text(max_size=12))
def test_a_name_in_snake_case_stays_as_it_is(name: str) -> None:
    assert snake(snake(name)) == snake(name)


def test_only_ascii_letters_fold() -> None:
    assert fold_ascii("ÄKelvin\u212aI\u0130") == "Äkelvin\u212ai\u0130"
    names = FieldNames(["straße", "k", "id"])
    assert [names.find(key) for key in ("STRAßE", "STRASSE", "\u212a", "ID", "İD")] == [
        "straße",
        None,
        None,
        "id",
        None,
    ]


def test_the_exact_name_comes_before_another_case() -> None:
    names = FieldNames(["id", "Name"])
    assert [names.find(key) for key in ("id", "ID", "name", "NAME", "Name", "nam")] == [
        *("id", "id", "Name", "Name", "Name"),
        None,
    ]


def test_a_field_with_a_new_name_does_not_mean_the_column_of_its_old_one() -> None:
    names = FieldNames(["a", "b"], (), {("a",): "b"})
    assert names.find("a") == "b"
    assert names.find("b") == "b"
    assert names.find("A") is None, "it could mean a, and what a was renamed to"
    assert names.find("B") == "b"


def test_a_new_name_is_for_the_struct_that_its_path_names() -> None:
    rename = {("user", "firstName"): "first_name", ("id",): "user_id"}
    inner = FieldNames(["first_name", "id"], ("user",), rename)
    assert [inner.find(key) for key in ("firstName", "FIRSTNAME", "id", "first_name")] == [
        *("first_name", "first_name", "id", "first_name")
    ]
    assert FieldNames(["first_name"], (), rename).find("firstName") is None


def test_a_new_name_without_a_column_is_undeclared() -> None:
    names = FieldNames(["userId"], (), {("userId",): "user_id"})
    assert names.find("userId") is None
    assert names.find("USERID") is None, "it could mean the column, and the one to come"


def test_snake_is_tried_last() -> None:
    names = FieldNames(["user_id", "userName"], (), "snake")
    assert [names.find(key) for key in ("userID", "UserId", "User-Id", "USERNAME", "user_name", "x")] == [
        *("user_id", "user_id", "user_id", "userName"),
        *(None, None),
    ]
