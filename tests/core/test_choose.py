"""What another choice of files means for a position: decided from names, marks and ledgers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blizzard.core import choose
from blizzard.core.choose import INGEST, SKIP, Change, choice_in, compare_choices, position_after, refuse_change
from blizzard.core.codec import decode_json, decode_position, encode_position
from blizzard.core.fields import WrongType
from blizzard.core.position import FINISHED, Begun, Marks, Position, RecordsRead
from blizzard.core.types import Filters, SourceFile, SourceIdentity
from tests.core.test_codec import example
from tests.core.test_newer import whole

OLD = SourceIdentity(root="file:///s", pattern="*.old")
NEW = SourceIdentity(root="file:///s", pattern="*")


def file(path: str) -> SourceFile:
    return SourceFile(path=path, size_bytes=1, etag="e")


def standing(**marks: Any) -> Position:
    return example(source=OLD, marks=Marks(last_committed_file="m.old", **marks), start_from=None)


def changed(*names: str, before: Position | None = None, commits: Any = (), may_have_taken: Any = ()) -> Change:
    """From `*.old` to everything."""
    before = before or standing()
    return compare_choices(
        before,
        [file(name) for name in sorted(names)],
        commits,
        source=NEW,
        begun=before.begun,
        was_chosen=lambda f: f.path.endswith(".old"),
        is_chosen=lambda f: not f.path.endswith(".out"),
        may_have_taken=may_have_taken,
    )


def names(files: tuple[SourceFile, ...]) -> list[str]:
    return [f.path for f in files]


def test_names_are_sorted_by_the_mark() -> None:
    found = changed("a.new", "b.old", "m.new", "m.old", "z.new", "z.old")
    assert (names(found.below), names(found.unclear), found.ahead) == (["a.new", "m.new"], [], 1)


def test_a_name_of_an_earlier_choice_is_unclear_where_its_ledger_is_gone() -> None:
    found = changed("a.new", "b.newer", may_have_taken=[lambda f: f.path.endswith(".newer")])
    assert (names(found.below), names(found.unclear)) == (["a.new"], ["b.newer"])


@pytest.mark.parametrize("start", ["adopt", "import"])
def test_what_came_before_a_position_was_taken_over_is_unclear(start: str) -> None:
    before = replace(standing(), begun=Begun(start_from=start))
    assert names(changed("a.new", before=before).unclear) == ["a.new"]


def test_names_that_the_position_has_already_are_not_asked_for() -> None:
    before = standing(files={"a.new": RecordsRead(records=0), "z.new": FINISHED})
    found = changed("a.new", "z.new", before=before)
    assert (found.passed, found.ahead) == ((), 0)


def test_what_after_a_name_has_left_out_stays_out() -> None:
    before = replace(standing(), begun=Begun(start_from="after:f.old"))
    assert names(changed("a.new", "g.new", before=before).below) == ["g.new"]


def back(*names: str, before: Position) -> Change:
    """From everything to `*.old`."""
    return compare_choices(
        before,
        [file(name) for name in sorted(names)],
        (),
        source=OLD,
        begun=before.begun,
        was_chosen=lambda _: True,
        is_chosen=lambda f: f.path.endswith(".old"),
        may_have_taken=(),
    )


def test_files_that_leave_the_choice() -> None:
    files = {"b.new": RecordsRead(records=3), "c.new": RecordsRead(records=0), "y.new": FINISHED}
    found = back("a.new", "b.new", "c.new", "x.new", "y.new", "z.old", before=standing(files=files))
    assert (found.left, found.unread) == (("b.new", "c.new"), 1)
    refusal = refuse_change(found, INGEST)
    assert refusal is not None
    assert refusal.kind == "files_in_progress"


REFUSALS = {
    "nothing below": (("z.new",), None, None),
    "no word": (("a.new",), None, "files_below_mark"),
    "left out": (("a.new",), SKIP, None),
    "read": (("a.new",), INGEST, None),
    "unclear, no word": (("a.newer",), None, "files_below_mark"),
    "unclear, left out": (("a.newer",), SKIP, None),
    "unclear, read": (("a.newer",), INGEST, "late_unclear"),
    "more than a position can name": (tuple(f"a{i:06}.new" for i in range(4_000)), INGEST, "files_below_mark"),
    "more than that, left out": (tuple(f"a{i:06}.new" for i in range(4_000)), SKIP, None),
}


@pytest.mark.parametrize(("there", "below", "kind"), REFUSALS.values(), ids=REFUSALS)
def test_a_change_wants_a_word(there: tuple[str, ...], below: str | None, kind: str | None) -> None:
    refusal = refuse_change(changed(*there, may_have_taken=[lambda f: f.path.endswith(".newer")]), below)
    assert (None if refusal is None else str(refusal.kind)) == kind


def test_the_position_after_it() -> None:
    before = replace(standing(files={"q.old": FINISHED}), begun=Begun(start_from="date:x", since_ms=7))
    change = changed("a.new", before=before)
    read, left = position_after(change, INGEST), position_after(change, SKIP)
    assert read.marks.files == {"q.old": FINISHED, "a.new": RecordsRead(records=0)}
    assert left.marks == before.marks
    earlier = replace(OLD, filters=Filters(modified_after_ms=7))
    for after in (read, left):
        assert (after.source, after.chosen_before) == (NEW, (earlier,))
        assert (after.seen.settled_names, after.seen.young_names, after.seen.relist_names) == (None, None, None)
        assert after.seen.relist_watermark_ms == before.seen.relist_watermark_ms


def test_earlier_choices_are_kept_once_each_and_within_a_limit() -> None:
    position = standing()
    for i in range(400):
        source = replace(OLD, pattern=f"{i % 300:0100}")
        position = position_after(replace(changed(before=position), source=source), SKIP)
    assert position.chosen_before[0].pattern == "**"  # stands for all that were too many
    assert choice_in(position) not in position.chosen_before[-2:]
    assert len(encode_position(position)) < 20_000


def test_a_file_may_have_been_read_before_its_last_change() -> None:
    """It was older then, so that it may have been chosen although it is too new now."""
    filters = Filters(modified_after_ms=1, modified_before_ms=2)
    position = replace(standing(), source=replace(OLD, filters=filters), chosen_before=(NEW,))
    wide = replace(OLD, filters=Filters(modified_after_ms=1))
    assert choose.choices_so_far(position) == [NEW, wide]


def test_as_many_entries_as_one_ledger_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_SKIPPED_BYTES", 1_000)
    there = [file(f"a{i}") for i in range(10)]
    taken = choose.skipped_entries(there)
    assert 0 < len(taken) < 10
    assert {(e.from_record, e.to_record, e.finished, e.broken) for e in taken} == {(0, 0, True, "skipped")}


FOR_NEWER = {
    "a filter": {"source": replace(OLD, filters=Filters(ignore=("*.tmp",)))},
    "a time": {"source": replace(OLD, filters=Filters(modified_before_ms=1))},
    "a date to begin at": {"since_ms": 1},
    "an earlier choice": {"chosen_before": (OLD,)},
}


@pytest.mark.parametrize("change", FOR_NEWER.values(), ids=FOR_NEWER)
def test_positions_that_an_older_release_would_misread_have_a_version_that_it_refuses(change: dict[str, Any]) -> None:
    position = example(**change)
    fields = decode_json(encode_position(position))
    assert fields["schema_version"] == 3
    assert decode_position(encode_position(position)) == position
    with pytest.raises(WrongType):
        decode_position(
            whole(**{name: value for name, value in fields.items() if name != "checksum"} | {"schema_version": 2})
        )


def test_all_others_have_the_version_that_they_had() -> None:
    assert decode_json(encode_position(example(source=replace(OLD, pattern="{default-2/"))))["schema_version"] == 2
