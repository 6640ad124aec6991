"""The ways in which recovery finds a position, and the words for each in one table."""

from __future__ import annotations

from dataclasses import dataclass

from blizzard.core.kinds import Word


class Path(Word):
    LOG = "log"
    LEDGERS = "ledgers"
    DELTA_CHECKPOINT = "delta_checkpoint"
    FRESH = "fresh"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    status: str  # in a row that begins with "next start"
    title: str  # on the report
    verdict: str = "good"  # on the report: good, warn or bad
    found_in: str = ""  # "resume at sequence 7 from …"
    warning: str | None = None  # for a run to report: what the position was found in may soon be gone
    metric: str | None = None  # the label, if it is another word than the path


WORDS = {
    Path.LOG: Words(
        status="resumes from the log", title="Resumes from the log", found_in="the newest commit of the pipeline"
    ),
    Path.LEDGERS: Words(
        status="resumes from an older position and the ledgers since: the newest payload is damaged",
        title="Resumes from an older position and the ledgers since",
        verdict="warn",
        found_in="an older position and the ledgers of the commits since, because the newest payload is damaged",
        warning="the newest position cannot be read; it was rebuilt from an older one and the ledgers since",
        metric="replay",
    ),
    Path.DELTA_CHECKPOINT: Words(
        status="resumes from a Delta checkpoint: the commit itself is gone from the log",
        title="Resumes from a Delta checkpoint",
        verdict="warn",
        found_in="a Delta checkpoint, because the commit it came in is no longer in the log",
        warning="the commit with the position is no longer in the log; it was found in a Delta checkpoint",
    ),
    Path.FRESH: Words(status="begins: nothing of this pipeline is committed", title="Begins: nothing is committed yet"),
    Path.REFUSED: Words(status="refuses to start", title="Refuses to start", verdict="bad"),
}


def metric_of(path: Path) -> str:
    return WORDS[path].metric or path.value
