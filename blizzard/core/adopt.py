"""Turns a position of the Rust program into one of ours: full paths become names below the source.

Its positions can be ahead of its data: it marks a file as finished while the rows are still in memory. It may also have
written the same rows twice after a restart. The user decides to take one over; `adoption_warnings` says what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from blizzard.core.kinds import Kind
from blizzard.core.lists import count
from blizzard.core.log import TableFacts, Txn, decode_payloads, fence_version
from blizzard.core.names import is_name
from blizzard.core.position import FINISHED, FileProgress, Finished, Marks, RecordsRead, RustPosition
from blizzard.core.recover import check_rewrites
from blizzard.core.refuse import Refuse
from blizzard.core.types import SourceFile, SourceIdentity, find_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """The position to begin with, and the version of the table it was found in."""

    marks: Marks
    version: int


def adoption_warnings(marks: Marks) -> tuple[str, str]:
    return (
        f"taking over the Rust program's position: files up to {marks.last_committed_file or 'none'} are not read,"
        f" {len(marks.in_progress)} are read on from where it stopped",
        "the Rust program marks a file as finished while its rows are still in memory: if it was ever killed, rows of"
        " files before that mark may be missing, and rows of its last batch may be there twice. Compare the table"
        " with the source; blizzard checkpoint reset reads a file again",
    )


def find_rust_position(facts: TableFacts) -> tuple[RustPosition, int] | None:
    """The newest position of the Rust program, in the commits looked at or in the Delta checkpoint before them."""
    for commit in facts.commits:
        found = _newest(commit.txns)
        if found is not None:
            return found, commit.version
    if facts.checkpoint is not None:
        found = _newest(facts.checkpoint.txns)
        if found is not None:
            return found, facts.checkpoint.version
    return None


def _newest(txns: Iterable[Txn]) -> RustPosition | None:
    return max(decode_payloads(txns).of_rust, key=lambda position: position.delta_version, default=None)


def decide_adoption(
    facts: TableFacts | None, *, pipeline: str, source: SourceIdentity, listing: Sequence[SourceFile]
) -> Adoption | Refuse:
    if facts is not None and (facts.fence or any(fence_version(c, pipeline) for c in facts.commits)):
        return _refuse(f"pipeline {pipeline!r} has a position of its own in this table already", "Leave --adopt out")
    found = find_rust_position(facts) if facts is not None else None
    if found is None:
        return _refuse("the table's log holds no position of the Rust program")
    position, version = found
    rewritten = check_rewrites(c for c in facts.commits if c.version > version) if facts is not None else None
    if rewritten is not None:
        return _refuse(f"its position is of version {version}, and since then: {rewritten.message}")
    names: dict[str, FileProgress] = {}
    for path, progress in position.marks.files.items():
        name = _name_below(path, source.root)
        if name is None:
            return _elsewhere(path, source)
        match progress:
            case Finished():
                names[name] = FINISHED
            case RecordsRead(records=records):
                file = find_file(listing, name)
                if file is None:
                    return _refuse(
                        f"{path} is in progress there ({count(records, 'record')} read) and is not in the source",
                        "Put it back",
                    )
                # Its position does not say whether it is still the same file.
                names[name] = RecordsRead(records=records, size_bytes=file.size_bytes, etag=file.etag)
    mark = position.marks.last_committed_file
    name = None if mark is None else _name_below(mark, source.root)
    if mark is not None and name is None:
        return _elsewhere(mark, source)
    if name is None and not names:
        return _refuse("its newest position is empty: it says nothing about any source file")
    return Adoption(marks=Marks(files=names, last_committed_file=name), version=version)


def _name_below(path: str, root: str) -> str | None:
    """The name below the source's root. The other program may write the root in another form."""
    scheme, _, rest = root.partition("://")
    roots = [root]
    if scheme == "s3":
        roots += [f"s3a://{rest}", f"s3n://{rest}"]
    elif scheme == "file":
        roots += [f"file://{unquote(rest)}", unquote(rest)]
    for candidate in roots:
        if path.startswith(candidate.rstrip("/") + "/"):
            name = path.removeprefix(candidate.rstrip("/") + "/")
            return name if is_name(name) else None
    return None


def _elsewhere(path: str, source: SourceIdentity) -> Refuse:
    if path.endswith(".parquet"):
        return _refuse(
            f"its position ({path}) is over Parquet files that another part of it has staged, not over NDJSON files, so"
            f" that it does not say what was read of the source"
        )
    return _refuse(f"its position names {path}, which is not below the source {source.root}")


_BY_HAND = (
    "Find the last file NAME of this source whose records are all in the table, with none of a later file, and begin"
    " with --start-from after:NAME; --start-from beginning is right only if the table holds no record of this source"
)


def _refuse(why: str, way_out: str = _BY_HAND) -> Refuse:
    return Refuse(kind=Kind.ADOPT_REJECTED, message=f"--adopt: {why}. Nothing was changed. {way_out}.")


def check_rust_reader(facts: TableFacts, source: SourceIdentity, begins_at: Marks) -> Refuse | None:
    """Refuses a pipeline that would read again what the Rust program has read of this source."""
    found = find_rust_position(facts)
    if found is None:
        return None
    position, version = found[0].marks, found[1]
    named = {path: _name_below(path, source.root) for path in (*position.files, position.last_committed_file or "")}
    mark = named.get(position.last_committed_file or "")
    again = [
        name
        for path, name in named.items()
        if name and (path == position.last_committed_file or _has_any(position, path))
    ]
    unread = sorted(name for name in again if not begins_at.is_finished(name) and not begins_at.records_read(name))
    if not unread:
        return None
    return Refuse(
        kind=Kind.SOURCE_READ_BY_OTHER,
        message=(
            f"the Rust program has read this source into this table: its position in version {version} stands at"
            f" mark {mark or 'none'}, and {unread[0]} would be read once more. To go on from its position: --adopt. To"
            f" read it into this table a second time on purpose, add --reads-again."
        ),
    )


def _has_any(marks: Marks, path: str) -> bool:
    return marks.is_finished(path) or marks.records_read(path) > 0
