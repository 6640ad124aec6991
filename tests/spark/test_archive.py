"""Which archive fits, and which one is not to be trusted. No JVM: its JDK and its Spark are a few small files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from blizzard.errors import ConfigError
from blizzard.spark import archive
from blizzard.spark.archive import Archive, Jvm, NoArchive, find_archive, is_first_cold_start, java_option, jvm_for
from blizzard.spark.session import local_options, starts_jvm_here
from blizzard.spark.warm_up import _remove_useless, remove_archives, warm_up

FLAGS = "-XX:+UseSerialGC"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("jdk/bin", "spark/jars", "cache"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "jdk/bin/java").touch(0o755)
    (tmp_path / "jdk/release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="17.0.15"\n')
    (tmp_path / "spark/jars/core.jar").write_bytes(b"1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (*archive._VARIABLES, *archive._FOLDERS, "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def keep(jvm: Jvm, content: bytes = b"classes", home: str | None = None) -> Path:
    """An archive as warm-up leaves it."""
    archive.make_cache_folder()
    path = Path(archive.archive_path(jvm))
    path.write_bytes(content)
    path.chmod(0o600)
    note = {"spark_home": home or jvm.spark_home, "bytes": len(content), "crc32": archive.checksum(str(path))}
    Path(archive.note_path(str(path))).write_text(json.dumps(note))
    return path


def test_one_that_fits_is_used_quietly() -> None:
    jvm = jvm_for({}, FLAGS)
    path = keep(jvm)
    found = find_archive(jvm)
    assert found == Archive(path=str(path), size_bytes=7)
    assert found.options == f"-Xshare:auto -XX:SharedArchiveFile={path} -Xlog:cds*=off"


CHANGES: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "jdk": lambda machine, _: (machine / "jdk/release").write_text('JAVA_VERSION="17.0.16"\n'),
    "jar": lambda machine, _: (machine / "spark/jars/core.jar").write_bytes(b"22"),
    "jar_time": lambda machine, _: os.utime(machine / "spark/jars/core.jar", ns=(1, 1)),
    "another_jar": lambda machine, _: (machine / "spark/jars/more.jar").touch(),
    "variable": lambda _, patch: patch.setenv("SPARK_DIST_CLASSPATH", "/more.jar"),
    "folder": lambda machine, patch: patch.setenv("HADOOP_CONF_DIR", str(machine / "none")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_one_of_another_jvm_does_not_fit(machine: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    keep(jvm_for({}, FLAGS))
    CHANGES[change](machine, monkeypatch)
    with pytest.raises(NoArchive, match="there is none for this Java") as refused:
        find_archive(jvm_for({}, FLAGS))
    assert refused.value.can_be_made


def test_flags_and_the_class_path_count_and_properties_do_not() -> None:
    key = jvm_for({}, FLAGS).key
    assert jvm_for({"spark.app.name": "x"}, f"-Dlog=x {FLAGS}").key == key
    assert jvm_for({}, "-XX:+UseG1GC").key != key
    assert jvm_for({"spark.driver.extraClassPath": "/x.jar"}, FLAGS).key != key


NOT_POSSIBLE: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], object], str]] = {
    "old": (lambda m, _: (m / "jdk/release").write_text('JAVA_VERSION="11.0.2"\n'), "needs a JDK 17 or newer.* is 11"),
    "java8": (lambda m, _: (m / "jdk/release").write_text('JAVA_VERSION="1.8.0_392"\n'), "is 1"),
    "strange": (lambda m, _: (m / "jdk/release").write_bytes(b"\xff"), "no release file"),
    "none": (lambda m, _: (m / "jdk/release").unlink(), "no release file"),
    "no_java": (lambda m, _: (m / "jdk/bin/java").unlink(), "there is no Java"),
    "files": (lambda m, p: p.setenv("SPARK_CONF_DIR", str(m / "jdk")), "is on the class path"),
    "off": (lambda _, p: p.setenv("JAVA_TOOL_OPTIONS", "-Xshare:off"), "switch sharing off"),
}


@pytest.mark.parametrize("case", NOT_POSSIBLE)
def test_where_there_can_be_none_warm_up_says_why(machine: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    change, reason = NOT_POSSIBLE[case]
    change(machine, monkeypatch)
    with pytest.raises(NoArchive, match=reason) as refused:
        jvm_for({}, FLAGS)
    assert not refused.value.can_be_made
    with pytest.raises(ConfigError, match=reason) as failed:
        warm_up({})
    assert failed.value.kind == "no_archive"


@pytest.mark.parametrize("flag", ["-Xshare:off", "-XX:SharedArchiveFile=/x.jsa", "-XX:ArchiveClassesAtExit=/x.jsa"])
def test_a_user_who_names_an_archive_decides(flag: str) -> None:
    with pytest.raises(NoArchive, match="name an archive themselves"):
        jvm_for({}, f"{FLAGS} {flag}")


def truncate(path: Path) -> None:
    os.truncate(path, 3)


def put_garbage(path: Path) -> None:
    path.write_bytes(b"sessalc")


def make_link(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def let_others_write(path: Path) -> None:
    path.chmod(0o620)


def open_the_folder(path: Path) -> None:
    path.parent.chmod(0o750)


def link_the_folder(path: Path) -> None:
    path.parent.rename(path.parents[1] / "elsewhere")
    path.parent.symlink_to(path.parents[1] / "elsewhere")


def spoil_the_note(path: Path) -> None:
    path.with_suffix(".json").write_text("[]")


def lose_the_note(path: Path) -> None:
    path.with_suffix(".json").unlink()


def link_the_note(path: Path) -> None:
    make_link(path.with_suffix(".json"))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (truncate, "is damaged"),
        (put_garbage, "is damaged"),
        (make_link, "not a plain file"),
        (make_folder, "not a plain file"),
        (let_others_write, "open to other users"),
        (open_the_folder, "open to other users"),
        (link_the_folder, "not a plain folder"),
        (spoil_the_note, "cannot be read"),
        (lose_the_note, "there is none"),
        (link_the_note, "not a plain file"),
    ],
)
def test_one_that_is_damaged_or_planted_is_not_used(harm: Callable[[Path], None], reason: str) -> None:
    jvm = jvm_for({}, FLAGS)
    harm(keep(jvm))
    with pytest.raises(NoArchive, match=reason):
        find_archive(jvm)


def test_one_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = jvm_for({}, FLAGS)
    keep(jvm)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(NoArchive, match="belongs to another user"):
        find_archive(jvm)
    with pytest.raises(ConfigError, match=r"nothing was removed: .* belongs to another user"):
        remove_archives()


def test_a_path_that_the_jvm_would_cut_is_not_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "a:b"))
    with pytest.raises(NoArchive, match="cannot be given to the JVM"):
        find_archive(jvm_for({}, FLAGS))


def test_a_cache_folder_that_cannot_be_made_is_said(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "jdk/release/below"))
    with pytest.raises(ConfigError, match="no archive can be kept in") as failed:
        warm_up({})
    assert failed.value.kind == "no_archive"
    assert not is_first_cold_start()


def test_warm_up_exists_is_said_once() -> None:
    assert [is_first_cold_start(), is_first_cold_start()] == [True, False]
    assert os.stat(archive.cache_folder()).st_mode & 0o777 == 0o700


def test_archives_that_no_run_can_use_any_more_go_and_those_of_other_environments_stay(machine: Path) -> None:
    older, gone, others = (jvm_for({}, f"-Xmx{n}m") for n in (1, 2, 3))
    keep(older)
    keep(gone, home=str(machine / "gone"))
    left = keep(others, home=str(machine / "jdk"))
    now = jvm_for({}, FLAGS)
    kept = keep(now)
    assert _remove_useless(now) == 2
    assert {path.name for path in kept.parent.iterdir()} == {
        *(kept.name, kept.with_suffix(".json").name),
        *(left.name, left.with_suffix(".json").name),
    }
    assert remove_archives() == 2
    assert [path.name for path in kept.parent.iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("flag", "word"),
    [("-XX:A=/a", "-XX:A=/a"), ("-XX:A=/a b", '"-XX:A=/a b"'), ("-XX:A=/a\"b\\'", '"-XX:A=/a\\"b\\\\\'"')],
)
def test_an_option_is_one_word_for_the_launcher(flag: str, word: str) -> None:
    assert java_option(flag) == word


def test_only_a_local_session_that_is_started_here_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert starts_jvm_here({})
    assert starts_jvm_here({"spark.master": "local[2]"})
    assert not starts_jvm_here({"spark.master": "yarn"})
    assert not starts_jvm_here({"spark.remote": "sc://x"})
    with pytest.raises(ConfigError, match="sessions on this machine"):
        warm_up({"spark.master": "spark://x:7077"})
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not starts_jvm_here({})


def test_the_options_of_the_user_stay_as_they_are() -> None:
    assert local_options({"spark.driver.extraJavaOptions": "-Xmx2g"}) == "-Xmx2g"
    assert local_options({}).endswith(" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
