"""The page of a fleet: there in every state that a pipeline can be in, and every pipeline counts once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blizzard.report.fleet import VERDICTS, render_fleet
from blizzard.service.metrics import STATES
from tests.report.scenes import fleet


def test_every_state_has_its_colour() -> None:
    assert set(VERDICTS) == set(STATES)


@pytest.mark.parametrize("state", STATES)
def test_a_pipeline_is_shown_in_every_state(state: str) -> None:
    facts = fleet()
    page = render_fleet(replace(facts, rows=({**facts.rows[0], "state": state},)))
    assert f'class="badge {VERDICTS[state]}">{state}<' in page
    tiles = dict.fromkeys(("Running", "Failed", "Retrying", "Paused or stopped"), 0)
    tiles[{"running": "Running", "failed": "Failed", "retrying": "Retrying"}.get(state, "Paused or stopped")] = 1
    for title, number in tiles.items():
        assert f"<dt>{title}</dt><dd>{number}" in page.replace("\n", "").replace("  ", "")


def test_a_target_that_fails_is_shown_with_a_pipeline_that_goes_on() -> None:
    facts, well = fleet(), {"last_error": None}
    row = facts.rows[0] | {"targets": {"good": well, "bad": {"last_error": "mostly <bad> [mostly_bad]"}}}
    page = render_fleet(replace(facts, rows=(row,)))
    assert '<span class="red target">target bad: mostly &lt;bad&gt; [mostly_bad]</span>' in page
    assert ("target good" in page, '<span class="muted">none</span>' in page) == (False, False)
