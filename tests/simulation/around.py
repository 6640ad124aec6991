"""A source, its table and quarantine, copies of both, and the books of everything that was ever put into the source."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

from deltalake import DeltaTable

from blizzard.core.recover import Resume
from blizzard.errors import BlizzardError
from blizzard.run.after_ingest import Cleaning
from blizzard.run.recover import decide_start
from blizzard.source.cleaning import SourceCleaner
from blizzard.store import open_store
from tests.flows.backups import Elsewhere
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
_LONG_AGO = 1_000_000_000


def hopeless(record_id: int) -> bytes:
    """Bad however it is read, and still with an id that a test can see."""
    return b'{"id":"%d no number"}' % record_id


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flow = Elsewhere(folder)
        self.files = self.records = self.drivers = 0
        self.let_go: set[int] = set()  # a person deleted, purged or skipped it, or put a copy without it back

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
        return Elsewhere(self.folder, clock=flow.clock, later_ms=flow.later_ms, runs=1000 * self.drivers)

    def cleaning(self, *, deletes: bool) -> Cleaning:
        archive = None if deletes else open_store(str(self.folder / "archive"))
        return Cleaning(cleaner=SourceCleaner(source=self.flow.source.location, archive=archive), keep_ms=0)

    # Where records are.

    def rows(self, flow: Elsewhere | None = None) -> Counter[int]:
        return Counter(ids((flow or self.flow).table))

    def bad(self, *, live_only: bool) -> Counter[int]:
        found = (r for r in self.flow.quarantined() if not (live_only and r.get("orphaned")))
        return Counter(_id_of(r["raw"]) for r in found)

    def in_files(self, root: Path) -> set[int]:
        paths = [root] if root.is_file() else root.rglob("*.ndjson*")
        return {_id_of(one) for path in paths for one in path.read_bytes().splitlines()}

    def somewhere(self) -> set[int]:
        files = self.in_files(self.flow.src) | self.in_files(self.folder / "archive")
        return files | set(self.rows()) | set(self.bad(live_only=False))

    def let_go_of_what_is_gone(self) -> None:
        """A person has put something back that lacks it, and there is no other copy."""
        self.let_go |= set(range(self.records)) - self.somewhere()

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
        wanted = self.in_files(self.flow.src) - self.let_go
        wrong = {n: found[n] for n in wanted if found[n] != 1}
        holds(EVERYTHING_IS_IN, not wrong, wrong)


def _id_of(raw: bytes) -> int:
    found = _ID.search(raw)
    assert found is not None, raw
    return int(found[1])


def vacuum(root: Path) -> None:
    DeltaTable(str(root)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
