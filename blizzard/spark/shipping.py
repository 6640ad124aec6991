"""Packs blizzard's own package as a zip, for Python workers that lack it or have another version.

A batch travels to its tasks as pickled values, so driver and workers must have the same version.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # one fixed time, so that the same files give the same bytes
_shipped: set[str] = set()


def write_package_zip(path: Path) -> None:
    """Python and its data only: Python cannot load a compiled module from a zip."""
    with zipfile.ZipFile(path, "w") as made:
        for file in sorted(_PACKAGE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and _travels(file):
                entry = zipfile.ZipInfo(file.relative_to(_PACKAGE.parent).as_posix(), _EPOCH)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                made.writestr(entry, file.read_bytes())


def _travels(file: Path) -> bool:
    """Beside the face of the native parser lie its sources, and what cargo made of them."""
    return file.suffix == ".py" or not file.is_relative_to(_PACKAGE / "native")


def ship_to_server(spark: Any) -> None:
    """Send this package to a Spark Connect server, once per session. Its workers use it instead of their own."""
    if spark.session_id in _shipped:
        return
    with tempfile.TemporaryDirectory(prefix="blizzard-") as folder:
        path = Path(folder) / "package.zip"
        if _PACKAGE.is_dir():
            write_package_zip(path)
        else:  # this package was loaded from a zip itself
            path.write_bytes(_PACKAGE.parent.read_bytes())
        # The server refuses two files with one name and different content, so the name holds a digest.
        named = path.with_name(f"blizzard-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.zip")
        os.rename(path, named)
        spark.addArtifacts(str(named), pyfile=True)
    _shipped.add(spark.session_id)
