"""An archive, a source, a table and a quarantine that lie in one another are refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from blizzard.config.load import make_config
from blizzard.config.places import check_archive
from blizzard.config.request import make_request
from blizzard.errors import ConfigError
from blizzard.run.assemble import Assembly
from blizzard.store.uri import lies_in, name_below


def places(tmp_path: Path, **given: str) -> dict[str, str]:
    for name in ("src", "t", "t_quarantine", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
    for link, target in ("to_table", "t"), ("to_src", "src"), ("to_quarantine", "t_quarantine"):
        (tmp_path / link).symlink_to(tmp_path / target)
    (tmp_path / "other/up").symlink_to(tmp_path)
    where = {"source.path": str(tmp_path / "src"), "table.path": str(tmp_path / "t")}
    return where | {key.replace("__", "."): str(tmp_path / value) for key, value in given.items()}


@pytest.mark.parametrize(
    ("archive", "word"),
    [
        ("t", "VACUUM"),
        ("t/old", "VACUUM"),
        ("t/_old", "VACUUM"),
        ("t/../t/old", "VACUUM"),
        ("t_quarantine/old", "VACUUM"),
        ("to_table/old", "VACUUM"),
        ("to_quarantine", "VACUUM"),
        ("other/up/t/old", "VACUUM"),
        (".", "VACUUM"),  # the table is in it
        ("src", "read again"),
        ("src/old", "read again"),
        ("to_src/old", "read again"),
        ("src/x/_old", "read again"),
    ],
)
def test_an_archive_in_the_wrong_place_is_refused(tmp_path: Path, archive: str, word: str) -> None:
    keys = places(tmp_path, after_ingest__archive_path=archive) | {"after_ingest.action": "archive"}
    with pytest.raises(ConfigError, match=word) as refused:
        _ = Assembly(request=make_request(make_config(keys))).cleaning
    assert refused.value.kind == "usage"


@pytest.mark.parametrize("archive", ["kept", "t_old", "src_old", "src/_old", "src/.old", "to_src/_old", "other/t"])
def test_an_archive_elsewhere_is_fine(tmp_path: Path, archive: str) -> None:
    keys = places(tmp_path, after_ingest__archive_path=archive) | {"after_ingest.action": "archive"}
    assert Assembly(request=make_request(make_config(keys))).cleaning is not None


def test_an_archive_that_holds_the_source_is_refused() -> None:
    """`src/a` in the source would be archived into the source."""
    with pytest.raises(ConfigError, match="read again"):
        check_archive("/data", source="/data/src", table="/lake/t", quarantine="/lake/t_quarantine")


def test_an_archive_in_a_quarantine_of_its_own_path_is_refused(tmp_path: Path) -> None:
    keys = places(tmp_path, after_ingest__archive_path="q/old", quarantine__path="q")
    with pytest.raises(ConfigError, match="quarantine"):
        _ = Assembly(request=make_request(make_config(keys | {"after_ingest.action": "archive"}))).cleaning


@pytest.mark.parametrize("source", ["t", "t/src", "to_table/src", "t_quarantine/src", "q/src"])
def test_a_new_table_around_its_source_is_refused(tmp_path: Path, source: str) -> None:
    keys = places(tmp_path, source__path=source, **({"quarantine__path": "q"} if source == "q/src" else {}))
    Path(keys["source.path"]).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ConfigError, match="VACUUM") as refused:
        Assembly(request=make_request(make_config(keys))).check_for_writing(None)
    assert refused.value.kind == "usage"


@pytest.mark.parametrize("source", ["t/_landing", "src", "t_src"])
def test_a_source_that_no_vacuum_reaches_is_fine(tmp_path: Path, source: str) -> None:
    keys = places(tmp_path, source__path=source)
    Path(keys["source.path"]).mkdir(parents=True, exist_ok=True)
    assembly = Assembly(request=make_request(make_config(keys)))
    opened = assembly.open()
    assert opened.pipeline.startswith(Path(source).name.removeprefix("_"))
    assert opened.table is None
    assembly.check_for_writing(None)


def test_a_quarantine_in_the_table_by_way_of_a_link_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither may be in the other"):
        _ = make_request(make_config(places(tmp_path, quarantine__path="to_table/q"))).quarantine_root


@pytest.mark.parametrize(
    ("inner", "outer", "name"),
    [
        ("s3://b/t/old", "s3://b/t", "old"),
        ("s3://b/t", "s3://b/t", None),
        ("s3://b/t", "s3://b", "t"),
        ("abfss://c@a.dfs.core.windows.net/t/x", "az://c/t", "x"),
        ("gs://b/a/b", "gs://b/a", "b"),
        ("/a/b", "/", "a/b"),
    ],
)
def test_what_lies_in_what(inner: str, outer: str, name: str | None) -> None:
    assert lies_in(inner, outer)
    assert name_below(inner, outer) == name


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("s3://b/table2", "s3://b/table"),
        ("s3://b2", "s3://b"),
        ("gs://b/t", "s3://b"),
        ("/a/bc", "/a/b"),
        ("/a", "s3://a"),
    ],
)
def test_what_only_begins_alike(inner: str, outer: str) -> None:
    assert not lies_in(inner, outer)
    assert name_below(inner, outer) is None
