"""A run that has made a table and filled nothing in takes it back. Who looks at that moment sees a table, or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.delta import unused
from blizzard.delta.handles import open_handle
from blizzard.delta.place import DeltaRsPlace
from blizzard.errors import Refused
from blizzard.schema.load import load_schema
from tests.flows.in_process import SetClock

ASIDE = f"{unused.ASIDE}0a1b2c3d4e5f"


@pytest.fixture
def place(tmp_path: Path) -> DeltaRsPlace:
    made = DeltaRsPlace(root=str(tmp_path / "table"), schema=load_schema("id BIGINT"), clock=SetClock(0))
    made.create("p")
    return made


def log_of(place: DeltaRsPlace) -> Path:
    return Path(place.root) / "_delta_log"


def test_one_that_goes_while_it_is_opened_is_none(place: DeltaRsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_late(*given: Any) -> DeltaTable:
        assert unused.remove_unused_table(place.root, "p", "run")
        return open_handle(*given)

    monkeypatch.setattr("blizzard.delta.place.open_handle", too_late)
    assert place.open() is None
    assert not Path(place.root).exists()


def test_one_whose_log_is_damaged_is_not_taken_for_none(place: DeltaRsPlace) -> None:
    (log_of(place) / "00000000000000000000.json").write_bytes(b"{broken")
    with pytest.raises(Refused) as refused:
        place.open()
    assert refused.value.kind == "log_damaged"


@pytest.mark.parametrize("is_used", [True, False])
def test_a_log_that_is_aside_for_a_moment_is_waited_for(
    place: DeltaRsPlace, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = Path(place.root) / ASIDE
    log_of(place).rename(aside)
    ends = iter([lambda: aside.rename(log_of(place)) if is_used else shutil.rmtree(aside)])
    monkeypatch.setattr(place.clock, "sleep", lambda _: next(ends)())
    assert (place.open() is not None) is is_used
    assert next(ends, None) is None


def test_files_go_before_the_log(place: DeltaRsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a log are told as a table whose log somebody has deleted."""
    (Path(place.root) / "blizzard-run-0.parquet").write_bytes(b"rows")
    real: Callable[[str], None] = shutil.rmtree
    left: list[list[str]] = []

    def look(path: str) -> None:
        left.append([found.name for found in Path(place.root).iterdir()])
        real(path)

    monkeypatch.setattr("shutil.rmtree", look)
    assert unused.remove_unused_table(place.root, "p", "run")
    ((only,),) = left
    assert only.startswith(unused.ASIDE)
    assert not Path(place.root).exists()


def test_one_that_is_put_back_while_it_is_looked_for_is_opened(
    place: DeltaRsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks it came back, or another run has made it."""
    looks = iter([False, True])
    monkeypatch.setattr("blizzard.delta.place._has_log", lambda _: next(looks))
    monkeypatch.setattr(place.clock, "sleep", lambda _: None)
    assert place.open() is not None
