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


def test_what_was_read_and_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be gone. It may also be there under another name, and would be read again."""
    src = source(tmp_path, "a", "b")
    assert main([str(src), str(tmp_path / "read"), "--list", listed(tmp_path, src / "a", src / "x", src / "y")]) == 0
    told = capsys.readouterr().out
    assert f"would move 1 of 2 files to {tmp_path}/read: those that were read" in told
    assert f"2 that were read are not in {src}, for example {src / 'x'}." in told


def test_a_list_with_names_as_in_a_url_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = source(tmp_path, "a b", "c", "d%20e")
    given = listed(tmp_path, f"{src}/a%20b", f"{src}/c")
    assert main([str(src), str(tmp_path / "read"), "--list", given, "--yes"]) == 2
    assert "the list has names as in a URL" in capsys.readouterr().err
    assert files(src) == ["a b", "c", "d%20e"]
    assert main([str(src), str(tmp_path / "read"), "--list", listed(tmp_path, f"{src}/d%20e"), "--yes"]) == 0
    assert files(src) == ["a b", "c"]


def test_an_archive_in_another_store_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = source(tmp_path, "a")
    assert main([str(src), "memory://read", "--list", listed(tmp_path, src / "a"), "--yes"]) == 2
    assert "is not in the store of" in capsys.readouterr().err
    assert files(src) == ["a"]


def test_nothing_in_the_archive_is_overwritten_but_what_a_crash_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src = source(tmp_path, "a", "b")
    given = [str(src), str(tmp_path / "read"), "--list", listed(tmp_path, src / "a", src / "b"), "--yes"]
    (tmp_path / "read").mkdir()
    (tmp_path / "read/b").write_text("another b")
    assert main(given) == 2
    assert f"{tmp_path}/read/b is there already and has another size" in capsys.readouterr().err
    assert (files(src), (tmp_path / "read/b").read_text()) == (["a", "b"], "another b")
    (tmp_path / "read/b").write_text("b")
    assert main(given) == 0
    assert (files(src), files(tmp_path / "read")) == ([], ["a", "b"])


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = source(tmp_path, "a")
    assert main([str(src), str(tmp_path / "read"), "--checkpoint", str(tmp_path), "--yes"]) == 2
    assert "is no checkpoint of a Structured Streaming query" in capsys.readouterr().err
