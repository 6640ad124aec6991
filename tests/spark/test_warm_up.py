"""The archive with a real JVM: made without a word, mapped by the next session, and harmless where it does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blizzard.spark import archive
from tests.drivers import Finished, job, run
from tests.ingesting import write_ids

pytestmark = [pytest.mark.spark, pytest.mark.process]

_SESSION = """
import sys
from blizzard.spark.session import LazySession
with LazySession({}) as session:
    spark = session.get()
    maps = open(f"/proc/{spark._sc._gateway.proc.pid}/maps").read()
    print(session.is_cold, {line.split("/")[-1] for line in maps.splitlines() if line.endswith(".jsa")})
"""


def call(*arguments: str, cache: Path) -> Finished:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """A cache folder with a space in its name, and what warm-up said."""
    cache = tmp_path_factory.mktemp("the cache")
    return cache, call("-m", "blizzard", "warm-up", "--json", cache=cache)


def test_it_is_made_quietly_and_only_once(made: tuple[Path, Finished]) -> None:
    cache, done = made
    assert (done.code, done.stderr.count("\n")) == (0, 1), done.stderr
    said = json.loads(done.stdout)
    assert (said["status"], said["removed"]) == ("made", 0)
    assert os.path.getsize(said["path"]) == said["bytes"] > 50_000_000
    names = {path.name for path in (cache / "blizzard").iterdir()}
    assert names == {"lock", os.path.basename(said["path"]), os.path.basename(archive.note_path(said["path"]))}
    again = call("-m", "blizzard", "warm-up", "--json", cache=cache)
    assert (again.code, again.stderr, json.loads(again.stdout)["status"]) == (0, "", "kept")
    assert "an archive of" in call("-m", "blizzard", "doctor", cache=cache).stdout


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_the_next_session_maps_it(made: tuple[Path, Finished], tmp_path: Path) -> None:
    cache, done = made
    path = json.loads(done.stdout)["path"]
    warm, cold = call("-c", _SESSION, cache=cache), call("-c", _SESSION, cache=tmp_path)
    assert (warm.stdout.split()[0], os.path.basename(path) in warm.stdout) == ("False", True), warm.stderr
    assert (cold.stdout.split()[0], os.path.basename(path) in cold.stdout) == ("True", False), cold.stderr


def test_one_that_the_jvm_refuses_changes_nothing_but_the_time(made: tuple[Path, Finished], tmp_path: Path) -> None:
    """Its note is right, so only the JVM can see that it is no archive."""
    path = Path(json.loads(made[1].stdout)["path"])
    cache = tmp_path / "cache/blizzard"
    cache.mkdir(parents=True, mode=0o700)
    garbage = cache / path.name
    garbage.write_bytes(os.urandom(1_000_000))
    garbage.chmod(0o600)
    note = {"spark_home": "/", "bytes": 1_000_000, "crc32": archive.checksum(str(garbage))}
    Path(archive.note_path(str(garbage))).write_text(json.dumps(note))
    write_ids(tmp_path / "src/a.ndjson", 0, 10)
    arguments = ("--source", str(tmp_path / "src"), "--table", str(tmp_path / "t"), "--schema", "id BIGINT")
    done = call("-m", "blizzard", "run", *arguments, cache=tmp_path / "cache")
    assert (done.code, done.summary["records"]) == (0, 10)
    assert len(done.stdout.splitlines()) == 1
    assert "[cds" not in done.stderr
    assert "warm-up" not in done.stderr


def test_a_cold_run_says_once_that_there_is_a_way(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JDK_JAVA_OPTIONS": ""}
    told = []
    for number in range(2):
        write_ids(tmp_path / f"src/{number}.ndjson", number, number + 1)
        told.append(run(tmp_path, *job(tmp_path)[:4], "--schema", "id BIGINT, name STRING", env=env).stderr)
    assert [text.count("blizzard warm-up") for text in told] == [1, 0]
