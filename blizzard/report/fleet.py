"""Makes the page of a fleet: one HTML page, complete in itself, with a row for each pipeline. Pure."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from blizzard import __version__
from blizzard.report.facts import FleetFacts
from blizzard.report.page import asset, environment, policy_of

# Of every state that a pipeline can be in.
VERDICTS = {
    "running": "good",
    "retrying": "warn",
    "failed": "bad",
    "pausing": "warn",
    "paused": "warn",
    "resuming": "warn",
    "stopping": "warn",
    "stopped": "warn",
}
_ASKED_FOR = ("pausing", "paused", "resuming", "stopping", "stopped")


def render_fleet(facts: FleetFacts) -> str:
    style, script = asset("page.css"), asset("fleet.js")
    found = Counter(row["state"] for row in facts.rows)
    totals = {name: sum(row[name] or 0 for row in facts.rows) for name in ("backlog_files", "backlog_bytes")}
    return (
        environment()
        .get_template("fleet.html")
        .render(
            facts=facts,
            states={state: found[state] for state in VERDICTS},
            resting=sum(found[state] for state in _ASKED_FOR),
            totals=totals,
            verdicts=VERDICTS,
            style=Markup(style),
            script=Markup(script),
            policy=policy_of(style, script),
            blizzard_version=__version__,
        )
    )
