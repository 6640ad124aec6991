"""A source, its table and quarantine, copies of both, and the books of everything that was ever put into the source."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from blizzard.core.events import Committed, Event
from blizzard.core.ledger import decode_ledger
from blizzard.core.overflow import batch_name
from blizzard.core.recover import Resume
from blizzard.errors import BlizzardError
from blizzard.run.after_ingest import Cleaning
from blizzard.run.recover import decide_start
from blizzard.source.cleaning import SourceCleaner
from blizzard.store import open_store
from tests.flows.backups import Elsewhere
from tests.flows.in_process import Told
from tests.flows.replaying import mendable
from tests.ingesting import ids, line
from tests.simulation.invariants import (
    EVERYTHING_IS_IN,
    NO_ROW_TWICE,
    NOT_IN_QUARANTINE_TWICE,
    NOTHING_VANISHES,
    ROW_OR_BAD,
    holds,
)

_ID = re.compile(rb'"id":"?(\d+)')
_BAD = re.compile(rb'"id":"|"name":[{]')  # as `mendable` and `hopeless` write them
_LONG_AGO = 1_000_000_000


class _Watching(Told):
    """Knows at once that a commit lets records go: what the same run cleans later must not be their last copy."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def see(self, event: Event) -> None:
        super().see(event)
        if isinstance(event, Committed):
            self._world.notice(batch.name for batch in event.result.dropped)
            self._world.notice_cut(piece.path for piece in event.result.slices if piece.cut)


def hopeless(record_id: int) -> bytes:
    """Bad however it is read, and still with an id that a test can see."""
    return b'{"id":"%d no number"}' % record_id


class World:
    """`room`: how many records the quarantine may hold; then the oldest leave it."""

    def __init__(self, folder: Path, room: int | None = None) -> None:
        self.folder = folder
        self.flow = Elsewhere(folder)
        self.flow.always = {"max_quarantined": room, "overflow": "drop_oldest"}
        self.flow.told = _Watching(self)
        self.files = self.records = self.drivers = 0
        self.let_go: set[int] = set()  # a person deleted, purged or skipped it, or put a copy without it back
        self.dropped: set[int] = set()  # it had to leave the quarantine, at some time
        self._noticed: set[str] = set()  # batches that had to leave
        self._in_batch: dict[str, set[int]] = {}  # what they had
        self._read: set[str] = set()

    def add_file(self, kinds: str, *, late: bool = False) -> None:
        """A record for each letter: g is good, m bad until it is read in another way, h bad for ever. A late file comes
        with its folder, before all others by name, and with old times."""
        makers = {"g": lambda n: line(n).rstrip(), "m": mendable, "h": hopeless}
        content = b"".join(makers[kind](self.records + i) + b"\n" for i, kind in enumerate(kinds))
        self.files, self.records = self.files + 1, self.records + len(kinds)
        if not late:
            (self.flow.src).mkdir(exist_ok=True)
            (self.flow.src / f"m{self.files:04d}.ndjson").write_bytes(content)
            return
        staged = self.folder / "staging" / f"a{self.files:04d}"
        staged.mkdir(parents=True)
        (staged / "x.ndjson").write_bytes(content)
        for path in (staged / "x.ndjson", staged):
            os.utime(path, (_LONG_AGO, _LONG_AGO))
        staged.rename(self.flow.src / staged.name)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.flow.src)) for path in self.flow.src.rglob("*.ndjson"))

    def second_driver(self) -> Elsewhere:
        """Another process at the same place. No two share a run id."""
        self.drivers += 1
        flow = self.flow
        given: dict[str, Any] = {"clock": flow.clock, "later_ms": flow.later_ms, "always": flow.always}
        return Elsewhere(self.folder, runs=1000 * self.drivers, told=_Watching(self), **given)

    def cleaning(self, *, deletes: bool) -> Cleaning:
        archive = None if deletes else open_store(str(self.folder / "archive"))
        return Cleaning(cleaner=SourceCleaner(source=self.flow.source.location, archive=archive), keep_ms=0)

    # Where records are.

    def rows(self, flow: Elsewhere | None = None) -> Counter[int]:
        return Counter(ids((flow or self.flow).table))

    def bad(self, *, live_only: bool) -> Counter[int]:
        own = [r for r in self.flow.quarantined() if r["pipeline"] == self.flow.pipeline]
        return Counter(_id_of(r["raw"]) for r in own if not (live_only and r.get("orphaned")))

    def in_files(self, root: Path, only: re.Pattern[bytes] = re.compile(b"")) -> set[int]:
        paths = [root] if root.is_file() else root.rglob("*.ndjson*")
        return {_id_of(one) for path in paths for one in path.read_bytes().splitlines() if only.search(one)}

    def somewhere(self) -> set[int]:
        files = self.in_files(self.flow.src) | self.in_files(self.folder / "archive")
        return files | set(self.rows()) | set(self.bad(live_only=False))

    def notice(self, names: Iterable[str]) -> None:
        """These batches have to leave the quarantine. If nobody has their records then, drop_oldest asks for that; but
        from now on nobody may take away a source file that has the only copy."""
        for path in set(Path(self.flow.quarantine.root).glob("*.parquet")) - {Path(name) for name in self._read}:
            self._read.add(str(path))
            for row in pq.read_table(path, columns=["batch_id", "sequence", "raw"]).to_pylist():
                name = batch_name(row["batch_id"], row["sequence"])
                self._in_batch.setdefault(name, set()).add(_id_of(row["raw"]))
        ids = {n for name in set(names) - self._noticed for n in self._in_batch[name]}
        self._noticed |= set(names)
        self.dropped |= ids
        self.let_go |= ids - set(self.rows()) - self.in_files(self.flow.src) - self.in_files(self.folder / "archive")

    def notice_cut(self, paths: Iterable[str]) -> None:
        """Bad records of these files never got into the quarantine: they are more than it may hold."""
        for path in paths:
            self.dropped |= self.in_files(self.flow.src / path, only=_BAD)

    def let_go_of_what_is_gone(self) -> None:
        """A person has put something back that lacks it, and there is no other copy."""
        self.let_go |= set(range(self.records)) - self.somewhere()

    def give_up(self) -> None:
        """A person goes on without what is neither a row nor live in quarantine, even if an orphan of it is there."""
        self.let_go |= set(range(self.records)) - set(self.rows()) - set(self.bad(live_only=True))

    # What a person keeps and puts back.

    def keep(self, slot: int) -> None:
        for name, root in self._roots():
            kept = self.folder / f"{name}-{slot}"
            shutil.rmtree(kept, ignore_errors=True)
            if root.exists():
                shutil.copytree(root, kept)

    def put_back(self, what: str, slot: int, *, whole: bool = True) -> bool:
        """`whole`: else only the log, and the Parquet files since are still there."""
        kept, root = self.folder / f"{what}-{slot}", dict(self._roots())[what]
        if not kept.exists():
            return False
        before = self.bad(live_only=False)
        if not whole and not all((root / path.name).exists() for path in kept.glob("*.parquet")):
            return False  # an older folder was put back meanwhile: this log would name files that are gone
        if not whole:
            kept, root = kept / "_delta_log", root / "_delta_log"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(kept, root)
        if whole:
            self.let_go |= set(before) - set(self.bad(live_only=False))
        if whole or self.is_in_step():  # with an older log beside an older table, nobody counts on what came later
            self.let_go_of_what_is_gone()
        return True

    def _roots(self) -> tuple[tuple[str, Path], ...]:
        return ("table", self.flow.table), ("quarantine", Path(self.flow.quarantine.root))

    # What must hold.

    def is_in_step(self) -> bool:
        """Whether a run would go on from here with nothing to settle first."""
        flow = self.flow
        try:
            found = decide_start(flow.open(), pipeline="p", source=flow.source.identity, scan_commits=100)
            return isinstance(found, Resume) and flow.quarantine.is_settled(found.position)
        except BlizzardError:
            return False

    def check(self) -> None:
        found = [decode_ledger(commit.user_metadata) for commit in self.flow.open().scan_back()]
        ledgers = [ledger for ledger in found if ledger is not None]
        self.notice(name for ledger in ledgers for name in ledger.dropped)
        self.notice_cut(entry.path for ledger in ledgers for entry in ledger.entries if entry.cut)
        rows, live = self.rows(), self.bad(live_only=True)
        holds(NO_ROW_TWICE, max(rows.values(), default=0) <= 1, rows)
        holds(NOT_IN_QUARANTINE_TWICE, max(live.values(), default=0) <= 1, live)
        if self.is_in_step():
            holds(ROW_OR_BAD, not rows.keys() & live.keys(), rows.keys() & live.keys())
            gone = set(range(self.records)) - self.let_go - self.somewhere()
            holds(NOTHING_VANISHES, not gone, gone)

    def check_all_in(self, flow: Elsewhere | None = None) -> None:
        """After a run that ended well, of this table or of a copy of it."""
        found = self.rows(flow) + self.bad(live_only=True)
        wanted = self.in_files(self.flow.src) - self.let_go - self.dropped
        wrong = {n: found[n] for n in wanted if found[n] != 1}
        holds(EVERYTHING_IS_IN, not wrong, wrong)


def _id_of(raw: bytes) -> int:
    found = _ID.search(raw)
    assert found is not None, raw
    return int(found[1])


def vacuum(root: Path) -> None:
    DeltaTable(str(root)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
