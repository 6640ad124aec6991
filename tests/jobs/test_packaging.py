"""Real wheels and a real sdist: with the native parser and without it, each tagged for what is in it.

They are built from this tree into other folders, and cargo finds what `make setup` has built.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from blizzard import __version__
from blizzard.spark.shipping import write_package_zip

ROOT = Path(__file__).parents[2]
NAME = f"blizzard_delta-{__version__}"
GOES_ON = "blizzard: the native parser was not built; blizzard works without it, with a slower one"
# Programs in place of cargo and rustc, and what the build says of them.
CANNOT_BUILD = {
    "none": (None, "can't find Rust compiler"),
    "too old": ("echo rustc 1.87.0", "Rust 1.87.0 does not match extension requirement"),
    "rustup without a toolchain": ("exit 1", "can't find Rust compiler"),
    "without a version": ("echo who knows", "Invalid version string"),
    "offline": ('[ "$1" = -V ] && echo rustc 1.95.0 || exit 101', "failed with code 101"),
}


def build(what: str, into: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As pip does it, without an environment of its own for the build."""
    into.mkdir(exist_ok=True)
    elsewhere = into / "setup.cfg"
    elsewhere.write_text(f"[build]\nbuild_base = {into / 'build'}\n[egg_info]\negg_base = {into}\n")
    return subprocess.run(
        [sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_{what}({str(into)!r})"],
        cwd=ROOT,
        env={**os.environ, "DIST_EXTRA_CONFIG": str(elsewhere), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def content(wheel: Path) -> tuple[set[str], str]:
    """The names in it, and what it says of itself."""
    with zipfile.ZipFile(wheel) as packed:
        return set(packed.namelist()), packed.read(f"{NAME}.dist-info/WHEEL").decode()


def path_with(program: str | None, folder: Path) -> str:
    """A PATH on which cargo and rustc are this, and nothing else is."""
    folder.mkdir()
    for name in ("cargo", "rustc") if program else ():
        (folder / name).write_text(f"#!/bin/sh\n{program}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_a_wheel_with_the_native_parser_is_for_this_platform_and_every_python(tmp_path: Path) -> None:
    done = build("wheel", tmp_path)
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.glob("*.whl")
    if GOES_ON in done.stderr:
        reason = "there is no cargo here that can build the native parser: make native says why"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    tag = f"cp310-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    assert made.name == f"{NAME}-{tag}.whl"
    names, says = content(made)
    assert {"blizzard/native/_native.abi3.so", "blizzard/native/__init__.py"} <= names
    assert f"Tag: {tag}" in says
    assert "Root-Is-Purelib: false" in says
    assert "--release" in done.stderr
    check_that_it_is_the_package(names)


@pytest.mark.parametrize("cargo", CANNOT_BUILD)
def test_without_a_cargo_that_works_the_wheel_is_for_every_platform(cargo: str, tmp_path: Path) -> None:
    program, reason = CANNOT_BUILD[cargo]
    done = build("wheel", tmp_path / "out", PATH=path_with(program, tmp_path / "bin"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(GOES_ON) == 1
    assert reason in done.stdout + done.stderr
    (made,) = (tmp_path / "out").glob("*.whl")
    assert made.name == f"{NAME}-py3-none-any.whl"
    names, says = content(made)
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []
    assert "Root-Is-Purelib: true" in says
    check_that_it_is_the_package(names)


def check_that_it_is_the_package(names: set[str]) -> None:
    assert {"blizzard/tasks/task.py", "blizzard/log4j2-quiet.properties", "blizzard/py.typed"} <= names
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    assert {name for name in names if name.endswith((".rs", ".toml", ".lock")) or "/target/" in name} == set()
    assert {name.split("/")[0] for name in names} == {"blizzard", f"{NAME}.dist-info"}


def test_who_requires_the_native_parser_gets_no_wheel_without_it(tmp_path: Path) -> None:
    nothing = path_with(None, tmp_path / "bin")
    done = build("wheel", tmp_path / "out", PATH=nothing, BLIZZARD_BUILD_NATIVE="required")
    assert done.returncode == 1
    assert "the native parser could not be built" in done.stderr.splitlines()[-1]
    assert list((tmp_path / "out").glob("*.whl")) == []


def test_an_old_binary_is_not_left_where_a_new_one_could_not_be_built(tmp_path: Path) -> None:
    """It would be packed, and read lines by the rules of another version."""
    folder = f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    old = tmp_path / "out" / "build" / folder / "blizzard" / "native" / "_native.abi3.so"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"old")
    done = build("wheel", tmp_path / "out", PATH=path_with(None, tmp_path / "bin"))
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "out").glob("*.whl")
    assert "blizzard/native/_native.abi3.so" not in content(made)[0]


def test_an_sdist_can_build_the_native_parser(tmp_path: Path) -> None:
    done = build("sdist", tmp_path)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / f"{NAME}.tar.gz") as packed:
        names = {name.removeprefix(f"{NAME}/") for name in packed.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "blizzard/native/src").rglob("*.rs")}
    assert {
        "blizzard/native/Cargo.toml",
        "jobs/native_build.py",
        "pyproject.toml",
        "LICENSE",
        "README.md",
        *sources,
    } <= names
    assert {name for name in names if name.endswith((".so", ".lock")) or "/target/" in name} == set()


def test_the_zip_for_executors_holds_no_part_of_the_crate(tmp_path: Path) -> None:
    write_package_zip(tmp_path / "blizzard.zip")
    names = zipfile.ZipFile(tmp_path / "blizzard.zip").namelist()
    beside_the_parser = [name for name in names if name.startswith("blizzard/native/")]
    assert "blizzard/native/__init__.py" in beside_the_parser
    assert [name for name in beside_the_parser if not name.endswith(".py")] == []
    assert "blizzard/report/templates/page.html" in names
