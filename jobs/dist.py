"""Builds what a cluster needs into dist/: a wheel, a zip for --py-files, and an environment for --archives.

python jobs/dist.py [zip|all] [--out FOLDER] [--extra sql]

Spark puts zips on sys.path, but not wheels. The environment has its own interpreter, blizzard and all it needs except
pyspark: that must be the cluster's own, because its version must match the JVM side.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from portable import CannotCopy, copy_interpreter, needed_glibc

from blizzard.spark.shipping import write_package_zip

_ROOT = Path(__file__).resolve().parents[1]
_CONSTRAINTS = _ROOT / "conf" / "constraints.txt"
# Parts of packages: their tests, and headers for compiling against them.
_NOT_SHIPPED = ("bin", "pandas/tests", "pyarrow/tests", "pyarrow/include", "pyarrow/src", "numpy/_core/include")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["zip", "all"], default="all")
    parser.add_argument("--out", type=Path, default=_ROOT / "dist")
    parser.add_argument("--extra", action="append", default=[], help="of the project, for the environment; repeatable")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    _tell(make_zip(options.out))
    if options.what == "all":
        wheel = make_wheel(options.out)
        # A wheel is tagged for its platform only where the native parser was built.
        without = "-none-any" in wheel.name
        _tell(wheel, "; without the native parser: make native says why" if without else "")
        try:
            archive, glibc = make_environment(options.out, wheel, options.extra)
        except CannotCopy as e:
            sys.stderr.write(f"make dist: {e}\n")
            return 1
        _tell(archive, f"; CPython {sys.version.split()[0]}, for glibc {glibc} or newer")
    return 0


def make_zip(out: Path) -> Path:
    path = out / f"blizzard-{_version()}.zip"
    write_package_zip(path)
    return path


def make_wheel(out: Path) -> Path:
    for old in out.glob("blizzard*.whl"):
        old.unlink()
    shutil.rmtree(_ROOT / "build", ignore_errors=True)  # setuptools would pack old modules that it finds there
    _pip("wheel", "--no-deps", "--wheel-dir", str(out), str(_ROOT))
    (made,) = out.glob("blizzard_delta-*.whl")
    return made


def make_environment(out: Path, wheel: Path, extras: Sequence[str] = ()) -> tuple[Path, str]:
    """The archive, and the glibc version that it needs."""
    platform = sysconfig.get_platform().replace("-", "_")
    archive = out / f"blizzard-env-{_version()}-{platform}.tar.gz"
    with tempfile.TemporaryDirectory(prefix="blizzard-env-") as folder:
        home = Path(folder) / "environment"
        home.mkdir()
        packages = copy_interpreter(home)
        into = ("install", "--target", str(packages), "--no-compile", "--constraint", str(_CONSTRAINTS))
        _pip(*into, *requirements(extras))
        shutil.rmtree(packages / "bin", ignore_errors=True)  # scripts that name this machine's interpreter
        _pip(*into, "--no-deps", str(wheel))
        for name in _NOT_SHIPPED:
            shutil.rmtree(packages / name, ignore_errors=True)
        _compile(home)
        glibc = needed_glibc(home)
        _pack(home, archive)
    return archive, glibc


def requirements(extras: Sequence[str] = ()) -> list[str]:
    """The project's requirements with those of these extras, without pyspark."""
    listed = importlib.metadata.requires("blizzard-delta") or []
    known = set(importlib.metadata.metadata("blizzard-delta").get_all("Provides-Extra") or ())
    if unknown := set(extras) - known:
        sys.exit(f"make dist: there is no extra {min(unknown)}; there are {', '.join(sorted(known))}")
    named = [(each, re.search(r"""extra == ['"]([\w-]+)""", each)) for each in listed]
    wanted = [each.partition(";")[0] if extra else each for each, extra in named if not extra or extra[1] in extras]
    return [each for each in wanted if re.split(r"[^\w-]", each)[0] != "pyspark"]


def _compile(home: Path) -> None:
    # Unchecked: unpacking may not keep the times of files, and a container may not be able to write.
    command = ["-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(home)]
    # Exit code 1 is fine: some files are templates or the syntax of another version. Such files are never imported.
    subprocess.run([str(home / "bin" / "python"), *command, str(home)], stdout=subprocess.DEVNULL, check=False)


def _pack(home: Path, archive: Path) -> None:
    """bin/ is at the top of the archive, as `--archives …#environment` needs it."""
    unfinished = archive.with_suffix(".part")
    with tarfile.open(unfinished, "w:gz", compresslevel=6) as packed:
        for entry in sorted(home.iterdir()):
            packed.add(entry, entry.name, filter=_nobodys)
    os.replace(unfinished, archive)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _version() -> str:
    (version,) = re.findall(r'^version = "(.+)"', (_ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return str(version)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*command, *arguments], check=True)


def _tell(path: Path, more: str = "") -> None:
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    sys.stdout.write(f"{shown}  {path.stat().st_size / 2**20:.1f} MiB{more}\n")


if __name__ == "__main__":
    sys.exit(main())
