"""Step two: decides what there is to read. Lists the source and compares it with the position and the ledgers.

Late files (at or before the mark, and never ingested) and rewritten files are reported and handled by their policy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from blizzard.core import events
from blizzard.core.changed import check_in_progress
from blizzard.core.events import Emit, Warned
from blizzard.core.kinds import Kind
from blizzard.core.late import (
    EVERYTHING,
    LatePolicy,
    Scope,
    Unexpected,
    Waiting,
    after_look,
    compare_with_ledgers,
    find_gone,
    plan_listing,
    take_up,
    wait_for,
    without_files,
)
from blizzard.core.lists import count, count_are, some
from blizzard.core.look import Listed
from blizzard.core.patterns import glob_of
from blizzard.core.plan import count_backlog, is_drained
from blizzard.core.position import Position
from blizzard.core.recover import StartFrom
from blizzard.core.types import SourceFile, SourceIdentity, find_file
from blizzard.errors import BadData, ConfigError, Refused
from blizzard.run.ports import Ports, Source, Table
from blizzard.run.recover import Start, decide_again
from blizzard.run.settings import RunSettings

NO_FILE_MATCHES = "no file of the source matches its pattern"
_ALL_LEFT_OUT = (
    "of the source, and source.ignore, source.modified_after, source.modified_before or the date that the pipeline"
    " began at leaves all of that out"
)
_DONE = {
    "ingest": "read now",
    "quarantine": "put into quarantine, unread",
    "report": "not read again",
    "ignore": "left out",
}
_ONE_BY_ONE = {
    "late": "To read one: blizzard checkpoint reset --file NAME --from-record 0 --yes. To leave one out: blizzard"
    " checkpoint skip --file NAME --yes. Or change the policy: ingest reads all of them, once.",
    "rewritten": "Put the original back; or, if lines were added at its end, read those after the first N: blizzard"
    " checkpoint reset --file NAME --from-record N --yes; or leave the table as it is: blizzard checkpoint skip --file"
    " NAME --yes. The policy ingest reads them whole, beside the rows that are in the table already.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What there is to read, and from which position. `renewal` says why the position must be committed once more, even
    if nothing is read."""

    position: Position
    listed: Listed
    found: Unexpected
    waiting: Waiting
    backlog: tuple[int, int]  # files and stored bytes
    renewal: str | None = None

    @property
    def given_up(self) -> Mapping[str, str]:
        """Files that go to quarantine unread, and why."""
        return self.waiting.given_up

    def take_up(self, position: Position, policy: LatePolicy) -> tuple[Position, Discovered]:
        """Name waiting files in the position. Returns it, and what is still waiting."""
        if not self.waiting.paths:
            return position, self
        position, waiting = take_up(position, self.waiting)
        if not waiting.paths:
            position = after_look(position, self.listed, self.found, policy)
        return position, replace(self, waiting=waiting)


def look_at_all(ports: Ports, settings: RunSettings) -> Listed:
    """List everything: for a new table, and for a position that is taken over."""
    listed = _look(ports, EVERYTHING)
    _check_names(ports, settings, listed, has_begun=False)
    return listed


def discover(
    ports: Ports, settings: RunSettings, table: Table, start: Start, whole: Listed | None = None
) -> Discovered:
    """`whole` is a listing of everything, if there is one already; its names were checked."""
    position, policy = start.position, settings.late
    _check_date(position, settings)
    scope = plan_listing(position, policy, now_ms=ports.source.now_ms())
    began = time.monotonic()
    listed = whole or _look(ports, scope)
    seconds = time.monotonic() - began
    if whole is None:
        _check_names(ports, settings, listed, has_begun=position.sequence > 0)
        if position.sequence == 0:  # now with the names, which show a source that was moved
            decide_again(ports, settings, table, listed.files)
    if not ports.stop.requested() and not is_drained(position.marks, listed.files, listed.held):
        ports.ingestor.prepare()
    asked_for_all = scope.is_full
    found = compare_with_ledgers(listed, position, table.scan_back(), policy)
    if found.unclear and not listed.is_full:  # with all names some become clear
        listed, asked_for_all = _look(ports, EVERYTHING), True
        found = compare_with_ledgers(listed, position, table.scan_back(), policy)
    refusal = check_in_progress(position.marks, listed.files)
    if refusal is not None:
        raise Refused(refusal.message, kind=refusal.kind)
    renewal = start.renewal or _renewal(settings, position, listed, found, asked_for_all=asked_for_all)
    _report_unexpected(ports.emit, found, policy)
    waiting = wait_for(found, position, policy)
    position = _without_gone(ports.emit, position, listed)
    if not waiting.paths:
        position = after_look(position, listed, found, policy)
    files, stored_bytes = backlog = count_backlog(position.marks, listed.files, waiting.paths)
    ports.emit(
        events.Discovered(
            backlog_files=files,
            backlog_bytes=stored_bytes,
            late=len(found.late),
            rewritten=len(found.rewritten),
            seconds=seconds,
        )
    )
    return Discovered(position=position, listed=listed, found=found, waiting=waiting, backlog=backlog, renewal=renewal)


def _look(ports: Ports, scope: Scope) -> Listed:
    """A listing, after files that an unfinished deletion has hidden were deleted or put back."""
    source: Source = ports.source
    listed = source.look(scope)
    if listed.asides:
        for said in source.finish_asides(listed.asides):
            ports.emit(Warned(message=said))
        listed = source.look(scope)
    return listed


def _check_names(ports: Ports, settings: RunSettings, listed: Listed, *, has_begun: bool) -> None:
    emit = ports.remarks.once(ports.emit)
    if not has_begun:
        check_matches(emit, listed, ports.source.identity)
    elif not listed.files and listed.is_full:
        emit(Warned(message=_nothing_listed(listed)))
    check_start_from(settings.start_from, listed.files)


def _check_date(position: Position, settings: RunSettings) -> None:
    """Raises if a person has moved the date that the pipeline begins at since this run has looked for it. That can be
    only where the run begins again from a newer version of the log."""
    if position.begun.since_ms != settings.since_ms:
        raise Refused(
            "what the pipeline reads was changed while this run began. Nothing was read. Run again.",
            kind=Kind.POSITION_CHANGED,
        )


def check_matches(emit: Emit, listed: Listed, source: SourceIdentity) -> None:
    """For a pipeline that has not begun: says which files it will not read. Raises if there are files, but none that
    matches: that is no success, and nobody would look for a reason. An empty folder is no mistake."""
    if not listed.is_full:
        return
    left_out = listed.left_out
    if not listed.files and left_out.unmatched and not left_out.filtered:
        raise ConfigError(
            f"no file of {source.root} matches the pattern {glob_of(source.pattern)}. What is there:"
            f" {left_out.kinds}. Nothing was read; {left_out.way_to_read}",
            kind=Kind.NO_FILE_MATCHES,
        )
    if not listed.files:
        emit(Warned(message=_nothing_listed(listed) + ("" if left_out.filtered else ": it is empty")))
    elif left_out.unmatched:
        emit(Warned(message=f"{left_out.sentence}; {left_out.way_to_read}"))


def _nothing_listed(listed: Listed) -> str:
    filtered = listed.left_out.filtered
    return f"the pattern matches {count(filtered, 'file')} {_ALL_LEFT_OUT}" if filtered else NO_FILE_MATCHES


def check_start_from(start_from: StartFrom | None, listing: Sequence[SourceFile]) -> None:
    """Raises if the name is not in the source: a misspelt one would skip everything, or nothing."""
    if start_from is not None and start_from.after is not None and find_file(listing, start_from.after) is None:
        said_in = "start_from" if start_from.lasts else "--start-from"
        raise ConfigError(f"{said_in} after:{start_from.after}: there is no such file in the source", kind=Kind.USAGE)


def _renewal(
    settings: RunSettings, position: Position, listed: Listed, found: Unexpected, *, asked_for_all: bool
) -> str | None:
    # Every run lists a local folder whole, so that alone is no reason.
    if asked_for_all and (position.seen.relist_names or 0) > settings.late.relist_max_names:
        return "the whole source was listed"
    if found.settled_names is not None and not found and found.commits_read > settings.scan_commits:
        return "otherwise every idle run would read all ledgers again, because a file was taken away"
    # Files that are left alone are reported by every run for a while. After that they are not looked for again.
    is_old_news = listed.at_ms - (position.seen.relist_watermark_ms or 0) > settings.late.grace_ms
    if listed.is_full and (found.unclear or (is_old_news and (found.late or found.rewritten))):
        return "files that were found and are left alone need not be looked for again"
    return None


def _report_unexpected(emit: Emit, found: Unexpected, policy: LatePolicy) -> None:
    """Raises if the policy is to stop."""
    why = "they sort at or before the mark and were never ingested"
    _report(emit, found.late, policy.late, "late", why, Kind.LATE_FILES)
    why = "they changed after they were ingested"
    _report(emit, found.rewritten, policy.rewritten, "rewritten", why, Kind.REWRITTEN_FILES)
    _report_unclear(emit, found.unclear, policy.unclear)


def _report(emit: Emit, paths: tuple[str, ...], policy: str, what: str, why: str, kind: Kind) -> None:
    if not paths:
        return
    if policy == "fail":
        raise BadData(
            f"{count_are(len(paths), 'file')} {what}: {why}: {some(paths)}. Nothing was read, since"
            f" {what}_files.policy is fail. {_ONE_BY_ONE[what]}",
            kind=kind,
        )
    warn_of(emit, paths, f"{what}: {why}; {_DONE[policy]}")


def _report_unclear(emit: Emit, paths: tuple[str, ...], policy: str) -> None:
    if not paths:
        return
    if policy == "fail":
        raise Refused(
            f"{count(len(paths), 'file')} at or before the mark, and younger than the last look at the whole source,"
            f" but the ledgers that would say whether they were ingested are gone from the log: {some(paths)}. Check"
            f" which of them the table holds. One that it holds: blizzard checkpoint skip --file NAME --yes. One that"
            f" it does not: blizzard checkpoint reset --file NAME --from-record 0 --yes. Or all at once, for one run:"
            f" --set late_files.unclear=ignore if it holds every one of them (others would be lost), =ingest if it"
            f" holds none (others would be doubled).",
            kind=Kind.LATE_UNCLEAR,
        )
    warn_of(emit, paths, f"late or rewritten (the ledger that says which is gone); {_DONE[policy]}")


def _without_gone(emit: Emit, position: Position, listed: Listed) -> Position:
    gone = find_gone(position, listed)
    before = "gone from the source before anything was read"
    warn_of(emit, gone.kept, f"{before}, and will be read when back (to give one up: blizzard checkpoint skip)")
    warn_of(emit, gone.forgotten, f"{before}, and forgotten")
    return without_files(position, gone.forgotten) if gone.forgotten else position


def warn_of(emit: Emit, files: Sequence[str], what: str) -> None:
    if files:
        emit(Warned(message=f"{count(len(files), 'file')} {'is' if len(files) == 1 else 'are'} {what}: {some(files)}"))
