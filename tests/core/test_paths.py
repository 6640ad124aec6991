"""Every way to a position has its words; only those that may soon be gone have a warning."""

from __future__ import annotations

import pytest

from blizzard.core.paths import WORDS, Path, metric_of

# path: label of the metric, verdict on the report, whether a run warns, whether it leads to a position
CASES = [
    (Path.LOG, "log", "good", False, True),
    (Path.LEDGERS, "replay", "warn", True, True),
    (Path.DELTA_CHECKPOINT, "delta_checkpoint", "warn", True, True),
    (Path.FRESH, "fresh", "good", False, False),
    (Path.REFUSED, "refused", "bad", False, False),
]


@pytest.mark.parametrize(("path", "metric", "verdict", "warns", "finds"), CASES, ids=[c[0].value for c in CASES])
def test_words(path: Path, metric: str, verdict: str, warns: bool, finds: bool) -> None:
    words = WORDS[path]
    assert metric_of(path) == metric
    assert words.verdict == verdict
    assert (words.warning is not None) == warns
    assert bool(words.found_in) == finds
    assert words.status
    assert words.title


def test_every_path_is_in_the_table_above() -> None:
    assert [case[0] for case in CASES] == list(Path) == list(WORDS)
