"""One SVG: for every data set a panel of bars, MB of JSON per second. Drawn by hand, readable on light and dark."""

from __future__ import annotations

from html import escape

from benchmarks.results import SUBJECT, DataSetResult, Results

_WIDTH, _LABEL, _BAR, _STEP, _HEAD, _MARGIN = 860, 190, 18, 26, 44, 20
_ROOM = _WIDTH - _LABEL - 2 * _MARGIN - 190  # for the longest bar, leaving space for its label

# An <img> in a page cannot inherit the page's colours, so both sets are here and the viewer's setting decides.
_STYLE = """
  .ground { fill: #ffffff } text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 15px } .faint { fill: #57606a }
  .ours { fill: #0969da } .floor { fill: #bf8700 } .other { fill: #8c959f }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } text { fill: #e6edf3 } .faint { fill: #9198a1 }
    .ours { fill: #58a6ff } .floor { fill: #d29922 } .other { fill: #6e7681 }
  }
"""


def draw(results: Results) -> str:
    parts: list[str] = []
    y = _MARGIN + 16
    parts.append(_text(_MARGIN, y, "NDJSON into Delta: MB of JSON per second, best run (longer is better)", "title"))
    y += 20
    parts.append(_text(_MARGIN, y, "×: times as long as blizzard · floor: blizzard without Spark and commit", "faint"))
    for dataset in results.datasets.values():
        y = _panel(dataset, y + 30, parts)
    height = y + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' role="img" aria-label="Throughput of each contender on each data set">\n<style>{_STYLE}</style>\n'
        f'<rect class="ground" width="{_WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(dataset: DataSetResult, top: int, parts: list[str]) -> int:
    """Draw one data set below `top`; where it ends."""
    parts.append(_text(_MARGIN, top, dataset.name, "title"))
    parts.append(_text(_MARGIN + 80, top, _size(dataset), "faint"))
    timed = [(s.contender, s.best) for s in dataset.standings if s.best is not None]
    fastest = min((seconds for _, seconds in timed), default=1.0)
    y = top - _BAR + 12
    for contender, seconds in timed:
        y += _STEP
        width = max(1, round(_ROOM * fastest / seconds))
        kind = "ours" if contender.startswith(SUBJECT) else "floor" if contender == "floor" else "other"
        left = _MARGIN + _LABEL
        parts.append(_text(left - 10, y + 13, contender, "end"))
        parts.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{width}" height="{_BAR}" rx="3"/>')
        speed = dataset.megabytes_per_second(seconds)
        label = f"{speed:,.{0 if speed >= 10 else 1}f} MB/s · {seconds:.1f} s"
        parts.append(_text(left + width + 8, y + 13, label + _ratio(dataset, contender), ""))
    return y + _STEP + 8


def _ratio(dataset: DataSetResult, contender: str) -> str:
    ratio = dataset.times_as_long(contender)
    return f" · {ratio:.2f}×" if ratio is not None and contender != SUBJECT else ""


def _size(dataset: DataSetResult) -> str:
    files = "1 file" if dataset.files == 1 else f"{dataset.files:,} files"
    scaled = f" (scaled to {dataset.scale:g})" if dataset.scale != 1 else ""
    return f"{dataset.rows:,} records in {files}, {dataset.json_bytes / 1e6:,.0f} MB of JSON{scaled}"


def _text(x: int, y: int, text: str, kind: str) -> str:
    anchor = ' text-anchor="end"' if kind == "end" else ""
    css = f' class="{kind}"' if kind in ("title", "faint") else ""
    return f'<text x="{x}" y="{y}"{anchor}{css}>{escape(text)}</text>'
