"""What is said about the parsers that read a batch."""

from __future__ import annotations

import pytest

from blizzard.core.parsers import parser_remarks
from blizzard.core.types import TaskReport


def report(parser: str, defect: str | None = None) -> TaskReport:
    return TaskReport(slot=0, parser=parser, parser_defect=defect)


@pytest.mark.parametrize(
    ("reports", "asked", "native_here", "said"),
    [
        ([report("native"), report("native")], "auto", True, []),
        ([report("")], "auto", True, []),
        ([report("native"), report("pyarrow")], "auto", True, ["the executors lack the native parser"]),
        ([report("pyarrow"), report("pyarrow")], "auto", False, ["the native parser is not installed"]),
        ([report("pyarrow")], "pyarrow", True, []),
        ([report("reference")], "reference", True, []),
        ([report("pyarrow", "in column a"), report("native")], "auto", True, ["read a line differently from the ref"]),
        ([report("pyarrow", "in column a")] * 3, "native", True, ["(in column a)"]),
    ],
)
def test_a_slower_or_a_wrong_parser_is_said_and_a_chosen_one_is_not(
    reports: list[TaskReport], asked: str, native_here: bool, said: list[str]
) -> None:
    remarks = list(parser_remarks(reports, asked=asked, native_here=native_here))
    assert len(remarks) == len(said)
    for remark, part in zip(remarks, said, strict=True):
        assert part in remark


def test_a_local_session_is_not_told_about_archives() -> None:
    (here,) = parser_remarks([report("pyarrow")], asked="auto", native_here=True, on_driver=True)
    (there,) = parser_remarks([report("pyarrow")], asked="auto", native_here=True)
    assert "PYSPARK_PYTHON" in here
    assert "--archives" not in here
    assert "--archives" in there
