"""Files that break, on real Delta tables: they take nothing else down, and sound ones are never given up."""

from __future__ import annotations

import errno
import gzip
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blizzard.core.bad import BadPolicy
from blizzard.core.ledger import decode_ledger
from blizzard.core.plan import Limits
from blizzard.core.types import Slice
from blizzard.errors import BadData
from blizzard.store.local import LocalStore
from tests.flows.in_process import Flow
from tests.ingesting import ids, line, write_ids


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def truncated(flow: Flow, name: str = "b.ndjson.gz", *, last: int = 200) -> bytes:
    whole = gzip.compress(b"".join(map(line, range(10, last))), mtime=0)
    (flow.src / name).parent.mkdir(parents=True, exist_ok=True)
    (flow.src / name).write_bytes(whole[: len(whole) // 2])
    os.utime(flow.src / name, (1_700_000_000, 1_700_000_000))
    return whole


@pytest.mark.parametrize("slots", [1, 3])
def test_a_truncated_file_takes_nothing_else_down(flow: Flow, slots: int) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    truncated(flow)
    write_ids(flow.src / "c.ndjson", 5, 8)
    summary = flow.run(slots=slots, spec={"block_bytes": 256})
    assert ids(flow.table) == [0, 1, 2, 5, 6, 7]
    (row,) = flow.quarantined()
    assert (row["source_file"], row["error_kind"], row["raw"], row["complete"]) == (
        "b.ndjson.gz",
        "truncated",
        None,
        False,
    )
    assert summary.bad_files == 1
    (commit,) = flow.open().commits_after(0)
    ledger = decode_ledger(commit.user_metadata)
    assert ledger is not None
    broken = {e.path: e.broken for e in ledger.entries}
    assert broken["a.ndjson"] is None
    assert broken["b.ndjson.gz"] is not None
    assert "truncated" in broken["b.ndjson.gz"]
    assert flow.run().commits == 0  # it is done with


def test_many_broken_files_do_not_make_the_others_be_read_again_and_again(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Counter[str]()

    original = LocalStore.open_pinned

    def counted(self: LocalStore, piece: Slice) -> Any:
        opened[piece.path] += 1
        return original(self, piece)

    monkeypatch.setattr(LocalStore, "open_pinned", counted)
    write_ids(flow.src / "a.ndjson", 0, 3)
    for number in range(20):
        truncated(flow, f"b{number:02}.ndjson.gz")
    write_ids(flow.src / "c.ndjson", 5, 8)
    summary = flow.run(slots=1)
    assert ids(flow.table) == [0, 1, 2, 5, 6, 7]
    assert (summary.bad_files, summary.files, len(flow.quarantined())) == (20, 22, 20)
    assert max(opened.values()) == 2


def test_what_was_committed_of_a_file_before_it_broke_stays(flow: Flow) -> None:
    truncated(flow, last=200_000)  # longer than what the decompressor reads ahead
    summary = flow.run(limits=Limits(max_records=20_000), spec={"block_bytes": 4096})
    found = ids(flow.table)
    assert found == list(range(10, 10 + len(found)))
    assert found
    assert summary.bad_files == 1
    assert summary.backlog_files == 0


def test_a_file_that_may_still_be_arriving_is_left_to_the_next_run(flow: Flow) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    whole = truncated(flow)
    os.utime(flow.src / "b.ndjson.gz")
    assert flow.run().bad_files == 0
    assert ids(flow.table) == [0, 1, 2]
    (flow.src / "b.ndjson.gz").write_bytes(whole)
    flow.run()
    assert ids(flow.table) == [0, 1, 2, *range(10, 200)]
    assert flow.quarantined() == []


def test_a_truncated_file_can_be_tried_again(flow: Flow) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    whole = truncated(flow)
    write_ids(flow.src / "c.ndjson", 5, 8)
    policy = BadPolicy(files="retry")
    flow.run(bad=policy)
    assert ids(flow.table) == [0, 1, 2, 5, 6, 7]
    assert any("b.ndjson.gz" in warning for warning in flow.told.warnings)
    (flow.src / "b.ndjson.gz").write_bytes(whole)
    flow.run(bad=policy)
    assert ids(flow.table) == [0, 1, 2, 5, 6, 7, *range(10, 200)]
    assert flow.quarantined() == []


def test_a_truncated_file_can_stop_the_run(flow: Flow) -> None:
    truncated(flow)
    with pytest.raises(BadData) as error:
        flow.run(bad=BadPolicy(files="fail"))
    assert (error.value.kind, error.value.exit_code) == ("truncated", 5)


def test_a_wrong_setting_does_not_use_up_the_source(flow: Flow) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    with pytest.raises(BadData) as error:
        flow.run(spec={"compression": "gzip"})
    assert error.value.kind == "unreadable_files"
    assert "a.ndjson" in str(error.value)
    assert flow.quarantined() == []
    flow.run()
    assert ids(flow.table) == [0, 1, 2]


def test_a_file_that_cannot_be_opened_now_is_read_by_the_next_run(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ids(flow.src / "a.ndjson", 0, 3)
    write_ids(flow.src / "b.ndjson", 3, 6)
    with monkeypatch.context() as patch:
        patch.setattr("blizzard.store.local.open", _refusing("a.ndjson"), raising=False)
        summary = flow.run()
    assert (ids(flow.table), summary.bad_files, flow.quarantined()) == ([3, 4, 5], 0, [])
    flow.run()
    assert ids(flow.table) == [0, 1, 2, 3, 4, 5]


def _refusing(name: str) -> Callable[..., Any]:
    """As `open` does in a process that has too many files open."""

    def open_others(path: str, mode: str, **how: Any) -> Any:
        if path.endswith(name):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return open(path, mode, **how)

    return open_others
