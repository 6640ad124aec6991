"""Refuses a second pipeline over the same source and table: it would put the same records into the table again.

`find_reader` compares roots and patterns. `check_moved` compares names, sizes and etags in the ledgers, and so finds a
source that was moved. Only the user can allow a second reading (`--reads-again`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from blizzard.core.history import ledgers_of
from blizzard.core.kinds import Kind
from blizzard.core.log import CommitFacts, Standing, standings_of
from blizzard.core.overlap import is_same_source, may_change_to, may_overlap
from blizzard.core.patterns import DEFAULTS
from blizzard.core.position import Marks, Position
from blizzard.core.refuse import Refuse, choose_command, describe_position, describe_source, options_of
from blizzard.core.types import SourceFile, SourceIdentity

_ON_PURPOSE = "To read it into this table a second time on purpose, add --reads-again."


def readers_of(standings: dict[str, Standing], source: SourceIdentity, *, by_default: bool = False) -> tuple[str, ...]:
    """The pipelines that read exactly this source. `by_default`: nobody gave a pattern, so any default is meant."""
    return tuple(
        sorted(name for name, found in standings.items() if is_meant(found.position.source, source, by_default))
    )


def is_meant(position: SourceIdentity, given: SourceIdentity, by_default: bool) -> bool:
    """Whether a person who gives this source means that of the position."""
    if by_default and position.pattern in DEFAULTS:
        return position.root == given.root
    return is_same_source(position, given)


def find_reader(standings: dict[str, Standing], *, pipeline: str, source: SourceIdentity | None) -> Position | None:
    """Another pipeline that may read some of this source. One with exactly this source comes first."""
    if source is None:
        return None
    others = [found.position for name, found in sorted(standings.items()) if name != pipeline]
    overlapping = [position for position in others if may_overlap(position.source, source)]
    return next((s for s in overlapping if is_same_source(s.source, source)), overlapping[0] if overlapping else None)


def refuse_second_reader(other: Position, pipeline: str, source: SourceIdentity) -> Refuse:
    is_same, goes_on = is_same_source(other.source, source), options_of(other.pipeline, other.source, given=source)
    what = "this source" if is_same else f"{describe_source(other.source)}, which has files in common with this source"
    changes = f" To change what it reads: {choose_command(other.pipeline, source)}."
    return Refuse(
        kind=Kind.SOURCE_READ_BY_OTHER,
        message=(
            f"pipeline {other.pipeline!r} of this table reads {what}; it stands at sequence {other.sequence}"
            f" ({describe_position(other)}). Pipeline {pipeline!r} has no position here, and would read the same"
            f" records once more. To go on with the one there is: {goes_on}."
            f"{changes if not is_same and may_change_to(other.source, source) else ''}"
            f"{'' if is_same else ' Or name a source that has no file of that one.'} {_ON_PURPOSE}"
        ),
    )


def find_other_reader(commits: Iterable[CommitFacts], position: Position) -> Refuse | None:
    """For the first commit of a pipeline: refuses if another began to read this source since the batch was planned.

    `commits` are those since then, newest first. If two pipelines begin at once, the second to commit is refused.
    """
    if position.sequence != 1 or position.begun.reads_again:
        return None
    other = find_reader(standings_of(commits), pipeline=position.pipeline, source=position.source)
    return None if other is None else refuse_second_reader(other, position.pipeline, position.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A file as another pipeline has read it."""

    pipeline: str
    source: SourceIdentity
    path: str
    size_bytes: int
    etag: str


def check_moved(
    commits: Iterable[CommitFacts],
    standings: dict[str, Standing],
    *,
    pipeline: str,
    source: SourceIdentity,
    begins_at: Marks,
    listing: Sequence[SourceFile],
) -> Refuse | None:
    """Refuses if another pipeline has read these files from another place: its source was moved, renamed or copied.

    Names, sizes and etags are compared; a folder of the old source counts too. Etags of different stores cannot be
    compared; then only whole names and sizes count.
    """
    files = {f.path: f for f in listing if f.size_bytes and not begins_at.is_finished(f.path)}
    by_name: dict[str, list[SourceFile]] = {}
    for file in files.values():
        by_name.setdefault(_base(file.path), []).append(file)
    matches: dict[str, list[str]] = {}
    differing: set[str] = set()
    sources: dict[str, SourceIdentity] = {}
    for known in _known_files(commits, standings, pipeline) if files else ():
        other_store = _store_of(known.source) != _store_of(source)
        # Below another root a name has more folders, or fewer. In another store, without etags, whole names must fit.
        alike = by_name.get(_base(known.path), []) if not other_store else filter(None, [files.get(known.path)])
        for file in alike:
            if not _ends_alike(file.path, known.path):
                continue
            if file.size_bytes == known.size_bytes and (other_store or file.etag == known.etag):
                matches.setdefault(known.pipeline, []).append(known.path)
                sources.setdefault(known.pipeline, known.source)
            elif other_store:
                differing.add(known.pipeline)
    name = min((name for name in matches if name not in differing), default=None)
    if name is None:
        return None
    other = standings[name].position if name in standings else None
    return _refuse_moved(name, sources[name], other, sorted(set(matches[name])), pipeline, source)


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _ends_alike(one: str, other: str) -> bool:
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def _known_files(commits: Iterable[CommitFacts], standings: dict[str, Standing], pipeline: str) -> Iterator[_Known]:
    for _, ledger in ledgers_of(commits):
        if ledger.pipeline != pipeline:
            for e in (e for e in ledger.entries if e.to_record):  # 0: nothing was taken, a person skipped it
                yield _Known(
                    pipeline=ledger.pipeline, source=ledger.source, path=e.path, size_bytes=e.size_bytes, etag=e.etag
                )
    for name, found in standings.items():
        for path, read in found.position.marks.in_progress.items() if name != pipeline else ():
            if read.records and read.size_bytes is not None and read.etag is not None:
                yield _Known(
                    pipeline=name, source=found.position.source, path=path, size_bytes=read.size_bytes, etag=read.etag
                )


def _store_of(source: SourceIdentity) -> str:
    return source.root.partition("://")[0]


def _refuse_moved(
    name: str,
    origin: SourceIdentity,
    other: Position | None,
    paths: list[str],
    pipeline: str,
    source: SourceIdentity,
) -> Refuse:
    stands = "" if other is None else f" It stands at sequence {other.sequence} ({describe_position(other)})."
    return Refuse(
        kind=Kind.SOURCE_READ_BY_OTHER,
        message=(
            f"pipeline {name!r} of this table has read {len(paths):,} of these files (the first: {paths[0]}) from"
            f" {describe_source(origin)}: by name, size and etag they are the same, so that source was moved, renamed"
            f" or copied to {source.root}.{stands} Pipeline {pipeline!r} would read the same records once more. Make"
            f" the old path lead to the files again (move them back; on local disk a mount or a link does), and go on"
            f" with: {options_of(name, origin)}. {_ON_PURPOSE}"
        ),
    )
