"""Makes one HTML page from facts. The page needs nothing else: no request, no font, and no script to be readable.

The template engine escapes every value; control characters are shown, secrets are not. The page's policy allows only
its own script and style, by their digests: even a value that was not escaped would not run.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from blizzard import __version__
from blizzard.core.lists import count
from blizzard.core.position import FOR_A_PERSON
from blizzard.report import formats
from blizzard.report.facts import Live, ReportFacts, TargetsFacts
from blizzard.report.history import files_apart
from blizzard.report.views import parts_of


def render_page(facts: ReportFacts | TargetsFacts, live: Live | None = None) -> str:
    style, script = asset("page.css"), asset("page.js")
    status = live.status if live is not None else {}
    several, parts = facts if isinstance(facts, TargetsFacts) else None, parts_of(facts)
    return (
        environment()
        .get_template("page.html")
        .render(
            heading=facts.table if isinstance(facts, ReportFacts) else facts.pipeline or "several targets",
            made_at_ms=facts.made_at_ms,
            policy_text=_POLICIES.get(several.commit_policy, _QUORUM) if several is not None else None,
            several=several,
            parts=parts,
            versions=" ".join(str(part.facts.version if part.facts is not None else None) for part in parts),
            live=live,
            status=status,
            of_targets=status.get("targets", {}),
            sequences=_sequences(status),
            held_now=[held for held in live.held if held.files] if live is not None else [],
            style=Markup(style),
            script=Markup(script),
            policy=policy_of(style, script),
            blizzard_version=__version__,
        )
    )


def _sequences(status: dict[str, Any]) -> str:
    """What page.js compares: when it has changed, the page is read again."""
    of_targets = status.get("targets")
    known = [status.get("sequence")] if of_targets is None else [one["sequence"] for one in of_targets.values()]
    return " ".join("" if sequence is None else str(sequence) for sequence in known)


_POLICIES = {
    "required": "the run ends when a required target fails",
    "all": "the run ends when any target fails",
}
_QUORUM = "the run ends when fewer targets than that are left"


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("blizzard.report", "templates"),
        autoescape=True,
        finalize=formats.plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": formats.count,
        "size": formats.size,
        "duration": formats.duration,
        "ago": formats.ago,
        "rate": formats.rate,
        "when": formats.when,
        "name": formats.shown_name,
        "of": count,  # 1 | of('file')
        "apart": files_apart,
        "for_a_person": lambda why: why.startswith(FOR_A_PERSON),
    }
    return made


@cache
def asset(name: str) -> str:
    return (resources.files("blizzard.report") / "templates" / name).read_text(encoding="utf-8")


def policy_of(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:;"
        f" connect-src 'self'; form-action 'self'; base-uri 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
