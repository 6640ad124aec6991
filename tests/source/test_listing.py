"""Where a source is and what is in it: one identity for one folder, byte order, nothing left out silently."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from blizzard.errors import ConfigError
from blizzard.source.listing import compile_pattern, list_source
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


def test_the_default_pattern_takes_plain_gzip_and_zstd_and_nothing_else(tmp_path: Path) -> None:
    wanted = ["a.ndjson", "b.ndjson.gz", "d/c.jsonl", "d/e/f.jsonl.gz", "g.ndjson.zst"]
    touch(*(tmp_path / n for n in [*wanted, "x.json", "x.csv", "ndjson", "x.ndjson.tmp", "x.gz", "x.zst"]))
    assert listed(str(tmp_path)) == sorted(wanted)


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
