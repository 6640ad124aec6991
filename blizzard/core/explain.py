"""Explains a decision of recovery in sentences, for the person who is paged."""

from __future__ import annotations

from collections.abc import Iterator

from blizzard.core.lists import count
from blizzard.core.log import (
    CheckpointFacts,
    CommitFacts,
    TableFacts,
    fence_version,
    names_pipeline,
    pipelines_of,
    rewrites_table,
    standings_of,
)
from blizzard.core.moments import moment_text
from blizzard.core.paths import WORDS
from blizzard.core.pause import describe_pause
from blizzard.core.position import Position
from blizzard.core.recover import ADOPTED, Fresh, Recovery, Resume
from blizzard.core.refuse import Refuse, describe_position


def explain_recovery(facts: TableFacts, recovery: Recovery, pipeline: str) -> tuple[str, ...]:
    return tuple(_sentences(facts, recovery, pipeline))


def _sentences(facts: TableFacts, recovery: Recovery, pipeline: str) -> Iterator[str]:
    yield f"The table is at version {facts.version}, its id is {facts.table_id}."
    yield _looked_at(facts)
    fence = "no fence" if facts.fence is None else f"the fence at {facts.fence}"
    yield f"The snapshot shows {fence} for pipeline {pipeline}."
    mine = [commit for commit in facts.commits if names_pipeline(commit, pipeline)]
    if mine:
        yield _newest(mine[0], pipeline)
        yield _since(facts, mine[0])
    elif facts.checkpoint is not None:
        yield (
            f"None of these commits is the pipeline's, so the Delta checkpoint of version {facts.checkpoint.version}"
            f" was read: {len(facts.checkpoint.txns)} Txns."
        )
        yield _remembered(facts.checkpoint, pipeline)
    else:
        yield "None of these commits is the pipeline's."
    yield _decision(recovery)


def _remembered(checkpoint: CheckpointFacts, pipeline: str) -> str:
    found = standings_of((), checkpoint).get(pipeline)
    if found is None:
        return "It holds no position of the pipeline."
    return f"It holds the pipeline's position: sequence {found.position.sequence}, {describe_position(found.position)}."


def _looked_at(facts: TableFacts) -> str:
    if not facts.commits:
        return "No JSON commit could be looked at."
    oldest = facts.commits[-1].version
    end = ", the first one of the table" if oldest == 0 else ""
    return (
        f"Looked at {count(len(facts.commits), 'JSON commit')}, versions {facts.commits[0].version} to {oldest}{end}."
    )


def _newest(commit: CommitFacts, pipeline: str) -> str:
    sequence = fence_version(commit, pipeline)
    found = pipelines_of([commit]).get(pipeline)
    if sequence == 0:
        return f"Version {commit.version} made the table for this pipeline; it has committed nothing since."
    sound = "its payload is sound" if found is not None else "its payload is missing or damaged"
    return f"The newest commit of the pipeline is version {commit.version}, sequence {sequence}; {sound}."


def _since(facts: TableFacts, newest: CommitFacts) -> str:
    later = [commit for commit in facts.commits if commit.version > newest.version]
    rewrites = [f"version {c.version} ({c.operation or 'unnamed'})" for c in later if rewrites_table(c)]
    if rewrites:
        return f"Since then the table was rewritten: {', '.join(rewrites)}."
    return f"Since then {count(len(later), 'commit')} of other writers, none of which takes data away."


def _decision(recovery: Recovery) -> str:
    match recovery:
        case Resume(position=position, path=path):
            reads = (
                ""
                if position.paused is None
                else f" The pipeline is {describe_pause(position.paused)}: until it is resumed (blizzard resume), a run"
                f" settles and renews, and reads nothing."
            )
            return (
                f"Decision: resume at sequence {position.sequence + 1} from {WORDS[path].found_in}; mark"
                f" {position.marks.last_committed_file or 'none'}, {_unfinished(position)}.{reads}"
            )
        case Fresh(start_from=start_from, marks=marks, since_ms=since_ms):
            if start_from == ADOPTED:
                return "Decision: begin where the Rust program stopped."
            mark = marks.last_committed_file
            if since_ms is not None:
                return f"Decision: begin with the files that were changed at {moment_text(since_ms)} or later."
            return f"Decision: begin {'at the first file' if mark is None else f'after the file {mark}'}."
        case Refuse(kind=kind, message=message):
            return f"Decision: refuse ({kind}). {message}"


def _unfinished(position: Position) -> str:
    """A file of which nothing was read yet is not in progress: it is named because it is held back."""
    named, held = position.marks.in_progress, position.seen.held_back
    waiting = sum(1 for path, read in named.items() if not read.records and path in held)
    return f"{count(len(named) - waiting, 'file')} in progress" + (f", {waiting:,} held back" if waiting else "")
