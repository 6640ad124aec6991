"""What a position says of a file's bytes: a resume counts records in the text that the first ones were counted in."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from blizzard.core.bad import BadPolicy
from blizzard.core.types import BatchTicket, Budget, Slice, TaskPlan, TaskReport
from blizzard.tasks.task import run_task
from tests.ingesting import line
from tests.tasks.specs import make_spec

LINES = b"".join(map(line, range(6)))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"bzip2": bz2.compress, "xz": lzma.compress}


def read(folder: Path, *, from_record: int, encoding: str, at_most: int | None = None) -> TaskReport:
    listed = (folder / "a.ndjson").stat()
    piece = Slice(
        path="a.ndjson",
        size_bytes=listed.st_size,
        etag=str(listed.st_mtime_ns),
        from_record=from_record,
        encoding=encoding,
    )
    budget = Budget(output_bytes=1 << 30, max_records=at_most, seconds=None)
    ticket = BatchTicket(sequence=1, planned_ms=0, table_id="t")
    return run_task(
        make_spec(folder, table_root=str(folder), bad=BadPolicy()),
        TaskPlan(slot=0, slices=(piece,), budget=budget),
        ticket,
    )


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_file_goes_on_as_it_was_begun(codec: str, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(COMPRESS[codec](LINES))
    first = read(tmp_path, from_record=0, encoding="utf-8", at_most=4)
    (report,) = first.slices
    assert (report.to_record, report.encoding) == (4, f"utf-8+{codec}")
    (rest,) = read(tmp_path, from_record=4, encoding=report.encoding).slices
    assert (rest.from_record, rest.to_record, rest.rows, rest.finished) == (4, 6, 2, True)


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_file_whose_bytes_were_taken_for_lines_is_held_with_the_way_to_read_it(codec: str, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(COMPRESS[codec](LINES))
    report = read(tmp_path, from_record=2, encoding="utf-8")  # as the position of an older release says
    ((path, why),) = report.unreadable
    assert (path, report.slices) == ("a.ndjson", ())
    assert why.startswith("wrong_compression: an older release read its first 2 records as utf-8, and")
    assert "blizzard checkpoint reset --file a.ndjson --from-record 0 --yes" in why
    assert read(tmp_path, from_record=0, encoding="utf-8").slices[0].rows == 6


def test_text_in_utf_16_that_was_taken_for_lines_needs_more_than_the_setting(tmp_path: Path) -> None:
    """The setting is for files that are not begun, so that it alone would be advice that changes nothing."""
    (tmp_path / "a.ndjson").write_bytes(LINES.decode().encode("utf-16-le"))
    ((_, why),) = read(tmp_path, from_record=2, encoding="utf-8").unreadable  # as the position of an older release says
    assert why.startswith("wrong_encoding: text in UTF-16; to read it set source.encoding=utf-16, and begin it again")
    assert why.endswith("blizzard checkpoint reset --file a.ndjson --from-record 0 --yes")
    ((_, not_begun),) = read(tmp_path, from_record=0, encoding="utf-8").unreadable
    assert "checkpoint reset" not in not_begun
