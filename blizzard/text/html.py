"""A small HTML table, for results in a notebook. Everything in it is escaped: names of files and fields are others'."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from blizzard.text.shown import shown

_MAX_ROWS = 50


def table_html(caption: str, rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """The first column has the names of the rows if there is no header."""
    every = list(rows)
    lines = [_row(row, names=0 if header else 1) for row in every[:_MAX_ROWS]]
    if len(every) > _MAX_ROWS:
        lines.append(_row([f"… and {len(every) - _MAX_ROWS:,} more"], names=0))
    head = [f"<thead>{_row(header, names=len(header))}</thead>"] if header else []
    body = f"<tbody>{''.join(lines)}</tbody>"
    return f"<table><caption>{_text(caption)}</caption>{''.join(head)}{body}</table>"


def _row(cells: Sequence[object], *, names: int) -> str:
    tags = ["th" if at < names else "td" for at in range(len(cells))]
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for tag, cell in zip(tags, cells, strict=True)) + "</tr>"


def _text(cell: object) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return escape(shown(str(cell)))
