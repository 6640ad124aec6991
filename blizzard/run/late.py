"""Files that a mark has passed although nobody has read them, or that changed since: told, and dealt with as asked."""

from __future__ import annotations

from dataclasses import replace

from blizzard.core.kinds import Kind
from blizzard.core.late import LatePolicy, Unexpected, files_to_take_up
from blizzard.core.look import Listed, digest_files, settled_files, young_files
from blizzard.core.position import GIVEN_UP, Marks, Position, RecordsRead, entry_bytes
from blizzard.core.types import find_file
from blizzard.errors import BadData, Refused
from blizzard.run.ports import Progress
from blizzard.run.summary import Summary

# Each is named in the payload until it is finished.
_AT_ONCE = 500
_AT_ONCE_BYTES = 48 * 1024
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


class FilesToTakeUp:
    def __init__(self, progress: Progress, policy: LatePolicy, summary: Summary) -> None:
        self._progress, self._policy, self._summary = progress, policy, summary
        self._waiting: list[str] = []  # to be read although their mark has passed them
        self._listed: Listed | None = None
        self.found = Unexpected()
        self.given_up: dict[str, str] = {}  # of those, files that go to quarantine unread, and why

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(self._waiting)

    def decide(self, found: Unexpected, position: Position, listed: Listed) -> Position:
        """The state to plan on. Raises where the policy is not to go on."""
        self._listed, self.found = listed, found
        self.given_up |= {path: why for path, why in position.seen.held_back.items() if why in GIVEN_UP}
        self._summary.late_files, self._summary.rewritten_files = len(found.late), len(found.rewritten)
        why = "they sort at or before the mark and were never ingested"
        self._apply(found.late, self._policy.late, "late", why)
        self._apply(found.rewritten, self._policy.rewritten, "rewritten", "they changed after they were ingested")
        self._apply_unclear(found.unclear)
        self._waiting += files_to_take_up(found, self._policy)
        position = self._forget_gone(position, listed)
        return position if self._waiting else self._looked(position, listed)

    def take_up(self, position: Position) -> Position:
        """Name waiting files, so that the next plan has them; a few at a time."""
        taken = self._some(position.marks)
        if not taken or self._listed is None:
            return position
        self._waiting = self._waiting[len(taken) :]
        files = dict(position.marks.files) | {path: RecordsRead(records=0) for path in taken}
        held_back = {
            **position.seen.held_back,
            **{path: self.given_up[path] for path in taken if path in self.given_up},
        }
        seen = replace(position.seen, held_back=held_back)
        position = replace(position, marks=replace(position.marks, files=files), seen=seen)
        return position if self._waiting else self._looked(position, self._listed)

    def _some(self, marks: Marks) -> list[str]:
        """As many of the waiting files as a payload can name beside those that it names already."""
        named = marks.in_progress
        room, count = _AT_ONCE_BYTES - sum(map(entry_bytes, named)), 0
        for path in self._waiting[: max(0, _AT_ONCE - len(named))]:
            room -= entry_bytes(path)
            if room < 0:
                break
            count += 1
        # One that is too long for that is taken alone, when nothing else is in progress.
        return self._waiting[: count or int(not named)]

    def _apply(self, paths: tuple[str, ...], policy: str, what: str, why: str) -> None:
        if not paths:
            return
        if policy == "fail":
            raise BadData(
                f"{len(paths)} files are {what}: {why}: {_listed_names(paths)}. Nothing was read, since"
                f" {what}_files.policy is fail. {_ONE_BY_ONE[what]}",
                kind=Kind(f"{what}_files"),
            )
        tell(self._progress, paths, f"{what}: {why}; {_DONE[policy]}")
        if policy == "quarantine":
            self.given_up |= dict.fromkeys(paths, what)

    def _apply_unclear(self, paths: tuple[str, ...]) -> None:
        if not paths:
            return
        if self._policy.unclear == "fail":
            raise Refused(
                f"{len(paths)} files sort at or before the mark and are younger than the last look at the whole source,"
                f" but the ledgers that would say whether they were ingested are gone from the log:"
                f" {_listed_names(paths)}. Look which of them the table holds. One that it holds: blizzard checkpoint"
                f" skip --file NAME --yes. One that it does not: blizzard checkpoint reset --file NAME --from-record 0"
                f" --yes. Or all at once, for one run: --set late_files.unclear=ignore if it holds every one of"
                f" them (others would be lost), =ingest if it holds none (others would be doubled).",
                kind=Kind.LATE_UNCLEAR,
            )
        tell(
            self._progress,
            paths,
            f"late or rewritten, no ledger is left that says which; {_DONE[self._policy.unclear]}",
        )

    def _forget_gone(self, position: Position, listed: Listed) -> Position:
        """Files that were held back before anything was taken of them, and are no longer in the source."""
        gone = tuple(
            path
            for path, progress in sorted(position.marks.in_progress.items())
            if progress.records == 0 and find_file(listed.files, path) is None
        )
        if not gone:
            return position
        tell(self._progress, gone, "gone from the source before anything of them was read")
        files = {path: p for path, p in position.marks.files.items() if path not in gone}
        return replace(position, marks=replace(position.marks, files=files))

    def _looked(self, position: Position, listed: Listed) -> Position:
        """With what this look says about the next one; only once everything late that it found has been named."""
        if not listed.is_full:
            return position
        seen = replace(position.seen, relist_watermark_ms=listed.at_ms, relist_names=len(listed.files))
        young = young_files(listed.files, replace(position, seen=seen), self._policy.grace_ms)
        seen, settled = replace(seen, young_names=digest_files(young)), self.found.settled_names
        if settled is not None:
            if files_to_take_up(self.found, self._policy):  # they are named now
                settled = digest_files(settled_files(listed.files, position))
            seen = replace(seen, settled_names=settled, names_compared_ms=listed.at_ms)
        return replace(position, seen=seen)


def _listed_names(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:5]) + (", …" if len(paths) > 5 else "")


def tell(progress: Progress, files: tuple[str, ...], what: str) -> None:
    if files:
        progress.warn(f"{len(files)} files are {what}: {_listed_names(files)}")
