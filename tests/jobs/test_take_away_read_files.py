"""Files that another program has read leave the source; nothing else does."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

main = runpy.run_path(str(Path(__file__).parents[2] / "jobs/take_away_read_files.py"))["main"]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def source(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "src" / name).write_text(name)
    return folder / "src"


def listed(folder: Path, *paths: object) -> str:
    (folder / "read.txt").write_text("\n".join(map(str, paths)) + "\n")
    return str(folder / "read.txt")


def test_only_what_is_in_the_list_is_moved_under_its_own_name(tmp_path: Path) -> None:
    src = source(tmp_path, "a", "x/a", "x/b")
    given = listed(tmp_path, f"file://{src}/a", f"{src}/x/b", f"{src}/gone", "")
    assert main([str(src), str(tmp_path / "read"), "--list", given]) == 0
    assert files(src) == ["a", "x/a", "x/b"]
    for _ in range(2):  # again after a crash: there is nothing left to do
        main([str(src), str(tmp_path / "read"), "--list", given, "--yes"])
        assert (files(src), files(tmp_path / "read")) == (["x/a"], ["a", "x/b"])
    assert (tmp_path / "read/x/b").read_text() == "x/b"


@pytest.mark.parametrize(
    ("archive", "read", "why"),
    [("src/old", "src/a", "is inside of"), ("read", "other/a", "none of the 1 files that were read is in")],
)
def test_what_would_be_wrong_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], archive: str, read: str, why: str
) -> None:
    src = source(tmp_path, "a")
    given = listed(tmp_path, tmp_path / read)
    assert main([str(src), str(tmp_path / archive), "--list", given, "--yes"]) == 2
    assert why in capsys.readouterr().err
    assert files(src) == ["a"]


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = source(tmp_path, "a")
    assert main([str(src), str(tmp_path / "read"), "--checkpoint", str(tmp_path), "--yes"]) == 2
    assert "is no checkpoint of a Structured Streaming query" in capsys.readouterr().err
