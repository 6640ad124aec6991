"""Finds files that the mark has passed although nobody read them (late), or that changed after they were read.

A late file sorts at or before its mark, and no commit took it. A rewritten file was taken and has changed since. The
ledgers name every file that was taken, so a full listing is compared by names; file times do not matter. If a ledger
that would have to know is gone, a file that seems young is "unclear". It is never guessed: reading a file twice doubles
its records, leaving it out loses them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from blizzard.core.ledger import ledger_versions
from blizzard.core.log import CommitFacts, fence_version, positions_in
from blizzard.core.look import Listed, digest_count, digest_files, salted, settled_files, settled_in, young_files
from blizzard.core.position import GIVEN_UP, Marks, Position, RecordsRead, Seen, entry_bytes, prefix_of
from blizzard.core.types import SourceFile, find_file, seen_since

GRACE_MS = 3600 * 1000
# In a table with no more versions than this, all ledgers are read whenever that may help.
FEW_VERSIONS = 100
# How many late files are taken up at once: the payload names each until it is finished.
_AT_ONCE = 500
_AT_ONCE_BYTES = 48 * 1024
# Limit for the names of files that are gone: about 250 names.
_GONE_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LatePolicy:
    """What to do about late and rewritten files, and how far back to look for them."""

    late: str = "ingest"  # or quarantine, fail, ignore
    rewritten: str = "report"  # or ingest, quarantine, fail, ignore
    unclear: str = "fail"  # or ingest, ignore: the ledgers that would know are gone
    grace_ms: int = GRACE_MS
    relist_max_names: int = 10_000
    relist_every_ms: int = 86_400 * 1000

    @property
    def leaves_alone(self) -> str:
        """The part of the policy that decides which late and rewritten files are left alone. A digest that includes
        such files is salted with this, so that another policy finds them again. `unclear` is not part of it: an unclear
        file that was left alone stays so for good."""
        return f"{self.late} {self.rewritten}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What to list: the whole source, or in each part only the names after the one in `after`. Parts not named there
    are new and are listed whole. `also` are names to look at wherever they sort."""

    is_full: bool = True
    after: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()


EVERYTHING = Scope()


def plan_listing(position: Position, policy: LatePolicy, *, now_ms: int) -> Scope:
    """A full listing if it is cheap or the last one is long ago, else from where a late name may still appear."""
    source = position.marks
    names, looked_ms = position.seen.relist_names, position.seen.relist_watermark_ms
    begun = source.last_committed_file is not None or source.prefix_marks
    if not begun or names is None or looked_ms is None:
        return EVERYTHING
    if names <= policy.relist_max_names or _is_due(looked_ms, policy, now_ms):
        return EVERYTHING
    marks = dict(source.prefix_marks)
    if source.last_committed_file is not None:
        marks[""] = source.last_committed_file
    after = {part: min(mark, position.seen.list_from.get(part, mark)) for part, mark in marks.items()}
    also = [path for path in source.in_progress if path <= after.get(prefix_of(path, source.marks_per), "")]
    return Scope(is_full=False, after=after, also=tuple(sorted(also)))


def _is_due(last_ms: int, policy: LatePolicy, now_ms: int) -> bool:
    """A last time in the future comes from a wrong clock and does not count."""
    return not 0 <= now_ms - last_ms < policy.relist_every_ms


def as_looked_at(position: Position, now_ms: int) -> Position:
    """For a position without ledgers, because it was adopted or imported: only files that appear from now on, by the
    store's clock, can be late."""
    seen = Seen(held_back=position.seen.held_back, list_from=position.seen.list_from)
    return replace(position, seen=replace(seen, late_from_ms=now_ms, relist_watermark_ms=now_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexpected:
    late: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()  # late or rewritten: the ledgers that would know are gone
    # The digest of all names that the mark has passed; None if only those that seem young were compared.
    settled_names: str | None = None
    commits_read: int = 0

    def __bool__(self) -> bool:
        return bool(self.late or self.rewritten or self.unclear)


def files_to_take_up(found: Unexpected, policy: LatePolicy) -> tuple[str, ...]:
    """The files to read or quarantine although the mark has passed them. Under other policies they stay unread."""
    taken = found.late if policy.late in ("ingest", "quarantine") else ()
    taken += found.rewritten if policy.rewritten in ("ingest", "quarantine") else ()
    return taken + (found.unclear if policy.unclear == "ingest" else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Files that will be read although the mark has passed them, and that no position names yet."""

    paths: tuple[str, ...] = ()
    # Files that go to quarantine unread, and why. Includes those that the position already names.
    given_up: Mapping[str, str] = field(default_factory=dict)


def wait_for(found: Unexpected, position: Position, policy: LatePolicy) -> Waiting:
    given_up = {path: why for path, why in position.seen.held_back.items() if why in GIVEN_UP}
    given_up |= dict.fromkeys(found.late, "late") if policy.late == "quarantine" else {}
    given_up |= dict.fromkeys(found.rewritten, "rewritten") if policy.rewritten == "quarantine" else {}
    return Waiting(paths=files_to_take_up(found, policy), given_up=given_up)


def take_up(position: Position, waiting: Waiting) -> tuple[Position, Waiting]:
    """Name waiting files in the position, a few at a time, so that the next plan has them."""
    taken = _fitting(waiting.paths, position.marks)
    if not taken:
        return position, waiting
    files = dict(position.marks.files) | {path: RecordsRead(records=0) for path in taken}
    reasons = {path: waiting.given_up[path] for path in taken if path in waiting.given_up}
    position = replace(
        position,
        marks=replace(position.marks, files=files),
        seen=replace(position.seen, held_back={**position.seen.held_back, **reasons}),
    )
    return position, replace(waiting, paths=waiting.paths[len(taken) :])


def _fitting(paths: tuple[str, ...], marks: Marks) -> tuple[str, ...]:
    """As many of these as the payload has room for."""
    named = marks.in_progress
    room, count = _AT_ONCE_BYTES - sum(map(entry_bytes, named)), 0
    for path in paths[: max(0, _AT_ONCE - len(named))]:
        room -= entry_bytes(path)
        if room < 0:
            break
        count += 1
    # A name that is too long is taken alone, when nothing else is in progress.
    return paths[: count or int(not named)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Files of which nothing was taken yet and which are no longer in the source."""

    kept: tuple[str, ...] = ()  # they stay named: otherwise the mark says that they are done
    forgotten: tuple[str, ...] = ()  # the mark has not passed them, or there are too many


def find_gone(position: Position, listed: Listed) -> Gone:
    kept: list[str] = []
    forgotten: list[str] = []
    room = _GONE_BYTES
    for path, progress in sorted(position.marks.in_progress.items()):
        if progress.records or find_file(listed.files, path) is not None:
            continue
        room -= entry_bytes(path)
        (kept if position.marks.is_passed(path) and room >= 0 else forgotten).append(path)
    return Gone(kept=tuple(kept), forgotten=tuple(forgotten))


def without_files(position: Position, paths: Collection[str]) -> Position:
    files = {path: progress for path, progress in position.marks.files.items() if path not in paths}
    return replace(position, marks=replace(position.marks, files=files))


def after_look(position: Position, listed: Listed, found: Unexpected, policy: LatePolicy) -> Position:
    """The position with what the next look needs from this one. It must already name every late file that was found."""
    if not listed.is_full:
        return position
    seen = replace(position.seen, relist_watermark_ms=listed.at_ms, relist_names=len(listed.files))
    young = young_files(listed.files, replace(position, seen=seen), policy.grace_ms)
    digest, settled = digest_files(young), found.settled_names
    if settled is not None and files_to_take_up(found, policy):  # the position names them now
        settled = digest_files(settled_files(listed.files, position))
    if _is_left_alone(found, policy):
        digest = salted(digest, policy.leaves_alone)
        settled = None if settled is None else salted(settled, policy.leaves_alone)
    seen = replace(seen, young_names=digest)
    if settled is not None:
        seen = replace(seen, settled_names=settled, names_compared_ms=listed.at_ms)
    return replace(position, seen=seen)


def _is_left_alone(found: Unexpected, policy: LatePolicy) -> bool:
    taken = set(files_to_take_up(found, policy))
    return any(path not in taken for path in (*found.late, *found.rewritten))


def compare_with_ledgers(
    listed: Listed, position: Position, commits: Iterable[CommitFacts], policy: LatePolicy
) -> Unexpected:
    """`commits` run backwards and are read only as far as needed. Files that `after:NAME` left out are not late."""
    digest = None
    if listed.is_full and _may_compare_names(position, policy, listed.at_ms):
        digest = digest_files(settled_files(listed.files, position))
        if position.seen.settled_names in (digest, salted(digest, policy.leaves_alone)):
            return Unexpected(settled_names=position.seen.settled_names)  # an idle run reads no ledger
        if not _compares_names(digest, position, policy, listed.at_ms):
            digest = None
    young = _young(listed, position, policy)
    unknown = dict(young) if digest is None else {file.path: file for file in settled_files(listed.files, position)}
    past = Past(position)
    rewritten = past.look_for(unknown, commits)
    late = {path for path in unknown if not past.may_hold(path) or (path in young and past.is_complete)}
    return Unexpected(
        late=tuple(sorted(late)),
        rewritten=tuple(sorted(rewritten)),
        unclear=tuple(sorted(unknown.keys() & young.keys() - late)),
        settled_names=digest,
        commits_read=past.commits_read,
    )


def _may_compare_names(position: Position, policy: LatePolicy, now_ms: int) -> bool:
    """Whether all names may be compared now. With many names that is done only once in a while."""
    names, compared_ms = position.seen.relist_names, position.seen.names_compared_ms
    is_small = names is None or names <= policy.relist_max_names
    return is_small or compared_ms is None or _is_due(compared_ms, policy, now_ms)


def _compares_names(digest: str, position: Position, policy: LatePolicy, now_ms: int) -> bool:
    """Whether to read all ledgers. If there are at least as many names as before, some are new or changed: always. If
    there are fewer, somebody most likely deleted old files, as retention rules do all the time: with a long log, only
    once in a while. Until then the names do not count as compared."""
    known, compared_ms = position.seen.settled_names, position.seen.names_compared_ms
    if known is None or compared_ms is None or position.on.delta_version <= FEW_VERSIONS:
        return True
    return digest_count(digest) >= digest_count(known) or _is_due(compared_ms, policy, now_ms)


def _young(listed: Listed, position: Position, policy: LatePolicy) -> dict[str, SourceFile]:
    """Files that the mark has passed, that the position does not name, and that may be younger than the last full look.
    If that look had a clock that was ahead, it still hides nothing that came after it."""
    grace_ms, looked_ms = policy.grace_ms, min(position.seen.relist_watermark_ms or 0, listed.at_ms)
    known_ms, is_settled = max(looked_ms - grace_ms, position.seen.late_from_ms), settled_in(position)
    young = {file.path: file for file in seen_since(listed.files, known_ms) if is_settled(file.path)}
    # Files that the last look saw, and that have not changed since, are not new.
    as_then = list(young_files(listed.files, position, grace_ms)) if young else []
    digest = digest_files(as_then)
    if position.seen.young_names in (digest, salted(digest, policy.leaves_alone)):
        for file in as_then:
            young.pop(file.path, None)
    return young


class Past:
    """What the ledgers know, and which names may have been taken by a commit whose ledger is gone."""

    def __init__(self, position: Position) -> None:
        self._position = position
        # Positions that know more than the ledgers: a file that one of them takes for done may have been ingested.
        self._positions: list[Marks | None] = []  # None: any file may have been ingested
        self.is_complete = True
        self.commits_read = 0

    def may_hold(self, path: str) -> bool:
        return any(position is None or position.is_finished(path) for position in self._positions)

    def look_for(self, unknown: dict[str, SourceFile], commits: Iterable[CommitFacts]) -> list[str]:
        """Remove the names that a ledger knows from `unknown`. Returns those whose version was another one then."""
        rewritten: list[str] = []
        superseded: set[int] = set()
        oldest = taken_over = None
        is_first = False
        for commit in commits if unknown else ():
            self.commits_read += 1
            sequence = fence_version(commit, self._position.pipeline)
            is_first = commit.version == 0 or sequence == 1
            # Without the fence it is somebody else's commit, whatever its metadata says.
            versions = ledger_versions(commit.user_metadata, self._position.pipeline, superseded) if sequence else None
            for path, version in versions or ():
                file = unknown.pop(path, None)  # the newest ledger that names a file counts
                if file is not None and (file.size_bytes, file.etag) != version:
                    rewritten.append(path)
            if sequence and sequence not in superseded:
                oldest = commit
                if versions is None:
                    self._lacks(commit)
                if self._position.seen.late_from_ms and (position := self._taken_over_in(commit)) is not None:
                    taken_over = position
            if not unknown or is_first:
                break
        if unknown and not is_first:
            self._lacks(oldest)
        if unknown and self._position.seen.late_from_ms:
            self._positions.append(taken_over)
        return rewritten

    def _lacks(self, commit: CommitFacts | None) -> None:
        """This commit or earlier ones have no ledger. They may have taken any file that its position has passed."""
        position = None if commit is None else _position_in(commit, self._position.pipeline)
        self._positions.append(None if position is None else position.marks)
        self.is_complete = False

    def _taken_over_in(self, commit: CommitFacts) -> Marks | None:
        """The commit's marks, if it is not older than the import or adoption. The oldest such commit is that one."""
        position = _position_in(commit, self._position.pipeline)
        return (
            position.marks
            if position is not None and position.seen.late_from_ms == self._position.seen.late_from_ms
            else None
        )


def _position_in(commit: CommitFacts, pipeline: str) -> Position | None:
    return next((s for s in positions_in(commit.txns) if s.pipeline == pipeline), None)
