"""The pages whose commands are run, and the environment that they are run in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
QUICKSTART = ROOT / "docs/quickstart.md"

# What each says for the folder that it begins in.
HOMES = {README: "/tmp", QUICKSTART: "/home/you"}


def environment(folder: Path, *, java_options: str = "") -> dict[str, str]:
    """That of a person who has activated .venv, and has set nothing else. Temporary folders are below `folder`."""
    kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "XDG_CACHE_HOME") if name in os.environ}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "TMPDIR": str(folder), "JDK_JAVA_OPTIONS": java_options}
