"""A plugin for pytest: of each test that is collected, as JSON, the fixtures that are for a whole session.

What is made once for all tests takes long or needs something: Spark, a server, a browser, another environment.
"""

from __future__ import annotations

import json
import sys

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    json.dump({item.nodeid: _needs(item) for item in session.items}, sys.stdout)


def _needs(item: pytest.Item) -> list[str]:
    fixtures = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    return sorted(
        name
        for name, found in fixtures.items()
        if found[-1].scope == "session" and found[-1].func.__module__.startswith("tests.")
    )
