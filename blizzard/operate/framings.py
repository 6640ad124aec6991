"""How the records of a file are counted, for a person who names a record of it.

A number of records means nothing without this. What a position or a ledger says comes first; else the file itself.
"""

from __future__ import annotations

from blizzard.core.framing import framing_of_pipeline
from blizzard.core.ledger import LedgerEntry
from blizzard.core.position import Position, RecordsRead
from blizzard.core.types import Slice, SourceFile
from blizzard.delta.table import DeltaRsTable
from blizzard.errors import BadFile
from blizzard.run.assemble import Assembly
from blizzard.run.layouts import layout_of_table
from blizzard.source.decode import UnreadableSource, open_stream
from blizzard.source.framing import LOOK_BYTES, open_records, wrapper_columns


def reading_of(begun: RecordsRead | None, known: LedgerEntry | None) -> tuple[str, str] | None:
    """Framing and encoding of the file as it was last read. None: no record of it was read, or nobody knows."""
    last = begun or (known if known is not None and known.to_record else None)
    return None if last is None else (last.framing, last.encoding)


def find_reading(assembly: Assembly, table: DeltaRsTable, position: Position, file: SourceFile) -> tuple[str, str]:
    """How a run that begins with this file would read it: framing and encoding."""
    setting = framing_of_pipeline(assembly.config.source.framing, position.framing)
    schema = assembly.record_schema(layout_of_table(assembly.config, table))
    piece = Slice(path=file.path, size_bytes=file.size_bytes, etag=file.etag, from_record=0)
    try:
        store, source = assembly.request.source_location.store, assembly.config.source
        with open_stream(store, piece, source.compression, source.encoding) as stream:
            columns = wrapper_columns(schema)
            return open_records(stream, setting, block_bytes=LOOK_BYTES, columns=columns).framing, stream.reading
    except UnreadableSource as e:
        raise BadFile(
            f"{file.path}: {e}. So nobody can say which of its records is meant, and nothing was changed. Make it"
            f" readable, or leave it out: blizzard checkpoint skip.",
            kind=e.kind,
        ) from e
