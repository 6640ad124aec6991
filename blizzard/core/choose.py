"""Decides what a change of pattern or filters means for a position: which files the mark has passed although nobody has
read them, and which files in progress would be left behind.

The mark is one name. A file that matched nothing until now may sort before it, and would be passed without a word. So a
change needs a word for such files: they are read once, or left out for good. What was read before is never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from blizzard.core.kinds import Kind
from blizzard.core.late import Past
from blizzard.core.ledger import MAX_LEDGER_BYTES, LedgerEntry, entry_of_skipped, ledger_entry_bytes
from blizzard.core.lists import count, some
from blizzard.core.log import CommitFacts
from blizzard.core.look import settled_in
from blizzard.core.position import Begun, FileProgress, Position, RecordsRead, Seen, entry_bytes
from blizzard.core.recover import ADOPTED, IMPORTED
from blizzard.core.refuse import Refuse, describe_source
from blizzard.core.source_json import source_to_json
from blizzard.core.types import SourceFile, SourceIdentity

# Names that one commit can take into the position, and into its ledger.
_NAMED_BYTES = 96 * 1024
_SKIPPED_BYTES = MAX_LEDGER_BYTES - 256 * 1024
_EARLIER_BYTES = 8 * 1024

SKIP, INGEST = "skip", "ingest"
Takes = Callable[[SourceFile], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What another choice of files means. Each name is below the mark or named in the position; `ahead` is neither."""

    before: Position
    source: SourceIdentity
    begun: Begun
    below: tuple[SourceFile, ...]  # chosen now, passed by the mark, and never read
    # Like `below`, but they may have been read once: the ledgers that would know are gone.
    unclear: tuple[SourceFile, ...]
    known: int  # chosen now and passed by the mark: their ledgers say that they were read, or left out by a person
    ahead: int  # chosen now and after the mark: the next run reads them
    left: tuple[str, ...]  # no longer chosen, and begun or waiting in the position
    unread: int  # no longer chosen, and not begun

    @property
    def passed(self) -> tuple[SourceFile, ...]:
        """What the mark has passed although it may not have been read."""
        return tuple(sorted((*self.below, *self.unclear), key=lambda file: file.path))

    @property
    def essence(self) -> object:
        """What must be the same at the commit. Files may arrive after the mark at any time."""
        return self.before, self.source, self.begun, self.passed, self.left

    @property
    def changes_anything(self) -> bool:
        return (self.source, self.begun) != (self.before.source, self.before.begun)

    @property
    def sentences(self) -> list[str]:
        pipeline, now = self.before.pipeline, describe_source(self.source)
        lines = [f"pipeline {pipeline} reads {now} from now on, instead of {describe_source(self.before.source)}"]
        if self.begun.since_ms != self.before.begun.since_ms:
            lines.append(f"it begins with {self.begun.start_from}, not {self.before.begun.start_from or 'beginning'}")
        if self.passed:
            lines.append(
                f"{count(len(self.passed), 'file')} that it chooses now lie at or before the mark and were not read:"
                f" {some(names_of(self.passed))}"
            )
        if self.known:
            lines.append(f"{count(self.known, 'file')} at or before the mark were read or left out before, and stay so")
        if self.ahead:
            lines.append(f"{count(self.ahead, 'file')} after the mark are read by the next run")
        if self.unread:
            lines.append(f"{count(self.unread, 'file')} that are not read yet are no longer chosen")
        return lines


def compare_choices(
    before: Position,
    files: Sequence[SourceFile],
    commits: Iterable[CommitFacts],
    *,
    source: SourceIdentity,
    begun: Begun,
    was_chosen: Takes,
    is_chosen: Takes,
    may_have_taken: Sequence[Takes],
) -> Change:
    """`files` are all that the old or the new choice takes, in one listing. `may_have_taken` say whether a choice that
    was in force could have taken a file, maybe before its last change."""
    marks, is_settled = before.marks, settled_in(before)
    new = [file for file in files if is_chosen(file) and not was_chosen(file) and file.path not in marks.files]
    passed = {file.path: file for file in new if is_settled(file.path)}
    unknown = dict(passed)
    past = Past(before)
    past.look_for(unknown, commits)
    # A choice that was never in force took no file. What came before an adoption or an import is not known.
    is_taken_over = before.begun.start_from in (ADOPTED, IMPORTED)
    unclear = {
        path
        for path, file in unknown.items()
        if past.may_hold(path) and (is_taken_over or any(takes(file) for takes in may_have_taken))
    }
    gone = [file for file in files if was_chosen(file) and not is_chosen(file)]
    return Change(
        before=before,
        source=source,
        begun=begun,
        below=tuple(unknown[path] for path in sorted(unknown.keys() - unclear)),
        unclear=tuple(unknown[path] for path in sorted(unclear)),
        known=len(passed) - len(unknown),
        ahead=sum(not marks.is_passed(file.path) for file in new),
        left=tuple(file.path for file in gone if file.path in marks.in_progress),
        unread=sum(not marks.is_finished(file.path) and file.path not in marks.files for file in gone),
    )


def refuse_change(change: Change, below: str | None) -> Refuse | None:
    """`below` is the word for files that the mark has passed: SKIP, INGEST, or None."""
    if change.left:
        return Refuse(
            kind=Kind.FILES_IN_PROGRESS,
            message=(
                f"{count(len(change.left), 'file')} that the position names would no longer be chosen, and their rest"
                f" would never be read: {some(change.left)}. Nothing was changed. Let a run finish them first, with"
                f" what the pipeline reads now; or give up the rest of one: blizzard checkpoint skip --file NAME --yes."
            ),
        )
    if change.passed and below is None:
        return Refuse(
            kind=Kind.FILES_BELOW_MARK,
            message=(
                f"{count(len(change.passed), 'file')} would be chosen that lie at or before the mark, which says that"
                f" all files up to it are done: {some(names_of(change.passed))}. Nothing was changed. Say what becomes"
                f" of them: --below ingest reads each of them once, --below skip leaves them out for good."
            ),
        )
    if below != INGEST:
        return None
    if change.unclear:
        return Refuse(
            kind=Kind.LATE_UNCLEAR,
            message=(
                f"{count(len(change.unclear), 'file')} at or before the mark may have been ingested with an earlier"
                f" pattern or filter, and the ledgers that would say so are gone from the log:"
                f" {some(names_of(change.unclear))}. Nothing was changed. Use --below skip, check which of them the"
                f" table does not hold, and read each of those: blizzard checkpoint reset --file NAME --from-record 0"
                f" --yes."
            ),
        )
    room = _NAMED_BYTES - sum(map(entry_bytes, change.before.marks.files))
    if sum(entry_bytes(file.path) for file in change.below) > room:
        return Refuse(
            kind=Kind.FILES_BELOW_MARK,
            message=(
                f"{count(len(change.below), 'file')} lie at or before the mark, more than a position can name. Nothing"
                f" was changed. Choose them in steps: a narrower pattern, a later source.modified_after or a"
                f" source.ignore first, then a run, then the next step. Or leave them out: --below skip."
            ),
        )
    return None


def names_of(files: Iterable[SourceFile]) -> list[str]:
    return [file.path for file in files]


def skipped_entries(files: Iterable[SourceFile]) -> tuple[LedgerEntry, ...]:
    """For the ledger: without these, files that are left out would count as late. As many as fit into one ledger."""
    entries, room = [], _SKIPPED_BYTES
    for file in files:
        room -= ledger_entry_bytes(file.path, file.etag)
        if room < 0:
            break
        entries.append(entry_of_skipped(file.path, file.size_bytes, file.etag))
    return tuple(entries)


def position_after(change: Change, below: str | None) -> Position:
    """The position with the new choice. What the last looks at the source kept was about the old one."""
    before = change.before
    files: dict[str, FileProgress] = dict(before.marks.files)
    if below == INGEST:
        files |= {file.path: RecordsRead(records=0) for file in change.below}
    seen = Seen(
        held_back=before.seen.held_back,
        list_from=before.seen.list_from,
        relist_watermark_ms=before.seen.relist_watermark_ms,
        late_from_ms=before.seen.late_from_ms,
    )
    return replace(
        before,
        source=change.source,
        begun=change.begun,
        chosen_before=_limited((*before.chosen_before, choice_in(before))),
        marks=replace(before.marks, files=files),
        seen=seen,
    )


def choices_so_far(position: Position) -> list[SourceIdentity]:
    """What the pipeline has read so far, as wide as it may have been for files that were changed since: their time was
    an earlier one then, so `modified_before` says nothing about it."""
    sources = (*position.chosen_before, choice_in(position))
    return [replace(source, filters=replace(source.filters, modified_before_ms=None)) for source in sources]


def choice_in(position: Position) -> SourceIdentity:
    """Which files the position chooses, with the moment that it began at as a filter."""
    return replace(position.source, filters=position.source.filters.since(position.begun.since_ms))


def _limited(choices: Iterable[SourceIdentity]) -> tuple[SourceIdentity, ...]:
    """Each once. If they are too long for a payload, one that takes every file stands for the oldest of them."""
    kept, room = list(dict.fromkeys(choices)), _EARLIER_BYTES
    for i in range(len(kept) - 1, -1, -1):
        room -= len(orjson.dumps(source_to_json(kept[i])))
        if room < 0:
            any_file = SourceIdentity(root=kept[i].root, pattern="**", marks_per=kept[i].marks_per)
            return (any_file, *kept[i + 1 :])
    return tuple(kept)
