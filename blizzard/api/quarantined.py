"""`quarantine`: what `blizzard dlq` lists, shows, exports, replays and purges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Literal

from blizzard.api.given import Given, given, spoken
from blizzard.api.results import Shown, copied
from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.errors import ConfigError
from blizzard.operate import quarantined, replay
from blizzard.quarantine import contents
from blizzard.store.uri import local_path
from blizzard.tasks.quarantine import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRecord:
    """One bad line, or one file that could not be read (then `raw` and `line` are None)."""

    source_file: str
    line: int | None  # the first is 1
    byte_offset: int | None
    raw: bytes | None  # the line as it was
    raw_bytes: int | None  # its length; more than that of `raw` if it was cut
    complete: bool  # all its bytes are here
    error_kind: str
    message: str
    column: str | None
    quarantined_at: datetime
    pipeline: str
    sequence: int
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported(contents.Exported, Shown):
    """`written` records; not written: `cut` lines that are not whole, and `files` that could not be read."""

    def __str__(self) -> str:
        return f"{count(self.written, 'record')} written; not written: {self.cut} cut, {count(self.files, 'file')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(replay.Replayed, Shown):
    """What happened to the records. If none passed, nothing was committed and the quarantine is unchanged."""

    def __str__(self) -> str:
        again = f"{count(self.replayed, 'record')} appended; {self.still_bad:,} failed again"
        return f"{again}; sequence {self.sequence}, version {self.delta_version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine(Shown):
    """The chosen records in quarantine, as they were when `quarantine` was called. The methods act on those that are
    there now."""

    quarantine: str  # where its table is
    records: int
    complete: int  # those with all their bytes, so that they can be exported and replayed
    of_other_tables: int
    groups: tuple[contents.Group, ...]  # by pipeline, file and kind of error
    _ask: Callable[[Mapping[str, Any]], Given] = field(repr=False, compare=False)
    _keys: Mapping[str, Any] = field(repr=False, compare=False)
    _chosen: Selection = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{count(self.records, 'record')} in quarantine; {self.complete:,} can be exported and replayed"

    def _table(self) -> tuple[list[str], list[list[object]]]:
        header = ["pipeline", "file", "kind", "records", "complete", "sequences", "newest"]
        return header, [
            [
                g.pipeline,
                g.source_file,
                g.error_kind,
                g.records,
                g.complete,
                f"{g.first_sequence}-{g.last_sequence}",
                f"{g.newest:%Y-%m-%d %H:%M:%S}Z",
            ]
            for g in self.groups
        ]

    @spoken
    def show(self, limit: int = 20) -> tuple[QuarantinedRecord, ...]:
        """Single records: where, why, and the line itself. At most `limit`."""
        names = QuarantinedRecord.__dataclass_fields__
        gave = self._ask(self._keys)
        with gave.looking() as assembly:
            selection = quarantined.own(assembly, self._chosen, gave.target)
            found = islice(contents.records(assembly.quarantine, selection), limit)
            return tuple(QuarantinedRecord(**{name: record[name] for name in names}) for record in found)

    @spoken
    def export(self, out: str, *, format: Literal["raw", "json"] = "raw", force: bool = False) -> Exported:  # noqa: A002
        """Write the lines to the local file `out`, to fix and ingest again. With `format` "json" all that is known of
        each record. `force` overwrites the file."""
        gave = self._ask(self._keys)
        with gave.looking() as assembly:
            selection = quarantined.own(assembly, self._chosen, gave.target)
            with contents.new_file(local_path(out, what="export"), overwrite=force) as file:
                done = contents.export_records(assembly.quarantine, selection, file, raw=format == "raw")
        return copied(Exported, done)

    @spoken
    def replay(
        self,
        *,
        source: str | None = None,
        committer: Literal["delta-rs", "delta-spark"] | None = None,
        accept_quarantine_loss: bool = False,
    ) -> Replayed:
        """Parse the lines once more, with the table's schema as it is now, and append those that pass, each exactly
        once. `source` is that of the pipeline, as for `ingest`."""
        if self._chosen.orphaned:
            raise ConfigError("orphans are not replayed: export them, and read the file as a source", kind=Kind.USAGE)
        gave = self._ask({**self._keys, "source.path": source, "table.committer": committer})
        with gave.ingesting(accepts_quarantine_loss=accept_quarantine_loss) as assembly:
            return copied(Replayed, replay.replay_request(assembly, assembly.open(), self._chosen))

    @spoken
    def purge(self, *, older_than: str | None = None, all: bool = False) -> int:  # noqa: A002
        """Delete the records for ever; how many. `older_than` is an age such as "30d". Without it and without a filter,
        `all` must say that everything is meant."""
        with self._ask(self._keys).looking() as assembly:
            return quarantined.purge_chosen(assembly, self._chosen, older_than=older_than, takes_all=all, applies=True)


@spoken
def quarantine(
    table: str | None = None,
    *,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    target: str | None = None,
    config: str | None = None,
    quarantine: str | None = None,
    pipeline: str | None = None,
    sequence: int | None = None,
    file: str | None = None,
    kind: str | None = None,
    orphans: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Quarantine:
    """The records that could not be ingested: how many, and by which file and kind of error.

    The result exports, replays and purges them. `quarantine` is its table if it is not beside `table`. Only records of
    `pipeline`, of one `sequence`, of one source `file`, or of one `kind` of error are chosen, where these are given;
    with `orphans` those that are no part of the table's history.
    """
    keys = {"table.path": table, "quarantine.path": quarantine}
    ask = partial(given, config=config, options=options, targets=targets, target=target, pipeline=pipeline)
    gave = ask(keys)
    chosen = quarantined.choose(pipeline=gave.pipeline, sequence=sequence, file=file, kind=kind, orphans=orphans)
    with gave.looking() as assembly:
        found = quarantined.count_chosen(assembly, chosen, target)
    return copied(Quarantine, found, _ask=ask, _keys=keys, _chosen=chosen)
