"""Decides whether a position fits what the table holds. Every command asks here; a refusal has a reason and a way out.

What the table holds is followed version by version, never file by file: after OPTIMIZE and RESTORE, in either order, it
does not help to know who removed a file. A commit of the pipeline proves what the table held then. Another commit
changes that only if it took rows away or brought some back. Then the files must be those of an older version.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from blizzard.core.kinds import Kind
from blizzard.core.ledger import Ledger, decode_ledger
from blizzard.core.log import CommitFacts, FileActions, History, fence_version, positions_in, rewrites_table
from blizzard.core.refuse import Refuse, import_commands

FileKey = tuple[str, str]  # path and deletion vector: together they say which rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """One commit of the pipeline."""

    sequence: int
    commit: CommitFacts
    actions: FileActions
    ledger: Ledger | None
    superseded: tuple[int, ...] | None  # the sequences it took back; None: neither ledger nor payload can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The table holds the pipeline's rows as they were after this sequence. Zero: none."""

    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """Since this version, nothing in the log says what the table holds."""

    version: int
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A pipeline's past: its commits, and what the table held after every version."""

    pipeline: str
    own: Mapping[int, Own]  # by sequence
    held: Mapping[int, Held | Unclear]  # by version
    newest: int  # version
    files: ActiveFiles
    _after: list[_After] = field(default_factory=list)  # oldest first; filled on first use

    @property
    def now(self) -> Held | Unclear:
        return self.held[self.newest]

    @property
    def first(self) -> int:
        """The oldest sequence whose commit is still in the log."""
        return min(self.own, default=1)

    def rows_after(self, sequence: int) -> frozenset[int] | None:
        """The sequences whose rows belong in the table after this one. None: the log no longer says. Sequences older
        than the log are left out, but -N is in the set if sequence N of them was taken back."""
        if self._digest_after(sequence) is None:
            return None
        rows: set[int] = set()
        for own in (self.own[s] for s in sorted(self.own) if s <= sequence):
            _turn_rows(rows, own, self.first)
        return frozenset(rows)

    def _digest_after(self, sequence: int) -> int | None:
        """Equal if rows_after is equal. A set for every sequence would take memory with the square of the log."""
        if not self._after:
            self._after.append(_After(sequence=self.first - 1, digest=0))
            rows: set[int] = set()
            for own in (self.own[s] for s in sorted(self.own)):
                digest = self._after[-1].digest
                if digest is not None and own.superseded is not None:
                    for changed in _turn_rows(rows, own, self.first):
                        digest ^= _hash(str(changed))
                self._after.append(_After(sequence=own.sequence, digest=None if own.superseded is None else digest))
        if not self._after[0].sequence <= sequence <= self._after[-1].sequence:
            return None
        return self._after[bisect_right(self._after, sequence, key=lambda after: after.sequence) - 1].digest

    def superseded_by(self, sequence: int) -> Own | None:
        """The commit that took this sequence back."""
        return next((o for o in self.own.values() if o.superseded is not None and sequence in o.superseded), None)

    def fits(self, sequence: int, at: Held | Unclear) -> bool:
        wanted = self._digest_after(sequence)
        return wanted is not None and isinstance(at, Held) and self._digest_after(at.sequence) == wanted

    def fitting_version(self, sequence: int) -> int | None:
        """The newest version that holds what this sequence says."""
        return next((v for v in sorted(self.held, reverse=True) if self.fits(sequence, self.held[v])), None)

    def newest_within(self, held: Held) -> int | None:
        """The newest sequence that still counts and whose rows the table has, perhaps among others. A rollback to it
        removes the others and, unlike a RESTORE, nothing that other writers wrote."""
        there = self.rows_after(held.sequence)
        taken_back = {s for own in self.own.values() for s in own.superseded or ()}
        found, rows, lacking = 0 if self.first == 1 else None, set[int](), 0
        for own in (self.own[s] for s in sorted(self.own)):
            if there is None or own.superseded is None:
                return None
            for changed in _turn_rows(rows, own, self.first):
                lacking += 0 if changed in there else 1 if changed in rows else -1
            if not lacking and own.sequence not in taken_back:
                found = own.sequence
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _After:
    sequence: int
    digest: int | None


def _turn_rows(rows: set[int], own: Own, first: int) -> set[int]:
    """Change `rows` to what they are after this commit. Returns what came in or went out."""
    out = {s for s in own.superseded or () if s in rows}
    new = {-s for s in own.superseded or () if s < first and -s not in rows}
    new |= {own.sequence} if own.actions.adds else set()
    rows -= out
    rows |= new
    return out | new


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


class ActiveFiles:
    """The files of the table, followed from a base through every commit. Equal digests: equal files."""

    def __init__(self, base: frozenset[str]) -> None:
        self._base = base
        self._added: set[FileKey] = set()
        self._removed: dict[str, str] = {}  # files of the base: path and deletion vector, which only the Remove shows
        self.digest = 0

    def apply(self, actions: FileActions) -> None:
        for path, vector in map(_key, actions.removes.values()):
            if (path, vector) in self._added:
                self._added.discard((path, vector))
                self._turn("+", path, vector)
            elif path in self._base and path not in self._removed:
                self._removed[path] = vector
                self._turn("-", path, vector)
        for path, vector in map(_key, actions.adds.values()):
            if self._removed.get(path) == vector:
                del self._removed[path]
                self._turn("-", path, vector)
            # An active file may be added once more, with other statistics.
            elif (path, vector) not in self._added and (path not in self._base or path in self._removed):
                self._added.add((path, vector))
                self._turn("+", path, vector)

    def holds(self, add: Mapping[str, Any]) -> bool:
        """Whether the file is part of the table exactly as this Add says."""
        path, vector = _key(add)
        return (path, vector) in self._added or (path in self._base and path not in self._removed and not vector)

    def _turn(self, *words: str) -> None:
        """A second call with the same words undoes the first."""
        self.digest ^= _hash("\n".join(words))


def _key(action: Mapping[str, Any]) -> FileKey:
    vector = action.get("deletionVector") or {}
    named = [str(vector.get(name) or "") for name in ("storageType", "pathOrInlineDv", "offset")] if vector else []
    return unquote(action["path"]), "|".join(named)


def judge_history(history: History, pipeline: str) -> Judged:
    """Everything that the log still says about one pipeline."""
    own = {o.sequence: o for o in _own_commits(history, pipeline)}
    first = min(own.values(), key=lambda o: o.commit.version, default=None)
    files = ActiveFiles(history.base or frozenset())
    held: dict[int, Held | Unclear] = {}
    versions_of: dict[int, list[int]] = {}  # by digest
    by_version = {o.commit.version: o for o in own.values()}
    before_first = _before_first(history, first)
    now: Held | Unclear = Held(sequence=0)
    for commit, actions in reversed(history.commits):
        if commit.version > history.oldest:
            files.apply(actions)
        if commit.version in by_version:
            now = Held(sequence=by_version[commit.version].sequence)
        elif first is None or commit.version < first.commit.version:
            now = before_first(commit.version)
        elif rewrites_table(commit):
            same = versions_of.get(files.digest, []) if history.base is not None else []
            now = _as_before(commit, {v: held[v] for v in same})
        held[commit.version] = now
        versions_of.setdefault(files.digest, []).append(commit.version)
    return Judged(pipeline=pipeline, own=own, held=held, newest=history.newest, files=files)


def _own_commits(history: History, pipeline: str) -> Iterable[Own]:
    for commit, actions in history.commits:
        sequence = fence_version(commit, pipeline)
        if not sequence:
            continue  # another writer's, or the one that made the table
        ledger = decode_ledger(commit.user_metadata)
        if ledger is not None and (ledger.pipeline, ledger.sequence) != (pipeline, sequence):
            ledger = None
        superseded = ledger.superseded if ledger is not None else _superseded_in_payload(commit, pipeline)
        yield Own(sequence=sequence, commit=commit, actions=actions, ledger=ledger, superseded=superseded)


def _superseded_in_payload(commit: CommitFacts, pipeline: str) -> tuple[int, ...] | None:
    for position in positions_in(commit.txns):
        if position.pipeline == pipeline:
            taken_back = position.quarantine.rolled_back
            return () if taken_back is None else tuple(range(taken_back[0], taken_back[1] + 1))
    return None


def _before_first(history: History, first: Own | None) -> Callable[[int], Held | Unclear]:
    """What the table held before the pipeline's oldest commit in the log: the sequence before it, unless somebody took
    rows away in between."""
    if first is None or first.sequence == 1:
        return lambda _: Held(sequence=0)
    rewrite = next((c for c, _ in history.commits if c.version < first.commit.version and rewrites_table(c)), None)
    stands_on, sequence = -1 if rewrite is None else rewrite.version, first.sequence - 1
    unclear = Unclear(version=stands_on, operation="" if rewrite is None else rewrite.operation)
    return lambda version: Held(sequence=sequence) if version >= stands_on else unclear


def _as_before(commit: CommitFacts, same: Mapping[int, Held | Unclear]) -> Held | Unclear:
    """After rows were taken away or brought back, the table holds what an older version with the same files held. If a
    RESTORE names a version, only that one counts: another may have the same files because somebody deleted rows on
    purpose. Otherwise all versions with the same files must agree."""
    unclear = Unclear(version=commit.version, operation=commit.operation)
    if commit.restored_to is not None:
        return same.get(commit.restored_to, unclear)
    found = set(same.values())
    return found.pop() if len(found) == 1 else unclear


def judge_position(judged: Judged, sequence: int) -> Refuse | None:
    """Refuses if the position of this sequence is not what the table holds now."""
    if judged.fits(sequence, judged.now):
        return None
    version = judged.fitting_version(sequence)
    undo = (
        f" To undo that, RESTORE the table to version {version}: the next run then goes on by itself, and what anybody"
        f" else wrote since that version is taken back."
        if version is not None and version < judged.newest
        else ""
    )
    match judged.now:
        case Unclear(version=rewritten, operation=operation):
            message = (
                f"version {rewritten} of the table is a {_named(operation)}, and nothing in the log says what it left"
                f" of the rows of pipeline {judged.pipeline!r}, whose position is sequence {sequence}.{undo}"
                f" If the table is meant to be as it is, and you know that it holds every row up to there:"
                f" {import_commands(judged.pipeline, sequence)}."
            )
        case Held(sequence=held) as now:
            back, to = judged.superseded_by(held), judged.newest_within(now)
            wrong = (
                f"the rows that version {back.commit.version} had taken back are part of it again"
                if back is not None
                else f"it holds what it held after sequence {held}"
            )
            doing = "take them out again and" if back is not None else "go on from there and"
            again = (
                ""
                if to is None
                else f" To {doing} read again what came after: blizzard checkpoint rollback --to {to} --yes."
                if to < sequence
                else f" To take them out again: blizzard checkpoint rollback --to {to} --yes."
            )
            message = (
                f"{_rewrite_named(judged)} changed the table: {wrong}, while the position of pipeline"
                f" {judged.pipeline!r} is sequence {sequence}.{again}{undo}"
            )
    return Refuse(kind=Kind.TABLE_REWRITTEN, message=message)


def _rewrite_named(judged: Judged) -> str:
    """The commit that left the table as it is now, as the first words of a sentence."""
    version = judged.newest
    while version - 1 in judged.held and judged.held[version - 1] == judged.now:
        version -= 1
    return f"version {version}"


def _named(operation: str) -> str:
    return operation or "commit that removes files and does not say why"
