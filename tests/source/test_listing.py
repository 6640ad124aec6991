"""Where a source is and what is in it: one identity for one folder, byte order, nothing left out silently."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcmatch import glob

from blizzard.core.overlap import may_overlap
from blizzard.core.patterns import DEFAULT, DEFAULT_GLOB, FIRST_DEFAULT_GLOB
from blizzard.core.types import Filters, SourceIdentity
from blizzard.errors import ConfigError
from blizzard.source.chosen import chosen_by, compile_pattern
from blizzard.source.listing import find_listed, list_source
from blizzard.source.uri import default_pipeline, locate_source
from blizzard.store.uri import locate, show_uri
from tests.failing import ends_with


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")


def listed(uri: str, pattern: str | None = None) -> list[str]:
    return [f.path for f in list_source(locate_source(uri, pattern))]


def test_one_folder_has_one_identity_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path)
    spellings = ["a b", "./a b/", f"{tmp_path}/a b", f"file://{tmp_path}/a%20b", f"file:{tmp_path}/x/../a%20b/"]
    identities = {locate_source(s).identity for s in spellings}
    assert len(identities) == 1
    assert identities.pop().root == show_uri(f"{tmp_path}/a b")


def test_different_sources_have_different_default_pipelines(tmp_path: Path) -> None:
    names = [default_pipeline(locate_source(str(tmp_path / p)).identity) for p in ("a", "b", "x/a", "a/*.gz")]
    assert len(set(names)) == 4
    assert all(n.isascii() for n in names)


def test_names_come_in_byte_order_across_folders(tmp_path: Path) -> None:
    touch(*(tmp_path / n for n in ["b/x.ndjson", "b.ndjson", "a.ndjson", "B.ndjson", "é.ndjson", "b-/y.ndjson"]))
    found = listed(str(tmp_path))
    assert found == sorted(found, key=lambda n: n.encode())
    assert len(found) == 6


FIRST_NAMES = ["a.ndjson", "b.ndjson.gz", "d/c.jsonl", "d/e/f.jsonl.gz", "g.ndjson.zst"]
NEW_NAMES = ["EVENTS.JSON.GZ", "d/x.json", "h.jsonl.bz2", "i.Ndjson.zstd", "j.json.xz", "k.NDJSON"]
NO_DATA = [
    "x.csv",
    "ndjson",
    "x.ndjson.tmp",
    "x.gz",
    "x.zst",
    "json",
    "x.jsonx",
    "x.json.zip",
    "y_json",
    "x.json.gz.gz",
]


def test_the_default_pattern_takes_json_of_every_suffix_and_compression_in_any_case(tmp_path: Path) -> None:
    touch(*(tmp_path / n for n in [*FIRST_NAMES, *NEW_NAMES, *NO_DATA, ".json", "_a.json"]))
    assert listed(str(tmp_path)) == sorted([*FIRST_NAMES, *NEW_NAMES])
    assert listed(str(tmp_path), "default-2") == sorted([*FIRST_NAMES, *NEW_NAMES])


def test_the_default_of_the_first_releases_is_as_it_was(tmp_path: Path) -> None:
    touch(*(tmp_path / n for n in [*FIRST_NAMES, *NEW_NAMES, *NO_DATA]))
    assert listed(str(tmp_path), "default") == sorted(FIRST_NAMES)
    assert locate_source(str(tmp_path), "default").identity.pattern == "default"


names_in_folders = st.lists(
    st.sampled_from(["a", "b.json", "JSON", ".gz", "\n.jsonl", "é.Xz", ".", ".ndjson", ".zst"]), max_size=4
).map("".join)


@pytest.mark.parametrize(
    ("word", "text", "case"), [("default", FIRST_DEFAULT_GLOB, glob.CASE), ("default-2", DEFAULT_GLOB, glob.IGNORECASE)]
)
@given(name=st.lists(names_in_folders.filter(bool), min_size=1, max_size=3).map("/".join))
def test_the_fast_form_of_a_default_pattern_says_what_its_glob_says(word: str, text: str, case: int, name: str) -> None:
    flags = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | case
    (regexes, _) = glob.translate(text, flags=flags)
    slow = any(re.match(regex, name, re.ASCII) for regex in regexes)
    chosen = chosen_by(locate_source("/nowhere", word))
    assert chosen.matches(name) == (slow and not chosen.is_hidden(name))


def test_an_older_release_takes_the_name_of_the_new_default_for_a_glob_that_matches_nothing() -> None:
    """But its check for second readers takes it for one that may match anything."""
    flags = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
    (regexes, _) = glob.translate(DEFAULT, flags=flags)
    names = ["{default-2", "default-2", "a.json", "x/{default-2", "{default-2/a.json", DEFAULT.rstrip("/")]
    assert [name for name in names if any(re.match(regex, name) for regex in regexes)] == []
    as_glob = SourceIdentity(root="file:///d", pattern=DEFAULT + "*")
    assert may_overlap(as_glob, SourceIdentity(root="file:///d/x", pattern="default"))


@pytest.mark.parametrize("pattern", [DEFAULT])
def test_the_name_itself_is_no_pattern_that_a_person_may_give(tmp_path: Path, pattern: str) -> None:
    with ends_with("usage"):
        locate_source(str(tmp_path), pattern)


def test_a_glob_in_the_source_is_a_pattern_below_its_folder(tmp_path: Path) -> None:
    touch(tmp_path / "d=1/a.json", tmp_path / "d=2/b.json", tmp_path / "d=2/c.txt", tmp_path / "e/d.json")
    assert listed(f"{tmp_path}/d=*/*.json") == ["d=1/a.json", "d=2/b.json"]
    assert locate_source(f"{tmp_path}/d=*/*.json").root == str(tmp_path)


def test_one_file_may_be_the_source_whatever_its_name(tmp_path: Path) -> None:
    touch(tmp_path / "we[ir]d*{x}.txt", tmp_path / "weird.txt")
    assert listed(f"{tmp_path}/we[ir]d*{{x}}.txt") == ["we[ir]d*{x}.txt"]


def test_links_to_files_are_read(tmp_path: Path) -> None:
    touch(tmp_path / "data")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ndjson").symlink_to(tmp_path / "data")
    assert listed(str(tmp_path / "src")) == ["a.ndjson"]


def test_size_and_etag_tell_versions_of_a_file_apart(tmp_path: Path) -> None:
    touch(tmp_path / "a.ndjson")
    before = list_source(locate_source(str(tmp_path)))[0]
    os.utime(tmp_path / "a.ndjson", ns=(1, 1))
    after = list_source(locate_source(str(tmp_path)))[0]
    assert before.size_bytes == after.size_bytes
    assert before.etag != after.etag == "1"
    assert after.seen_ms > 1  # the change itself is seen, although the mtime is old


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("ftp://bucket/x", "unsupported_scheme"),
        ("", "usage"),
        ("file://host/x", "usage"),
        ("hdfs://b", "unsupported_scheme"),
    ],
)
def test_a_location_that_cannot_be_used_is_named(uri: str, kind: str) -> None:
    with pytest.raises(ConfigError) as error:
        locate(uri, what="source")
    assert error.value.kind == kind


def test_a_pattern_and_a_glob_together_are_refused(tmp_path: Path) -> None:
    with ends_with("usage"):
        locate_source(f"{tmp_path}/*.gz", "*.gz")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        listed(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.gz", ["a.gz"], ["d/a.gz", "a.gzz"]),
        ("**/*.gz", ["a.gz", "d/a.gz", "d/e/a.gz"], ["a"]),
        ("d=*/[ab].{gz,zst}", ["d=1/a.gz", "d=/b.zst"], ["d=1/c.gz", "d=1/x/a.gz"]),
        ("?.x", ["é.x", "\n.x"], ["ab.x"]),
    ],
)
def test_patterns_are_globs_with_globstar_and_braces(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = compile_pattern(pattern)
    assert [n for n in yes if not matches.match(n)] == []
    assert [n for n in no if matches.match(n)] == []


def left_out(folder: Path, pattern: str | None = None, **filters: object) -> tuple[list[str], dict[str, int], int]:
    location = locate_source(str(folder), pattern, filters=Filters(**filters))  # type: ignore[arg-type]
    listing = list_source(location)
    return [f.path for f in listing], dict(listing.left_out.by_suffix), listing.left_out.filtered


def test_files_that_match_nothing_are_counted_by_suffix(tmp_path: Path) -> None:
    touch(
        *(tmp_path / n for n in ["a.json", "b.csv", "d/c.csv", "e.log.gz", "README", "_x.csv", ".hidden", "_d/y.csv"])
    )
    assert left_out(tmp_path) == (["a.json"], {".csv": 2, "": 1, ".log.gz": 1}, 0)


IGNORED = {
    "a name in any folder": (("*.tmp.json",), ["a.json", "s/b.json", "s/t/c.json"]),
    "one file": (("s/b.json",), ["a.json", "s/t/c.json", "s/t/d.tmp.json", "x.tmp.json"]),
    "a folder": (("t/",), ["a.json", "s/b.json", "x.tmp.json"]),
    "a folder by its path": (("s/t/",), ["a.json", "s/b.json", "x.tmp.json"]),
    "everything below a folder": (("s/**",), ["a.json", "x.tmp.json"]),
    "several": (("*.tmp.json", "a.*"), ["s/b.json", "s/t/c.json"]),
    "either of two": (("{a,b}.json",), ["s/t/c.json", "s/t/d.tmp.json", "x.tmp.json"]),
    "letter case counts": (("A.json",), ["a.json", "s/b.json", "s/t/c.json", "s/t/d.tmp.json", "x.tmp.json"]),
}


@pytest.mark.parametrize(("ignore", "expected"), IGNORED.values(), ids=IGNORED)
def test_ignored_names_are_left_out_and_counted(tmp_path: Path, ignore: tuple[str, ...], expected: list[str]) -> None:
    names = ["a.json", "s/b.json", "s/t/c.json", "s/t/d.tmp.json", "x.tmp.json"]
    touch(*(tmp_path / n for n in names))
    assert left_out(tmp_path, ignore=ignore) == (expected, {}, len(names) - len(expected))


def test_times_of_change_choose_from_a_moment_on_and_before_one(tmp_path: Path) -> None:
    for ms in (999, 1000, 1999, 2000):
        touch(tmp_path / f"{ms:04}.json")
        os.utime(tmp_path / f"{ms:04}.json", ns=(0, ms * 10**6))
    assert left_out(tmp_path, modified_after_ms=1000)[0] == ["1000.json", "1999.json", "2000.json"]
    assert left_out(tmp_path, modified_before_ms=2000)[0] == ["0999.json", "1000.json", "1999.json"]
    both = left_out(tmp_path, modified_after_ms=1000, modified_before_ms=2000)
    assert both == (["1000.json", "1999.json"], {}, 2)


def test_on_local_disk_the_time_is_that_of_the_content_not_of_the_name(tmp_path: Path) -> None:
    """A rename and a change of rights must not bring back a file that was left out."""
    touch(tmp_path / "a.json")
    os.utime(tmp_path / "a.json", ns=(0, 10**9))
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    (tmp_path / "b.json").chmod(0o600)
    assert left_out(tmp_path, modified_after_ms=2000) == ([], {}, 1)


def test_a_linked_folder_that_is_ignored_is_no_error(tmp_path: Path) -> None:
    touch(tmp_path / "src/a.json", tmp_path / "other/b.json")
    (tmp_path / "src/latest").symlink_to(tmp_path / "other")
    with ends_with("source_linked_folder"):
        left_out(tmp_path / "src")
    assert left_out(tmp_path / "src", ignore=("latest/",))[0] == ["a.json"]


def test_a_folder_with_the_name_of_a_data_file_whose_files_are_left_out_is_no_error(tmp_path: Path) -> None:
    touch(tmp_path / "out.json/part-1.json")
    os.utime(tmp_path / "out.json/part-1.json", ns=(0, 10**9))
    assert left_out(tmp_path, modified_after_ms=2000) == ([], {}, 1)
    assert left_out(tmp_path, ignore=("out.json/",)) == ([], {}, 1)


def test_a_cleaner_finds_only_what_a_listing_shows(tmp_path: Path) -> None:
    touch(tmp_path / "a.json", tmp_path / "b.json")
    os.utime(tmp_path / "a.json", ns=(0, 10**9))
    location = locate_source(str(tmp_path), filters=Filters(modified_after_ms=2000))
    assert find_listed(location, "a.json") is None
    assert find_listed(location, "b.json") is not None
    ignoring = locate_source(str(tmp_path), filters=Filters(ignore=("b.*",)))
    assert find_listed(ignoring, "b.json") is None


@pytest.mark.parametrize("globs", [("[",), ("a\0b",), ("{1..9999}",)])
def test_what_is_no_glob_is_refused_or_matches_nothing(globs: tuple[str, ...], tmp_path: Path) -> None:
    touch(tmp_path / "a.json")
    try:
        assert left_out(tmp_path, ignore=globs)[0] == ["a.json"]
    except ConfigError as e:
        assert (e.kind, "source.ignore" in str(e)) == ("usage", True)
