"""What a person should know about the parsers that read a batch. Rows are the same whichever ran; the speed is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blizzard.core.types import TaskReport


def parser_remarks(
    reports: Sequence[TaskReport], *, asked: str, native_here: bool, on_driver: bool = False
) -> Iterator[str]:
    """`asked` is the parser of the configuration; `native_here`: the driver has the native one; `on_driver`: the tasks
    run on its machine."""
    for defect in {report.parser_defect for report in reports if report.parser_defect is not None}:
        yield (
            f"the native parser read a line differently from the reference ({defect}). This is a defect of blizzard. No"
            f" row is wrong: the task was read again without it. source.parser: pyarrow saves the second reading"
        )
    slow = any(report.parser == "pyarrow" and report.parser_defect is None for report in reports)
    if asked == "auto" and slow and native_here and on_driver:
        yield (
            "Spark's workers run another Python than this one, which lacks the native parser; pyarrow reads lines"
            " several times slower. Set PYSPARK_PYTHON to this Python before the session starts"
        )
    elif asked == "auto" and slow and native_here:
        yield (
            "the executors lack the native parser, which a --py-files zip cannot carry; pyarrow reads lines several"
            " times slower. Give them the wheel of their platform, or the environment that make dist packs, with"
            " --archives (docs/deploy-cluster.md)"
        )
    elif asked == "auto" and slow:
        yield (
            "the native parser is not installed; pyarrow reads lines several times slower. Install Rust 1.88 or newer,"
            " and then blizzard again"
        )
