"""The ways by which recovery finds a position, and one table of the words for each."""

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
    verdict: str = "good"  # there, too: good, warn or bad
    found_in: str = ""  # "resume at sequence 7 from …"
    warning: str | None = None  # where a run should say so: what it was found in may soon be gone
    metric: str | None = None  # the label, where it is another word


WORDS = {
    Path.LOG: Words(
        status="resumes from the log", title="Resumes from the log", found_in="the newest commit of the pipeline"
    ),
    Path.LEDGERS: Words(
        status="resumes from an older checkpoint and the ledgers since: the newest payload is damaged",
        title="Resumes from an older checkpoint and the ledgers since",
        verdict="warn",
        found_in="an older checkpoint and the ledgers of the commits since, because the newest payload is damaged",
        warning="the newest checkpoint cannot be read; its position was rebuilt from the one before and the ledgers",
        metric="replay",
    ),
    Path.DELTA_CHECKPOINT: Words(
        status="resumes from a Delta checkpoint: the commit itself is gone from the log",
        title="Resumes from a Delta checkpoint",
        verdict="warn",
        found_in="a Delta checkpoint, because the commit it came in is no longer in the log",
        warning="the commit with the position is no longer in the log; it was found in a Delta checkpoint",
    ),
    Path.FRESH: Words(status="begins with the first file", title="Begins with the first file"),
    Path.REFUSED: Words(status="refuses to start", title="Refuses to start", verdict="bad"),
}


def metric_of(path: Path) -> str:
    return WORDS[path].metric or path.value
