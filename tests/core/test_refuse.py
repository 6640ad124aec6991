"""The words that refusals share: a position is told whole, and commands can be copied into a shell."""

from __future__ import annotations

import shlex

import pytest

from blizzard.core.patterns import DEFAULT
from blizzard.core.position import FINISHED, FileProgress, Marks, RecordsRead
from blizzard.core.refuse import choose_command, describe_position, describe_source, import_commands, options_of
from blizzard.core.types import Filters, SourceIdentity
from tests.core.test_codec import example


def read(*names: str) -> dict[str, FileProgress]:
    return {name: RecordsRead(records=1500) for name in names}


TWENTY = [f"f{i:02d}" for i in range(20)]

POSITIONS = {
    "nothing yet": (Marks(), "no mark; nothing in progress"),
    "a mark": (Marks(last_committed_file="m"), "mark m; nothing in progress"),
    "a file in progress": (
        Marks(last_committed_file="m", files=read("b")),
        "mark m; in progress: b (1,500 records read)",
    ),
    "files are told in the order of their names": (
        Marks(files=read("c", "a", "b")),
        "no mark; in progress: a (1,500 records read), b (1,500 records read), c (1,500 records read)",
    ),
    "a file that was passed and not begun": (
        Marks(last_committed_file="m", files={"a": RecordsRead(records=0)}),
        "mark m; in progress: a (0 records read)",
    ),
    "finished after the mark": (
        Marks(last_committed_file="m", files={"z": FINISHED, "y": FINISHED}),
        "mark m; nothing in progress; finished after the mark: y, z",
    ),
    "everything": (
        Marks(last_committed_file="m", files={"z": FINISHED} | read("a")),
        "mark m; in progress: a (1,500 records read); finished after the mark: z",
    ),
    "a mark for each part, and one for the rest": (
        Marks(
            last_committed_file="m",
            marks_per="region",
            prefix_marks={"region=us/": "region=us/9", "region=eu/": "region=eu/1"},
        ),
        "mark m, region=eu/1, region=us/9; nothing in progress",
    ),
    "marks of parts alone": (
        Marks(marks_per="region", prefix_marks={"region=us/": "region=us/9"}),
        "mark region=us/9; nothing in progress",
    ),
    "twenty names are told": (
        Marks(files=dict.fromkeys(TWENTY, FINISHED)),
        f"no mark; nothing in progress; finished after the mark: {', '.join(TWENTY)}",
    ),
    "of more the rest is counted": (
        Marks(files=dict.fromkeys([*TWENTY, "g", "h"], FINISHED)),
        f"no mark; nothing in progress; finished after the mark: {', '.join(TWENTY)} and 2 more (blizzard checkpoint"
        f" show has all)",
    ),
}


@pytest.mark.parametrize(("marks", "words"), POSITIONS.values(), ids=POSITIONS)
def test_a_position_in_words(marks: Marks, words: str) -> None:
    assert describe_position(example(marks=marks)) == words


def source(root: str = "file:///s", pattern: str = "default", marks_per: str | None = None) -> SourceIdentity:
    return SourceIdentity(root=root, pattern=pattern, marks_per=marks_per)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (source(), "file:///s (default)"),
        (source(pattern="*.ndjson"), "file:///s (*.ndjson)"),
        (source(marks_per="region"), "file:///s (default, marks per region)"),
    ],
    ids=["a folder", "with a pattern", "with marks per part"],
)
def test_a_source_in_words(given: SourceIdentity, words: str) -> None:
    assert describe_source(given) == words


# what the pipeline reads; what this run was given, if anything; the options that go on with the pipeline
OPTIONS = {
    "the same source is left out": (source(), source(), "--pipeline p"),
    "the same source, with everything": (
        source(pattern="*", marks_per="region"),
        source(pattern="*", marks_per="region"),
        "--pipeline p",
    ),
    "nothing is known of the run": (source(), None, "--source file:///s --pipeline p"),
    "another folder": (source(), source("file:///t"), "--source file:///s --pipeline p"),
    "a pattern of its own": (
        source(pattern="*.gz"),
        source(),
        "--source file:///s --set 'source.pattern=*.gz' --pipeline p",
    ),
    "marks of its own": (
        source(marks_per="region"),
        source(),
        "--source file:///s --set source.marks_per=region --pipeline p",
    ),
    "both, and nothing known of the run": (
        source(pattern="*.gz", marks_per="region"),
        None,
        "--source file:///s --set 'source.pattern=*.gz' --set source.marks_per=region --pipeline p",
    ),
    "another pattern instead": (
        source(pattern="*.gz"),
        source(pattern="*.zst"),
        "--source file:///s --set 'source.pattern=*.gz' --pipeline p",
    ),
    "the run's pattern is to go": (
        source(),
        source(pattern="*.gz"),
        "--source file:///s --pipeline p (without source.pattern)",
    ),
    "the run's marks are to go": (
        source(),
        source(marks_per="region"),
        "--source file:///s --pipeline p (without source.marks_per)",
    ),
    "both are to go": (
        source(),
        source(pattern="*.gz", marks_per="region"),
        "--source file:///s --pipeline p (without source.pattern and source.marks_per)",
    ),
    "one comes and one goes": (
        source(marks_per="region"),
        source(pattern="*.gz"),
        "--source file:///s --set source.marks_per=region --pipeline p (without source.pattern)",
    ),
}


@pytest.mark.parametrize(("reads", "given", "words"), OPTIONS.values(), ids=OPTIONS)
def test_the_options_that_go_on_with_a_pipeline(
    reads: SourceIdentity, given: SourceIdentity | None, words: str
) -> None:
    assert options_of("p", reads, given=given) == words


@pytest.mark.parametrize("name", ["p", "two words", "a'b\"c", "$(reboot)", "-x", "ü;"])
def test_names_are_quoted_for_a_shell(name: str) -> None:
    root = f"file:///{name}"
    assert shlex.split(options_of(name, source(root))) == ["--source", root, "--pipeline", name]
    export = shlex.split(import_commands(name, 12).split(",", maxsplit=1)[0])
    assert export[export.index("--pipeline") + 1] == name
    assert export[export.index("--sequence") + 1] == "12"


CHOSEN = SourceIdentity(
    root="file:///s",
    pattern="*.gz",
    filters=Filters(modified_after_ms=0, modified_before_ms=1_767_225_600_000, ignore=("a b", "*.tmp")),
)


def test_filters_in_words_and_as_options() -> None:
    assert describe_source(CHOSEN) == (
        "file:///s (*.gz, modified_after 1970-01-01T00:00:00Z, modified_before 2026-01-01T00:00:00Z,"
        ' ignore ["a b","*.tmp"])'
    )
    options = shlex.split(options_of("p", CHOSEN, given=source()))
    assert options == [
        *("--source", "file:///s", "--set", "source.pattern=*.gz"),
        *("--set", "source.modified_after=1970-01-01T00:00:00Z"),
        *("--set", "source.modified_before=2026-01-01T00:00:00Z", "--set", 'source.ignore=["a b","*.tmp"]'),
        *("--pipeline", "p"),
    ]
    left_out = "(without source.modified_after and source.modified_before and source.ignore)"
    assert options_of("p", source(pattern="*.gz"), given=CHOSEN).endswith(left_out)


def test_the_defaults_are_told_apart_only_where_somebody_has_set_one() -> None:
    old, new = source(), source(pattern=DEFAULT)
    assert describe_source(new) == "file:///s (default-2)"
    assert options_of("p", new) == "--source file:///s --pipeline p"
    assert options_of("p", old, given=new) == "--source file:///s --set source.pattern=default --pipeline p"


def test_the_command_that_changes_what_is_read() -> None:
    words = shlex.split(choose_command("p", CHOSEN))
    assert words[:7] == ["blizzard", "checkpoint", "choose", "--source", "file:///s", "--pattern", "*.gz"]
    assert words[-2:] == ["--pipeline", "p"]
    assert 'source.ignore=["a b","*.tmp"]' in words
    assert shlex.split(choose_command("p", source(pattern=DEFAULT)))[5:7] == ["--pattern", "default-2"]
