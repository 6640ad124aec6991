"""What names the package, its version and its Rust says the same everywhere."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from blizzard import __version__
from tests.jobs.project import texts_of_the_project

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
CRATE = (ROOT / "blizzard/native/Cargo.toml").read_text()
# Tests that hold wrong lines on purpose, and what was once true.
OWN_EXAMPLES = ("tests/jobs/test_packaging_names.py", "tests/jobs/test_requirements.py", "CHANGELOG.md")
# As pip, a requirement, a wheel and a service would take it.
OTHER_NAME = re.compile(r"""pip install (?:--?[\w-]+ )*['"]?blizzard(?![-_]delta)|blizzard(\[\w|==|-[\w…*.]+\.whl)""")


def only(pattern: str, text: str) -> str:
    (found,) = re.findall(pattern, text, re.MULTILINE)
    return str(found)


def test_the_package_is_called_blizzard_delta() -> None:
    assert only(r'^name = "(.+?)"', PROJECT) == "blizzard-delta"
    assert importlib.metadata.version("blizzard-delta") == __version__


def test_no_file_asks_for_the_package_of_another_project() -> None:
    """`blizzard` on PyPI is somebody else's."""
    texts = {name: text for name, text in texts_of_the_project().items() if name not in OWN_EXAMPLES}
    assert len(texts) > 300
    assert {f"{name}: {found[0]}" for name, text in texts.items() if (found := OTHER_NAME.search(text))} == set()


def test_another_name_would_be_found() -> None:
    for text in ("pip install --no-deps blizzard", "'blizzard[gcs]'", "blizzard==0.1.0", "dist/blizzard-*.whl"):
        assert OTHER_NAME.search(text), text
    for text in ("pip install 'blizzard-delta[gcs]'", "dist/blizzard_delta-….whl", "blizzard-0.1.0.zip"):
        assert not OTHER_NAME.search(text), text


def test_package_and_crate_have_one_version() -> None:
    assert only(r'^version = "(.+)"', PROJECT) == only(r'^version = "(.+)"', CRATE) == __version__


def test_the_oldest_rust_is_the_same_everywhere() -> None:
    oldest = only(r'^rust-version = "([\d.]+)"', CRATE)
    assert only(r'^rust-version = ">=([\d.]+)"', PROJECT) == oldest
    documents = [ROOT / "Makefile", ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = [found for path in documents for found in re.findall(r"Rust (?:≥ )?(\d+\.\d+)", path.read_text())]
    assert len(named) >= 4
    assert set(named) == {oldest}


def test_direct_crates_are_pinned() -> None:
    """There is no lock file, so a build would take what is newest."""
    _, _, dependencies = CRATE.partition("[dependencies]\n")
    lines = re.findall(r"^([\w-]+) = (.+)$", dependencies.partition("\n[profile")[0], re.MULTILINE)
    assert {"pyo3", "arrow-buffer"} <= {name for name, _ in lines}
    assert [name for name, asked in lines if not re.search(r'"=\d+\.\d+\.\d+"', asked)] == []
